//! Formats counts, shares, durations and long texts for API bodies, pages and the command line.

use std::borrow::Cow;

use chrono::{DateTime, Utc};

/// Formats a number with thousands separators.
pub fn grouped(n: impl TryInto<i128>) -> String {
    // No count is larger.
    let n = n.try_into().unwrap_or(i128::MAX);
    let digits = n.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if n < 0 { format!("-{text}") } else { text }
}

/// Formats a count with a noun: `1 score`, `1,200 scores`. Only for nouns with a plural s.
pub fn counted(n: impl TryInto<i128>, one: &str) -> String {
    let n = n.try_into().unwrap_or(i128::MAX);
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {one}{plural}", grouped(n))
}

/// Removes the line from a JSON parser's error, because callers print the item's own line. Keeps the column.
pub fn json_fault(fault: &str) -> String {
    match fault.rsplit_once(" at line ") {
        Some((what, place)) => match place.split_once(" column ") {
            Some(("1", column)) => format!("{what} at its character {column}"),
            Some(_) | None => fault.to_owned(),
        },
        None => fault.to_owned(),
    }
}

/// Joins names with commas and "or": `query, qas or session`.
pub fn one_of(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    let mut text = String::new();
    for (at, name) in names.iter().enumerate() {
        text.push_str(match at {
            0 => "",
            at if at + 1 == names.len() => " or ",
            _ => ", ",
        });
        text.push_str(name.as_ref());
    }
    text
}

/// Formats a share of 0-1 as a percentage with at most one decimal: `92.5%`.
pub fn percent(share: f64) -> String {
    format!("{}%", (share * 1000.0).round() / 10.0)
}

/// Formats seconds: `12 s`, `10 min`, `2.5 h`, `3.0 days`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{:.0} s", s.max(1.0)),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Formats a time to the second. Absolute, because pages stay open.
pub fn time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Truncates a text to `most` characters and marks the cut with `…`.
pub fn clip(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_error_keeps_only_the_column() {
        for (fault, said) in [
            (
                "EOF while parsing at line 1 column 27",
                "EOF while parsing at its character 27",
            ),
            (
                "expected `:` at line 3 column 5",
                "expected `:` at line 3 column 5",
            ),
            ("too deep", "too deep"),
        ] {
            assert_eq!(json_fault(fault), said);
        }
    }

    #[test]
    fn formats_plurals_and_thousands() {
        for (n, said) in [
            (0, "0 scores"),
            (1, "1 score"),
            (1_200, "1,200 scores"),
            (-1_000_000, "-1,000,000 scores"),
        ] {
            assert_eq!(counted(n, "score"), said);
        }
    }

    #[test]
    fn joins_last_name_with_or() {
        for (names, said) in [
            (vec![], ""),
            (vec!["a"], "a"),
            (vec!["a", "b"], "a or b"),
            (vec!["a", "b", "c"], "a, b or c"),
        ] {
            assert_eq!(one_of(names), said);
        }
    }

    #[test]
    fn formats_durations_in_fitting_unit() {
        for (seconds, words) in [
            (0.0, "1 s"),
            (0.4, "1 s"),
            (89.0, "89 s"),
            (600.0, "10 min"),
            (9_000.0, "2.5 h"),
            (259_200.0, "3.0 days"),
        ] {
            assert_eq!(duration(seconds), words);
        }
    }

    #[test]
    fn clips_at_character_boundary() {
        assert_eq!(clip("größer", 3), "grö…");
        assert_eq!(clip("größer", 6), "größer");
    }

    #[test]
    fn percent_omits_zero_decimal() {
        for (share, said) in [(0.9254, "92.5%"), (1.0, "100%"), (0.0, "0%")] {
            assert_eq!(percent(share), said);
        }
    }
}
