//! Converts names of relations in the syntax tree to table names. Callers decide whether a name is a table.

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, TableAlias, TableFactor,
    TableFunctionArgs,
};

use crate::TableName;

/// T-SQL hints in parentheses after a table, where other dialects have function arguments.
const LOCK_HINTS: &str = "forcescan forceseek holdlock noexpand nolock nowait paglock readcommitted readcommittedlock readpast \
    readuncommitted repeatableread rowlock serializable snapshot tablock tablockx updlock xlock";

/// Returns the table name without quotes and brackets; `None` for variables, stages and names created by a function.
pub(super) fn table(name: &ObjectName) -> Option<TableName> {
    let mut parts: Vec<&str> = Vec::new();
    for part in &name.0 {
        match part {
            ObjectNamePart::Identifier(ident) => parts.extend(segments(ident)),
            ObjectNamePart::Function(_) => return None,
        }
    }
    of_parts(&parts)
}

pub(super) fn table_of_expr(target: &Expr) -> Option<TableName> {
    if let Expr::Identifier(ident) = target {
        return of_parts(&segments(ident).collect::<Vec<_>>());
    }
    if let Expr::CompoundIdentifier(idents) = target {
        return of_parts(&idents.iter().flat_map(segments).collect::<Vec<_>>());
    }
    None
}

fn of_parts(parts: &[&str]) -> Option<TableName> {
    // `db..t` omits the schema.
    let parts: Vec<&str> = parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty())
        .collect();
    let (name, qualifiers) = parts.split_last()?;
    if parts.iter().any(|part| part.starts_with(['@', ':', '$'])) {
        return None;
    }
    Some(TableName {
        qualifiers: qualifiers.iter().map(|part| (*part).to_owned()).collect(),
        name: (*name).to_owned(),
    })
}

/// BigQuery quotes a path as one identifier: `` `project.dataset.table` ``.
fn segments(ident: &Ident) -> std::str::Split<'_, char> {
    let separator = if ident.quote_style == Some('`') {
        '.'
    } else {
        // Not contained in any identifier, so that it doesn't split.
        '\0'
    };
    ident.value.split(separator)
}

/// Returns the name of a FROM item within its query, in lower case: its alias, or the last part of its name.
pub(super) fn called(factor: &TableFactor) -> Option<String> {
    if let Some(alias) = alias(factor) {
        return Some(alias.name.value.to_lowercase());
    }
    if let TableFactor::Table { name, .. } = factor {
        return table(name).map(|table| table.name.to_lowercase());
    }
    None
}

pub(super) fn alias(factor: &TableFactor) -> Option<&TableAlias> {
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::JsonTable { alias, .. }
        | TableFactor::OpenJsonTable { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::Pivot { alias, .. }
        | TableFactor::Unpivot { alias, .. }
        | TableFactor::MatchRecognize { alias, .. }
        | TableFactor::XmlTable { alias, .. }
        | TableFactor::SemanticView { alias, .. } => alias.as_ref(),
        TableFactor::UnpivotExpr { .. } => None,
    }
}

/// Whether parenthesized arguments are T-SQL lock hints, so that the name before them is a table.
pub(super) fn are_lock_hints(args: &TableFunctionArgs) -> bool {
    !args.args.is_empty()
        && args.args.iter().all(|arg| {
            matches!(
                arg,
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(ident)))
                    if LOCK_HINTS.split(' ').any(|hint| hint.eq_ignore_ascii_case(&ident.value))
            )
        })
}
