//! The nouns of a call: what is asked, and how that ended.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::gate::RateReport;
use crate::{JudgeError, PromptText, ReplySchema};

/// A call's end, and what the server said of its limits on the way.
pub(crate) struct Called {
    pub(crate) ended: Result<ProviderReply, JudgeError>,
    pub(crate) rates: RateReport,
    /// Whether the answer didn't come in time: what the call cost isn't known, and the server may have too much to do.
    pub(crate) late: bool,
}

#[derive(Clone)]
pub(crate) struct CallRequest {
    pub(crate) messages: Vec<Message>,
    pub(crate) schema_name: &'static str,
    pub(crate) schema: Arc<ReplySchema>,
    pub(crate) max_output_tokens: u32,
    pub(crate) timeout: Duration,
}

impl CallRequest {
    /// A request of a dozen tokens for an answer of one, to which nobody can object.
    pub(crate) fn harmless() -> Self {
        Self {
            messages: vec![Message {
                role: Role::User,
                content: PromptText::from("Reply with the JSON object {\"ok\": true}."),
            }],
            schema_name: "probe",
            schema: Arc::new(ReplySchema::from(json!({
                "type": "object", "required": ["ok"], "additionalProperties": false,
                "properties": { "ok": { "type": "boolean" } },
            }))),
            max_output_tokens: 1,
            timeout: Duration::from_secs(20),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) role: Role,
    pub(crate) content: PromptText,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProviderReply {
    pub(crate) text: String,
    /// The field that held text while there was no answer: thoughts are none.
    pub(crate) text_in: Option<&'static str>,
    pub(crate) stop: Stop,
    /// An error that stood beside the text; where the text is no whole answer, it is the call's end.
    pub(crate) error: Option<JudgeError>,
    /// The model as reported, else as asked.
    pub(crate) model: String,
    /// `None` if the provider reported none that can be read: then nobody knows what it cost.
    pub(crate) usage: Option<Tokens>,
    pub(crate) simulated: bool,
    pub(crate) status: u16,
}

/// Why a text ends where it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The model was done.
    Complete,
    /// For a reason without a known meaning, in the server's word for it.
    Other(String),
    /// The output cap cut it off.
    Truncated,
    /// The model declined, or a filter did, in words.
    Refused(String),
    /// The server gave up, in words that follow the judge's name.
    Failed(String),
}

/// Tokens as reported; `cached` and `cache_written` are parts of `input`, hidden reasoning is part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tokens {
    pub(crate) input: i64,
    /// Read from the provider's prompt cache.
    pub(crate) cached: i64,
    /// Written to it, where that has a price of its own.
    pub(crate) cache_written: i64,
    pub(crate) output: i64,
}
