//! Gemini, by generateContent.
//!
//! Nothing is assumed of a server beyond the wire format, and unknown fields are ignored. The model stands in the path.

mod classify;
mod reply;
mod request;

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;

use super::endpoint::{BatchDialect, Dialect};
use super::headers::retry_after;
use super::refusal::Said;
use super::reply::Unreadable;
use super::shape::{Field, Rung, Shape};
use super::{CallRequest, ProviderReply};
use crate::judge::error::ErrorClass;
use crate::judge::gate::RateReport;
use crate::judge::providers::JudgeSpec;

/// The words of generateContent.
pub(super) struct Gemini;

impl Dialect for Gemini {
    fn ladder(&self) -> &'static [Rung] {
        &[Rung::JsonSchema, Rung::JsonObject, Rung::Prompt]
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn body(
        &self,
        spec: &JudgeSpec,
        request: &CallRequest,
        shape: Shape,
    ) -> Result<Vec<u8>, serde_json::Error> {
        request::body(spec, request, shape)
    }

    fn read(
        &self,
        body: &[u8],
        status: u16,
        spec: &JudgeSpec,
    ) -> Result<ProviderReply, Unreadable> {
        reply::read(body, status, spec)
    }

    /// Errors name fields in either spelling.
    fn names(&self, field: Field, sent: Shape) -> &'static [&'static str] {
        match field {
            Field::Temperature => &["temperature"],
            Field::MaxTokens => &["maxOutputTokens", "max_output_tokens"],
            Field::Format => match sent.rung {
                Rung::JsonSchema => &[
                    "responseJsonSchema",
                    "response_json_schema",
                    "responseSchema",
                    "response_schema",
                    "responseMimeType",
                    "response_mime_type",
                    "schema",
                ],
                Rung::JsonObject => &["responseMimeType", "response_mime_type", "JSON mode"],
                Rung::Tool | Rung::Prompt => &[],
            },
            Field::MaxCompletionTokens | Field::Seed => &[],
        }
    }

    fn inner_status(&self, said: &Said) -> Option<u16> {
        said.status()
    }

    fn used_up(&self, said: &Said) -> bool {
        classify::used_up(said)
    }

    fn bad_request(&self, said: &Said) -> Option<ErrorClass> {
        classify::bad_request(said)
    }

    fn wait(
        &self,
        class: ErrorClass,
        headers: &HeaderMap,
        said: &Said,
        now: DateTime<Utc>,
    ) -> Option<Duration> {
        match class {
            // The delay that comes with a quota per day is that of some other limit.
            ErrorClass::Exhausted => None,
            ErrorClass::Transient
            | ErrorClass::Throttled
            | ErrorClass::Misconfigured
            | ErrorClass::Capability
            | ErrorClass::TooLarge
            | ErrorClass::Truncated
            | ErrorClass::Refused
            | ErrorClass::Rejected
            | ErrorClass::Unparsable => {
                retry_after(headers, now).or_else(|| classify::retry_delay(said))
            }
        }
    }

    /// Its replies have no such headers.
    fn rates(&self, _headers: &HeaderMap, _now: DateTime<Utc>) -> RateReport {
        RateReport::default()
    }

    fn batches(&self) -> Option<&'static dyn BatchDialect> {
        None
    }
}
