//! Reads JSON as models and gateways write it: raw control characters in strings, trailing commas, comments and lone surrogates
//! are read, because what they mean is plain. Everything else that isn't JSON is an error with its place.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json_lenient::Deserializer as Reader;

/// A value at the beginning of a text.
#[derive(Debug)]
pub(crate) struct Leading {
    pub(crate) value: Value,
    /// Bytes of the text up to the value's end.
    pub(crate) length: usize,
}

/// Why a text doesn't begin with JSON.
#[derive(Debug)]
pub(crate) struct NotJson {
    /// Whether the text ends before the value does.
    pub(crate) is_cut_off: bool,
    /// From 1.
    pub(crate) line: usize,
    /// In bytes, from 1.
    pub(crate) column: usize,
    pub(crate) reason: String,
}

/// Reads the value that a text begins with. What stands behind it isn't looked at. Of a field that an object has twice the last one
/// counts.
pub(crate) fn leading(text: &[u8]) -> Result<Leading, NotJson> {
    read::<Value>(text)
}

/// The same, but no object may have a field twice with different values: nobody could tell which is meant.
pub(crate) fn leading_object(text: &[u8]) -> Result<Leading, NotJson> {
    read::<Unambiguous>(text)
}

struct Unambiguous(Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        gavel_rules::unambiguous_json(json).map(Self)
    }
}

impl From<Unambiguous> for Value {
    fn from(json: Unambiguous) -> Self {
        json.0
    }
}

fn read<'de, T: Deserialize<'de> + Into<Value>>(text: &'de [u8]) -> Result<Leading, NotJson> {
    // Characters that are no Unicode become U+FFFD; newlines and control characters may stand in strings; `\v` and `\x` are
    // no escapes.
    let reader = Reader::from_slice_with_options(text, true, true, true, false, false);
    let mut values = reader.into_iter::<T>();
    match values.next() {
        Some(Ok(value)) => Ok(Leading {
            value: value.into(),
            length: values.byte_offset(),
        }),
        Some(Err(error)) => Err(NotJson {
            is_cut_off: error.is_eof(),
            line: error.line(),
            column: error.column(),
            reason: reason(&error.to_string()),
        }),
        None => Err(NotJson {
            is_cut_off: false,
            line: 1,
            column: 1,
            reason: "nothing is there".to_owned(),
        }),
    }
}

/// An error's words without the place, which counts from where reading began.
fn reason(error: &str) -> String {
    let words = error
        .rsplit_once(" at line ")
        .map_or(error, |(words, _)| words);
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_plainly_meant_is_read() {
        let table = [
            ("{\"a\": \"x\n\ty\u{1}\"}", json!({ "a": "x\n\ty\u{1}" })),
            (r#"{"a": [1, 2,], "b": 3,}"#, json!({ "a": [1, 2], "b": 3 })),
            (r#"{"a": 1 /* so far */}"#, json!({ "a": 1 })),
            (r#"{"a": "\ud83d"}"#, json!({ "a": "\u{fffd}" })),
            (r#"{"a": "\ud83d\ude00"}"#, json!({ "a": "😀" })),
            ("{} and more", json!({})),
        ];
        for (text, value) in table {
            let read = leading(text.as_bytes()).unwrap();
            assert_eq!(read.value, value, "{text}");
        }
        assert_eq!(leading(b" {\"a\": 1} }").unwrap().length, 9);
    }

    #[test]
    fn a_field_that_is_there_twice_is_one_only_if_its_values_are_equal() {
        let equal = br#"{"a": {"b": [1], "b": [1]}, "c": 2} and more"#;
        let read = leading_object(equal).unwrap();
        assert_eq!(
            (read.value, read.length),
            (json!({ "a": { "b": [1] }, "c": 2 }), 35)
        );
        let differ = r#"{"a": 1, "a": 2}"#;
        let error = leading_object(differ.as_bytes()).unwrap_err();
        assert!(
            error.reason.contains("field \"a\" is there twice"),
            "{error:?}"
        );
        assert_eq!(leading(differ.as_bytes()).unwrap().value, json!({ "a": 2 }));
    }

    #[test]
    fn what_is_no_json_has_its_place() {
        let table = [
            ("{\"a\": 1", true, (1, 7)),
            ("{\"a\": \"x", true, (1, 8)),
            ("{\n\"a\": None}", false, (2, 6)),
            ("{\"a\" 1}", false, (1, 6)),
            (r#"{"a": "\d"}"#, false, (1, 9)),
            ("", false, (1, 1)),
        ];
        for (text, is_cut_off, place) in table {
            let error = leading(text.as_bytes()).unwrap_err();
            assert_eq!(error.is_cut_off, is_cut_off, "{text}: {error:?}");
            assert_eq!((error.line, error.column), place, "{text}: {error:?}");
            assert!(!error.reason.contains("line"), "{error:?}");
        }
    }
}
