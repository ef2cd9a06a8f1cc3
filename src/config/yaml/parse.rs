//! Parses a document to values with positions.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{
    DuplicateKeyPolicy, Error, Location, MergeKeyPolicy, NonFiniteFloatPolicy, Spanned,
};

/// Line and column, both from 1.
pub(super) type Position = (usize, usize);

pub(super) enum Yaml {
    Plain(Value),
    /// Items with their positions.
    List(Vec<(Position, Yaml)>),
    /// Entries with the positions of their keys.
    Map(Vec<(Position, String, Yaml)>),
}

pub(super) fn parse(text: &str) -> Result<Yaml, Error> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        // Booleans and numbers of YAML 1.2: `yes`, `007` and `1_000` are texts.
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}

pub(super) fn position(at: &Location) -> Position {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    (number(at.line()), number(at.column()))
}

impl Yaml {
    /// Returns the position of the deepest existing part of a dotted path.
    pub(super) fn find(&self, dotted_path: &str) -> Option<Position> {
        let (mut value, mut found) = (self, None);
        for part in dotted_path.split('.') {
            let child = match value {
                Self::Plain(_) => None,
                Self::List(items) => {
                    let item = part.parse().ok().and_then(|index: usize| items.get(index));
                    item.map(|(at, value)| (*at, value))
                }
                Self::Map(entries) => {
                    let entry = entries.iter().find(|(_, key, _)| key == part);
                    entry.map(|(at, _, value)| (*at, value))
                }
            };
            let Some((at, child)) = child else { break };
            (value, found) = (child, Some(at));
        }
        found
    }
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Plain(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Yaml, E> {
        Ok(Yaml::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Yaml, E> {
        Ok(Yaml::Plain(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Yaml, E> {
        Ok(Yaml::Plain(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Yaml, E> {
        Ok(Yaml::Plain(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Yaml, E> {
        Ok(Yaml::Plain(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Yaml, A::Error> {
        let mut list = Vec::new();
        while let Some(Spanned {
            value, referenced, ..
        }) = items.next_element()?
        {
            list.push((position(&referenced), value));
        }
        Ok(Yaml::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Yaml, A::Error> {
        let mut map = Vec::new();
        while let Some((
            Spanned {
                value: key,
                referenced,
                ..
            },
            value,
        )) = entries.next_entry()?
        {
            map.push((position(&referenced), key, value));
        }
        Ok(Yaml::Map(map))
    }
}
