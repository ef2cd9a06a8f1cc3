//! Fields that stand in a body twice: whoever reads it by name would take one of them, and nobody could say which was meant.

use std::collections::HashSet;
use std::fmt::{Formatter, Result as Written};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::problem::escape;

/// How deep names are looked at: those of the body, and those of the objects in it. Rows of data are below.
const DEPTH: usize = 2;

/// The pointer (RFC 6901) of the first field that stands twice in one object; `None` also where the text is no JSON.
pub(crate) fn first(bytes: &[u8]) -> Option<String> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    DuplicateFinder(DEPTH).deserialize(&mut json).ok().flatten()
}

/// Looks at so many levels of objects.
struct DuplicateFinder(usize);

impl<'de> DeserializeSeed<'de> for DuplicateFinder {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.0 == 0 {
            return serde::Deserialize::deserialize(deserializer).map(|IgnoredAny| None);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateFinder {
    type Value = Option<String>;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let (mut names, mut found) = (HashSet::new(), None);
        while let Some(name) = members.next_key::<String>()? {
            let below = members.next_value_seed(DuplicateFinder(self.0 - 1))?;
            let pointer = format!("/{}", escape(&name));
            if let Some(below) = below {
                found.get_or_insert(format!("{pointer}{below}"));
            } else if !names.insert(name) {
                found.get_or_insert(pointer);
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        while let Some(IgnoredAny) = entries.next_element()? {}
        Ok(None)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_stands_twice_is_found_where_it_stands() {
        for (text, found) in [
            (r#"{"a":1,"b":"x","a":[2]}"#, Some("/a")),
            (r#"{"a":{"b":null,"c":{},"b":true}}"#, Some("/a/b")),
            (r#"{"a/~":1,"a/~":1.5}"#, Some("/a~1~0")),
            (r#"{"\u0061":1,"a":-1}"#, Some("/a")),
            (r#"{"a":{"a":1},"b":{"a":1}}"#, None),
            (r#"{"rows":[{"n":1,"n":2}]}"#, None),
            (r#"{"a":1,"a":"#, None),
            ("[1]", None),
        ] {
            assert_eq!(first(text.as_bytes()).as_deref(), found, "{text}");
        }
    }
}
