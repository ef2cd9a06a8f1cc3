//! Types of a call: request and result.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::gate::RateReport;
use crate::{JudgeError, PromptText, ReplySchema};

/// Result of a call, and the limits that the server reported.
pub(crate) struct Called {
    pub(crate) ended: Result<ProviderReply, JudgeError>,
    pub(crate) rates: RateReport,
    /// Whether the response timed out: the cost is unknown, and the server may be overloaded.
    pub(crate) late: bool,
}

#[derive(Clone)]
pub(crate) struct CallRequest {
    /// By the user and the model in turn; a reply and its repair prompt follow the question.
    pub(crate) messages: Vec<PromptText>,
    pub(crate) schema_name: &'static str,
    pub(crate) schema: Arc<ReplySchema>,
    pub(crate) max_output_tokens: u32,
    pub(crate) timeout: Duration,
}

impl CallRequest {
    /// Returns a request of a dozen tokens that passes every filter.
    pub(crate) fn harmless(max_output_tokens: u32) -> Self {
        Self {
            messages: vec!["Reply with the JSON object {\"ok\": true}.".into()],
            schema_name: "probe",
            schema: Arc::new(ReplySchema::from(json!({
                "type": "object", "required": ["ok"], "additionalProperties": false,
                "properties": { "ok": { "type": "boolean" } },
            }))),
            max_output_tokens,
            timeout: Duration::from_secs(20),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProviderReply<E = JudgeError> {
    pub(crate) text: String,
    /// Field with text if the answer is empty, such as that of thinking.
    pub(crate) text_in: Option<&'static str>,
    pub(crate) stop: Stop,
    /// An error next to the text. Without a complete answer the call fails with it.
    pub(crate) error: Option<E>,
    /// The model as reported, by default as requested.
    pub(crate) model: String,
    /// `None` if the provider reported no valid usage; the cost is unknown then.
    pub(crate) usage: Option<Tokens>,
    pub(crate) simulated: bool,
    pub(crate) status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    Complete,
    /// Unknown reason as reported.
    Other(String),
    Truncated,
    /// The model or a filter rejected the request, with an explanation.
    Refused(String),
    /// The server failed, with a message that follows the judge's name.
    Failed(String),
}

/// Tokens as reported. `cached` and `cache_written` are parts of `input`, hidden reasoning is part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tokens {
    pub(crate) input: i64,
    /// Read from the provider's prompt cache.
    pub(crate) cached: i64,
    /// Written to the cache, if the provider has a price for that.
    pub(crate) cache_written: i64,
    pub(crate) output: i64,
}
