//! The names that a query defines itself: by `let`, `as`, `declare` and as parameters. They are no tables from there on.

use std::collections::HashMap;
use std::rc::Rc;

/// The tokens behind the `sort` or `top` that put rows in order, from and to; `None`: they are in no order.
pub(super) type Sorted = Option<(usize, usize)>;

/// What a name stands for.
#[derive(Debug, Clone, Default)]
pub(super) struct Meaning<'a> {
    /// What its rows are in order by.
    pub(super) sorted: Sorted,
    /// Of a name for a call that the query doesn't define, the function: whether it yields a table shows where the name is used.
    pub(super) call: Option<&'a str>,
    /// Of a function, for each parameter whether it takes a table.
    pub(super) tabular: Rc<[bool]>,
    /// Of a name for a string, its value.
    pub(super) text: Option<String>,
}

/// The names known at a point of the text. Names tell upper and lower case apart.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    meanings: HashMap<String, Vec<Meaning<'a>>>,
    /// The names in the order they were defined in, so that those of a body can be forgotten after it.
    order: Vec<String>,
}

/// A point in time of a scope, to come back to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

impl<'a> Scope<'a> {
    /// Adds a name; it hides an earlier one that is spelled the same.
    pub(super) fn define(&mut self, name: String, meaning: Meaning<'a>) {
        self.order.push(name.clone());
        self.meanings.entry(name).or_default().push(meaning);
    }

    /// What a name stands for, if the query has defined it.
    pub(super) fn get(&self, name: &str) -> Option<&Meaning<'a>> {
        self.meanings.get(name).and_then(|meanings| meanings.last())
    }

    /// Whether the query has defined the name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The point to come back to after a body.
    pub(super) fn mark(&self) -> Mark {
        Mark(self.order.len())
    }

    /// Forgets the names defined since the mark.
    pub(super) fn back_to(&mut self, mark: Mark) {
        while self.order.len() > mark.0 {
            let Some(name) = self.order.pop() else { return };
            if let Some(meanings) = self.meanings.get_mut(&name) {
                meanings.pop();
                if meanings.is_empty() {
                    self.meanings.remove(&name);
                }
            }
        }
    }
}
