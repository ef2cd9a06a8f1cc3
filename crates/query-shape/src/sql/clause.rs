//! The clauses of a query that the visitor doesn't report as such: conditions of joins, WHERE and HAVING, INTO, pipes, `table t`.

use sqlparser::ast::{
    Join, JoinConstraint, JoinOperator, PipeOperator, Query, Select, SetExpr, TableFactor,
    TableWithJoins,
};

use super::walk::Walk;
use super::{name, statement};
use crate::{Filter, TableName};

/// Announces the predicates of a select, and notes the table that it makes.
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
        statement::read_into(walk, into);
    }
}

/// Announces the conditions of the joins in a FROM.
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
        JoinOperator::CrossApply | JoinOperator::OuterApply => return,
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            // What follows is a column, not a table.
            if let TableFactor::Table { name, .. } = &join.relation {
                walk.settle(name);
            }
            return;
        }
    };
    matching.iter().for_each(|expr| walk.filter(expr));
    match constraint {
        JoinConstraint::On(expr) => walk.filter(expr),
        JoinConstraint::Using(columns) => {
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

/// Notes the tables of `table t`, which stands for `select * from t`.
pub(super) fn read_table_commands(walk: &mut Walk, query: &Query) {
    let mut rest: Vec<&SetExpr> = vec![&query.body];
    while let Some(body) = rest.pop() {
        if let SetExpr::SetOperation { left, right, .. } = body {
            rest.extend([&**right, &**left]);
        } else if let SetExpr::Table(table) = body
            && let Some(name) = &table.table_name
        {
            walk.read(TableName {
                qualifiers: table.schema_name.iter().cloned().collect(),
                name: name.clone(),
            });
        }
    }
}

/// Announces the predicates and keys of `|> where`, `|> join` and `|> aggregate`.
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
