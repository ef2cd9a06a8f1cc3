//! Whether a text asks for its rows in an order, and by which columns. Looks at the top level only: an ORDER BY in a subquery orders nothing.

use sqlparser::ast::{
    Expr, OrderByExpr, OrderByKind, PipeOperator, Query, Select, SelectItem, SetExpr, Statement,
    Value,
};

use crate::SortKey;

/// The columns that the last query of the statements sorts by: none where they can't be told, `None` where it doesn't sort.
pub(super) fn at_top(statements: &[Statement]) -> Option<Vec<SortKey>> {
    let query = statements.iter().rev().find_map(|statement| {
        if let Statement::Query(query) = statement {
            Some(&**query)
        } else {
            None
        }
    });
    order(query?)
}

fn order(query: &Query) -> Option<Vec<SortKey>> {
    let mut query = query;
    loop {
        for pipe in query.pipe_operators.iter().rev() {
            if let PipeOperator::OrderBy { exprs } = pipe {
                return Some(keys(exprs, None));
            }
            if !keeps_order(pipe) {
                return None;
            }
        }
        if let Some(order) = &query.order_by {
            return Some(match &order.kind {
                OrderByKind::Expressions(by) => keys(by, first_select(&query.body)),
                OrderByKind::All(_) => Vec::new(),
            });
        }
        match &*query.body {
            SetExpr::Query(inner) => query = inner,
            SetExpr::Select(select) if select.sort_by.is_empty() => return None,
            SetExpr::Select(select) => return Some(keys(&select.sort_by, Some(select))),
            SetExpr::SetOperation { .. }
            | SetExpr::Values(_)
            | SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => return None,
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

/// The select that names the columns of a body.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Values(_)
        | SetExpr::Insert(_)
        | SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Merge(_)
        | SetExpr::Table(_) => None,
    }
}

fn keys(by: &[OrderByExpr], select: Option<&Select>) -> Vec<SortKey> {
    let items = select.map_or(&[][..], |select| &select.projection);
    let keys = by.iter().map(|by| key(&by.expr, items));
    keys.collect::<Option<_>>().unwrap_or_default()
}

/// The column of the result that an expression of ORDER BY stands for.
fn key(expr: &Expr, items: &[SelectItem]) -> Option<SortKey> {
    let number = if let Expr::Value(value) = expr
        && let Value::Number(place, _) = &value.value
    {
        place.parse::<usize>().ok()?.checked_sub(1)
    } else {
        None
    };
    let place = number.or_else(|| {
        items.iter().position(|item| {
            matches!(item, SelectItem::UnnamedExpr(of) | SelectItem::ExprWithAlias { expr: of, .. } if of == expr)
        })
    });
    let is_plain = |item: &SelectItem| {
        matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    };
    match (
        place.and_then(|place| Some((place, items.get(place)?))),
        expr,
    ) {
        (Some((_, SelectItem::ExprWithAlias { alias, .. })), _) => {
            Some(SortKey::Name(alias.value.clone()))
        }
        (Some((_, SelectItem::UnnamedExpr(Expr::Identifier(name)))), _) => {
            Some(SortKey::Name(name.value.clone()))
        }
        (Some((place, _)), _) => items[..=place]
            .iter()
            .all(is_plain)
            .then_some(SortKey::Place(place)),
        (None, Expr::Identifier(name)) => Some(SortKey::Name(name.value.clone())),
        // Another column of this name may be in the result, unless all are.
        (None, Expr::CompoundIdentifier(parts)) if !items.iter().all(is_plain) => {
            parts.last().map(|name| SortKey::Name(name.value.clone()))
        }
        (None, _) => None,
    }
}
