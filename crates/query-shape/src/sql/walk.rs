//! Walks the statements once, in text order including subqueries, and fills a [`QueryShape`].

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArguments, ObjectName, ObjectNamePart, Query, Select, Statement,
    TableFactor, Visit, Visitor,
};

use super::aggregates::Aggregates;
use super::naming::{self, Named};
use super::object::{self, Subject};
use super::predicate::{self, Leaf};
use super::scope::{Scopes, place};
use super::{Dialect, literal, name, order, statement};
use crate::{Filter, QueryShape, TableName};

pub(super) fn shape(statements: &[Statement], dialect: Dialect) -> QueryShape {
    let sort_keys = order::at_top(statements);
    let mut walk = Walk {
        dialect,
        scopes: Scopes::new(dialect),
        seen: HashSet::new(),
        functions: HashSet::new(),
        settled: HashSet::new(),
        leaves: HashMap::new(),
        open: Vec::new(),
        muted: None,
        aggregates: Aggregates::default(),
        depth: 0,
        shape: QueryShape {
            sorted_at_top: sort_keys.is_some(),
            sort_keys: sort_keys.unwrap_or_default(),
            ..QueryShape::default()
        },
    };
    for statement in statements {
        // The visitor never breaks.
        let ControlFlow::Continue(()) = statement.visit(&mut walk);
    }
    walk.shape.aggregations = walk.aggregates.into_found();
    walk.shape
}

pub(super) struct Walk {
    dialect: Dialect,
    scopes: Scopes,
    seen: HashSet<TableName>,
    functions: HashSet<String>,
    /// Addresses of names already handled.
    settled: HashSet<usize>,
    /// Predicates registered by a clause, by address.
    leaves: HashMap<usize, String>,
    /// Predicates being walked, outermost first.
    open: Vec<Leaf>,
    /// Expression with literals that are already recorded.
    muted: Option<usize>,
    aggregates: Aggregates,
    depth: usize,
    shape: QueryShape,
}

impl Walk {
    /// Adds a table, regardless of scope.
    pub(super) fn add(&mut self, table: TableName) {
        if !self.seen.insert(table.folded()) {
            return;
        }
        if !table.qualifiers.is_empty() {
            self.shape.qualified.push(table.dotted());
        }
        self.shape.tables.push(table);
    }

    /// Adds a table that a statement writes, which can't be a common table expression.
    pub(super) fn write(&mut self, name: &ObjectName) {
        self.settle(name);
        if let [ObjectNamePart::Function(function)] = name.0.as_slice() {
            self.hide(function.to_string());
        }
        if let Some(table) = name::table(name) {
            self.add(table);
        }
    }

    /// Adds a table that is read, unless the name is shadowed here.
    pub(super) fn read(&mut self, table: TableName) {
        let is_other = match table.qualifiers.first() {
            None => self.scopes.is_cte(&table.name.to_lowercase()),
            Some(first) => self.scopes.is_array_of(&first.to_lowercase()),
        };
        if !is_other {
            self.add(table);
        }
    }

    pub(super) fn settle(&mut self, name: &ObjectName) {
        self.settled.insert(place(name));
    }

    pub(super) fn is_cte(&self, name: &ObjectName) -> bool {
        name::table(name).is_some_and(|table| {
            table.qualifiers.is_empty() && self.scopes.is_cte(&table.name.to_lowercase())
        })
    }

    /// Whether `select … into x` creates a table in the dialect.
    pub(super) fn writes_select_into(&self) -> bool {
        self.dialect != Dialect::Mysql
    }

    pub(super) fn filter(&mut self, expr: &Expr) {
        predicate::leaves(expr, |leaf, operator| {
            self.leaves.insert(place(leaf), operator);
        });
    }

    /// Adds a predicate that isn't part of an expression.
    pub(super) fn add_filter(&mut self, filter: Filter) {
        self.shape.filters.push(filter);
    }

    /// Adds a grouping key outside of a GROUP BY.
    pub(super) fn add_key(&mut self, key: &Expr) {
        self.aggregates.add_key(key);
    }

    /// Records a part of the text with unknown tables.
    pub(super) fn hide(&mut self, part: String) {
        if !self.shape.hidden.contains(&part) {
            self.shape.hidden.push(part);
        }
    }

    /// Adds the tables in a function's arguments, or the function itself if it is in table position.
    pub(super) fn call(&mut self, name: &ObjectName, args: &[FunctionArg]) {
        let Some(called) = name::table(name).map(|table| table.dotted()) else {
            return;
        };
        match naming::tables(&called.to_lowercase(), args, self.dialect) {
            Named::Tables(tables) => tables.into_iter().for_each(|table| self.read(table)),
            Named::Hidden => self.hide(called),
            Named::Nothing => {
                if self.functions.insert(called.clone()) {
                    self.shape.unknown_functions.push(called);
                }
            }
        }
    }

    /// Opens a predicate, and adds columns and literals to the current one.
    fn enter_expr(&mut self, expr: &Expr) {
        if let Some(operator) = self.leaves.remove(&place(expr)) {
            self.open.push(Leaf {
                place: place(expr),
                depth: self.depth,
                index: self.shape.filters.len(),
                columns: HashSet::new(),
            });
            self.shape.filters.push(Filter {
                operator,
                columns: Vec::new(),
                literals: Vec::new(),
            });
        }
        if self.muted.is_some() {
            return;
        }
        let depth = self.depth;
        if let Some(leaf) = self.open.last_mut().filter(|leaf| leaf.depth == depth)
            && let Some(filter) = self.shape.filters.get_mut(leaf.index)
        {
            if let Some(literal) = literal::of_expr(expr) {
                filter.literals.push(literal);
                self.muted = Some(place(expr));
            } else if let Some(column) = predicate::column(expr)
                && leaf.columns.insert(column.to_owned())
            {
                filter.columns.push(column.to_owned());
            }
        }
    }
}

impl Visitor for Walk {
    type Break = Infallible;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<Infallible> {
        statement::read(self, statement);
        for subject in object::subjects(statement) {
            match subject {
                Subject::Table(table) => self.add(table),
                Subject::Hidden(part) => self.hide(part),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
        self.depth += 1;
        self.scopes.enter_query(query);
        self.aggregates.enter_query();
        statement::read_pipes(self, query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
        // The names of its WITH are in scope only now.
        statement::read_table_commands(self, query);
        self.aggregates.leave_query();
        self.scopes.leave_query();
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Infallible> {
        self.scopes.enter_select(select);
        self.aggregates.enter_select(select);
        statement::read_select(self, select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &Select) -> ControlFlow<Infallible> {
        self.scopes.leave_select();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Infallible> {
        if let TableFactor::Table {
            name,
            args: Some(args),
            ..
        } = factor
            && !name::are_lock_hints(args)
        {
            self.settle(name);
            self.call(name, &args.args);
        }
        if let TableFactor::Function { name, args, .. } = factor {
            self.call(name, args);
        }
        if let TableFactor::TableFunction { expr, .. } = factor {
            if let Expr::Function(call) = expr {
                if let FunctionArguments::List(list) = &call.args {
                    self.call(&call.name, &list.args);
                }
            } else {
                self.hide(format!("table({expr})"));
            }
        }
        if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = factor
        {
            statement::read_joins(self, std::slice::from_ref(&**table_with_joins));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Infallible> {
        self.scopes.leave_factor(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Infallible> {
        if self.settled.remove(&place(relation)) {
            return ControlFlow::Continue(());
        }
        if let [ObjectNamePart::Function(function)] = relation.0.as_slice() {
            self.hide(function.to_string());
        }
        if let Some(table) = name::table(relation) {
            self.read(table);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Infallible> {
        self.enter_expr(expr);
        self.aggregates.read(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Infallible> {
        let place = place(expr);
        self.muted.take_if(|muted| *muted == place);
        self.open.pop_if(|leaf| leaf.place == place);
        ControlFlow::Continue(())
    }
}
