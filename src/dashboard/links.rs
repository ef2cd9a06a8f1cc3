//! Addresses of this site: sections, paths and query strings.

use uuid::Uuid;

use crate::outbound::percent_encoded;

pub(super) const MESSAGES: usize = 50;

/// Sections in the order of the navigation.
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

/// Whether a target is a path on this server. Browsers drop tabs and line ends from an address and read `\` as `/`. A target that contains
/// any of them may lead to another host.
pub(super) fn is_local(to: &str) -> bool {
    let strange = |c: char| c == '\\' || c.is_control();
    to.starts_with('/') && !to.starts_with("//") && !to.contains(strange)
}

/// The form's `back` field, if it is a local path.
pub(super) fn back(fields: &[(String, String)]) -> Option<&str> {
    let to = fields.iter().find(|(name, _)| name == "back");
    to.map(|(_, to)| to.trim()).filter(|to| is_local(to))
}

/// Address of a message by its 1-based number.
pub(super) fn message_link(session: Uuid, no: usize) -> String {
    let from = no.saturating_sub(1) / MESSAGES * MESSAGES;
    format!("/sessions/{session}?from={from}#message-{no}")
}

pub(super) fn segment(text: &str) -> String {
    percent_encoded(text)
}

/// Query string of the pairs with a value, with leading `?`. Empty without pairs.
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
    fn only_local_paths_are_local() {
        for ours in ["/", "/sessions?q=a%2F", "/sessions/1#x"] {
            assert!(is_local(ours), "{ours}");
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
            assert!(!is_local(other), "{other}");
        }
    }

    #[test]
    fn query_omits_empty_values() {
        assert_eq!(query(&[("q", "a b&c"), ("tag", "")]), "?q=a+b%26c");
        assert_eq!(query(&[("tag", "")]), "");
        assert_eq!(segment("a b/c+d"), "a%20b%2Fc%2Bd");
    }
}
