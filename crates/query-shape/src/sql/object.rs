//! Statements about objects: comments, privileges, triggers and functions, and calls with unknown tables.

use sqlparser::ast::{
    Action, CommentObject, CreateFunctionBody, GrantObjects, ObjectName, Privileges, Statement,
};

use super::{name, naming};
use crate::TableName;

pub(super) enum Subject {
    Table(TableName),
    Hidden(String),
}

impl Subject {
    fn of(object: &ObjectName) -> Self {
        match name::table(object) {
            Some(table) if table.name != "*" => Self::Table(table),
            Some(_) | None => Self::Hidden(object.to_string()),
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of 140 kinds of statement, those are listed that are about tables or hide some"
)]
pub(super) fn subjects(statement: &Statement) -> Vec<Subject> {
    match statement {
        Statement::CreateTrigger(create) => vec![Subject::of(&create.table_name)],
        Statement::Comment {
            object_type,
            object_name,
            ..
        } => commented(*object_type, object_name).into_iter().collect(),
        Statement::Grant(grant) => granted(&grant.privileges, grant.objects.as_ref()),
        Statement::Revoke(revoke) => granted(&revoke.privileges, revoke.objects.as_ref()),
        Statement::Call(function) => vec![Subject::Hidden(format!("call {}", function.name))],
        Statement::Execute { name, .. } if run_text(statement).is_none() => {
            vec![Subject::Hidden(match name {
                Some(name) => format!("execute {name}"),
                None => "execute".to_owned(),
            })]
        }
        Statement::CreateFunction(create) if create.function_body.as_ref().is_some_and(is_text) => {
            vec![Subject::Hidden(format!("function {}", create.name))]
        }
        _ => Vec::new(),
    }
}

/// Returns the query text that a statement executes: `unload('select ..') to ..`, `execute immediate 'select ..'`.
pub(super) fn run_text(statement: &Statement) -> Option<&str> {
    if let Statement::Unload { query_text, .. } = statement {
        return query_text.as_deref();
    }
    let Statement::Execute {
        name,
        parameters,
        immediate,
        ..
    } = statement
    else {
        return None;
    };
    let runs_text = |name: &ObjectName| {
        name::table(name).is_some_and(|table| {
            ["sp_executesql", "immediate"].contains(&table.name.to_lowercase().as_str())
        })
    };
    let is_run = *immediate || name.as_ref().is_none_or(runs_text);
    naming::text(parameters.first()?).filter(|_| is_run)
}

fn is_text(body: &CreateFunctionBody) -> bool {
    if let CreateFunctionBody::AsBeforeOptions { body, .. }
    | CreateFunctionBody::AsAfterOptions(body) = body
    {
        return naming::text(body).is_some();
    }
    false
}

fn commented(object: CommentObject, name: &ObjectName) -> Option<Subject> {
    use CommentObject::{Column, ForeignTable, MaterializedView, Table, View};
    if object == Column {
        let (_, table) = name.0.split_last()?;
        return Some(Subject::of(&ObjectName(table.to_vec())));
    }
    let is_relation = [Table, ForeignTable, View, MaterializedView].contains(&object);
    is_relation.then(|| Subject::of(name))
}

/// Returns the tables of a privilege statement. Tables of a complete schema are hidden.
fn granted(privileges: &Privileges, objects: Option<&GrantObjects>) -> Vec<Subject> {
    if let Privileges::Actions(actions) = privileges
        && !actions.iter().any(is_on_tables)
    {
        return Vec::new();
    }
    if let Some(GrantObjects::Tables(names) | GrantObjects::Views(names)) = objects {
        return names.iter().map(Subject::of).collect();
    }
    if let Some(
        all @ (GrantObjects::AllTablesInSchema { .. }
        | GrantObjects::AllViewsInSchema { .. }
        | GrantObjects::AllMaterializedViewsInSchema { .. }
        | GrantObjects::AllExternalTablesInSchema { .. }),
    ) = objects
    {
        return vec![Subject::Hidden(all.to_string().to_lowercase())];
    }
    Vec::new()
}

fn is_on_tables(action: &Action) -> bool {
    matches!(
        action,
        Action::Select { .. }
            | Action::Insert { .. }
            | Action::Update { .. }
            | Action::Delete
            | Action::Truncate
            | Action::References { .. }
            | Action::Trigger
            | Action::Ownership
    )
}
