//! Names that aren't base tables: common table expressions in scope, and aliases of arrays.
//!
//! A name of WITH is in scope in the expressions after it and in the body; a recursive one in all of them, including its own. So `with
//! users as (select * from users) select * from users` reads the table `users` once, in the expression.

use std::collections::{HashMap, HashSet};

use sqlparser::ast::{Cte, Query, Select, SetExpr, TableFactor, TableWithJoins};

use super::Dialect;
use super::name;

/// Names in scope at one point of a walk.
#[derive(Debug)]
pub(super) struct Scopes {
    dialect: Dialect,
    queries: Vec<QueryFrame>,
    /// Common table expressions in scope, and number of declarations of each.
    declared: Vec<String>,
    count: HashMap<String, usize>,
    /// Name declared after a query has been walked, by the query's address.
    pending: HashMap<usize, String>,
    selects: Vec<SelectFrame>,
}

#[derive(Debug)]
struct QueryFrame {
    /// Number of names in scope before the query.
    before: usize,
    /// Name that enters the scope after it.
    declares: Option<String>,
}

#[derive(Debug, Default)]
struct SelectFrame {
    /// Names of all FROM items, for subqueries of this select.
    all: HashSet<String>,
    /// Names of FROM items already walked, for later items.
    walked: HashSet<String>,
}

impl Scopes {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            queries: Vec::new(),
            declared: Vec::new(),
            count: HashMap::new(),
            pending: HashMap::new(),
            selects: Vec::new(),
        }
    }

    pub(super) fn enter_query(&mut self, query: &Query) {
        let declares = self.pending.remove(&place(query));
        let own = declares
            .as_ref()
            .filter(|_| self.dialect.recursion_is_implied() && is_set_operation(query))
            .cloned();
        self.queries.push(QueryFrame {
            before: self.declared.len(),
            declares,
        });
        if let Some(name) = own {
            self.declare(name);
        }
        let Some(with) = &query.with else {
            return;
        };
        for cte in &with.cte_tables {
            let name = cte_name(cte);
            if with.recursive {
                self.declare(name);
            } else {
                self.pending.insert(place(&*cte.query), name);
            }
        }
    }

    pub(super) fn leave_query(&mut self) {
        let Some(frame) = self.queries.pop() else {
            return;
        };
        for name in self.declared.drain(frame.before..) {
            if let Some(count) = self.count.get_mut(&name) {
                *count -= 1;
            }
        }
        if let Some(name) = frame.declares {
            self.declare(name);
        }
    }

    fn declare(&mut self, name: String) {
        *self.count.entry(name.clone()).or_default() += 1;
        self.declared.push(name);
    }

    pub(super) fn is_cte(&self, folded: &str) -> bool {
        self.count.get(folded).is_some_and(|count| *count > 0)
    }

    pub(super) fn enter_select(&mut self, select: &Select) {
        let mut frame = SelectFrame::default();
        if self.dialect.has_array_references() {
            frame.all.extend(called(&select.from));
        }
        self.selects.push(frame);
    }

    pub(super) fn leave_select(&mut self) {
        self.selects.pop();
    }

    pub(super) fn leave_factor(&mut self, factor: &TableFactor) {
        if self.dialect.has_array_references()
            && let Some(frame) = self.selects.last_mut()
            && let Some(name) = name::called(factor)
        {
            frame.walked.insert(name);
        }
    }

    /// Whether the first part of a qualified name is an item of this FROM or an enclosing one, so that the name is an array.
    pub(super) fn is_array_of(&self, first: &str) -> bool {
        let Some((innermost, around)) = self.selects.split_last() else {
            return false;
        };
        innermost.walked.contains(first) || around.iter().any(|frame| frame.all.contains(first))
    }
}

/// Address of a node, stable because nodes don't move during the walk.
pub(super) fn place<T>(node: &T) -> usize {
    std::ptr::from_ref(node) as usize
}

fn cte_name(cte: &Cte) -> String {
    cte.alias.name.value.to_lowercase()
}

/// Whether a query is a set operation, as required for recursion.
fn is_set_operation(query: &Query) -> bool {
    let mut query = query;
    while let SetExpr::Query(inner) = &*query.body {
        query = inner;
    }
    matches!(&*query.body, SetExpr::SetOperation { .. })
}

/// Names of FROM items, including those of joins.
fn called(from: &[TableWithJoins]) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest: Vec<&TableWithJoins> = from.iter().collect();
    while let Some(item) = rest.pop() {
        let joined = item.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&item.relation).chain(joined) {
            names.extend(name::called(factor));
            if let TableFactor::NestedJoin {
                table_with_joins, ..
            } = factor
            {
                rest.push(table_with_joins);
            }
        }
    }
    names
}
