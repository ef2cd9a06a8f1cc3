//! Names of columns: when two are the same, and how much of an expected schema is there. Never looks at a value.

use std::collections::HashSet;

/// The pairs of marks that may stand around a name.
const QUOTES: &[(&str, &str)] = &[
    ("['", "']"),
    ("[\"", "\"]"),
    ("[", "]"),
    ("\"", "\""),
    ("`", "`"),
];

/// How much of an expected schema is there.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaMatch {
    /// 1 − missing / expected, over distinct names; 1.0 if none is expected.
    pub score: f64,
    /// Expected names that were found, as the expected side spells them.
    pub matched: Vec<String>,
    /// Expected names that weren't.
    pub missing: Vec<String>,
    /// Names that nobody expected, as the generated side spells them. They cost nothing.
    pub extra: Vec<String>,
}

/// Compares the names of columns: trimmed, without quotes (`['a b']`, `"a"`, `[a]`), in any case and order. A name that is
/// there twice counts once.
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

/// The name that is compared: trimmed, without one pair of quotes, lower-cased.
pub(super) fn normal(raw: &str) -> String {
    let trimmed = raw.trim();
    let unquoted = QUOTES
        .iter()
        .find_map(|(open, close)| trimmed.strip_prefix(open)?.strip_suffix(close));
    unquoted.unwrap_or(trimmed).trim().to_lowercase()
}

/// `part / whole`; 1.0 of nothing.
pub(super) fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 1.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let share = part as f64 / whole as f64;
    share
}

/// The normal names with their first spellings, in order.
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
