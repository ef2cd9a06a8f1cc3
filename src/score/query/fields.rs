//! Reads an object's fields and tells every fault with its JSON pointer. Knows no payload in particular.

use serde_json::{Map, Value};

use crate::score::faults::{Faults, kind};

/// An object, being read. A field that is null counts as left out.
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    pointer: String,
}

impl<'a> Fields<'a> {
    /// An object whose fields all are among `known`; `None` if it is no object. An unknown field is a fault, with the known
    /// one that is near it.
    pub(super) fn of(
        value: &'a Value,
        pointer: &str,
        known: &[&str],
        faults: &mut Faults,
    ) -> Option<Self> {
        let Value::Object(map) = value else {
            let said = format!("must be an object, not {}", kind(value));
            faults.add(pointer, said);
            return None;
        };
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            faults.add_unknown(pointer, name, known.iter().copied());
        }
        Some(Self {
            map,
            pointer: pointer.to_owned(),
        })
    }

    /// The pointer of a field.
    pub(super) fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.pointer)
    }

    /// A field's value.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// A text of at most `most` bytes.
    pub(super) fn text(&self, name: &str, most: usize, faults: &mut Faults) -> Option<&'a str> {
        let value = self.get(name)?;
        let Value::String(text) = value else {
            let said = format!("must be text, not {}", kind(value));
            faults.add(self.at(name), said);
            return None;
        };
        let length = text.len();
        if length > most {
            let said = format!("has {length} bytes; at most {most} are taken: shorten it");
            faults.add(self.at(name), said);
            return None;
        }
        Some(text)
    }

    /// A text that must be there; it may be empty.
    pub(super) fn required_text(
        &self,
        name: &str,
        most: usize,
        faults: &mut Faults,
    ) -> Option<&'a str> {
        if self.get(name).is_none() {
            faults.add(self.at(name), "is missing: it is required, as text");
        }
        self.text(name, most, faults)
    }

    /// A list.
    pub(super) fn list(&self, name: &str, faults: &mut Faults) -> Option<&'a [Value]> {
        let value = self.get(name)?;
        let Value::Array(items) = value else {
            let said = format!("must be a list, not {}", kind(value));
            faults.add(self.at(name), said);
            return None;
        };
        Some(items)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_within_is_told_with_its_place_and_null_is_left_out() {
        let mut faults = Faults::default();
        let value = json!({"columms": 1, "results": "none", "columns": null});
        let known = ["columns", "results"];
        let fields = Fields::of(&value, "/accepted/0", &known, &mut faults).unwrap();
        assert_eq!(fields.get("columns"), None);
        assert_eq!(fields.list("results", &mut faults), None);
        let list = faults.into_list();
        let told: Vec<(&str, &str)> = list
            .iter()
            .map(|fault| (fault.pointer.as_str(), fault.message.as_str()))
            .collect();
        assert_eq!(
            told,
            [
                ("/accepted/0/columms", "is unknown; did you mean columns?"),
                ("/accepted/0/results", "must be a list, not text"),
            ]
        );
    }
}
