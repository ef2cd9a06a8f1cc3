//! Judge with a scripted server and a recording call log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use gavel::clock::SystemClock;
use gavel::judge::gate::{Gate, GateOptions, HeldBack};
use gavel::judge::{
    AskContext, AskEnd, AskOutcome, CacheKey, CallLog, CallRecord, CallUsage, ErrorClass, Fault,
    Judge, JudgeError, JudgeWiring, Judges, Precomputed, Providers, Question, Reply, ReplySchema,
    RetryOptions, Unbounded,
};
use serde_json::{Value, json};
use uuid::Uuid;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

/// Secret key that must not appear in any output.
pub(super) const KEY: &str = "sk-very-secret-key";

#[derive(Default)]
pub(super) struct Memory {
    pub(super) calls: Mutex<Vec<CallRecord>>,
}

impl Memory {
    /// Whether any logged reply is usable as a cached one.
    pub(super) fn has_cacheable_reply(&self) -> bool {
        let calls = self.calls.lock().unwrap();
        calls
            .iter()
            .any(|call| call.error.is_none() && call.cache_key.is_some())
    }
}

#[async_trait]
impl CallLog for Memory {
    fn log(&self, call: CallRecord) {
        self.calls.lock().unwrap().push(call);
    }

    async fn find(&self, key: CacheKey, since: DateTime<Utc>) -> Option<CallRecord> {
        let calls = self.calls.lock().unwrap();
        let kept = |call: &&CallRecord| call.cache_key == Some(key) && call.at > since;
        calls.iter().rev().find(kept).cloned()
    }
}

pub(super) struct Stage {
    pub(super) server: MockServer,
    pub(super) judge: Arc<Judge>,
    pub(super) gate: Arc<Gate>,
    pub(super) memory: Arc<Memory>,
}

pub(super) struct Staging {
    pub(super) entry: Value,
    pub(super) gate: GateOptions,
}

impl Default for Staging {
    fn default() -> Self {
        Self {
            entry: json!({}),
            gate: GateOptions::default(),
        }
    }
}

/// Minimal delays: these tests cover the order of calls, `retry.rs` the length of delays.
fn at_once() -> RetryOptions {
    RetryOptions {
        first_delay: Duration::from_millis(1),
        ..RetryOptions::default()
    }
}

impl Stage {
    pub(super) async fn new(answers: Vec<ResponseTemplate>) -> Self {
        Self::with(Staging::default(), answers).await
    }

    pub(super) async fn with(staging: Staging, answers: Vec<ResponseTemplate>) -> Self {
        let server = serving(answers).await;
        let base_url = format!("{}/v1", server.uri());
        Self::at(server, &base_url, staging)
    }

    /// Judge at an address other than the server's.
    pub(super) fn at(server: MockServer, base_url: &str, staging: Staging) -> Self {
        let gate = Arc::new(Gate::new(staging.gate));
        let memory = Arc::new(Memory::default());
        let judges = judges(base_url, &staging.entry, &gate, &memory);
        Self {
            server,
            judge: judges.get("test").unwrap(),
            gate,
            memory,
        }
    }

    pub(super) async fn ask(&self) -> AskOutcome {
        self.judge.ask(&question("evidence"), context()).await
    }

    pub(super) async fn requests(&self) -> Vec<Value> {
        let received = self.server.received_requests().await.unwrap();
        received
            .iter()
            .map(|request| request.body_json().unwrap())
            .collect()
    }

    pub(super) fn calls(&self) -> Vec<CallRecord> {
        self.memory.calls.lock().unwrap().clone()
    }

    /// Error classes of the logged calls; `None` for a good one.
    pub(super) fn classes(&self) -> Vec<Option<ErrorClass>> {
        self.calls().iter().map(|call| call.error).collect()
    }
}

/// Starts a server with these responses in order, repeating the last one.
pub(super) async fn serving(answers: Vec<ResponseTemplate>) -> MockServer {
    let server = MockServer::start().await;
    let given = AtomicUsize::new(0);
    Mock::given(any())
        .respond_with(move |_: &Request| {
            let at = given.fetch_add(1, Ordering::Relaxed);
            answers[at.min(answers.len() - 1)].clone()
        })
        .mount(&server)
        .await;
    server
}

pub(super) fn judges(
    base_url: &str,
    more: &Value,
    gate: &Arc<Gate>,
    memory: &Arc<Memory>,
) -> Judges {
    let mut entry = json!({
        "type": "openai", "base_url": base_url, "model": "gpt-4o-mini", "key": KEY, "hint": "set THE_KEY",
        "prices": { "gpt-4o-mini": {
            "input_per_mtok": 0.15, "cached_input_per_mtok": 0.075, "output_per_mtok": 0.6,
            "as_of": "2024-10-01", "source": "test",
        }},
    });
    for (key, value) in more.as_object().unwrap() {
        entry[key] = value.clone();
    }
    let providers =
        Providers::from_value(&json!({ "test": entry }), &|_| Err("none".to_owned())).unwrap();
    Judges::wired(
        &providers,
        JudgeWiring {
            gate: Arc::clone(gate),
            log: Arc::clone(memory) as Arc<dyn CallLog>,
            clock: Arc::new(SystemClock),
            retry: at_once(),
        },
    )
}

pub(super) fn context() -> AskContext {
    AskContext {
        asked_for: Uuid::nil(),
        retries_spent: 0,
        skip_cache: false,
        precomputed: Precomputed::None,
        concurrency: Arc::new(Unbounded),
    }
}

pub(super) fn question(evidence: &str) -> Question {
    Question {
        kind: "session",
        template_hash: "t".repeat(64),
        criteria_hash: "c".repeat(64),
        evidence_hash: evidence.to_owned(),
        prompt: format!("Score this: {evidence}").into(),
        schema_name: "score",
        schema: Arc::new(ReplySchema::from(json!({
            "type": "object", "additionalProperties": false, "required": ["why", "total"],
            "properties": {
                "why": { "type": "string" },
                "total": { "type": "integer", "description": "from 0 to 100" },
            },
        }))),
        check: Arc::new(|value| match value["total"].as_u64() {
            Some(0..=100) => Ok(()),
            Some(_) | None => Err(vec![Fault {
                pointer: "/total".to_owned(),
                message: "must be an integer of 0-100".to_owned(),
            }]),
        }),
        trimmed_tokens: 0,
        shrink: None,
        review: None,
    }
}

/// Good reply of 1,000 tokens in, 400 of them cached, and 100 out.
pub(super) fn good() -> ResponseTemplate {
    says(r#"{"why": "because", "total": 61}"#)
}

pub(super) fn says(content: &str) -> ResponseTemplate {
    ends(content, "stop")
}

pub(super) fn ends(content: &str, finish_reason: &str) -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(completion(content, finish_reason))
}

pub(super) fn completion(content: &str, finish_reason: &str) -> Value {
    json!({
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{
            "message": { "role": "assistant", "content": content, "refusal": null },
            "finish_reason": finish_reason,
        }],
        "usage": {
            "prompt_tokens": 1000, "completion_tokens": 100,
            "prompt_tokens_details": { "cached_tokens": 400 },
        },
    })
}

pub(super) fn fails(status: u16, body: Value) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_json(body)
}

pub(super) const COST: f64 = (600.0 * 0.15 + 400.0 * 0.075 + 100.0 * 0.6) / 1e6;

pub(super) fn is_about(cost: Option<f64>, expected: f64) -> bool {
    cost.is_some_and(|cost| (cost - expected).abs() < 1e-12)
}

pub(super) fn reply_of(asked: AskOutcome) -> (Reply, u32, CallUsage) {
    match asked {
        AskOutcome {
            end: AskEnd::Answered(Ok(reply)),
            retries_spent,
            usage,
        } => (reply, retries_spent, usage),
        other => panic!("expected a reply, got {other:?}"),
    }
}

pub(super) fn error_of(asked: AskOutcome) -> (JudgeError, u32, CallUsage) {
    match asked {
        AskOutcome {
            end: AskEnd::Answered(Err(error)),
            retries_spent,
            usage,
        } => (error, retries_spent, usage),
        other => panic!("expected an error, got {other:?}"),
    }
}

/// Reason of a wait, and its duration if limited.
pub(super) fn wait_of(asked: AskOutcome) -> ((HeldBack, Option<Duration>), u32, CallUsage) {
    match asked {
        AskOutcome {
            end: AskEnd::Wait { why, retry_in, .. },
            retries_spent,
            usage,
        } => ((why, retry_in), retries_spent, usage),
        other => panic!("expected a wait, got {other:?}"),
    }
}
