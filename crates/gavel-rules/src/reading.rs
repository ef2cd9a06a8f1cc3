//! Parses payload fields of any kind. Reports all errors at once, each with its pointer.

use serde_json::{Map, Value};

use super::Field;
use super::faults::{Faults, kind, pointer, shown};
use super::nearest::nearest;
use crate::Fault;
use query_shape::sql::{self, Dialect};

/// Maximum length of a text field, in bytes.
pub(super) const LONGEST_TEXT: usize = 64 * 1024;
/// Maximum length of a case's name, in characters.
const LONGEST_NAME: usize = 255;
/// Maximum number of fields per object, including notes: the same as the columns of a table. Bounds the comparisons of unknown names with
/// known ones.
pub const MAX_FIELDS: usize = 500;
const MOST_TEXTS: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    Snake,
    /// `generated_sql` or `generatedSql`, but not both.
    SnakeOrCamel,
}

impl Spelling {
    pub(super) fn accepts(self, field: &Field, name: &str) -> bool {
        field.name == name || self.other(field.name).as_deref() == Some(name)
    }

    fn other(self, name: &str) -> Option<String> {
        match self {
            Self::Snake => None,
            Self::SnakeOrCamel => Some(camel(name)),
        }
    }
}

/// Reader of a payload or of an object within it. Null counts as absent.
pub(super) struct ObjectReader<'a> {
    map: &'a Map<String, Value>,
    /// JSON pointer of the object; "" for the payload itself.
    place: String,
    spelling: Spelling,
    faults: Faults,
}

pub(super) struct FoundField<'a> {
    pub(super) pointer: String,
    /// The value; not null.
    pub(super) value: &'a Value,
}

impl<'a> ObjectReader<'a> {
    /// Starts with the field names of a payload. Reports a field with both spellings, and a likely typo of a known name. Other names are
    /// notes of the author and stay in the payload.
    pub(super) fn begin(
        payload: &'a Value,
        fields: &[Field],
        spelling: Spelling,
    ) -> Result<Self, Vec<Fault>> {
        let reading = Self::at(payload, String::new(), spelling, fields);
        reading.map_err(|fault| vec![fault])
    }

    /// Starts with the field names of the object at `place` in this payload. Finish with [`ObjectReader::adopt`].
    pub(super) fn within<'b>(
        &mut self,
        place: String,
        value: &'b Value,
        fields: &[Field],
    ) -> Option<ObjectReader<'b>> {
        match ObjectReader::at(value, place, self.spelling, fields) {
            Ok(within) => Some(within),
            Err(Fault { pointer, message }) => {
                self.fault(pointer, message);
                None
            }
        }
    }

    pub(super) fn adopt(&mut self, within: ObjectReader<'_>) {
        self.faults.adopt(within.faults);
    }

    fn at(
        value: &'a Value,
        place: String,
        spelling: Spelling,
        fields: &[Field],
    ) -> Result<Self, Fault> {
        let Value::Object(map) = value else {
            let message = format!("is {}; an object is expected", kind(value));
            return Err(Fault {
                pointer: place,
                message,
            });
        };
        if map.len() > MAX_FIELDS {
            let message = format!(
                "has {} fields; at most {MAX_FIELDS} are taken: leave some out",
                map.len()
            );
            return Err(Fault {
                pointer: place,
                message,
            });
        }
        let mut reading = Self {
            map,
            place,
            spelling,
            faults: Faults::default(),
        };
        reading.check_names(fields);
        Ok(reading)
    }

    fn check_names(&mut self, fields: &[Field]) {
        let map = self.map;
        let known: Vec<(&str, Option<String>)> = fields
            .iter()
            .map(|field| (field.name, self.spelling.other(field.name)))
            .collect();
        for key in map.keys() {
            let field = known
                .iter()
                .find(|(name, other)| name == key || other.as_ref() == Some(key));
            match field {
                None => {
                    let names = fields.iter().map(|field| field.name);
                    if !self.place.is_empty() || nearest(key, names.clone()).is_some() {
                        self.faults.add_unknown(&self.place, key, names);
                    }
                }
                Some((name, _)) if name != key && map.contains_key(*name) => {
                    let message =
                        format!("is {name} in another spelling, and both are given: leave one out");
                    self.fault(self.pointer(key), message);
                }
                Some(_) => {}
            }
        }
    }

    pub(super) fn pointer(&self, name: &str) -> String {
        format!("{}{}", self.place, pointer(name))
    }

    pub(super) fn value(&self, name: &str) -> Option<FoundField<'a>> {
        let (key, value) = self.map.get_key_value(name).or_else(|| {
            let other = self.spelling.other(name)?;
            self.map.get_key_value(&other)
        })?;
        (!value.is_null()).then(|| FoundField {
            pointer: self.pointer(key),
            value,
        })
    }

    pub(super) fn solid(&self, name: &str) -> Option<FoundField<'a>> {
        self.value(name).filter(|found| {
            let text = found.value.as_str();
            text.is_none_or(|text| !text.trim().is_empty())
        })
    }

    /// Parses text of at most [`LONGEST_TEXT`] bytes, untrimmed.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.text_of(name, LONGEST_TEXT)
    }

    pub(super) fn text_of(&mut self, name: &str, most: usize) -> Option<String> {
        let found = self.value(name)?;
        let Value::String(text) = found.value else {
            self.wrong(found, "text is expected");
            return None;
        };
        if text.len() > most {
            let message = format!(
                "is {} bytes long; at most {most} are taken: shorten it",
                text.len()
            );
            self.fault(found.pointer, message);
            return None;
        }
        Some(text.clone())
    }

    /// Parses text; blank counts as absent.
    pub(super) fn solid_text(&mut self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.trim().is_empty())
    }

    /// Parses a case's name: text of at most 255 characters, trimmed, or a number. Blank counts as absent.
    pub(super) fn name(&mut self, name: &str) -> Option<String> {
        let found = self.value(name)?;
        if let Value::Number(number) = found.value {
            return Some(number.to_string());
        }
        let text = self.solid_text(name)?;
        let text = text.trim();
        if text.chars().count() > LONGEST_NAME {
            let message = format!("is longer than {LONGEST_NAME} characters: shorten it");
            self.fault(found.pointer, message);
            return None;
        }
        Some(text.to_owned())
    }

    /// Parses a boolean or its text in any case, because spreadsheets write TRUE into CSV cells and Python scripts True. Blank counts as
    /// absent.
    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        let found = self.solid(name)?;
        let truth = match found.value {
            Value::Bool(truth) => Some(*truth),
            Value::String(text) => text.trim().to_ascii_lowercase().parse().ok(),
            Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        };
        if truth.is_none() {
            self.wrong(found, "true or false is expected");
        }
        truth
    }

    pub(super) fn share(&mut self, name: &str) -> Option<f64> {
        let found = self.value(name)?;
        let share = found
            .value
            .as_f64()
            .filter(|share| (0.0..=1.0).contains(share));
        if share.is_none() {
            self.wrong(found, "a number from 0 to 1 is expected");
        }
        share
    }

    /// Parses a list; `expected` describes its entries in errors.
    pub(super) fn list(&mut self, name: &str, expected: &str) -> Option<(String, &'a [Value])> {
        let found = self.value(name)?;
        let Value::Array(entries) = found.value else {
            self.wrong(found, &format!("a list of {expected} is expected"));
            return None;
        };
        Some((found.pointer, entries))
    }

    /// Parses a list of texts of at most [`LONGEST_TEXT`] bytes in total.
    pub(super) fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        let (pointer, entries) = self.list(name, "texts")?;
        if entries.len() > MOST_TEXTS {
            let message = format!(
                "has {} entries; at most {MOST_TEXTS} are taken: leave some out",
                entries.len()
            );
            self.fault(pointer, message);
            return None;
        }
        let mut texts = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            match entry.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => {
                    let at = format!("{pointer}/{at}");
                    self.fault(at, format!("is {}; text is expected", shown(entry)));
                }
            }
        }
        let bytes: usize = texts.iter().map(String::len).sum();
        if bytes > LONGEST_TEXT {
            let message =
                format!("holds {bytes} bytes; at most {LONGEST_TEXT} are taken: shorten it");
            self.fault(pointer, message);
            return None;
        }
        Some(texts)
    }

    pub(super) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let found = self.solid(name)?;
        let chosen = found.value.as_str().map(str::trim).and_then(|text| {
            let mut choices = choices.iter();
            choices.find(|(word, _)| word.eq_ignore_ascii_case(text))
        });
        if chosen.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.wrong(found, &format!("one of {} is expected", words.join(", ")));
        }
        chosen.map(|(_, choice)| *choice)
    }

    /// Parses an SQL dialect in any case; absent means generic.
    pub(super) fn dialect(&mut self, name: &str) -> Dialect {
        let Some(found) = self.solid(name) else {
            return Dialect::default();
        };
        let word = found
            .value
            .as_str()
            .map(|text| text.trim().to_ascii_lowercase());
        let dialect = word.and_then(|word| serde_json::from_value(Value::String(word)).ok());
        dialect.unwrap_or_else(|| {
            let words = Dialect::ALL.map(Dialect::name).join(", ");
            self.wrong(found, &format!("one of {words} is expected"));
            Dialect::default()
        })
    }

    /// Reports an `expected_sql` without a query.
    pub(super) fn check_expected_sql(&mut self, sql: Option<&str>, dialect: Dialect) {
        if sql.is_some_and(|sql| sql::is_nothing(sql, dialect)) {
            let at = self.pointer("expected_sql");
            self.fault(
                at,
                "has only comments: give the query that is right, or leave it out",
            );
        }
    }

    /// Reports a missing required field, unless it has another error.
    pub(super) fn missing(&mut self, name: &str, expected: &str) {
        let pointer = self
            .value(name)
            .map_or_else(|| self.pointer(name), |found| found.pointer);
        if !self.faults.has_fault_at(&pointer) {
            self.fault(pointer, format!("is missing; {expected} is expected"));
        }
    }

    pub(super) fn wrong(&mut self, found: FoundField<'_>, expected: &str) {
        let message = format!("is {}; {expected}", shown(found.value));
        self.fault(found.pointer, message);
    }

    pub(super) fn fault(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        self.faults.add(pointer, message);
    }

    pub(super) fn finish(self) -> Result<(), Vec<Fault>> {
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(self.faults.into_list())
        }
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests;
