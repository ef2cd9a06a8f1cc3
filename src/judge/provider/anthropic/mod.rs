//! Anthropic messages.
//!
//! Nothing is assumed of a server beyond the wire format, and unknown fields are ignored. It never asks for a prompt cache:
//! what is the same for every session, the framework, is shorter than the least that the shipped models cache (2,048 or
//! 4,096 tokens), and all behind it is asked once, so that writing it would only cost more. What is cached all the same
//! (`extra_body: {cache_control: ..}`) is counted and priced.

mod batch;
mod classify;
mod headers;
mod reply;
mod request;
mod schema;

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

/// The words of messages.
pub(super) struct Anthropic;

impl Dialect for Anthropic {
    fn ladder(&self) -> &'static [Rung] {
        &[Rung::JsonSchema, Rung::Tool, Rung::Prompt]
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
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

    fn names(&self, field: Field, sent: Shape) -> &'static [&'static str] {
        match field {
            Field::Temperature => &["temperature"],
            Field::MaxTokens => &["max_tokens"],
            Field::Format => match sent.rung {
                Rung::JsonSchema => &["output_config", "output_format", "json_schema", "schema"],
                Rung::Tool => &["tool_choice", "tools", "tool", "input_schema"],
                Rung::JsonObject | Rung::Prompt => &[],
            },
            Field::MaxCompletionTokens | Field::Seed => &[],
        }
    }

    fn inner_status(&self, said: &Said) -> Option<u16> {
        classify::status_of(said)
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

    fn rates(&self, headers: &HeaderMap, now: DateTime<Utc>) -> RateReport {
        headers::rates(headers, now)
    }

    fn batches(&self) -> Option<&'static dyn BatchDialect> {
        Some(&batch::Batches)
    }
}
