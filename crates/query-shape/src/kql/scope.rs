//! Names defined by the query: by `let`, `as`, `declare` and as parameters. Such names aren't tables.

use std::collections::HashMap;
use std::rc::Rc;

/// Range of the tokens after the `sort` or `top` that orders the rows; `None`: unordered.
pub(super) type Sorted = Option<(usize, usize)>;

#[derive(Debug, Clone, Default)]
pub(super) struct Meaning<'a> {
    pub(super) sorted: Sorted,
    /// For a call of an unknown function, its name. The use of the defined name determines whether it is a table.
    pub(super) call: Option<&'a str>,
    /// For a function, whether each parameter is a table.
    pub(super) tabular: Rc<[bool]>,
    pub(super) text: Option<String>,
}

/// Names defined at a point of the text. Case-sensitive.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    meanings: HashMap<String, Vec<Meaning<'a>>>,
    /// Names in order of definition, so that a body's names can be removed after it.
    order: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

impl<'a> Scope<'a> {
    /// Adds a name, which shadows an earlier equal one.
    pub(super) fn define(&mut self, name: String, meaning: Meaning<'a>) {
        self.order.push(name.clone());
        self.meanings.entry(name).or_default().push(meaning);
    }

    pub(super) fn get(&self, name: &str) -> Option<&Meaning<'a>> {
        self.meanings.get(name).and_then(|meanings| meanings.last())
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.order.len())
    }

    /// Removes the names defined since the mark.
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
