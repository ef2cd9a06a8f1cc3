//! A provider with a batch endpoint under the test's control: OpenAI's and Anthropic's wire formats over HTTP, and single calls
//! of both.
//!
//! A batch runs until the test lets it end; how each of its calls ends is the test's to say. What breaks a wire format is
//! answered with 400, so that a client that speaks another one fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::middleware::{self, Next};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::judge_server::{TOKENS_IN, TOKENS_OUT, good_reply};

/// How one call ends.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// With a good score.
    Score(u8),
    /// With this text as the reply's content.
    Content(String),
    /// Refused with this status.
    Errored(u16),
    /// Unanswered: its time was over.
    Expired,
    /// Without a line.
    Missing,
    /// With a line that says nothing.
    Rubbish,
}

type Rule = Arc<dyn Fn(&Value) -> Fate + Send + Sync>;

/// One batch as the server holds it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) id: String,
    /// Our name for it, where the family has room for one.
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
    batches: Vec<Held>,
    rule: Rule,
    /// Every request: method and path.
    seen: Vec<String>,
    /// Bodies of single calls.
    asked: Vec<Value>,
    /// Requests whose method and path begin so are answered with this status.
    trouble: Vec<(String, u16)>,
    /// New batches end as soon as they are looked at.
    at_once: bool,
    /// Anthropic's results are said to lie here.
    results_at: Option<String>,
    /// Answers break off after so many bytes, once.
    cut: Option<usize>,
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Inner>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

/// The running server; it ends with this value.
pub(crate) struct BatchServer {
    address: std::net::SocketAddr,
    shared: Shared,
    task: JoinHandle<()>,
}

impl Drop for BatchServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl BatchServer {
    /// Starts a provider whose calls, single ones too, end like this.
    pub(crate) async fn start(fate: Fate) -> Self {
        let shared = Shared(Arc::new(Mutex::new(Inner {
            files: BTreeMap::new(),
            batches: Vec::new(),
            rule: Arc::new(move |_| fate.clone()),
            seen: Vec::new(),
            asked: Vec::new(),
            trouble: Vec::new(),
            at_once: false,
            results_at: None,
            cut: None,
        })));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
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
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self {
            address,
            shared,
            task,
        }
    }

    /// The `base_url` of a family.
    pub(crate) fn url(&self, family: &str) -> String {
        match family {
            "openai" => format!("http://{}/v1", self.address),
            _ => format!("http://{}", self.address),
        }
    }

    /// From now on calls end as the rule says, by their bodies.
    pub(crate) fn rule(&self, rule: impl Fn(&Value) -> Fate + Send + Sync + 'static) {
        self.shared.lock().rule = Arc::new(rule);
    }

    /// Ends what runs; with `at_once` what comes too.
    pub(crate) fn finish(&self) {
        for batch in &mut self.shared.lock().batches {
            if batch.status == Status::Runs {
                batch.status = Status::Ended;
            }
        }
    }

    /// From now on a batch ends as it comes.
    pub(crate) fn finishes_at_once(&self) {
        self.shared.lock().at_once = true;
        self.finish();
    }

    /// Finds fault with every batch that runs.
    pub(crate) fn refuse(&self, code: &'static str) {
        for batch in &mut self.shared.lock().batches {
            if batch.status == Status::Runs {
                batch.status = Status::Refused(code);
            }
        }
    }

    /// From now on requests whose method and path begin so are answered with this status.
    pub(crate) fn troubles(&self, beginning: &str, status: u16) {
        let mut inner = self.shared.lock();
        inner.trouble.push((beginning.to_owned(), status));
    }

    /// No more trouble.
    pub(crate) fn recovers(&self) {
        self.shared.lock().trouble.clear();
    }

    /// The next answers break off after so many bytes.
    pub(crate) fn cuts_after(&self, bytes: usize) {
        self.shared.lock().cut = Some(bytes);
    }

    /// Says that results lie somewhere else.
    pub(crate) fn says_that_results_lie_at(&self, address: &str) {
        self.shared.lock().results_at = Some(address.to_owned());
    }

    /// Forgets a batch's calls and gives it another tag, as one of somebody else's.
    pub(crate) fn adds_a_strangers_batch(&self) {
        let mut inner = self.shared.lock();
        let id = format!("batch_{}", inner.batches.len());
        inner.batches.push(Held {
            id,
            tag: None,
            calls: Vec::new(),
            status: Status::Runs,
        });
    }

    /// Every batch that came in.
    pub(crate) fn batches(&self) -> Vec<Held> {
        self.shared.lock().batches.clone()
    }

    /// The bodies of single calls.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.shared.lock().asked.clone()
    }

    /// Every request so far: method and path.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.shared.lock().seen.clone()
    }
}

impl Held {
    /// Whether it was told to answer no more.
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
    let trouble = {
        let mut inner = shared.lock();
        let trouble = inner.trouble.iter().find(|(at, _)| seen.starts_with(at));
        let trouble = trouble.map(|(_, status)| *status);
        inner.seen.push(seen);
        trouble
    };
    match trouble {
        Some(200) => respond(200, "<html>a gateway's page</html>".to_owned()),
        Some(status) => fault(status, "the test's provider is in trouble"),
        None => next.run(request).await,
    }
}

impl Inner {
    fn take(&mut self, tag: Option<String>, calls: Vec<(String, Value)>) -> Held {
        let status = match self.at_once {
            true => Status::Ended,
            false => Status::Runs,
        };
        let held = Held {
            id: format!("batch_{}", self.batches.len()),
            tag,
            calls,
            status,
        };
        self.batches.push(held.clone());
        held
    }

    fn of(&mut self, id: &str) -> Option<&mut Held> {
        self.batches.iter_mut().find(|batch| batch.id == id)
    }

    fn cancel(&mut self, id: &str) -> Option<Held> {
        let batch = self.of(id)?;
        if batch.status == Status::Runs {
            batch.status = Status::Cancelled;
        }
        Some(batch.clone())
    }

    /// A file of answers, broken off if it is to be.
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

/// Custom ids that every provider takes, each once; else what is wrong.
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

mod openai {
    use super::*;

    fn completion(content: &str, body: &Value) -> Value {
        json!({
            "id": "chatcmpl-test", "object": "chat.completion", "model": body["model"],
            "choices": [{ "index": 0, "finish_reason": "stop", "message": {
                "role": "assistant", "content": content } }],
            "usage": { "prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT },
        })
    }

    /// Status and body of one call; `None` for one that has none.
    fn end(fate: &Fate, body: &Value) -> Option<(u16, Value)> {
        match fate {
            Fate::Score(total) => {
                let reply = good_reply(*total, body).to_string();
                Some((200, completion(&reply, body)))
            }
            Fate::Content(text) => Some((200, completion(text, body))),
            Fate::Errored(status) => {
                let error = json!({ "error": { "message": "no", "code": "server_says_so" } });
                Some((*status, error))
            }
            Fate::Expired | Fate::Missing | Fate::Rubbish => None,
        }
    }

    pub(super) async fn complete(
        State(shared): State<Shared>,
        body: axum::Json<Value>,
    ) -> Response<Body> {
        let rule = {
            let mut inner = shared.lock();
            inner.asked.push(body.0.clone());
            inner.rule.clone()
        };
        match end(&rule(&body.0), &body.0) {
            Some((status, body)) => respond(status, body.to_string()),
            None => fault(503, "it has no answer"),
        }
    }

    pub(super) async fn upload(
        State(shared): State<Shared>,
        headers: HeaderMap,
        body: Bytes,
    ) -> Response<Body> {
        let kind = headers["content-type"].to_str().unwrap();
        let Some(boundary) = kind.strip_prefix("multipart/form-data; boundary=") else {
            return fault(400, "a file comes as multipart/form-data");
        };
        let text = String::from_utf8(body.to_vec()).unwrap();
        let mut fields = BTreeMap::new();
        let fence = format!("--{boundary}");
        for piece in text.split(fence.as_str()) {
            let Some((head, content)) = piece.split_once("\r\n\r\n") else {
                continue;
            };
            let name = head.split("name=\"").nth(1).unwrap().split('"').next();
            let content = content.strip_suffix("\r\n").unwrap();
            fields.insert(name.unwrap().to_owned(), content.to_owned());
        }
        if !text.ends_with(&format!("{fence}--\r\n")) {
            return fault(400, "the form has no end");
        }
        if fields.get("purpose").map(String::as_str) != Some("batch") {
            return fault(400, "purpose must be batch");
        }
        let Some(file) = fields.remove("file") else {
            return fault(400, "file is missing");
        };
        let mut inner = shared.lock();
        let id = format!("file-{}", inner.files.len());
        inner.files.insert(id.clone(), file.into_bytes());
        respond(
            200,
            json!({ "id": id, "object": "file", "purpose": "batch" }).to_string(),
        )
    }

    pub(super) async fn create(
        State(shared): State<Shared>,
        wanted: axum::Json<Value>,
    ) -> Response<Body> {
        let mut inner = shared.lock();
        if wanted["completion_window"] != "24h" || wanted["endpoint"] != "/v1/chat/completions" {
            return fault(400, "no such window or endpoint");
        }
        let file = wanted["input_file_id"].as_str().unwrap_or_default();
        let Some(file) = inner.files.get(file) else {
            return fault(400, "no such file");
        };
        let text = String::from_utf8(file.clone()).unwrap();
        let calls = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&line["method"], &line["url"]),
                (&json!("POST"), &wanted["endpoint"])
            );
            (
                line["custom_id"].as_str().unwrap().to_owned(),
                line["body"].clone(),
            )
        });
        match checked(calls.collect()) {
            Ok(calls) => {
                let tag = wanted["metadata"]["gavel"].as_str().map(str::to_owned);
                let held = inner.take(tag, calls);
                respond(200, view(&held).to_string())
            }
            Err(what) => fault(400, &what),
        }
    }

    fn view(batch: &Held) -> Value {
        let (status, answers) = match batch.status {
            Status::Runs => ("in_progress", false),
            Status::Ended => ("completed", true),
            Status::Cancelled => ("cancelled", true),
            Status::Refused(_) => ("failed", false),
        };
        let file = |kind: &str| answers.then(|| format!("{kind}-{}", batch.id));
        let refused = match batch.status {
            Status::Refused(code) => Some(json!({
                "object": "list", "data": [{ "code": code, "message": "line 1 is odd" }],
            })),
            Status::Runs | Status::Ended | Status::Cancelled => None,
        };
        json!({
            "id": batch.id, "object": "batch", "status": status, "endpoint": "/v1/chat/completions",
            "output_file_id": file("output"), "error_file_id": file("error"), "errors": refused,
            "request_counts": { "total": batch.calls.len(), "completed": 0, "failed": 0 },
            "metadata": { "gavel": batch.tag },
        })
    }

    pub(super) async fn look(
        State(shared): State<Shared>,
        Path(id): Path<String>,
    ) -> Response<Body> {
        match shared.lock().of(&id) {
            Some(batch) => respond(200, view(batch).to_string()),
            None => fault(404, "no such batch"),
        }
    }

    /// Pages of two, the newest first, whatever limit is asked for.
    pub(super) async fn list(
        State(shared): State<Shared>,
        Query(query): Query<BTreeMap<String, String>>,
    ) -> Response<Body> {
        let inner = shared.lock();
        let newest_first = inner.batches.iter().rev();
        let mut left: Vec<&Held> = newest_first.collect();
        if let Some(after) = query.get("after") {
            let at = left.iter().position(|batch| batch.id == *after).unwrap();
            left.drain(..=at);
        }
        let page: Vec<Value> = left.iter().take(2).map(|batch| view(batch)).collect();
        let list = json!({ "object": "list", "data": page, "has_more": left.len() > 2 });
        respond(200, list.to_string())
    }

    pub(super) async fn cancel(
        State(shared): State<Shared>,
        Path(id): Path<String>,
    ) -> Response<Body> {
        match shared.lock().cancel(&id) {
            Some(batch) => respond(200, view(&batch).to_string()),
            None => fault(404, "no such batch"),
        }
    }

    pub(super) async fn content(
        State(shared): State<Shared>,
        Path(id): Path<String>,
    ) -> Response<Body> {
        let mut inner = shared.lock();
        let rule = inner.rule.clone();
        let Some((kind, batch)) = id.split_once('-') else {
            return fault(404, "no such file");
        };
        let Some(batch) = inner.of(batch).cloned() else {
            return fault(404, "no such file");
        };
        let mut lines = Vec::new();
        for (id, body) in batch.calls.iter().rev() {
            let mut fate = rule(body);
            if batch.status == Status::Cancelled {
                fate = Fate::Expired;
            }
            let good = matches!(fate, Fate::Score(_) | Fate::Content(_) | Fate::Rubbish);
            if good != (kind == "output") || matches!(fate, Fate::Missing) {
                continue;
            }
            if matches!(fate, Fate::Rubbish) {
                lines.push("{\"custom_id\": ".to_owned());
                continue;
            }
            let line = match end(&fate, body) {
                Some((status, body)) => json!({
                    "id": "batch_req_1", "custom_id": id, "error": null,
                    "response": { "status_code": status, "request_id": "r", "body": body },
                }),
                None => json!({
                    "id": "batch_req_1", "custom_id": id, "response": null,
                    "error": { "code": "batch_expired", "message": "its time was over" },
                }),
            };
            lines.push(line.to_string());
        }
        inner.send(lines)
    }
}

mod anthropic {
    use super::*;

    fn message(content: &str, body: &Value) -> Value {
        json!({
            "id": "msg_test", "type": "message", "role": "assistant", "model": body["model"],
            "content": [{ "type": "text", "text": content }], "stop_reason": "end_turn",
            "usage": { "input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT },
        })
    }

    fn end(fate: &Fate, body: &Value) -> Value {
        let succeeded =
            |content: &str| json!({ "type": "succeeded", "message": message(content, body) });
        match fate {
            Fate::Score(total) => succeeded(&good_reply(*total, body).to_string()),
            Fate::Content(text) => succeeded(text),
            Fate::Errored(status) => json!({ "type": "errored", "error": {
                "type": "error", "error": { "type": kind_of(*status), "message": "no" } } }),
            Fate::Expired | Fate::Missing | Fate::Rubbish => json!({ "type": "expired" }),
        }
    }

    pub(super) async fn answer(
        State(shared): State<Shared>,
        body: axum::Json<Value>,
    ) -> Response<Body> {
        let rule = {
            let mut inner = shared.lock();
            inner.asked.push(body.0.clone());
            inner.rule.clone()
        };
        let fate = rule(&body.0);
        match (&fate, end(&fate, &body.0)) {
            (Fate::Score(_) | Fate::Content(_), end) => respond(200, end["message"].to_string()),
            (Fate::Errored(status), _) => fault(*status, "no"),
            (Fate::Expired | Fate::Missing | Fate::Rubbish, _) => fault(529, "it has no answer"),
        }
    }

    pub(super) async fn create(
        State(shared): State<Shared>,
        headers: HeaderMap,
        wanted: axum::Json<Value>,
    ) -> Response<Body> {
        if !headers.contains_key("anthropic-version") {
            return fault(400, "anthropic-version is missing");
        }
        let calls = wanted["requests"].as_array().cloned().unwrap_or_default();
        let calls = calls.into_iter().map(|call| {
            let id = call["custom_id"].as_str().unwrap().to_owned();
            (id, call["params"].clone())
        });
        match checked(calls.collect()) {
            Ok(calls) => {
                let mut inner = shared.lock();
                let held = inner.take(None, calls);
                respond(200, view(&held, None).to_string())
            }
            Err(what) => fault(400, &what),
        }
    }

    fn view(batch: &Held, results_at: Option<&str>) -> Value {
        let ended = batch.status != Status::Runs;
        json!({
            "id": batch.id, "type": "message_batch",
            "processing_status": if ended { "ended" } else { "in_progress" },
            "request_counts": {
                "processing": if ended { 0 } else { batch.calls.len() },
                "succeeded": if ended { batch.calls.len() } else { 0 },
                "errored": 0, "canceled": 0, "expired": 0,
            },
            "results_url": results_at,
        })
    }

    pub(super) async fn look(
        State(shared): State<Shared>,
        Path(id): Path<String>,
    ) -> Response<Body> {
        let mut inner = shared.lock();
        let results_at = inner.results_at.clone();
        match inner.of(&id) {
            Some(batch) => respond(200, view(batch, results_at.as_deref()).to_string()),
            None => fault(404, "no such batch"),
        }
    }

    pub(super) async fn cancel(
        State(shared): State<Shared>,
        Path(id): Path<String>,
    ) -> Response<Body> {
        match shared.lock().cancel(&id) {
            Some(batch) => respond(200, view(&batch, None).to_string()),
            None => fault(404, "no such batch"),
        }
    }

    pub(super) async fn results(
        State(shared): State<Shared>,
        Path(id): Path<String>,
    ) -> Response<Body> {
        let mut inner = shared.lock();
        let rule = inner.rule.clone();
        let Some(batch) = inner.of(&id).cloned() else {
            return fault(404, "no such batch");
        };
        let mut lines = Vec::new();
        for (id, body) in batch.calls.iter().rev() {
            let fate = match batch.status {
                Status::Cancelled => Fate::Expired,
                Status::Runs | Status::Ended | Status::Refused(_) => rule(body),
            };
            match fate {
                Fate::Missing => {}
                Fate::Rubbish => lines.push("{\"custom_id\": ".to_owned()),
                Fate::Score(_) | Fate::Content(_) | Fate::Errored(_) | Fate::Expired => {
                    let result = end(&fate, body);
                    lines.push(json!({ "custom_id": id, "result": result }).to_string());
                }
            }
        }
        inner.send(lines)
    }
}
