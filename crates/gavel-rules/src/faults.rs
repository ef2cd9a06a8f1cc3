//! Collects payload errors, up to a limit, with the same messages for every kind.

use serde_json::Value;

use crate::Fault;
use crate::nearest::{LONGEST, hint};

/// Maximum errors reported per payload; further ones are only counted.
const MOST_FAULTS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<Fault>,
    untold: usize,
}

impl Faults {
    pub(super) fn add(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.add_with(|| (pointer.into(), message.into()));
    }

    /// Adds an error with an expensive message. Above the limit it is only counted.
    fn add_with(&mut self, words: impl FnOnce() -> (String, String)) {
        if self.found.len() < MOST_FAULTS {
            let (pointer, message) = words();
            self.found.push(Fault { pointer, message });
        } else {
            self.untold += 1;
        }
    }

    /// Adds an error for a key of the object at `place` that isn't in `known`, with the closest known key.
    pub(super) fn add_unknown<'k>(
        &mut self,
        place: &str,
        key: &str,
        known: impl Iterator<Item = &'k str> + Clone,
    ) {
        self.add_with(|| {
            let message = format!("is unknown; {}", hint(key, known));
            (format!("{place}{}", pointer(key)), message)
        });
    }

    pub(super) fn adopt(&mut self, part: Self) {
        for Fault { pointer, message } in part.found {
            self.add(pointer, message);
        }
        self.untold += part.untold;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn has_fault_at(&self, pointer: &str) -> bool {
        self.found.iter().any(|fault| fault.pointer == pointer)
    }

    pub(super) fn into_list(mut self) -> Vec<Fault> {
        if self.untold > 0 {
            self.found.push(Fault {
                pointer: String::new(),
                message: format!("{} more faults are not listed", self.untold),
            });
        }
        self.found
    }
}

/// Returns a field's JSON pointer (RFC 6901). Very long keys are cut.
pub(super) fn pointer(key: &str) -> String {
    let key: String = key.chars().take(LONGEST).collect();
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() <= LONGEST => format!("{text:?}"),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            kind(value).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_above_the_limit_are_only_counted() {
        let mut faults = Faults::default();
        for at in 0..MOST_FAULTS {
            faults.add(format!("/{at}"), "wrong");
        }
        faults.add("/more", "wrong");
        faults.add_unknown("", "key", std::iter::once_with(|| panic!("put into words")));
        assert!(faults.has_fault_at("/0") && !faults.has_fault_at("/more"));
        let list = faults.into_list();
        assert_eq!(list.len(), MOST_FAULTS + 1);
        assert_eq!(list[MOST_FAULTS].message, "2 more faults are not listed");
    }

    #[test]
    fn unknown_key_gets_suggestion() {
        let mut faults = Faults::default();
        let known = ["columns", "results", "id"];
        for key in ["columms", "a/b~", "k0"] {
            faults.add_unknown("/accepted/0", key, known.into_iter());
        }
        let list = faults.into_list();
        assert_eq!(list[0].pointer, "/accepted/0/columms");
        assert_eq!(list[0].message, "is unknown; did you mean columns?");
        assert_eq!(list[1].pointer, "/accepted/0/a~1b~0");
        let none_near = "is unknown; known: columns, results, id";
        assert_eq!(
            (list[1].message.as_str(), list[2].message.as_str()),
            (none_near, none_near)
        );
    }

    #[test]
    fn very_long_key_is_cut_without_suggestion() {
        let mut faults = Faults::default();
        let key = "columns".repeat(1_000);
        // A known key of the same length would be the closest, but comparing the two needs a table of 49 million cells.
        let known = [key.as_str(), "columns"];
        faults.add_unknown("", &key, known.into_iter());
        let list = faults.into_list();
        assert_eq!(list[0].pointer.len(), 1 + LONGEST);
        assert!(list[0].message.starts_with("is unknown; known: "));
    }
}
