//! Whether a text asks for its rows in an order. Looks at the top level only: an ORDER BY in a subquery orders nothing.

use sqlparser::ast::{PipeOperator, Query, SetExpr, Statement};

/// Whether the last query of the statements ends in ORDER BY, or in pipes that keep the order of one.
pub(super) fn is_sorted_at_top(statements: &[Statement]) -> bool {
    let query = statements.iter().rev().find_map(|statement| {
        if let Statement::Query(query) = statement {
            Some(&**query)
        } else {
            None
        }
    });
    query.is_some_and(is_sorted)
}

fn is_sorted(query: &Query) -> bool {
    let mut query = query;
    loop {
        for pipe in query.pipe_operators.iter().rev() {
            if matches!(pipe, PipeOperator::OrderBy { .. }) {
                return true;
            }
            if !keeps_order(pipe) {
                return false;
            }
        }
        if query.order_by.is_some() {
            return true;
        }
        match &*query.body {
            SetExpr::Query(inner) => query = inner,
            SetExpr::Select(select) => return !select.sort_by.is_empty(),
            SetExpr::SetOperation { .. }
            | SetExpr::Values(_)
            | SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => return false,
        }
    }
}

/// Of any other pipe it isn't documented that it keeps an order.
fn keeps_order(pipe: &PipeOperator) -> bool {
    matches!(
        pipe,
        PipeOperator::Limit { .. }
            | PipeOperator::Select { .. }
            | PipeOperator::Extend { .. }
            | PipeOperator::Set { .. }
            | PipeOperator::Drop { .. }
            | PipeOperator::Rename { .. }
            | PipeOperator::As { .. }
            | PipeOperator::Where { .. }
    )
}
