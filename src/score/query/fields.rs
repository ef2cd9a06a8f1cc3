//! Reads an object's fields and gathers every fault with its JSON pointer. Knows no payload in particular.

use serde_json::{Map, Value};

use crate::judge::Fault;

/// The most faults that are told; what is over is counted.
const MAX_FAULTS: usize = 100;

/// Faults found so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<Fault>,
    untold: usize,
}

impl Faults {
    /// Adds one.
    pub(super) fn add(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        if self.found.len() < MAX_FAULTS {
            self.found.push(Fault {
                pointer: pointer.into(),
                message: message.into(),
            });
        } else {
            self.untold += 1;
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, for the client.
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
            let said = format!("must be an object, not {}", kind_of(value));
            faults.add(pointer, said);
            return None;
        };
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            let place = format!("{pointer}/{}", escaped(name));
            faults.add(place, unknown(name, known));
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
            let said = format!("must be text, not {}", kind_of(value));
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
            let said = format!("must be a list, not {}", kind_of(value));
            faults.add(self.at(name), said);
            return None;
        };
        Some(items)
    }
}

/// What a value is, in words.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A key as a part of a JSON pointer (RFC 6901).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn unknown(name: &str, known: &[&str]) -> String {
    let far = (name.chars().count() / 4).max(2);
    let nearest = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), *known))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= far);
    match nearest {
        Some((_, meant)) => format!("unknown field; did you mean {meant}?"),
        None => format!("unknown field; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_beyond_the_most_are_counted() {
        let mut faults = Faults::default();
        for at in 0..MAX_FAULTS + 3 {
            faults.add(format!("/{at}"), "wrong");
        }
        let list = faults.into_list();
        assert_eq!(list.len(), MAX_FAULTS + 1);
        assert_eq!(list[MAX_FAULTS].message, "3 more faults are not listed");
    }

    #[test]
    fn an_unknown_field_is_led_back_to_a_near_one() {
        let mut faults = Faults::default();
        let value = json!({"columms": 1, "a/b~": 2, "columns": null});
        let known = ["columns", "results"];
        let fields = Fields::of(&value, "/accepted/0", &known, &mut faults).unwrap();
        assert_eq!(fields.get("columns"), None);
        let list = faults.into_list();
        assert_eq!(list[0].pointer, "/accepted/0/columms");
        assert_eq!(list[0].message, "unknown field; did you mean columns?");
        assert_eq!(list[1].pointer, "/accepted/0/a~1b~0");
        assert_eq!(list[1].message, "unknown field; known are columns, results");
    }
}
