//! Functions with arguments that specify a table or a file, and functions with unknown tables.

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
use sqlparser::parser::Parser;

use super::Dialect::{
    self, Bigquery, Clickhouse, Databricks, Duckdb, Generic, Mssql, Postgres, Redshift, Snowflake,
};
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

const FUNCTIONS: &[(&[Dialect], Naming, &str)] = &[
    (
        &[Mssql, Generic],
        Naming::Table,
        "containstable freetexttable changetable semantickeyphrasetable semanticsimilaritytable semanticsimilaritydetailstable",
    ),
    (&[Mssql, Generic], Naming::Hidden, "openquery openrowset"),
    (&[Databricks], Naming::Table, "table_changes"),
    (&[Databricks], Naming::Files, "read_files"),
    (&[Duckdb], Naming::Table, "query_table"),
    (
        &[Duckdb],
        Naming::Hidden,
        "query postgres_query mysql_query sqlite_query",
    ),
    (
        &[Duckdb],
        Naming::Remote,
        "postgres_scan mysql_scan sqlite_scan",
    ),
    (
        &[Duckdb, Generic],
        Naming::Files,
        "read_csv read_csv_auto read_parquet parquet_scan read_json read_json_auto read_json_objects read_ndjson read_ndjson_auto \
         read_ndjson_objects read_text read_blob read_xlsx st_read delta_scan iceberg_scan",
    ),
    (
        &[Clickhouse, Generic],
        Naming::Remote,
        "cluster clusterallreplicas remote remotesecure mysql postgresql sqlite mongodb jdbc odbc",
    ),
    (&[Clickhouse], Naming::Hidden, "merge"),
    (&[Clickhouse], Naming::Table, "dictionary"),
    (
        &[Clickhouse],
        Naming::Files,
        "file url s3 gcs hdfs azureblobstorage iceberg deltalake hudi",
    ),
    (&[Bigquery, Generic], Naming::Hidden, "external_query"),
    (
        &[Postgres, Redshift, Generic],
        Naming::Hidden,
        "dblink crosstab crosstab2 crosstab3 crosstab4",
    ),
    (&[Postgres], Naming::Table, "connectby"),
    (&[Snowflake], Naming::Hidden, "result_scan"),
    // If the argument isn't a literal name, it is a variable.
    (
        &[Snowflake, Databricks, Generic],
        Naming::Hidden,
        "identifier",
    ),
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
    let found = FUNCTIONS.iter().find(|(dialects, _, names)| {
        dialects.contains(&dialect) && names.split(' ').any(|name| name == function)
    });
    let Some((_, naming, _)) = found else {
        return Named::Nothing;
    };
    let values: Vec<Option<&Expr>> = args.iter().map(value).collect();
    let found = match (naming, values.as_slice()) {
        (Naming::Table, [Some(first), ..]) => table(first, dialect).map(|table| vec![table]),
        (Naming::Files, [Some(Expr::Array(list)), ..]) => list.elem.iter().map(file).collect(),
        (Naming::Files, [Some(first), ..]) => file(first).map(|file| vec![file]),
        (Naming::Remote, [_, Some(Expr::Function(inner)), ..]) => {
            let FunctionArguments::List(list) = &inner.args else {
                return Named::Nothing;
            };
            return tables(&inner.name.to_string().to_lowercase(), &list.args, dialect);
        }
        (Naming::Remote, [_, Some(first), rest @ ..]) => {
            remote(first, rest.first().copied().flatten(), dialect).map(|table| vec![table])
        }
        (Naming::Table | Naming::Files | Naming::Remote | Naming::Hidden, _) => None,
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
