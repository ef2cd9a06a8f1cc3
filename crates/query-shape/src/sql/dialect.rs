//! SQL dialects that a case may select. Dialects aren't guessed from the text.

use serde::{Deserialize, Serialize};
use sqlparser::dialect as grammar;

/// SQL dialect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Generic SQL: the common syntax of the others.
    #[default]
    Generic,
    /// PostgreSQL.
    #[serde(alias = "postgresql")]
    Postgres,
    /// MySQL and MariaDB.
    #[serde(alias = "mariadb")]
    Mysql,
    /// SQLite.
    Sqlite,
    /// Microsoft SQL Server.
    #[serde(alias = "tsql", alias = "sqlserver")]
    Mssql,
    /// Google BigQuery.
    Bigquery,
    /// Snowflake.
    Snowflake,
    /// Amazon Redshift.
    Redshift,
    /// ClickHouse.
    Clickhouse,
    /// DuckDB.
    Duckdb,
    /// Databricks and Spark.
    #[serde(alias = "spark")]
    Databricks,
    /// Apache Hive.
    Hive,
    /// Strictly standard SQL.
    Ansi,
}

impl Dialect {
    /// All dialects, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::Generic,
        Self::Postgres,
        Self::Mysql,
        Self::Sqlite,
        Self::Mssql,
        Self::Bigquery,
        Self::Snowflake,
        Self::Redshift,
        Self::Clickhouse,
        Self::Duckdb,
        Self::Databricks,
        Self::Hive,
        Self::Ansi,
    ];

    /// Name in requests and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
            Self::Mssql => "mssql",
            Self::Bigquery => "bigquery",
            Self::Snowflake => "snowflake",
            Self::Redshift => "redshift",
            Self::Clickhouse => "clickhouse",
            Self::Duckdb => "duckdb",
            Self::Databricks => "databricks",
            Self::Hive => "hive",
            Self::Ansi => "ansi",
        }
    }

    pub(super) fn grammar(self) -> &'static dyn grammar::Dialect {
        match self {
            Self::Generic => &grammar::GenericDialect,
            Self::Postgres => &grammar::PostgreSqlDialect {},
            Self::Mysql => &grammar::MySqlDialect {},
            Self::Sqlite => &grammar::SQLiteDialect {},
            Self::Mssql => &grammar::MsSqlDialect {},
            Self::Bigquery => &grammar::BigQueryDialect,
            Self::Snowflake => &grammar::SnowflakeDialect,
            Self::Redshift => &grammar::RedshiftSqlDialect {},
            Self::Clickhouse => &grammar::ClickHouseDialect {},
            Self::Duckdb => &grammar::DuckDbDialect {},
            Self::Databricks => &grammar::DatabricksDialect {},
            Self::Hive => &grammar::HiveDialect {},
            Self::Ansi => &grammar::AnsiDialect {},
        }
    }

    /// Whether a common table expression may be recursive without the keyword RECURSIVE.
    pub(super) fn recursion_is_implied(self) -> bool {
        [Self::Mssql, Self::Sqlite, Self::Snowflake].contains(&self)
    }

    /// Whether built-in functions and types have case-sensitive names.
    pub(super) fn has_case_sensitive_builtins(self) -> bool {
        self == Self::Clickhouse
    }

    /// Whether `FROM t, t.items` reads an array in t's rows instead of a table `items` in a schema `t`.
    pub(super) fn has_array_references(self) -> bool {
        [Self::Bigquery, Self::Redshift].contains(&self)
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
