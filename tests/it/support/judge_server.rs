//! Scripted judge: chat completions over HTTP, with every call recorded.
//!
//! `POST /{tag}/chat/completions`: the tag is the caller, so that each worker process can have a separate address.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Served;
use super::wait::eventually;

/// Model of the tests. The judge echoes the requested model in its replies.
pub(crate) const MODEL: &str = "judge-1";
pub(crate) const TOKENS_IN: i64 = 1_000;
pub(crate) const TOKENS_OUT: i64 = 200;

/// Cost of a good reply, at USD 1 and 2 for a million tokens.
pub(crate) fn call_cost() -> f64 {
    let tokens = i32::try_from(TOKENS_IN + 2 * TOKENS_OUT).unwrap();
    f64::from(tokens) / 1e6
}

#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Score(u8),
    ScoreWith(u8, Vec<(&'static str, String)>),
    Content(String),
    /// Reply truncated by the token limit.
    Truncated,
    Refusal,
    Status(u16),
    /// Status with these headers and this error code.
    StatusWith(u16, Vec<(&'static str, String)>, &'static str),
    Body(u16, Value),
    /// Waits for [`JudgeServer::release`], then responds with this.
    Held(Box<Reply>),
}

impl Reply {
    /// Waits for the release, then sends a good reply.
    pub(crate) fn held(total: u8) -> Self {
        Self::Held(Box::new(Self::Score(total)))
    }

    pub(crate) fn throttled(seconds: u32) -> Self {
        let headers = vec![("retry-after", seconds.to_string())];
        Self::StatusWith(429, headers, "rate_limit_exceeded")
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Caller: the first part of the path.
    pub(crate) tag: String,
    pub(crate) at: Instant,
    pub(crate) body: Value,
    pub(crate) authorization: Option<String>,
}

impl Call {
    pub(crate) fn prompt(&self) -> String {
        let messages = self.body["messages"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let texts: Vec<&str> = messages
            .iter()
            .filter_map(|m| m["content"].as_str())
            .collect();
        texts.join("\n")
    }
}

type Rule = Arc<dyn Fn(&Call) -> Reply + Send + Sync>;

struct Shared {
    rule: RwLock<Rule>,
    calls: Mutex<Vec<Call>>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    open: watch::Sender<bool>,
}

pub(crate) struct JudgeServer {
    server: Served,
    shared: Arc<Shared>,
}

impl JudgeServer {
    pub(crate) async fn start(say: Reply) -> Self {
        let shared = Arc::new(Shared {
            rule: RwLock::new(Arc::new(move |_| say.clone())),
            calls: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            open: watch::Sender::new(false),
        });
        let router = Router::new()
            .route("/{tag}/chat/completions", post(complete))
            .layer(axum::extract::DefaultBodyLimit::max(64 << 20))
            .with_state(shared.clone());
        let server = Served::start(router).await;
        Self { server, shared }
    }

    /// Base address for one caller.
    pub(crate) fn url(&self, tag: &str) -> String {
        format!("http://{}/{tag}", self.server.address)
    }

    pub(crate) fn says(&self, say: Reply) {
        self.rule(move |_| say.clone());
    }

    /// Sets the responses to the next calls in order, then `then` for the rest.
    pub(crate) fn reply_in_order(&self, first: Vec<Reply>, then: Reply) {
        let turn = AtomicUsize::new(0);
        self.rule(move |_| {
            let turn = turn.fetch_add(1, Ordering::SeqCst);
            first.get(turn).unwrap_or(&then).clone()
        });
    }

    pub(crate) fn rule(&self, rule: impl Fn(&Call) -> Reply + Send + Sync + 'static) {
        *self.shared.rule.write().unwrap() = Arc::new(rule);
    }

    /// Blocks the calls of this caller, and scores all others with 70.
    pub(crate) fn block_calls_of(&self, tag: &'static str) {
        self.rule(move |call| match call.tag == tag {
            true => Reply::held(1),
            false => Reply::Score(70),
        });
    }

    /// Releases blocked calls, including later ones.
    pub(crate) fn release(&self) {
        self.shared.open.send_replace(true);
    }

    /// Blocks `Reply::Held` calls again.
    pub(crate) fn hold(&self) {
        self.shared.open.send_replace(false);
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.calls.lock().unwrap().len()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub(crate) fn until_in_flight(&self, calls: usize) -> impl Future<Output = ()> {
        let what = "so many calls are in flight";
        eventually(Duration::from_secs(150), what, move || async move {
            (self.in_flight() == calls).then_some(())
        })
    }

    pub(crate) fn max_in_flight(&self) -> usize {
        self.shared.most_in_flight.load(Ordering::SeqCst)
    }
}

struct InFlight(Arc<Shared>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn complete(
    State(shared): State<Arc<Shared>>,
    Path(tag): Path<String>,
    headers: HeaderMap,
    body: axum::Json<Value>,
) -> Response<Body> {
    let in_flight = shared.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
    shared.most_in_flight.fetch_max(in_flight, Ordering::SeqCst);
    let _in_flight = InFlight(shared.clone());
    let call = {
        let mut calls = shared.calls.lock().unwrap();
        let call = Call {
            tag,
            at: Instant::now(),
            body: body.0,
            authorization: headers
                .get("authorization")
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
        };
        calls.push(call.clone());
        call
    };
    let rule = shared.rule.read().unwrap().clone();
    let mut say = rule(&call);
    while let Reply::Held(then) = say {
        let mut open = shared.open.subscribe();
        open.wait_for(|open| *open).await.unwrap();
        say = *then;
    }
    answer(&say, &call.body)
}

fn answer(say: &Reply, request: &Value) -> Response<Body> {
    let model = &request["model"];
    match say {
        Reply::Score(total) => scored(*total, &[], request),
        Reply::ScoreWith(total, headers) => scored(*total, headers, request),
        Reply::Content(text) => completion(model, text, &[], "stop"),
        Reply::Truncated => completion(
            model,
            "{\"score_reasoning\": \"The agent first",
            &[],
            "length",
        ),
        Reply::Refusal => json_response(
            200,
            &[],
            &json!({
                "model": model,
                "choices": [{ "index": 0, "finish_reason": "stop", "message": {
                    "role": "assistant", "content": null, "refusal": "I can't help with that." } }],
                "usage": { "prompt_tokens": TOKENS_IN, "completion_tokens": 9 },
            }),
        ),
        Reply::Status(status) => failure(*status, &[], "server_says_so"),
        Reply::StatusWith(status, headers, code) => failure(*status, headers, code),
        Reply::Body(status, body) => json_response(*status, &[], body),
        Reply::Held(_) => unreachable!("held replies are waited for"),
    }
}

fn failure(status: u16, headers: &[(&'static str, String)], code: &str) -> Response<Body> {
    let message = format!("the test's judge answers {status}");
    let body =
        json!({ "error": { "message": message, "type": "test", "param": null, "code": code } });
    json_response(status, headers, &body)
}

fn scored(total: u8, headers: &[(&'static str, String)], request: &Value) -> Response<Body> {
    let reply = good_reply(total, request).to_string();
    completion(&request["model"], &reply, headers, "stop")
}

fn completion(
    model: &Value,
    content: &str,
    headers: &[(&'static str, String)],
    finish_reason: &str,
) -> Response<Body> {
    json_response(
        200,
        headers,
        &json!({
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "model": model,
            "choices": [{ "index": 0, "finish_reason": finish_reason, "message": {
                "role": "assistant", "content": content } }],
            "usage": { "prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT },
        }),
    )
}

fn json_response(status: u16, headers: &[(&'static str, String)], body: &Value) -> Response<Body> {
    let mut response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(body.to_string())).unwrap()
}

/// Reply with this total over the dimensions in the request's schema.
pub(crate) fn good_reply(total: u8, request: &Value) -> Value {
    let schema = match request.get("output_config") {
        Some(config) => &config["format"]["schema"],
        None => &request["response_format"]["json_schema"]["schema"],
    };
    let parts = &schema["properties"]["score_breakdown"]["properties"];
    let parts = parts.as_object().cloned().unwrap_or_default();
    let mut left = u32::from(total);
    let mut breakdown = serde_json::Map::new();
    for (name, part) in &parts {
        let points = left.min(max_of(part));
        left -= points;
        breakdown.insert(name.clone(), json!(points));
    }
    json!({
        "score_reasoning": "The agent listed the pods before it read their logs; it never asked for earlier restarts.",
        "score_breakdown": breakdown,
        "total_score": total,
        "missing_tools": [{ "tool_name": "kubectl-events", "rationale": "It names the probe that failed." }],
        "alternative_approaches": [{
            "name": "Events first",
            "description": "Begin with what the cluster says happened.",
            "steps": ["read the events", "read the logs of the pod that they name"],
        }],
    })
}

/// The last number in a dimension's description is its maximum.
fn max_of(part: &Value) -> u32 {
    let text = part["description"].as_str().unwrap_or_default();
    text.split(|c: char| !c.is_ascii_digit())
        .rfind(|digits| !digits.is_empty())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(25)
}
