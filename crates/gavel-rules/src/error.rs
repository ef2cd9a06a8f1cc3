//! Error classes shared by all providers. The class determines retries and lane handling, so every match is exhaustive.

use std::time::Duration;

use gavel_wire::text_enum;

use crate::{Fault, Reply};

text_enum! {
    /// Class of a judge error. `gavel-judge/src/provider/meaning.rs` maps responses to classes; `retry.rs` implements the handling of each
    /// class.
    pub enum ErrorClass {
        /// Connect, reset, timeout, 408, 409, 424, 425, 500, 502, 503, 504, 529: retried after 1, 2, 4 s; counts for the breaker.
        Transient = "transient",
        /// 429: waits for Retry-After without using up a retry; above 10 s the job waits.
        Throttled = "throttled",
        /// Quota or cost limit: no retry. The lane closes until an operator resumes it or the reported reset time; the job waits.
        Exhausted = "exhausted",
        /// The provider rejects every request (key, model, address, certificate): no retry; the job fails; the lane closes.
        Misconfigured = "misconfigured",
        /// A 400/422 about a request field: the field is dropped or renamed once.
        Capability = "capability",
        /// The prompt doesn't fit: retried once with a smaller one if the kind supports it.
        TooLarge = "too_large",
        /// Cut off by the output cap: retried once with a larger cap.
        Truncated = "truncated",
        Refused = "refused",
        /// Any other error specific to this request: the job fails, the lane stays open.
        Rejected = "rejected",
        /// Not JSON, schema mismatch, or out of range: one repair turn.
        Unparsable = "unparsable",
    }
}

/// Error of one call, or of a question after all retries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JudgeError {
    pub class: ErrorClass,
    /// Error message, with the judge's name but without keys or prompts.
    pub message: String,
    pub status: Option<u16>,
    pub retry_after: Option<Duration>,
    /// Text of the reply, if any (unparsable, truncated, refused): stored in the call log, not logged.
    pub raw_reply: Option<String>,
    /// Reason shown instead of the class if no judge was called, such as `wait_expired`.
    pub unasked: Option<String>,
}

impl JudgeError {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            status: None,
            retry_after: None,
            raw_reply: None,
            unasked: None,
        }
    }

    /// Error of a reply that fails the checks. Its text is stored in the call log, but not in the message.
    pub(crate) fn unusable(reply: &Reply, faults: &[Fault]) -> Self {
        let faults = Fault::in_words(faults);
        let message = format!(
            "the reply of judge {} can't be used: {faults}",
            reply.provider
        );
        Self {
            raw_reply: Some(reply.value.to_string()),
            ..Self::new(ErrorClass::Unparsable, message)
        }
    }

    pub fn class_name(&self) -> &str {
        self.unasked.as_deref().unwrap_or(self.class.as_str())
    }
}
