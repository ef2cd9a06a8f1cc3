//! Lines in a trimmed text that report the amount trimmed. Plain text when a text is trimmed again.

use crate::ModelFamily;

const MARK: &str = "=== trimmed to fit the judge's context window, the agent had it:";
/// Upper limit of tokens and messages, well above the limit of bodies.
const LONGEST: u64 = 99_999_999;

pub(super) fn is_mark(line: &str) -> bool {
    line.starts_with(MARK)
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
