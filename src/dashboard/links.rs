//! Addresses on this site: its parts, and how a path and a query string are written.

use uuid::Uuid;

use crate::outbound::percent_encoded;

/// Messages of a conversation on a page.
pub(super) const MESSAGES: usize = 50;

/// The parts of the site, in the order of the head.
pub(super) const PARTS: &[(&str, &str)] = &[
    ("Sessions", "/sessions"),
    ("Annotate", "/annotate"),
    ("Rescore", "/rescore"),
    ("Batches", "/batches"),
    ("Compare", "/compare"),
    ("Insights", "/insights"),
    ("Criteria", "/criteria"),
    ("Queue", "/queue"),
    ("System", "/system"),
];

/// Whether a target is a path on this server. Browsers drop tabs and line ends from an address, and read `\` as `/`: with any of
/// those in it, what looks like a path may lead elsewhere.
pub(super) fn is_ours(to: &str) -> bool {
    let strange = |c: char| c == '\\' || c.is_control();
    to.starts_with('/') && !to.starts_with("//") && !to.contains(strange)
}

/// Where a form says that its sender goes afterwards, if that is ours.
pub(super) fn back(fields: &[(String, String)]) -> Option<&str> {
    let to = fields.iter().find(|(name, _)| name == "back");
    to.map(|(_, to)| to.trim()).filter(|to| is_ours(to))
}

/// Where a message stands in its conversation, by its number from 1.
pub(super) fn message_link(session: Uuid, no: usize) -> String {
    let from = no.saturating_sub(1) / MESSAGES * MESSAGES;
    format!("/sessions/{session}?from={from}#message-{no}")
}

/// A value as a part of a path.
pub(super) fn segment(text: &str) -> String {
    percent_encoded(text)
}

/// A query string of the pairs whose values aren't empty, with its `?`; empty without any.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    let query = query.finish();
    if query.is_empty() {
        query
    } else {
        format!("?{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_ours_only_as_a_path() {
        for ours in ["/", "/sessions?q=a%2F", "/sessions/1#x"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "//evil.example",
            "https://evil.example",
            "",
            "evil",
            "/\\evil",
            "/\t/evil.example/x",
            "/a\r\n/evil.example",
            "/\u{0}/evil.example",
            "/\u{7f}/evil.example",
            "/a\\..\\/evil",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn empty_fields_stay_out_of_a_query() {
        assert_eq!(query(&[("q", "a b&c"), ("tag", "")]), "?q=a+b%26c");
        assert_eq!(query(&[("tag", "")]), "");
        assert_eq!(segment("a b/c+d"), "a%20b%2Fc%2Bd");
    }
}
