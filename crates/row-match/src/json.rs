//! Reads JSON without losing fields or numbers: duplicate fields of an object are errors, and `NaN`, `Infinity` and `1e999`, as written by
//! Python and SQLite, are accepted.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Error of reading JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Duplicate field. Reading it would lose one value.
    #[error(
        "has the field `{name}` twice in one object: keep one, or rename one (in SQL by AS); rows may also be lists of cells beside the names of their columns"
    )]
    RepeatedField {
        /// JSON pointer (RFC 6901) of the second one.
        pointer: String,
        /// Name of the field.
        name: String,
    },
    /// Invalid JSON, or nested deeper than 128 levels.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
}

/// Reads a JSON value. Returns an error for duplicate fields of an object, and for invalid JSON. `NaN` becomes null, and infinity
/// (`Infinity`, `-Infinity`, `Inf`, `1e999`) the text `Infinity` or `-Infinity`.
pub fn parse_json(text: &[u8]) -> Result<Value, JsonError> {
    match parse_strictly(text) {
        Err(JsonError::Syntax(error)) => match std::str::from_utf8(text).map(readable_json) {
            Ok(Cow::Owned(fixed)) => parse_strictly(fixed.as_bytes()),
            Ok(Cow::Borrowed(_)) | Err(_) => Err(error.into()),
        },
        read => read,
    }
}

/// Reads a JSON value with any deserializer. Floats without a fraction become integers, so that `82` equals `82.0`. Returns an error for
/// duplicate fields, unless their values are equal.
pub fn unambiguous_json<'de, D: Deserializer<'de>>(json: D) -> Result<Value, D::Error> {
    let (repeated, by_value) = (&mut None, true);
    let reader = ValueReader { repeated, by_value };
    reader.deserialize(json)
}

fn parse_strictly(text: &[u8]) -> Result<Value, JsonError> {
    let mut repeated = None;
    let mut json = serde_json::Deserializer::from_slice(text);
    let reader = ValueReader {
        repeated: &mut repeated,
        by_value: false,
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

/// From here on, neighbouring integers can have the same float.
const EXACT_FLOATS: f64 = 9_007_199_254_740_992.0;

/// Returns the integer of a float without a fraction, unless it exceeds the exact range.
pub(super) fn integer(value: f64) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below 2^53 and without a fraction"
    )]
    (value.fract() == 0.0 && value.abs() < EXACT_FLOATS).then_some(value as i64)
}

/// Reads a value, and stores the pointer and the name of a duplicate field.
struct ValueReader<'r> {
    repeated: &'r mut Option<(String, String)>,
    /// Whether numbers are read by value, and duplicate fields with equal values are allowed.
    by_value: bool,
}

impl ValueReader<'_> {
    fn inner(&mut self) -> ValueReader<'_> {
        ValueReader {
            repeated: &mut *self.repeated,
            by_value: self.by_value,
        }
    }

    /// Prepends a step to the pointer if a nested value has a duplicate field.
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
            let may_repeat = self.by_value;
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
        let exact = integer(number).filter(|_| self.by_value);
        let float = || Number::from_f64(number).map_or(Value::Null, Value::Number);
        Ok(exact.map_or_else(float, Value::from))
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

/// Replaces numbers that JSON doesn't support (see [`parse_json`]). Unpaired surrogates become U+FFFD; JavaScript writes them for text that
/// was cut within an emoji.
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

/// Returns the length of an escape in a string, and its replacement.
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

/// Returns the length of a word outside strings, and the replacement of a number that JSON doesn't support.
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
    fn reads_numbers_unsupported_by_json() {
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
    fn equal_duplicate_fields_are_unambiguous() {
        let read = |text| unambiguous_json(&mut serde_json::Deserializer::from_str(text));
        for (text, value) in [
            (r#"{"a":82,"a":82.0,"a":8.2e1}"#, json!({"a": 82})),
            (
                r#"{"a":[{"b":0}],"a":[{"b":-0.0}]}"#,
                json!({"a": [{"b": 0}]}),
            ),
            (
                r#"{"a":0.5,"a":5e-1,"b":1e20}"#,
                json!({"a": 0.5, "b": 1e20}),
            ),
        ] {
            assert_eq!(read(text).unwrap(), value, "{text}");
        }
        for text in [r#"{"a":82,"a":82.5}"#, r#"{"a":82,"a":"82"}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn duplicate_field_error_contains_pointer() {
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
    fn replaces_numbers_and_unpaired_surrogates() {
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
