//! Order of a query's result. Covers the top level only, because an ORDER BY in a subquery has no effect.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, OrderByExpr, OrderByKind, PipeOperator, Query, Select, SelectItem, SetExpr, Statement,
    Value, Visit as _, Visitor,
};

use super::aggregates::is_aggregate;
use super::predicate::called;
use crate::SortKey;

/// Returns the sort columns of the last query in the statements: empty if unknown, `None` if unsorted.
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

/// Other pipes aren't documented to preserve the order.
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

/// Returns the select that determines the columns of a query body.
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
    let keys = by.iter().map(|by| columns(&by.expr, items));
    let keys: Option<Vec<_>> = keys.collect();
    keys.unwrap_or_default().into_iter().flatten().collect()
}

/// Returns the result columns that an ORDER BY expression depends on. Rows with equal values in all of them are tied.
fn columns(expr: &Expr, items: &[SelectItem]) -> Option<Vec<SortKey>> {
    if let Expr::Value(value) = expr
        && let Value::Number(place, _) = &value.value
    {
        let place = place.parse::<usize>().ok()?.checked_sub(1)?;
        let column = key(place, items);
        return Some(vec![SortKey {
            name: column.name.filter(|_| column.place.is_some()),
            place: Some(place),
        }]);
    }
    // An alias comes before a column of this name, unless it is part of an expression.
    let is_alias = |item: &SelectItem, name: &str| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value.eq_ignore_ascii_case(name));
    if let Expr::Identifier(name) = expr
        && let Some(place) = items.iter().position(|item| is_alias(item, &name.value))
    {
        return Some(vec![key(place, items)]);
    }
    let mut found = ColumnsRead {
        items,
        columns: Vec::new(),
        depth: 0,
    };
    let is_known = expr.visit(&mut found).is_continue() && !found.columns.is_empty();
    is_known.then_some(found.columns)
}

/// Collects the result columns in an expression. Breaks at parts that depend on anything except one row of the result.
struct ColumnsRead<'a> {
    items: &'a [SelectItem],
    columns: Vec<SortKey>,
    /// Depth of the walk within an expression that is a result column.
    depth: usize,
}

impl Visitor for ColumnsRead<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        match self.depth {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            self.depth += 1;
        } else if let Some(column) = column(expr, self.items) {
            self.columns.push(column);
            self.depth = 1;
        } else if depends_on_more(expr) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.depth = self.depth.saturating_sub(1);
        ControlFlow::Continue(())
    }
}

/// Whether an expression, not being a result column, is another column or is computed from several rows.
fn depends_on_more(expr: &Expr) -> bool {
    if let Expr::Function(call) = expr {
        return call.over.is_some() || is_aggregate(&called(call));
    }
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn is_plain(item: &SelectItem) -> bool {
    matches!(
        item,
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
    )
}

/// Returns the result column that equals an ORDER BY expression.
fn column(expr: &Expr, items: &[SelectItem]) -> Option<SortKey> {
    let place = items.iter().position(|item| {
        matches!(item, SelectItem::UnnamedExpr(of) | SelectItem::ExprWithAlias { expr: of, .. } if of == expr)
    });
    match (place, expr) {
        (Some(place), _) => Some(key(place, items)),
        (None, Expr::Identifier(name)) => Some(SortKey::named(&name.value)),
        // Unless all items are plain, the result may have another column of this name.
        (None, Expr::CompoundIdentifier(parts)) if !items.iter().all(is_plain) => {
            parts.last().map(|name| SortKey::named(&name.value))
        }
        (None, _) => None,
    }
}

/// Returns the result column of the item at `place`.
fn key(place: usize, items: &[SelectItem]) -> SortKey {
    let name = match items.get(place) {
        Some(SelectItem::ExprWithAlias { alias: name, .. })
        | Some(SelectItem::UnnamedExpr(Expr::Identifier(name))) => Some(name.value.clone()),
        Some(_) | None => None,
    };
    let has_place = items.iter().take(place + 1).all(is_plain);
    SortKey {
        name,
        place: has_place.then_some(place),
    }
}
