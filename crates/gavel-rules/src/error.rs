//! One set of error classes for every provider, matched in full: the class decides what happens next.

use std::time::Duration;

/// The class of a judge's error. The table of meanings is in `gavel-judge/src/provider/meaning.rs`; what follows from a class is in
/// its `retry.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Connect, reset, timeout, 408, 409, 424, 425, 500, 502, 503, 504, 529: retried after 1, 2, 4 s; counts for the breaker.
    Transient,
    /// 429: Retry-After is obeyed; spends no retry; above 10 s the job waits.
    Throttled,
    /// Quota or spend limit: no retry; the lane closes until it is resumed or the known reset opens it; the job waits.
    Exhausted,
    /// Every request is refused (key, model, address, certificate): no retry; the job fails; the lane closes.
    Misconfigured,
    /// A 400/422 that names a request field: dropped or renamed once.
    Capability,
    /// The prompt doesn't fit: once more with a smaller one where the kind can make one.
    TooLarge,
    /// Cut off by the output cap: once more with a larger one.
    Truncated,
    /// The model declined.
    Refused,
    /// Any other error, of this request alone: the job fails, the lane stays open.
    Rejected,
    /// Not JSON, not the schema, out of range: one repair turn.
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

    /// The name used in logs and in `judge_calls`.
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

/// An error of one call, or of a whole question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JudgeError {
    /// What kind of error.
    pub class: ErrorClass,
    /// What happened, with the judge's name; no key, no prompt.
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// The reply's text where there was one (unparsable, truncated, refused): kept in the call log, never logged.
    pub raw_reply: Option<String>,
    /// Where nobody was asked, why not: the word that results show in place of the class, such as `wait_expired`.
    pub unasked: Option<String>,
}

impl JudgeError {
    /// An error of which no more is known.
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

    /// The word for its class in results.
    pub fn class_name(&self) -> &str {
        self.unasked.as_deref().unwrap_or(self.class.as_str())
    }
}
