//! Lines in a trimmed text that report the amount trimmed. Parsed when a text is trimmed again.

use crate::ModelFamily;

const MARK: &str = "=== trimmed to fit the judge's context window, the agent had it:";
/// Upper limit of tokens and messages, well above the limit of bodies.
const LONGEST: u64 = 99_999_999;

pub(super) fn is_mark(line: &str) -> bool {
    line.starts_with(MARK)
}

pub(super) fn is_of_messages(line: &str) -> bool {
    line.strip_prefix(MARK)
        .is_some_and(|rest| rest.starts_with(" messages "))
}

/// Mark inside a cut message, on a separate line, with dots at both ends of the cut.
pub(super) fn of_tokens(gone: u64) -> String {
    format!("…\n{MARK} about {gone} tokens\n…")
}

/// Mark that replaces the messages from `first` to `last`.
pub(super) fn of_messages((first, last): (u64, u64), gone: u64) -> String {
    format!("\n{MARK} messages {first} to {last}, about {gone} tokens\n")
}

pub(super) fn most_tokens(family: ModelFamily) -> u64 {
    let inside = family.tokens(&of_tokens(LONGEST));
    inside.max(family.tokens(&of_messages((LONGEST, LONGEST), LONGEST)))
}

/// Returns the byte range of an earlier cut's mark in a message, including its dots.
pub(super) fn find(body: &str) -> Option<(usize, usize)> {
    let from = body.find(&format!("\n{MARK}"))? + 1;
    let to = from + body[from..].find('\n')? + 1;
    let before = from.saturating_sub("…\n".len());
    let from = match body.get(before..from) {
        Some("…\n") => before,
        Some(_) | None => from,
    };
    let dots = if body[to..].starts_with('…') {
        "…".len()
    } else {
        0
    };
    Some((from, to + dots))
}

pub(super) fn trimmed_tokens(mark: &str) -> u64 {
    mark.rsplit("about ").next().map_or(0, number)
}

pub(super) fn messages(line: &str) -> (u64, u64) {
    let numbers = line
        .strip_prefix(MARK)
        .and_then(|rest| rest.strip_prefix(" messages "));
    let (first, rest) = numbers
        .and_then(|rest| rest.split_once(" to "))
        .unwrap_or(("0", "0"));
    (number(first), number(rest))
}

pub(super) fn number(text: &str) -> u64 {
    let digits = text.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_round_trip() {
        let inside = format!("head{}tail", of_tokens(1234));
        let (from, to) = find(&inside).unwrap();
        assert_eq!((&inside[..from], &inside[to..]), ("head", "tail"));
        assert_eq!(trimmed_tokens(&inside[from..to]), 1234);
        assert_eq!(find("no mark\nat all\n"), None);

        let out = of_messages((7, 12), 99);
        let line = out.trim_start();
        assert!(is_mark(line) && is_of_messages(line));
        assert_eq!((messages(line), trimmed_tokens(line)), ((7, 12), 99));
        assert!(!is_of_messages(&inside));
    }
}
