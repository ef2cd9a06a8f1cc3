//! Masks output that differs between runs: generated ids, addresses, folders and measured durations.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

static IDS: LazyLock<Regex> = LazyLock::new(|| {
    let uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    Regex::new(&format!(r"\b(?:{uuid}|[0-9a-f]{{32}})\b")).unwrap()
});

/// Floats with last digits that depend on the order of summation.
static FRACTIONS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\d+\.\d{10,}\b").unwrap());

const CHOSEN: &str = "-0000-4000-8000-";

#[derive(Default)]
pub(crate) struct Mask {
    fixed: Vec<(String, String)>,
    patterns: Vec<(Regex, &'static str)>,
}

impl Mask {
    /// Replaces each occurrence of a text, which must not be empty.
    pub(crate) fn text(mut self, text: impl Into<String>, with: &str) -> Self {
        self.fixed.push((text.into(), with.to_owned()));
        self
    }

    pub(crate) fn pattern(mut self, pattern: &str, with: &'static str) -> Self {
        self.patterns.push((Regex::new(pattern).unwrap(), with));
        self
    }

    /// Returns the masked text. Generated ids are numbered in the order of first occurrence; ids chosen by tests stay.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (fixed, with) in &self.fixed {
            text = text.replace(fixed, with);
        }
        for (pattern, with) in &self.patterns {
            text = pattern.replace_all(&text, *with).into_owned();
        }
        let round = |number: &Captures<'_>| {
            let value: f64 = number[0].parse().unwrap();
            ((value * 1e9).round() / 1e9).to_string()
        };
        let text = FRACTIONS.replace_all(&text, round);
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let number = |id: &Captures<'_>| {
            if id[0].contains(CHOSEN) {
                return id[0].to_owned();
            }
            let next = numbers.len() + 1;
            format!("id-{}", numbers.entry(id[0].to_owned()).or_insert(next))
        };
        IDS.replace_all(&text, number).into_owned()
    }
}
