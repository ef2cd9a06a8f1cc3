//! Reads JSON without losing a field or a number: an object must name each field once, and `NaN`, `Infinity` and `1e999`, which
//! Python and SQLite write, are read.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Text that isn't read as JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// One value of two would be lost.
    #[error(
        "has the field `{name}` twice in one object: keep one, or rename one (in SQL by AS); rows may also be lists of cells beside the names of their columns"
    )]
    RepeatedField {
        /// Where the second one is (RFC 6901).
        pointer: String,
        /// The field's name.
        name: String,
    },
    /// No JSON, or nested deeper than 128 levels.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
}

/// Reads one JSON value.
///
/// `NaN` is read as null, and what is infinite (`Infinity`, `-Infinity`, `Inf`, `1e999`) as the text `Infinity` or `-Infinity`.
///
/// # Errors
/// An object that has a field twice, and text that is no JSON.
pub fn parse_json(text: &[u8]) -> Result<Value, JsonError> {
    match parse_strictly(text) {
        Err(JsonError::Syntax(error)) => match std::str::from_utf8(text).map(readable_json) {
            Ok(Cow::Owned(fixed)) => parse_strictly(fixed.as_bytes()),
            Ok(Cow::Borrowed(_)) | Err(_) => Err(error.into()),
        },
        read => read,
    }
}

/// Reads one JSON value by any deserializer. An object may have a field twice if both are equal.
///
/// # Errors
/// Those of the deserializer, and one that names a field with two values.
pub fn unambiguous_json<'de, D: Deserializer<'de>>(json: D) -> Result<Value, D::Error> {
    let (repeated, equal_may_repeat) = (&mut None, true);
    let reader = ValueReader {
        repeated,
        equal_may_repeat,
    };
    reader.deserialize(json)
}

fn parse_strictly(text: &[u8]) -> Result<Value, JsonError> {
    let mut repeated = None;
    let mut json = serde_json::Deserializer::from_slice(text);
    let reader = ValueReader {
        repeated: &mut repeated,
        equal_may_repeat: false,
    };
    let read = reader.deserialize(&mut json);
    match (read, repeated) {
        (Err(_), Some((pointer, name))) => Err(JsonError::RepeatedField { pointer, name }),
        (read, _) => {
            let value = read?;
            json.end()?;
            Ok(value)
        }
    }
}

/// Reads a value, and keeps the pointer and the name of a field that an object has twice.
struct ValueReader<'r> {
    repeated: &'r mut Option<(String, String)>,
    /// Whether that is no fault where both values are equal.
    equal_may_repeat: bool,
}

impl ValueReader<'_> {
    /// The reader of a value within this one.
    fn inner(&mut self) -> ValueReader<'_> {
        ValueReader {
            repeated: &mut *self.repeated,
            equal_may_repeat: self.equal_may_repeat,
        }
    }

    /// Puts a step in front of the pointer, if a field was found twice further in.
    fn within<E>(&mut self, error: E, step: impl fmt::Display) -> E {
        if let Some((pointer, _)) = self.repeated {
            pointer.insert_str(0, &format!("/{step}"));
        }
        error
    }
}

impl<'de> DeserializeSeed<'de> for ValueReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueReader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let escaped = || name.replace('~', "~0").replace('/', "~1");
            let value = members
                .next_value_seed(self.inner())
                .map_err(|error| self.within(error, escaped()))?;
            let may_repeat = self.equal_may_repeat;
            if map
                .get(&name)
                .is_some_and(|known| !may_repeat || *known != value)
            {
                let words = format!("the field {name:?} is there twice, with different values,");
                *self.repeated = Some((format!("/{}", escaped()), name));
                return Err(A::Error::custom(words));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries
            .next_element_seed(self.inner())
            .map_err(|error| self.within(error, list.len()))?
        {
            list.push(entry);
        }
        Ok(Value::Array(list))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// Returns the text with the numbers that JSON can't hold in a form that it can (see [`parse_json`]), and U+FFFD for each half of a
/// surrogate pair, which JavaScript writes for a text that was cut within an emoji.
pub fn readable_json(text: &str) -> Cow<'_, str> {
    let mut fixed = String::new();
    let (mut copied, mut at, mut is_string) = (0, 0, false);
    while let Some(byte) = text.as_bytes().get(at) {
        let rest = text.get(at..).unwrap_or_default();
        let (length, instead) = match (is_string, byte) {
            (true, b'\\') => escape(rest),
            (_, b'"') => {
                is_string = !is_string;
                (1, None)
            }
            (false, b'+' | b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z') => number(rest),
            _ => (1, None),
        };
        if let Some(instead) = instead {
            fixed.push_str(text.get(copied..at).unwrap_or_default());
            fixed.push_str(instead);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    fixed.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(fixed)
}

/// The length of an escape in a string, and the text that replaces it.
fn escape(rest: &str) -> (usize, Option<&'static str>) {
    let unit = |at: usize| {
        let escape = rest.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    match (unit(0), unit(6)) {
        (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, None),
        (Some(0xd800..=0xdfff), _) => (6, Some("\\ufffd")),
        (Some(_), _) => (6, None),
        (None, _) => (2, None),
    }
}

/// The length of a word outside strings, and the text that replaces a number that JSON can't hold.
fn number(rest: &str) -> (usize, Option<&'static str>) {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
    let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest);
    let is_number = word.ends_with(|c: char| c.is_ascii_digit());
    let named = ["NaN", "nan", "Infinity", "inf", "Inf"];
    let is_named = named.contains(&word.trim_start_matches(['-', '+']));
    let instead = match word.parse() {
        Ok(f64::INFINITY) if is_number || is_named => Some("\"Infinity\""),
        Ok(f64::NEG_INFINITY) if is_number || is_named => Some("\"-Infinity\""),
        Ok(number) if number.is_nan() && is_named => Some("null"),
        Ok(_) | Err(_) => None,
    };
    (word.len().max(1), instead)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_json_cannot_hold_are_read() {
        for (text, value) in [
            // json.dumps of Python 3.11
            (
                r#"{"a": NaN, "b": Infinity, "c": -Infinity}"#,
                json!({"a": null, "b": "Infinity", "c": "-Infinity"}),
            ),
            // sqlite3 -json 3.40
            (
                r#"[{"a":1e999,"b":-1e999,"c":null}]"#,
                json!([{"a": "Infinity", "b": "-Infinity", "c": null}]),
            ),
            (
                "[nan,inf,-inf,Inf]",
                json!([null, "Infinity", "-Infinity", "Infinity"]),
            ),
            (
                r#"{"NaN": "NaN \" 1e999, \\", "b": [1e3, NaN]}"#,
                json!({"NaN": "NaN \" 1e999, \\", "b": [1000.0, null]}),
            ),
            ("NaN", json!(null)),
        ] {
            assert_eq!(parse_json(text.as_bytes()).unwrap(), value, "{text}");
        }
        for text in ["NaNs", "[None]", "[NaN", "{\"a\": Nan}", "1e", ""] {
            let error = parse_json(text.as_bytes()).unwrap_err();
            assert!(matches!(error, JsonError::Syntax(_)), "{text}");
        }
    }

    #[test]
    fn a_field_that_an_object_has_twice_is_refused_with_its_place() {
        for (text, found) in [
            (r#"{"a":1,"b":"x","a":[2]}"#, "/a"),
            (r#"[{"a":1},{"name":"Bo","name":"Ada"}]"#, "/1/name"),
            (r#"{"rows":[[{"a/~":1,"a/~":NaN}]]}"#, "/rows/0/0/a~1~0"),
            (r#"{"\u0061":1,"a":-1}"#, "/a"),
        ] {
            let Err(JsonError::RepeatedField { pointer, .. }) = parse_json(text.as_bytes()) else {
                panic!("{text}");
            };
            assert_eq!(pointer, found, "{text}");
        }
        for text in [r#"{"a":{"a":1},"b":{"a":1}}"#, r#"[{"a":1},{"a":1}]"#] {
            assert!(parse_json(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn numbers_and_half_surrogates_are_replaced_outside_and_inside_strings() {
        for (text, fixed) in [
            (
                r#"{"a":NaN,"b":[-Infinity, Infinity]}"#,
                r#"{"a":null,"b":["-Infinity", "Infinity"]}"#,
            ),
            (
                r#"{"a":1e999,"b":-1E+400,"c":1e3,"d":-2.5}"#,
                r#"{"a":"Infinity","b":"-Infinity","c":1e3,"d":-2.5}"#,
            ),
            (
                r#"["NaN \" Infinity","\\","\ud83d\ude00", true]"#,
                r#"["NaN \" Infinity","\\","\ud83d\ude00", true]"#,
            ),
            (
                r#"["\ud83d\u2026","\ude00é","\\ud83d"]"#,
                r#"["\ufffd\u2026","\ufffdé","\\ud83d"]"#,
            ),
            (r#"["\ud83d"#, r#"["\ufffd"#),
            ("[\"\\", "[\"\\"),
        ] {
            assert_eq!(readable_json(text), fixed, "{text}");
        }
    }
}
