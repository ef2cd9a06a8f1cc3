//! Formats values for pages: times, counts, money, states.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use uuid::Uuid;

use crate::job::Kind;
use crate::wire::Rating;
pub(super) use crate::wire::words::{counted, duration, grouped, one_of, percent};

/// The API stops counting here.
const MAX_COUNT: i64 = 10_000;

/// Formats a count; `10,000+` if the API stopped counting.
pub(super) fn count(n: i64) -> String {
    if n >= MAX_COUNT {
        format!("{}+", grouped(MAX_COUNT))
    } else {
        grouped(n)
    }
}

/// Formats US dollars with two decimals, four below a dollar. `None` is an unknown price.
pub(super) fn usd(cost: Option<f64>) -> String {
    match cost {
        None => "no price known".to_owned(),
        Some(cost) if cost.abs() >= 1.0 || cost == 0.0 => format!("{cost:.2} USD"),
        Some(cost) => format!("{cost:.4} USD"),
    }
}

/// Like [`usd`], but a lower bound if some calls have no price.
pub(super) fn usd_at_least(cost: Option<f64>, unpriced: i64) -> String {
    match cost {
        Some(known) if unpriced > 0 && known > 0.0 => format!("more than {}", usd(cost)),
        // All calls are without a price.
        Some(_) if unpriced > 0 => usd(None),
        Some(_) | None => usd(cost),
    }
}

/// A time for users, and the exact one for machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timestamp {
    /// RFC 3339, for `<time datetime>`.
    pub(super) exact: String,
    /// `2026-11-22 14:39 UTC`.
    pub(super) plain: String,
    /// `3 min ago`.
    pub(super) ago: String,
}

pub(super) fn timestamp(at: DateTime<Utc>, now: DateTime<Utc>) -> Timestamp {
    Timestamp {
        exact: at.to_rfc3339_opts(SecondsFormat::Secs, true),
        plain: at.format("%Y-%m-%d %H:%M UTC").to_string(),
        ago: ago(at, now),
    }
}

/// Formats an RFC 3339 time, to the second. Other text is returned unchanged.
pub(super) fn written(text: &str) -> String {
    DateTime::parse_from_rfc3339(text).map_or_else(
        |_| text.to_owned(),
        |at| at.to_utc().format("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// Ages below this are "just now".
pub(super) const JUST_NOW: TimeDelta = TimeDelta::seconds(10);

fn ago(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let seconds = (now - at).num_seconds();
    let (size, ahead) = (seconds.unsigned_abs(), seconds < 0);
    let text = match size {
        0..=9 if ahead => return "in a moment".to_owned(),
        0..=9 => return "just now".to_owned(),
        10..=59 => format!("{size} s"),
        60..=3_599 => format!("{} min", size / 60),
        3_600..=86_399 => format!("{} h", size / 3_600),
        86_400..=2_591_999 => format!("{} d", size / 86_400),
        _ => return at.format("%Y-%m-%d").to_string(),
    };
    if ahead {
        format!("in {text}")
    } else {
        format!("{text} ago")
    }
}

/// Formats a difference in points of 100 with its sign: `+2.5`.
pub(super) fn points(difference: f64) -> String {
    let points = (difference * 10.0).round() / 10.0;
    match points {
        p if p > 0.0 => format!("+{p}"),
        p if p < 0.0 => format!("−{}", p.abs()),
        _ => "0".to_owned(),
    }
}

pub(super) fn short(hash: &str) -> &str {
    hash.get(..8).unwrap_or(hash)
}

/// Shortens an id to its first 8 and last 4 digits. The first ones contain the time and are equal for ids created together; the last are
/// random.
pub(super) fn short_id(id: &Uuid) -> String {
    let text = id.simple().to_string();
    let (head, tail) = (text.get(..8), text.get(28..));
    format!("{}…{}", head.unwrap_or_default(), tail.unwrap_or_default())
}

/// Splits a name at possible line breaks: before each hump of `CoreDNSLatencyHigh`, after `_`, `.`, `/` and `:`. The joined pieces equal
/// the name.
pub(super) fn pieces(name: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut from, mut before) = (0, None::<char>);
    let mut rest = name.char_indices().peekable();
    while let Some((at, this)) = rest.next() {
        let next_is_small = rest.peek().is_some_and(|(_, next)| next.is_lowercase());
        let breaks = before.is_some_and(|before| {
            matches!(before, '_' | '.' | '/' | ':')
                || this.is_uppercase()
                    && (before.is_lowercase() || before.is_uppercase() && next_is_small)
        });
        if breaks {
            pieces.push(name.get(from..at).unwrap_or_default());
            from = at;
        }
        before = Some(this);
    }
    pieces.push(name.get(from..).unwrap_or_default());
    pieces
}

/// Removes bidirectional control characters for a tab's title, because they would affect the surrounding text.
pub(super) fn straight(text: &str) -> String {
    let is_direction = |c: &char| matches!(c, '\u{200E}' | '\u{200F}' | '\u{061C}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(|c| !is_direction(c)).collect()
}

/// Formats an identifier as a heading: `judge_prompt` is `Judge prompt`.
pub(super) fn heading(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    let heading: String = first.into_iter().chain(chars).collect();
    heading.replace('_', " ")
}

pub(super) fn clip(text: &str, most: usize) -> String {
    crate::wire::words::clip(text, most).into_owned()
}

pub(super) fn count_of(n: usize) -> String {
    grouped(u64::try_from(n).unwrap_or(u64::MAX))
}

/// Formats a size: `512 bytes`, `3,584 KB`.
pub(super) fn bytes(n: usize) -> String {
    match n {
        0..=1_023 => counted(i64::try_from(n).unwrap_or(i64::MAX), "byte"),
        n => format!("{} KB", count_of(n.div_ceil(1_024))),
    }
}

pub(super) fn rating(total: u8) -> (&'static str, &'static str) {
    match Rating::from_total(total) {
        Rating::Failed => ("failed", "failed"),
        Rating::Weak => ("weak", "weak"),
        Rating::Adequate => ("adequate", "adequate"),
        Rating::Good => ("good", "good"),
        Rating::NearPerfect => ("near perfect", "near-perfect"),
    }
}

pub(super) fn kinds(kinds: &[Kind]) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    names.join(", ").replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_time_text_is_unchanged() {
        for (text, shown) in [
            (
                "2026-02-19T23:15:31.799375762+01:00",
                "2026-02-19 22:15:31 UTC",
            ),
            ("yesterday", "yesterday"),
        ] {
            assert_eq!(written(text), shown);
        }
    }

    #[test]
    fn counts_have_separators_and_a_maximum() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (-1_234_567, "-1,234,567"),
        ] {
            assert_eq!(grouped(n), text);
        }
        assert_eq!(count(9_999), "9,999");
        assert_eq!(count(10_000), "10,000+");
    }

    #[test]
    fn unknown_price_is_not_zero() {
        assert_eq!(usd(None), "no price known");
        assert_eq!(usd(Some(0.0)), "0.00 USD");
        assert_eq!(usd(Some(0.012_34)), "0.0123 USD");
        assert_eq!(usd(Some(12.345)), "12.35 USD");
        for (cost, unpriced, text) in [
            (Some(6.5), 0, "6.50 USD"),
            (Some(6.5), 2, "more than 6.50 USD"),
            (Some(0.0), 0, "0.00 USD"),
            (Some(0.0), 2, "no price known"),
            (None, 2, "no price known"),
        ] {
            assert_eq!(usd_at_least(cost, unpriced), text);
        }
    }

    #[test]
    fn formats_point_differences() {
        for (difference, text) in [(2.54, "+2.5"), (-2.0, "−2"), (0.01, "0")] {
            assert_eq!(points(difference), text);
        }
    }

    #[test]
    fn short_ids_differ_in_their_last_digits() {
        let id = |text: &str| Uuid::parse_str(text).unwrap();
        assert_eq!(
            short_id(&id("01983c57-c9aa-7d11-a0f3-55b1c2d3e403")),
            "01983c57…e403"
        );
    }

    #[test]
    fn formats_relative_times() {
        let now: DateTime<Utc> = "2026-11-22T12:00:00Z".parse().unwrap();
        for (at, text) in [
            ("2026-11-22T11:59:55Z", "just now"),
            ("2026-11-22T11:57:00Z", "3 min ago"),
            ("2026-11-22T09:00:00Z", "3 h ago"),
            ("2026-11-20T12:00:00Z", "2 d ago"),
            ("2026-11-22T12:00:30Z", "in 30 s"),
            ("2026-01-02T12:00:00Z", "2026-01-02"),
        ] {
            assert_eq!(ago(at.parse().unwrap(), now), text, "{at}");
        }
    }

    #[test]
    fn ratings_match_rule_boundaries() {
        for (from, to, word, colour) in [
            (0, 44, "failed", "failed"),
            (45, 59, "weak", "weak"),
            (60, 74, "adequate", "adequate"),
            (75, 89, "good", "good"),
            (90, 100, "near perfect", "near-perfect"),
        ] {
            assert_eq!(rating(from), (word, colour), "{from}");
            assert_eq!(rating(to), (word, colour), "{to}");
        }
    }

    #[test]
    fn titles_have_no_bidi_controls() {
        assert_eq!(
            straight("a\u{202E}b\u{2066}c\u{200F}\u{05D0}"),
            "abc\u{05D0}"
        );
        assert_eq!(heading("judge_prompt"), "Judge prompt");
        assert_eq!(heading(""), "");
    }

    #[test]
    fn names_split_between_words() {
        for (name, cut) in [
            ("CoreDNSLatencyHigh", "Core|DNS|Latency|High"),
            ("cart_service.p99:high", "cart_|service.|p99:|high"),
            ("pod-crash", "pod-crash"),
            ("ÄÖü", "Ä|Öü"),
            ("A", "A"),
            ("", ""),
        ] {
            assert_eq!(pieces(name).join("|"), cut);
            assert_eq!(pieces(name).concat(), name);
        }
    }
}
