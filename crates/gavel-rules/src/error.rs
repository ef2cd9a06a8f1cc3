//! Error classes shared by all providers. The class determines retries and lane handling, so every match is exhaustive.

use std::time::Duration;

/// Class of a judge error. `gavel-judge/src/provider/meaning.rs` maps responses to classes; `retry.rs` implements the handling of each
/// class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Connect, reset, timeout, 408, 409, 424, 425, 500, 502, 503, 504, 529: retried after 1, 2, 4 s; counts for the breaker.
    Transient,
    /// 429: waits for Retry-After without using up a retry; above 10 s the job waits.
    Throttled,
    /// Quota or cost limit: no retry. The lane closes until an operator resumes it or the reported reset time; the job waits.
    Exhausted,
    /// The provider rejects every request (key, model, address, certificate): no retry; the job fails; the lane closes.
    Misconfigured,
    /// A 400/422 about a request field: the field is dropped or renamed once.
    Capability,
    /// The prompt doesn't fit: retried once with a smaller one if the kind supports it.
    TooLarge,
    /// Cut off by the output cap: retried once with a larger cap.
    Truncated,
    Refused,
    /// Any other error specific to this request: the job fails, the lane stays open.
    Rejected,
    /// Not JSON, schema mismatch, or out of range: one repair turn.
    Unparsable,
}

impl ErrorClass {
    pub const ALL: [Self; 10] = [
        Self::Transient,
        Self::Throttled,
        Self::Exhausted,
        Self::Misconfigured,
        Self::Capability,
        Self::TooLarge,
        Self::Truncated,
        Self::Refused,
        Self::Rejected,
        Self::Unparsable,
    ];

    /// Name used in logs and in `judge_calls`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Throttled => "throttled",
            Self::Exhausted => "exhausted",
            Self::Misconfigured => "misconfigured",
            Self::Capability => "capability",
            Self::TooLarge => "too_large",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::Unparsable => "unparsable",
        }
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

    pub fn class_name(&self) -> &str {
        self.unasked.as_deref().unwrap_or(self.class.as_str())
    }
}
