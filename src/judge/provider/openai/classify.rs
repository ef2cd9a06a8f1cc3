//! What the errors of chat completions mean, beyond their status; servers word them differently.

use crate::judge::error::ErrorClass;
use crate::judge::provider::refusal::Said;

/// Whether a 429 says that waiting won't help.
pub(super) fn used_up(said: &Said) -> bool {
    said.is("insufficient_quota")
        || said.is("billing_hard_limit_reached")
        || said.is("budget_exceeded")
        // A limit per day is named in words alone.
        || said.mentions(&["exceeded your current quota", "per day", "(rpd)", "(tpd)"])
}

/// The class of a 400 or 422 that is known by its words.
pub(super) fn bad_request(said: &Said) -> Option<ErrorClass> {
    if too_large(said) {
        return Some(ErrorClass::TooLarge);
    }
    // A reasoning model that spent the whole cap before its first word: no field is at fault, though one is named.
    if said.mentions(&["model output limit was reached"]) {
        return Some(ErrorClass::Truncated);
    }
    if said.is("content_filter") || said.is("content_policy_violation") {
        return Some(ErrorClass::Refused);
    }
    if said.is("model_not_found") || said.is("invalid_api_key") {
        return Some(ErrorClass::Misconfigured);
    }
    let spent = said.is("insufficient_quota") || said.is("budget_exceeded");
    spent.then_some(ErrorClass::Exhausted)
}

fn too_large(said: &Said) -> bool {
    said.is("context_length_exceeded")
        || said.is("exceed_context_size_error")
        || said.mentions(&[
            "maximum context length",
            "context window",
            "context length",
            "context size",
            "prompt is too long",
        ])
}
