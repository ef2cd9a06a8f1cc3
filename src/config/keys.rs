//! Closed list of setting keys: those in `default.toml` plus a path per kind's criteria, with their value shapes and environment variables.

use std::collections::BTreeMap;

use config::builder::DefaultState;
use config::{Config, ConfigBuilder, ConfigError, FileFormat, Map, Source as _, Value, ValueKind};

use crate::job::Kind;

pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// Variables without the `GAVEL_` prefix. The prefixed name of the key wins.
pub(super) const ALIASES: [(&str, &str); 4] = [
    ("DATABASE_URL", "database.url"),
    ("REDIS_URL", "redis.url"),
    ("DEFAULT_LLM_PROVIDER", "default_llm_provider"),
    ("RUST_LOG", "log.filter"),
];

/// `GAVEL_` variables that aren't settings: client variables, the path of the settings file, and one allowed in criteria and judges'
/// files.
pub(super) const OTHER_VARIABLES: [&str; 4] = [
    "GAVEL_CONFIG",
    "GAVEL_SERVER",
    "GAVEL_TOKEN",
    "GAVEL_SIMULATED_URL",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Whole,
    Number,
    Switch,
    List,
    Tables,
}

/// The only list of tables. In the defaults it is empty, so its type can't be derived.
const TABLES: &str = "webhooks.endpoints";

impl Shape {
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Text => "a text in quotes",
            Self::Whole => "an integer of at least 0, without quotes",
            Self::Number => "a number, without quotes",
            Self::Switch => "true or false, without quotes",
            Self::List => "a list of texts, as in [\"a\", \"b\"]",
            Self::Tables => {
                "a table for each ([[webhooks.endpoints]]); in a variable a JSON list of objects"
            }
        }
    }

    fn from_value(value: &ValueKind) -> Option<Self> {
        match value {
            ValueKind::String(_) => Some(Self::Text),
            ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_) => {
                Some(Self::Whole)
            }
            ValueKind::Float(_) => Some(Self::Number),
            ValueKind::Boolean(_) => Some(Self::Switch),
            ValueKind::Array(_) => Some(Self::List),
            ValueKind::Nil | ValueKind::Table(_) => None,
        }
    }

    pub(super) fn fits(self, value: &ValueKind) -> bool {
        match (self, value) {
            (Self::List, ValueKind::Array(items)) => items
                .iter()
                .all(|item| matches!(item.kind, ValueKind::String(_))),
            (Self::Tables, ValueKind::Array(items)) => items
                .iter()
                .all(|item| matches!(item.kind, ValueKind::Table(_))),
            (Self::Whole, ValueKind::I64(number)) => *number >= 0,
            (Self::Number, _) => {
                matches!(Self::from_value(value), Some(Self::Number | Self::Whole))
            }
            (_, _) => Self::from_value(value) == Some(self),
        }
    }

    /// Parses a text of the environment or command line. Lists are separated by whitespace.
    pub(super) fn read(self, text: &str) -> Result<ValueKind, &'static str> {
        let text = text.trim();
        match self {
            Self::Text => Ok(ValueKind::String(text.to_owned())),
            Self::Whole => text
                .parse()
                .ok()
                .filter(|number| *number >= 0)
                .map(ValueKind::I64)
                .ok_or("is not an integer of at least 0"),
            Self::Number => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(ValueKind::Float(number)),
                Ok(_) | Err(_) => Err("is not a number"),
            },
            Self::Switch => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(ValueKind::Boolean(true)),
                "false" | "0" | "no" | "off" => Ok(ValueKind::Boolean(false)),
                _ => Err("is not true or false"),
            },
            Self::List => Ok(ValueKind::Array(
                text.split_whitespace()
                    .map(|item| Value::new(None, item))
                    .collect(),
            )),
            Self::Tables => serde_json::from_str(text)
                .map(ValueKind::Array)
                .ok()
                .filter(|tables| self.fits(tables))
                .ok_or("is not a JSON list of objects"),
        }
    }
}

/// Returns the lowest layer: every key with its default.
pub(super) fn defaults() -> Result<ConfigBuilder<DefaultState>, ConfigError> {
    let mut layer = Config::builder();
    for kind in Kind::ALL.iter().filter(|kind| kind.is_case()) {
        layer = layer.set_default(format!("criteria.{}", kind.as_str()), "")?;
    }
    Ok(layer.add_source(config::File::from_str(DEFAULT_TOML, FileFormat::Toml)))
}

pub(super) fn keys() -> BTreeMap<String, Shape> {
    let defaults = defaults()
        .and_then(|layer| layer.build()?.collect())
        .unwrap_or_default(); // a test parses the embedded file
    flatten(defaults)
        .into_iter()
        .filter_map(|(key, value)| match key.as_str() {
            TABLES => Some((key, Shape::Tables)),
            _ => Some((key, Shape::from_value(&value)?)),
        })
        .collect()
}

/// Flattens tables to dotted paths. Empty tables are omitted.
pub(super) fn flatten(table: Map<String, Value>) -> BTreeMap<String, ValueKind> {
    let mut leaves = BTreeMap::new();
    let mut open = vec![(String::new(), table)];
    while let Some((prefix, table)) = open.pop() {
        for (name, value) in table {
            let key = if prefix.is_empty() {
                name
            } else {
                format!("{prefix}.{name}")
            };
            if let ValueKind::Table(inner) = value.kind {
                open.push((key, inner));
            } else {
                leaves.insert(key, value.kind);
            }
        }
    }
    leaves
}

pub(super) fn variable(key: &str) -> String {
    format!("GAVEL_{}", key.to_ascii_uppercase().replace('.', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_keys_have_shapes_and_unique_variables() {
        let keys = keys();
        assert!(keys.len() > 30, "{}", keys.len());
        assert_eq!(keys["worker.concurrency"], Shape::Whole);
        assert_eq!(keys["worker.lease_s"], Shape::Number);
        assert_eq!(keys["auth.tokens"], Shape::List);
        assert_eq!(keys["auth.insecure_no_auth"], Shape::Switch);
        assert_eq!(keys["bind"], Shape::Text);
        assert_eq!(keys["criteria.sql_metrics"], Shape::Text);
        assert_eq!(variable("worker.concurrency"), "GAVEL_WORKER_CONCURRENCY");
        let variables: std::collections::BTreeSet<String> =
            keys.keys().map(|key| variable(key)).collect();
        assert_eq!(variables.len(), keys.len(), "two keys share a variable");
    }
}
