//! Lenient JSON parser for the output of models and gateways: accepts raw control characters in strings, trailing commas, comments and lone
//! surrogates. Other invalid JSON is an error with its position.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json_lenient::Deserializer as Reader;
pub(crate) use serde_json_lenient::error::Category;

#[derive(Debug)]
pub(crate) struct Leading {
    pub(crate) value: Value,
    /// Bytes up to the end of the value.
    pub(crate) length: usize,
}

#[derive(Debug)]
pub(crate) struct NotJson {
    /// `Eof`: the text ends inside the value. `Data`: a duplicate field with different values, because any other data is accepted.
    pub(crate) category: Category,
    /// 1-based.
    pub(crate) line: usize,
    /// 1-based, in bytes.
    pub(crate) column: usize,
    pub(crate) reason: String,
}

/// Parses the value at the start of a text and ignores the rest. The last of duplicate fields counts.
pub(crate) fn leading(text: &[u8]) -> Result<Leading, NotJson> {
    read::<Value>(text)
}

/// The same, but duplicate fields with different values are an error, because they are ambiguous.
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
    // Invalid Unicode becomes U+FFFD. Newlines and control characters are allowed in strings. `\v` and `\x` are not escapes.
    let reader = Reader::from_slice_with_options(text, true, true, true, false, false);
    let mut values = reader.into_iter::<T>();
    match values.next() {
        Some(Ok(value)) => Ok(Leading {
            value: value.into(),
            length: values.byte_offset(),
        }),
        Some(Err(error)) => Err(NotJson {
            category: error.classify(),
            line: error.line(),
            column: error.column(),
            reason: reason(&error.to_string()),
        }),
        None => Err(NotJson {
            category: Category::Syntax,
            line: 1,
            column: 1,
            reason: "the input is empty".to_owned(),
        }),
    }
}

/// Strips the position, which is relative to the start of parsing.
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
    fn reads_lenient_json() {
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
    fn duplicate_fields_must_have_equal_values() {
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
        assert_eq!(error.category, Category::Data);
        assert_eq!(leading(differ.as_bytes()).unwrap().value, json!({ "a": 2 }));
    }

    #[test]
    fn errors_have_a_position() {
        let table = [
            ("{\"a\": 1", Category::Eof, (1, 7)),
            ("{\"a\": \"x", Category::Eof, (1, 8)),
            ("{\n\"a\": None}", Category::Syntax, (2, 6)),
            ("{\"a\" 1}", Category::Syntax, (1, 6)),
            (r#"{"a": "\d"}"#, Category::Syntax, (1, 9)),
            ("", Category::Syntax, (1, 1)),
        ];
        for (text, category, place) in table {
            let error = leading(text.as_bytes()).unwrap_err();
            assert_eq!(error.category, category, "{text}: {error:?}");
            assert_eq!((error.line, error.column), place, "{text}: {error:?}");
            assert!(!error.reason.contains("line"), "{error:?}");
        }
    }
}
