//! Reads typed fields from a resolved YAML map. Substitution may have replaced numbers and booleans by text.

use std::collections::BTreeMap;

use gavel_rules::hint;
use serde_json::{Map, Value};

/// Error in `llm_providers.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ProvidersError {
    /// Dotted path of the key, used to find its line.
    pub path: String,
    pub message: String,
}

/// Map with its path, for errors that name the key.
pub(super) struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Checks that all keys are in `known`. An unknown key is an error with the closest known one.
    pub(super) fn new(
        path: &str,
        value: &'a Value,
        known: &[&str],
    ) -> Result<Self, ProvidersError> {
        let Value::Object(map) = value else {
            return Err(error(path, "expected a map".to_owned()));
        };
        for key in map.keys() {
            if !known.contains(&key.as_str()) {
                let path = format!("{path}.{key}");
                return Err(error(&path, unknown_key(key, known)));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            map,
        })
    }

    pub(super) fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    pub(super) fn error(&self, key: &str, message: impl Into<String>) -> ProvidersError {
        error(&self.path(key), message.into())
    }

    /// Returns the raw value. Null counts as absent.
    pub(super) fn raw(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Returns a trimmed text. Empty counts as absent. Errors don't contain the value, because it may be a key.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ProvidersError> {
        match self.raw(key) {
            None => Ok(None),
            Some(value) => scalar(value)
                .map(|text| Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
                .ok_or_else(|| self.error(key, "expected text")),
        }
    }

    pub(super) fn required(&self, key: &str) -> Result<String, ProvidersError> {
        self.text(key)?
            .ok_or_else(|| self.error(key, "is missing or empty"))
    }

    /// Returns a boolean, also from text.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ProvidersError> {
        match self.text(key)?.as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(self.error(key, "expected true or false")),
        }
    }

    /// Returns an integer of 0 or more, also from text.
    pub(super) fn count(&self, key: &str) -> Result<Option<u32>, ProvidersError> {
        self.parsed(key, "expected an integer of at least 0")
    }

    /// Returns a finite number of 0 or more, also from text.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, ProvidersError> {
        const EXPECTED: &str = "expected a number of 0 or more";
        match self.parsed::<f64>(key, EXPECTED)? {
            Some(number) if !number.is_finite() || number < 0.0 => Err(self.error(key, EXPECTED)),
            number => Ok(number),
        }
    }

    /// Returns a list of trimmed texts without empty ones.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, ProvidersError> {
        let Some(value) = self.raw(key) else {
            return Ok(Vec::new());
        };
        let expected = || self.error(key, "expected a list of texts");
        let list = value.as_array().ok_or_else(expected)?;
        let mut texts = Vec::new();
        for item in list {
            texts.push(scalar(item).ok_or_else(expected)?.trim().to_owned());
        }
        texts.retain(|text| !text.is_empty());
        Ok(texts)
    }

    pub(super) fn text_map(&self, key: &str) -> Result<BTreeMap<String, String>, ProvidersError> {
        let Some(value) = self.raw(key) else {
            return Ok(BTreeMap::new());
        };
        let expected = || self.error(key, "expected a map of texts");
        let mut texts = BTreeMap::new();
        for (name, value) in value.as_object().ok_or_else(expected)? {
            texts.insert(name.clone(), scalar(value).ok_or_else(expected)?);
        }
        Ok(texts)
    }

    pub(super) fn choice<T: Copy>(
        &self,
        key: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, ProvidersError> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(self.error(
                    key,
                    format!("unknown {key} {text:?}; known: {}", known.join(", ")),
                ))
            }
        }
    }

    fn parsed<T: std::str::FromStr>(
        &self,
        key: &str,
        expected: &str,
    ) -> Result<Option<T>, ProvidersError> {
        match self.text(key)? {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| self.error(key, expected)),
        }
    }
}

fn error(path: &str, message: String) -> ProvidersError {
    ProvidersError {
        path: path.to_owned(),
        message,
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Suggests a key for one with an extra part (`api_key`).
fn unknown_key(key: &str, known: &[&str]) -> String {
    let is_word = |name: &&str| key.split('_').any(|word| word == *name);
    match known.iter().copied().find(is_word) {
        Some(name) => format!("unknown key; did you mean {name}?"),
        None => format!("unknown key; {}", hint(key, known.iter().copied())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_key_error_suggests_a_key() {
        let known = ["key", "key_file", "base_url"];
        for (key, told) in [
            ("api_key", "unknown key; did you mean key?"),
            ("bas_url", "unknown key; did you mean base_url?"),
            ("max_retries", "unknown key; known: key, key_file, base_url"),
        ] {
            assert_eq!(unknown_key(key, &known), told);
        }
    }
}
