//! Functions with arguments that specify a table or a file, and functions with unknown tables.

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use sqlparser::parser::Parser;

use super::Dialect::{
    self, Bigquery, Clickhouse, Databricks, Duckdb, Generic, Mssql, Postgres, Redshift, Snowflake,
};
use Naming::{Files, Hidden, Remote, Table};

use super::{literal, name};
use crate::TableName;

#[derive(Clone, Copy)]
enum Naming {
    /// The first one is a table.
    Table,
    /// The first one is a file or a list of files.
    Files,
    /// After a server, a table, or a database and its table.
    Remote,
    /// No argument: executes a text, or searches for tables.
    Hidden,
}

/// Functions by dialect. The generic dialect has those of all.
const FUNCTIONS: &[(Dialect, Naming, &str)] = &[
    (Mssql, Table, "containstable freetexttable changetable"),
    (Mssql, Table, "semantickeyphrasetable"),
    (Mssql, Table, "semanticsimilaritytable"),
    (Mssql, Table, "semanticsimilaritydetailstable"),
    (Mssql, Hidden, "openquery openrowset"),
    (Databricks, Table, "table_changes"),
    (Databricks, Files, "read_files"),
    (Duckdb, Table, "query_table"),
    (Duckdb, Remote, "postgres_scan mysql_scan sqlite_scan"),
    (Duckdb, Hidden, "query postgres_query mysql_query"),
    (Duckdb, Hidden, "sqlite_query"),
    (Duckdb, Files, "read_csv read_csv_auto read_parquet"),
    (Duckdb, Files, "parquet_scan read_json read_json_auto"),
    (Duckdb, Files, "read_json_objects read_ndjson"),
    (Duckdb, Files, "read_ndjson_auto read_ndjson_objects"),
    (Duckdb, Files, "read_text read_blob read_xlsx st_read"),
    (Duckdb, Files, "delta_scan iceberg_scan"),
    (Clickhouse, Remote, "cluster clusterallreplicas remote"),
    (Clickhouse, Remote, "remotesecure mysql postgresql sqlite"),
    (Clickhouse, Remote, "mongodb jdbc odbc"),
    (Clickhouse, Table, "dictionary"),
    (Clickhouse, Files, "file url s3 gcs hdfs azureblobstorage"),
    (Clickhouse, Files, "iceberg deltalake hudi"),
    (Clickhouse, Hidden, "merge"),
    (Bigquery, Hidden, "external_query"),
    (Postgres, Hidden, "dblink crosstab crosstab2 crosstab3"),
    (Postgres, Hidden, "crosstab4"),
    (Postgres, Table, "connectby"),
    (Redshift, Hidden, "dblink"),
    // If the argument isn't a literal name, it is a variable.
    (Snowflake, Hidden, "identifier result_scan"),
    (Databricks, Hidden, "identifier"),
];

pub(super) enum Named {
    /// No tables: the function generates rows.
    Nothing,
    Tables(Vec<TableName>),
    /// Reads tables that are unknown from the text.
    Hidden,
}

/// Returns the tables of a call. `function` must be in lower case.
pub(super) fn tables(function: &str, args: &[FunctionArg], dialect: Dialect) -> Named {
    let found = FUNCTIONS.iter().find(|(of, _, names)| {
        (dialect == Generic || *of == dialect) && names.split(' ').any(|name| name == function)
    });
    let Some((_, naming, _)) = found else {
        return Named::Nothing;
    };
    let values: Vec<Option<&Expr>> = args.iter().map(value).collect();
    let found = match (naming, values.as_slice()) {
        (Table, [Some(first), ..]) => table(first, dialect).map(|table| vec![table]),
        (Files, [Some(Expr::Array(list)), ..]) => list.elem.iter().map(file).collect(),
        (Files, [Some(first), ..]) => file(first).map(|file| vec![file]),
        (Remote, [_, Some(Expr::Function(inner)), ..]) => {
            let FunctionArguments::List(list) = &inner.args else {
                return Named::Nothing;
            };
            return tables(&inner.name.to_string().to_lowercase(), &list.args, dialect);
        }
        (Remote, [_, Some(first), rest @ ..]) => {
            remote(first, rest.first().copied().flatten(), dialect).map(|table| vec![table])
        }
        (Table | Files | Remote | Hidden, _) => None,
    };
    found.map_or(Named::Hidden, Named::Tables)
}

fn value(arg: &FunctionArg) -> Option<&Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        FunctionArg::Unnamed(_) | FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. } => None,
    }
}

/// `db.t`, `'db.t'`, or `db` and `t`.
fn remote(first: &Expr, second: Option<&Expr>, dialect: Dialect) -> Option<TableName> {
    let first = table(first, dialect)?;
    let second = second.and_then(|second| table(second, dialect));
    match second {
        Some(second) if first.qualifiers.is_empty() => Some(TableName {
            qualifiers: vec![first.name],
            name: second.name,
        }),
        Some(_) | None => Some(first),
    }
}

/// Returns the table of a name, or of a string that contains one.
fn table(expr: &Expr, dialect: Dialect) -> Option<TableName> {
    match text(expr) {
        Some(text) => {
            let mut parser = Parser::new(dialect.grammar()).try_with_sql(text).ok()?;
            name::table(&parser.parse_object_name(false).ok()?)
        }
        None => name::table_of_expr(expr),
    }
}

fn file(expr: &Expr) -> Option<TableName> {
    text(expr).map(TableName::bare)
}

pub(super) fn text(expr: &Expr) -> Option<&str> {
    let Expr::Value(value) = expr else {
        return None;
    };
    literal::text(&value.value)
}
