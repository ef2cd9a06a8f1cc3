//! Fake provider with a batch endpoint: OpenAI's and Anthropic's wire formats over HTTP, including single calls.
//!
//! A batch runs until the test ends it; the test sets the result of each call. Requests that violate a wire format get
//! 400, so that a client with another format fails.

mod anthropic;
mod openai;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::middleware::{self, Next};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::Served;
use super::judge_server::{TOKENS_IN, TOKENS_OUT, good_reply};

#[derive(Debug, Clone)]
pub(crate) enum Fate {
    Score(u8),
    Content(String),
    /// Error with this status.
    Errored(u16),
    /// Expired without a reply.
    Expired,
    /// Without a line.
    Missing,
    /// With an empty line.
    Rubbish,
}

/// Returns the number after `marker-` in a call's prompt.
pub(crate) fn marker(body: &Value) -> Option<u32> {
    let prompt = body["messages"][0]["content"].as_str()?;
    let (_, behind) = prompt.split_once("marker-")?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

type Rule = Arc<dyn Fn(&Value) -> Fate + Send + Sync>;

#[derive(Debug, Clone)]
pub(crate) struct StoredBatch {
    pub(crate) id: String,
    /// Our tag, if the family supports one.
    pub(crate) tag: Option<String>,
    /// Custom ids and bodies.
    pub(crate) calls: Vec<(String, Value)>,
    status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Runs,
    Ended,
    Cancelled,
    Refused(&'static str),
}

struct Inner {
    files: BTreeMap<String, Vec<u8>>,
    batches: Vec<StoredBatch>,
    rule: Rule,
    /// Result of single calls.
    single: Fate,
    seen: Vec<String>,
    asked: Vec<Value>,
    /// Status for requests with this prefix of method and path.
    trouble: Vec<(String, u16)>,
    /// New batches end at the first status request.
    at_once: bool,
    /// Location of Anthropic's results.
    results_at: Option<String>,
    /// The response to this method and path is dropped once.
    lost: Option<String>,
    /// Responses are truncated to this number of bytes, once.
    cut: Option<usize>,
    /// Requests with this method and path wait for a permit.
    held: Option<(String, Arc<Semaphore>)>,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Inner>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Stores the body of a single call; returns the result of the call.
    fn asked(&self, body: &Value) -> Fate {
        let mut inner = self.lock();
        inner.asked.push(body.clone());
        inner.single.clone()
    }
}

pub(crate) struct BatchServer {
    server: Served,
    shared: Shared,
}

impl BatchServer {
    pub(crate) async fn start(fate: Fate) -> Self {
        let shared = Shared(Arc::new(Mutex::new(Inner {
            files: BTreeMap::new(),
            batches: Vec::new(),
            single: fate.clone(),
            rule: Arc::new(move |_| fate.clone()),
            seen: Vec::new(),
            asked: Vec::new(),
            trouble: Vec::new(),
            at_once: false,
            results_at: None,
            lost: None,
            cut: None,
            held: None,
        })));
        let router = Router::new()
            .route("/v1/chat/completions", post(openai::complete))
            .route("/v1/files", post(openai::upload))
            .route("/v1/files/{id}/content", get(openai::content))
            .route("/v1/batches", post(openai::create).get(openai::list))
            .route("/v1/batches/{id}", get(openai::look))
            .route("/v1/batches/{id}/cancel", post(openai::cancel))
            .route("/v1/messages", post(anthropic::answer))
            .route("/v1/messages/batches", post(anthropic::create))
            .route("/v1/messages/batches/{id}", get(anthropic::look))
            .route("/v1/messages/batches/{id}/cancel", post(anthropic::cancel))
            .route("/v1/messages/batches/{id}/results", get(anthropic::results))
            .layer(axum::extract::DefaultBodyLimit::max(256 << 20))
            .layer(middleware::from_fn_with_state(shared.clone(), watched))
            .with_state(shared.clone());
        let server = Served::start(router).await;
        Self { server, shared }
    }

    pub(crate) fn url(&self, family: &str) -> String {
        match family {
            "openai" => format!("http://{}/v1", self.server.address),
            _ => format!("http://{}", self.server.address),
        }
    }

    pub(crate) fn rule(&self, rule: impl Fn(&Value) -> Fate + Send + Sync + 'static) {
        self.shared.lock().rule = Arc::new(rule);
    }

    /// Ends running batches.
    pub(crate) fn finish(&self) {
        for batch in &mut self.shared.lock().batches {
            if batch.status == Status::Runs {
                batch.status = Status::Ended;
            }
        }
    }

    /// Ends running batches, and later ones as they arrive.
    pub(crate) fn finish_immediately(&self) {
        self.shared.lock().at_once = true;
        self.finish();
    }

    /// Fails every running batch.
    pub(crate) fn refuse(&self, code: &'static str) {
        for batch in &mut self.shared.lock().batches {
            if batch.status == Status::Runs {
                batch.status = Status::Refused(code);
            }
        }
    }

    /// Sets the status for requests with this prefix of method and path.
    pub(crate) fn fail_requests(&self, beginning: &str, status: u16) {
        let mut inner = self.shared.lock();
        inner.trouble.push((beginning.to_owned(), status));
    }

    pub(crate) fn clear_failures(&self) {
        self.shared.lock().trouble.clear();
    }

    /// Executes the next request with this method and path, but drops the response.
    pub(crate) fn drop_response_to(&self, request: &str) {
        self.shared.lock().lost = Some(request.to_owned());
    }

    /// Delays requests with this method and path: each needs a permit.
    pub(crate) fn holds(&self, request: &str) -> Arc<Semaphore> {
        let permits = Arc::new(Semaphore::new(0));
        self.shared.lock().held = Some((request.to_owned(), permits.clone()));
        permits
    }

    /// Truncates the next response to this number of bytes.
    pub(crate) fn truncate_response_at(&self, bytes: usize) {
        self.shared.lock().cut = Some(bytes);
    }

    /// Sets another location of results.
    pub(crate) fn set_results_url(&self, address: &str) {
        self.shared.lock().results_at = Some(address.to_owned());
    }

    /// Adds a batch with another tag and without calls, as from another client.
    pub(crate) fn add_foreign_batch(&self) {
        let mut inner = self.shared.lock();
        let id = format!("batch_{}", inner.batches.len());
        inner.batches.push(StoredBatch {
            id,
            tag: None,
            calls: Vec::new(),
            status: Status::Runs,
        });
    }

    pub(crate) fn batches(&self) -> Vec<StoredBatch> {
        self.shared.lock().batches.clone()
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.shared.lock().asked.clone()
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.shared.lock().seen.clone()
    }
}

impl StoredBatch {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.status == Status::Cancelled
    }
}

async fn watched(
    State(shared): State<Shared>,
    request: Request<Body>,
    next: Next,
) -> Response<Body> {
    let seen = format!("{} {}", request.method(), request.uri().path());
    let (trouble, lost, held) = {
        let mut inner = shared.lock();
        let held = inner.held.as_ref().filter(|(held, _)| *held == seen);
        let held = held.map(|(_, permits)| permits.clone());
        let lost = inner.lost.take_if(|lost| *lost == seen).is_some();
        let trouble = inner.trouble.iter().find(|(at, _)| seen.starts_with(at));
        let trouble = trouble.map(|(_, status)| *status);
        inner.seen.push(seen);
        (trouble, lost, held)
    };
    if let Some(held) = held {
        held.acquire().await.unwrap().forget();
    }
    if lost {
        next.run(request).await;
        return fault(503, "the test's provider lost its answer");
    }
    match trouble {
        Some(200) => respond(200, "<html>a gateway's page</html>".to_owned()),
        Some(status) => fault(status, "the test's provider is in trouble"),
        None => next.run(request).await,
    }
}

impl Inner {
    fn take(&mut self, tag: Option<String>, calls: Vec<(String, Value)>) -> StoredBatch {
        let status = match self.at_once {
            true => Status::Ended,
            false => Status::Runs,
        };
        let held = StoredBatch {
            id: format!("batch_{}", self.batches.len()),
            tag,
            calls,
            status,
        };
        self.batches.push(held.clone());
        held
    }

    fn of(&mut self, id: &str) -> Option<&mut StoredBatch> {
        self.batches.iter_mut().find(|batch| batch.id == id)
    }

    fn cancel(&mut self, id: &str) -> Option<StoredBatch> {
        let batch = self.of(id)?;
        if batch.status == Status::Runs {
            batch.status = Status::Cancelled;
        }
        Some(batch.clone())
    }

    /// Sends a file of results, truncated if set.
    fn send(&mut self, lines: Vec<String>) -> Response<Body> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let Some(cut) = self.cut.take() else {
            return respond(200, text);
        };
        let first = Bytes::from(text.into_bytes()).slice(..cut);
        let pieces = [
            Ok(first),
            Err(std::io::Error::other("the test's provider hangs up")),
        ];
        Response::new(Body::from_stream(futures::stream::iter(pieces)))
    }
}

/// Validates custom ids by the rules of all providers; returns an error for an invalid or duplicate one.
fn checked(calls: Vec<(String, Value)>) -> Result<Vec<(String, Value)>, String> {
    let mut known = std::collections::BTreeSet::new();
    for (id, body) in &calls {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if id.is_empty() || id.len() > 64 || !id.chars().all(plain) || !known.insert(id) {
            return Err(format!("custom_id {id:?} is no id, or there twice"));
        }
        if body["model"].as_str().is_none() || body["messages"].as_array().is_none() {
            return Err(format!("the call of {id} has no model or no messages"));
        }
    }
    match calls.is_empty() {
        true => Err("there are no calls".to_owned()),
        false => Ok(calls),
    }
}

fn respond(status: u16, body: String) -> Response<Body> {
    Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap()
}

/// Response with a batch in its family's format, or 404.
fn shown(batch: Option<Value>) -> Response<Body> {
    match batch {
        Some(batch) => respond(200, batch.to_string()),
        None => fault(404, "no such batch"),
    }
}

fn fault(status: u16, message: &str) -> Response<Body> {
    let error =
        json!({ "type": "error", "error": { "type": kind_of(status), "message": message } });
    respond(status, error.to_string())
}

fn kind_of(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}
