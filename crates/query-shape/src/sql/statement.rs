//! Handles the parts that the parser's visitor doesn't report: tables outside of a FROM, and clauses of a query (join
//! conditions, WHERE and HAVING, INTO, pipes, `table t`). The walk finds everything else.

use std::collections::HashSet;

use sqlparser::ast::{
    AlterTableOperation, CopySource, CreateTableLikeKind, Delete, Expr, FromTable,
    FunctionArguments, Insert, Join, JoinConstraint, JoinOperator, LockTable, Merge, MergeAction,
    MultiTableInsertIntoClause, ObjectName, ObjectType, OutputClause, PipeOperator, Query, Select,
    SelectInto, SetExpr, Statement, TableFactor, TableObject, TableWithJoins, Update,
    UpdateTableFromKind,
};

use super::name;
use super::walk::Walk;
use crate::{Filter, TableName};

/// Reads the targets of a statement, and the predicates of its WHERE and ON.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of 140 kinds of statement, those are listed whose tables the parser's visitor doesn't report; of the rest it does"
)]
pub(super) fn read(walk: &mut Walk, statement: &Statement) {
    match statement {
        Statement::Insert(insert) => read_insert(walk, insert),
        Statement::Update(update) => read_update(walk, update),
        Statement::Delete(delete) => read_delete(walk, delete),
        Statement::Merge(merge) => read_merge(walk, merge),
        Statement::CreateTable(create) => {
            walk.write(&create.name);
            if let Some(
                CreateTableLikeKind::Parenthesized(like) | CreateTableLikeKind::Plain(like),
            ) = &create.like
            {
                walk.write(&like.name);
            }
            create.clone.iter().for_each(|name| walk.write(name));
        }
        Statement::CreateView(create) => {
            walk.write(&create.name);
            create.to.iter().for_each(|name| walk.write(name));
        }
        Statement::Drop {
            object_type, names, ..
        } if is_relation(*object_type) => names.iter().for_each(|name| walk.write(name)),
        Statement::AlterTable(alter) => {
            for operation in &alter.operations {
                if let AlterTableOperation::SwapWith { table_name } = operation {
                    walk.write(table_name);
                }
            }
        }
        Statement::RenameTable(renamed) => {
            for table in renamed {
                walk.write(&table.old_name);
                walk.write(&table.new_name);
            }
        }
        Statement::Copy {
            source: CopySource::Table { table_name, .. },
            ..
        }
        | Statement::LoadData { table_name, .. } => walk.write(table_name),
        Statement::CopyIntoSnowflake { into, from_obj, .. } => {
            walk.write(into);
            from_obj.iter().for_each(|name| walk.write(name));
        }
        Statement::OptimizeTable { name, .. } => walk.write(name),
        Statement::Vacuum(vacuum) => vacuum.table_name.iter().for_each(|name| walk.write(name)),
        Statement::LockTables { tables } => read_locked(walk, tables),
        // `show tables in db` has no table. `show columns from t` does.
        Statement::ShowTables { show_options, .. }
        | Statement::ShowViews { show_options, .. }
        | Statement::ShowSchemas { show_options, .. }
        | Statement::ShowDatabases { show_options, .. } => {
            let parent = show_options.show_in.as_ref();
            if let Some(name) = parent.and_then(|parent| parent.parent_name.as_ref()) {
                walk.settle(name);
            }
        }
        _ => {}
    }
}

/// Records the target of `select … into` or `output … into`. Several targets are variables, as are all in MySQL.
pub(super) fn read_into(walk: &mut Walk, into: &SelectInto) {
    if let [target] = into.targets.as_slice()
        && walk.writes_select_into()
        && let Some(table) = name::table_of_expr(target)
    {
        walk.add(table);
    }
}

fn is_relation(object: ObjectType) -> bool {
    use ObjectType::{ForeignTable, MaterializedView, Table, View};
    [Table, ForeignTable, View, MaterializedView].contains(&object)
}

fn read_insert(walk: &mut Walk, insert: &Insert) {
    let whens = insert.multi_table_when_clauses.iter();
    let clauses = insert
        .multi_table_into_clauses
        .iter()
        .chain(whens.flat_map(|when| &when.into_clauses))
        .chain(insert.multi_table_else_clause.iter().flatten());
    let mut is_multiple = false;
    for MultiTableInsertIntoClause { table_name, .. } in clauses {
        is_multiple = true;
        walk.write(table_name);
    }
    if let TableObject::TableName(name) = &insert.table {
        // The parser leaves an empty name if the clauses contain the targets.
        if is_multiple {
            walk.settle(name);
        } else {
            walk.write(name);
        }
    }
    if let TableObject::TableFunction(function) = &insert.table
        && let FunctionArguments::List(list) = &function.args
    {
        walk.call(&function.name, &list.args);
    }
    read_output(walk, insert.output.as_ref());
}

fn read_update(walk: &mut Walk, update: &Update) {
    let from = match &update.from {
        Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => {
            from.as_slice()
        }
        None => &[],
    };
    if let TableFactor::Table { name, .. } = &update.table.relation
        && is_alias(name, &aliases(from))
    {
        // `update o set … from orders o`: the walk finds the table in the FROM.
        walk.settle(name);
    }
    read_joins(walk, std::slice::from_ref(&update.table));
    read_joins(walk, from);
    update.selection.iter().for_each(|expr| walk.filter(expr));
    read_output(walk, update.output.as_ref());
}

fn read_delete(walk: &mut Walk, delete: &Delete) {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let using = delete.using.as_deref().unwrap_or_default();
    let (own, others) = (aliases(from), aliases(using));
    for target in &delete.tables {
        if !is_alias(target, &own) && !walk.is_cte(target) {
            walk.write(target);
        }
    }
    for item in from {
        if let TableFactor::Table { name, .. } = &item.relation
            && is_alias(name, &others)
        {
            walk.settle(name);
        }
    }
    read_joins(walk, from);
    read_joins(walk, using);
    delete.selection.iter().for_each(|expr| walk.filter(expr));
    read_output(walk, delete.output.as_ref());
}

fn read_merge(walk: &mut Walk, merge: &Merge) {
    walk.filter(&merge.on);
    for clause in &merge.clauses {
        clause.predicate.iter().for_each(|expr| walk.filter(expr));
        if let MergeAction::Update(update) = &clause.action {
            let own: [&Option<Expr>; 2] = [&update.update_predicate, &update.delete_predicate];
            own.into_iter().flatten().for_each(|expr| walk.filter(expr));
        }
    }
    read_output(walk, merge.output.as_ref());
}

fn read_output(walk: &mut Walk, output: Option<&OutputClause>) {
    if let Some(OutputClause::Output {
        into_table: Some(into),
        ..
    }) = output
    {
        read_into(walk, into);
    }
}

/// Aliases declared by FROM items, in lower case.
fn aliases(from: &[TableWithJoins]) -> HashSet<String> {
    let relations = from.iter().flat_map(|item| {
        let joined = item.joins.iter().map(|join| &join.relation);
        std::iter::once(&item.relation).chain(joined)
    });
    relations
        .filter_map(name::alias)
        .map(|alias| alias.name.value.to_lowercase())
        .collect()
}

fn is_alias(name: &ObjectName, aliases: &HashSet<String>) -> bool {
    !aliases.is_empty()
        && name::table(name).is_some_and(|table| {
            table.qualifiers.is_empty() && aliases.contains(&table.name.to_lowercase())
        })
}

fn read_locked(walk: &mut Walk, tables: &[LockTable]) {
    for locked in tables {
        walk.add(TableName::bare(&locked.table.value));
    }
}

/// Registers the predicates of a select, and records the table it creates.
pub(super) fn read_select(walk: &mut Walk, select: &Select) {
    read_joins(walk, &select.from);
    for clause in [
        &select.prewhere,
        &select.selection,
        &select.having,
        &select.qualify,
    ] {
        clause.iter().for_each(|expr| walk.filter(expr));
    }
    if let Some(into) = &select.into {
        read_into(walk, into);
    }
}

pub(super) fn read_joins(walk: &mut Walk, from: &[TableWithJoins]) {
    for join in from.iter().flat_map(|item| &item.joins) {
        read_join(walk, join);
    }
}

fn read_join(walk: &mut Walk, join: &Join) {
    let (matching, constraint) = match &join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint)
        | JoinOperator::StraightJoin(constraint) => (None, constraint),
        JoinOperator::AsOf {
            match_condition,
            constraint,
        } => (Some(match_condition), constraint),
        JoinOperator::CrossApply
        | JoinOperator::OuterApply
        | JoinOperator::ArrayJoin
        | JoinOperator::LeftArrayJoin
        | JoinOperator::InnerArrayJoin => return,
    };
    matching.iter().for_each(|expr| walk.filter(expr));
    match constraint {
        JoinConstraint::On(expr) => walk.filter(expr),
        JoinConstraint::Using(columns) | JoinConstraint::UsingAlias(columns, _) => {
            for column in columns.iter().filter_map(name::table) {
                walk.add_filter(Filter {
                    operator: "=".to_owned(),
                    columns: vec![column.name],
                    literals: Vec::new(),
                });
            }
        }
        JoinConstraint::Natural | JoinConstraint::None => {}
    }
}

/// Records the tables of `table t`, short for `select * from t`.
pub(super) fn read_table_commands(walk: &mut Walk, query: &Query) {
    let mut rest: Vec<&SetExpr> = vec![&query.body];
    while let Some(body) = rest.pop() {
        if let SetExpr::SetOperation { left, right, .. } = body {
            rest.extend([&**right, &**left]);
        } else if let SetExpr::Table(table) = body
            && let Some(name) = &table.table_name
        {
            walk.read(TableName {
                qualifiers: table
                    .schema_name
                    .iter()
                    .map(|it| it.value.clone())
                    .collect(),
                name: name.value.clone(),
            });
        }
    }
}

/// Registers the predicates and keys of `|> where`, `|> join` and `|> aggregate`.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the other pipes neither filter nor group"
)]
pub(super) fn read_pipes(walk: &mut Walk, query: &Query) {
    for pipe in &query.pipe_operators {
        match pipe {
            PipeOperator::Where { expr } => walk.filter(expr),
            PipeOperator::Join(join) => read_join(walk, join),
            PipeOperator::Aggregate { group_by_expr, .. } => {
                for key in group_by_expr {
                    walk.add_key(&key.expr.expr);
                }
            }
            _ => {}
        }
    }
}
