//! Replaces what differs from run to run: generated ids, addresses, folders, durations that were measured.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// UUIDs, and 32 random hexadecimal digits.
static IDS: LazyLock<Regex> = LazyLock::new(|| {
    let uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    Regex::new(&format!(r"\b(?:{uuid}|[0-9a-f]{{32}})\b")).unwrap()
});

/// Numbers whose last digits depend on the order in which they were summed up.
static FRACTIONS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\d+\.\d{10,}\b").unwrap());

/// What the ids have that tests choose.
const CHOSEN: &str = "-0000-4000-8000-";

/// Masks texts of one run.
#[derive(Default)]
pub(crate) struct Mask {
    fixed: Vec<(String, String)>,
    patterns: Vec<(Regex, &'static str)>,
}

impl Mask {
    /// Replaces this text, which must not be empty, wherever it occurs.
    pub(crate) fn text(mut self, text: impl Into<String>, with: &str) -> Self {
        self.fixed.push((text.into(), with.to_owned()));
        self
    }

    /// Replaces what fits this regular expression.
    pub(crate) fn pattern(mut self, pattern: &str, with: &'static str) -> Self {
        self.patterns.push((Regex::new(pattern).unwrap(), with));
        self
    }

    /// The masked text. Ids that tests don't choose are numbered in the order of their first occurrence.
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
