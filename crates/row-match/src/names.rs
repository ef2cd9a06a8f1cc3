//! Column names: equality, and coverage of an expected schema. Values are ignored.

use std::collections::HashSet;

const QUOTES: &[(&str, &str)] = &[
    ("['", "']"),
    ("[\"", "\"]"),
    ("[", "]"),
    ("\"", "\""),
    ("`", "`"),
];

/// Coverage of an expected schema.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaMatch {
    /// 1 − missing / expected, over distinct names; 1.0 if the expected schema is empty.
    pub score: f64,
    /// Expected names found, in the expected spelling.
    pub matched: Vec<String>,
    /// Expected names not found.
    pub missing: Vec<String>,
    /// Unexpected names in the generated spelling. They don't affect the score.
    pub extra: Vec<String>,
}

/// Compares column names in any order: trimmed, unquoted (`['a b']`, `"a"`, `[a]`), case-insensitive. Duplicate names count once.
#[must_use]
pub fn schema_match(expected: &[String], generated: &[String]) -> SchemaMatch {
    let expected_names = distinct(expected);
    let generated_names = distinct(generated);
    let among = |names: &[(String, &String)]| -> HashSet<String> {
        names.iter().map(|(name, _)| name.clone()).collect()
    };
    let (wanted, found) = (among(&expected_names), among(&generated_names));
    let (matched, missing): (Vec<_>, Vec<_>) = expected_names
        .into_iter()
        .partition(|(name, _)| found.contains(name));
    let extra = generated_names
        .into_iter()
        .filter(|(name, _)| !wanted.contains(name));
    SchemaMatch {
        score: share(matched.len(), wanted.len()),
        matched: spelled(matched),
        missing: spelled(missing),
        extra: spelled(extra),
    }
}

/// Normalizes a name: trimmed, without one pair of quotes, in lower case.
pub(super) fn normal(raw: &str) -> String {
    let trimmed = raw.trim();
    let unquoted = QUOTES
        .iter()
        .find_map(|(open, close)| trimmed.strip_prefix(open)?.strip_suffix(close));
    unquoted.unwrap_or(trimmed).trim().to_lowercase()
}

/// `part / whole`, or 1.0 if `whole` is 0.
pub(super) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 1.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let share = part as f64 / whole as f64;
    share
}

/// Normalized names with their first spellings, in order.
fn distinct(names: &[String]) -> Vec<(String, &String)> {
    let mut seen = HashSet::new();
    names
        .iter()
        .map(|raw| (normal(raw), raw))
        .filter(|(name, _)| seen.insert(name.clone()))
        .collect()
}

fn spelled<'a>(names: impl IntoIterator<Item = (String, &'a String)>) -> Vec<String> {
    names.into_iter().map(|(_, raw)| raw.clone()).collect()
}
