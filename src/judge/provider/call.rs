//! The nouns of a call: what is asked, and how that ended.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::judge::JudgeError;
use crate::judge::gate::RateReport;

/// A call's end, and what the server said of its limits on the way.
pub(in crate::judge) struct Called {
    pub(in crate::judge) ended: Result<ProviderReply, JudgeError>,
    pub(in crate::judge) rates: RateReport,
    /// Whether the answer didn't come in time: what the call cost isn't known, and the server may have too much to do.
    pub(in crate::judge) late: bool,
}

#[derive(Clone)]
pub(in crate::judge) struct CallRequest {
    pub(in crate::judge) messages: Vec<Message>,
    pub(in crate::judge) schema_name: &'static str,
    pub(in crate::judge) schema: Arc<Value>,
    pub(in crate::judge) max_output_tokens: u32,
    pub(in crate::judge) timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge) struct Message {
    pub(in crate::judge) role: Role,
    pub(in crate::judge) content: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::judge) enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::judge) struct ProviderReply {
    pub(in crate::judge) text: String,
    pub(in crate::judge) stop: Stop,
    /// The model as reported, else as asked.
    pub(in crate::judge) model: String,
    /// `None` if the provider reported none: then nobody knows what it cost.
    pub(in crate::judge) usage: Option<Tokens>,
    pub(in crate::judge) simulated: bool,
    pub(in crate::judge) status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge) enum Stop {
    /// It was done.
    Complete,
    /// The output cap cut it off.
    Truncated,
    /// It declined, or a filter did.
    Refused(String),
    /// An unknown reason.
    Unknown(String),
}

/// Tokens as reported; `cached` and `cache_written` are parts of `input`, hidden reasoning is part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::judge) struct Tokens {
    pub(in crate::judge) input: i64,
    /// Read from the provider's prompt cache.
    pub(in crate::judge) cached: i64,
    /// Written to it, where that has a price of its own.
    pub(in crate::judge) cache_written: i64,
    pub(in crate::judge) output: i64,
}
