//! Decodes configuration files: YAML after substitution, as JSON. Substitution yields text, so that numbers and booleans are also parsed from
//! text.

use chrono::NaiveDate;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::nearest::{hint, nearest};

/// Error in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FileError {
    /// Dotted path of the key, used to find its line; `.` for the file itself.
    pub path: String,
    pub message: String,
}

impl FileError {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }

    /// Error of a key that isn't in `known`, with the closest known key.
    pub(crate) fn unknown_key(path: String, key: &str, known: &[&str]) -> Self {
        let keys = known.iter().copied();
        // A known key with an extra part, such as `api_key`.
        let is_part = |name: &&str| key.split('_').any(|part| part == *name);
        let part = keys.clone().find(is_part);
        let hint = match part.filter(|_| nearest(key, keys.clone()).is_none()) {
            Some(name) => format!("did you mean {name}?"),
            None => hint(key, keys),
        };
        Self::new(path, format!("unknown key; {hint}"))
    }
}

/// Decodes the value at `path`. Errors don't contain the value, because it may be a key.
pub fn decode<T: DeserializeOwned>(path: &str, value: &Value) -> Result<T, FileError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut path = path.to_owned();
        for segment in error.path() {
            match segment {
                Segment::Seq { index } => path = join(&path, &index.to_string()),
                Segment::Map { key } => path = join(&path, key),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        // The parser quotes the names in these messages, and the value before "expected".
        let message = error.inner().to_string();
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        match (quoted.split_first(), message.split_once(", expected ")) {
            (Some((key, known)), _) if message.starts_with("unknown field") => {
                FileError::unknown_key(path, key, known)
            }
            (Some((key, _)), _) if message.starts_with("missing field") => {
                FileError::new(join(&path, key), "is missing")
            }
            (_, Some((_, expected))) if message.starts_with("invalid ") => {
                FileError::new(path, format!("expected {expected}"))
            }
            _ => FileError::new(path, message),
        }
    })
}

/// Returns the path of a key in the map at `path`.
pub fn join(path: &str, key: &str) -> String {
    match path {
        "" | "." => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

/// Value of a file that is also parsed from text.
pub trait Scalar: Sized {
    /// Parses trimmed text, which isn't empty. The error is the message.
    fn parse(text: &str) -> Result<Self, String>;
}

impl Scalar for String {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl Scalar for bool {
    fn parse(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err("expected true or false (also 1, 0, yes, no, on, off)".to_owned()),
        }
    }
}

impl Scalar for u32 {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| "expected an integer of at least 0".to_owned())
    }
}

impl Scalar for f64 {
    fn parse(text: &str) -> Result<Self, String> {
        let number = text.parse::<Self>().ok();
        number
            .filter(|number| number.is_finite() && *number >= 0.0)
            .ok_or_else(|| "expected a number of 0 or more".to_owned())
    }
}

impl Scalar for NaiveDate {
    fn parse(text: &str) -> Result<Self, String> {
        Self::parse_from_str(text, "%Y-%m-%d")
            .map_err(|_| format!("{text:?} is not a date; give one such as 2026-01-31"))
    }
}

/// Optional [`Scalar`]. Null and blank text count as absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Lenient<T>(pub Option<T>);

impl<T> Lenient<T> {
    pub fn or(self, default: T) -> T {
        self.0.unwrap_or(default)
    }
}

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Scalar> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::Null => return Ok(Self(None)),
            Value::String(text) => text,
            Value::Array(_) | Value::Object(_) => {
                return Err(D::Error::custom("expected a single value"));
            }
            plain @ (Value::Bool(_) | Value::Number(_)) => plain.to_string(),
        };
        match text.trim() {
            "" => Ok(Self(None)),
            text => T::parse(text)
                .map(|read| Self(Some(read)))
                .map_err(D::Error::custom),
        }
    }
}

/// Decodes a required [`Scalar`].
pub fn required<'de, T: Scalar, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let given = Lenient::deserialize(deserializer)?.0;
    given.ok_or_else(|| D::Error::custom("is missing or empty"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, expecting = "a map")]
    struct Entry {
        #[serde(default)]
        #[expect(dead_code, reason = "only its key is read")]
        key: Lenient<String>,
        #[serde(default)]
        #[expect(dead_code, reason = "only its key is read")]
        base_url: Lenient<String>,
        #[expect(dead_code, reason = "only its key is read")]
        model: String,
    }

    #[test]
    fn errors_have_path_and_suggestion_without_the_value() {
        for (value, text) in [
            (
                json!({ "api_key": 1 }),
                "j.api_key: unknown key; did you mean key?",
            ),
            (
                json!({ "bas_url": 1 }),
                "j.bas_url: unknown key; did you mean base_url?",
            ),
            (
                json!({ "max_retries": 1 }),
                "j.max_retries: unknown key; known: key, base_url, model",
            ),
            (json!({}), "j.model: is missing"),
            (json!({ "model": 1 }), "j.model: expected a string"),
            (json!("sk-secret"), "j: expected a map"),
            (json!({ "key": [] }), "j.key: expected a single value"),
        ] {
            let error = decode::<Entry>("j", &value).unwrap_err();
            assert_eq!(error.to_string(), text, "{value}");
        }
    }
}
