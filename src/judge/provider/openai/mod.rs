//! Chat completions: OpenAI and every compatible server (Azure, vLLM, Ollama, llama.cpp, LiteLLM).
//!
//! The address is used as given; nothing is assumed of a server beyond the wire format, and unknown fields are ignored.

mod batch;
mod classify;
mod headers;
mod reply;
mod request;

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;

use super::endpoint::{BatchDialect, Dialect};
use super::refusal::Said;
use super::reply::Unreadable;
use super::shape::{Field, Rung, Shape};
use super::{CallRequest, ProviderReply};
use crate::judge::error::ErrorClass;
use crate::judge::gate::RateReport;
use crate::judge::providers::JudgeSpec;

/// The words of chat completions.
pub(super) struct OpenAi;

impl Dialect for OpenAi {
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

    fn names(&self, field: Field, _sent: Shape) -> &'static [&'static str] {
        match field {
            Field::Temperature => &["temperature"],
            Field::MaxCompletionTokens => &["max_completion_tokens"],
            Field::MaxTokens => &["max_tokens"],
            Field::Format => &["response_format", "json_schema", "json_object"],
            Field::Seed => &["seed"],
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
        _said: &Said,
        now: DateTime<Utc>,
    ) -> Option<Duration> {
        headers::wait(class, headers, now)
    }

    fn rates(&self, headers: &HeaderMap, _now: DateTime<Utc>) -> RateReport {
        headers::rates(headers)
    }

    fn batches(&self) -> Option<&'static dyn BatchDialect> {
        Some(&batch::Batches)
    }
}
