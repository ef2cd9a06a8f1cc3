//! Simulator of a judge: chat completions over HTTP with scores derived from a hash of the question.
//!
//! Runs the real code without a key and without cost. Replies don't depend on the nonce of a question. Marks all replies as
//! simulated and makes no calls.

mod answer;
mod faults;
mod question;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use faults::FaultRates;

/// The model of all replies.
pub const MODEL: &str = "simulated-judge-v1";

const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// Connections that may wait to be accepted; the system limits it as well.
const BACKLOG: u32 = 8192;
/// Delay of an injected timeout, longer than any caller waits.
const TIMEOUT_DELAY: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Default)]
pub struct SimulatorOptions {
    /// Time between request and reply.
    pub latency: Duration,
    pub faults: FaultRates,
    /// Seed of the errors, together with the number of the call. Scores don't depend on it.
    pub seed: u64,
}

struct Simulator {
    options: SimulatorOptions,
    calls: AtomicU64,
    shutdown: CancellationToken,
}

/// Listens with a long backlog, because a worker may open thousands of connections at once.
pub fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `shutdown` is cancelled, then completes running replies.
pub async fn serve(
    listener: TcpListener,
    options: SimulatorOptions,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let simulator = Arc::new(Simulator {
        options,
        calls: AtomicU64::new(0),
        shutdown: shutdown.clone(),
    });
    let routes = Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/v1/models", get(models))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(simulator);
    axum::serve(listener, routes)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}

#[derive(Deserialize)]
struct Request {
    messages: Vec<Message>,
    response_format: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    content: String,
}

async fn complete(
    State(simulator): State<Arc<Simulator>>,
    body: Result<Json<Request>, JsonRejection>,
) -> Response {
    let due = Instant::now() + simulator.options.latency;
    let request = match body {
        Ok(Json(request)) => request,
        Err(refused) => {
            let (status, message) = (refused.status(), refused.body_text());
            return error(status, "invalid_request_error", &message);
        }
    };
    let SimulatorOptions { faults, seed, .. } = &simulator.options;
    let call = simulator.calls.fetch_add(1, Ordering::Relaxed);
    let fault = faults.sample(*seed, call);
    // Built before the delay, so that the reply is on time and only the reply stays in memory.
    let reply = request.reply(call, fault);
    drop(request);
    let due = due + TIMEOUT_DELAY * u32::from(fault == Some("timeout"));
    let (status, code, message) = tokio::select! {
        biased;
        () = tokio::time::sleep_until(due) => match fault {
            Some("429") => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", "SIMULATED rate limit"),
            Some("500" | "timeout") => {
                (StatusCode::INTERNAL_SERVER_ERROR, "server_error", "SIMULATED server error")
            }
            Some(_) | None => return marked(Json(reply).into_response()),
        },
        () = simulator.shutdown.cancelled() => {
            (StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "SIMULATED judge is shutting down")
        }
    };
    let retry_after = (status == StatusCode::TOO_MANY_REQUESTS).then_some([("retry-after", "1")]);
    (retry_after, error(status, code, message)).into_response()
}

async fn models() -> Response {
    let model = json!({ "id": MODEL, "object": "model", "owned_by": "gavel", "simulated": true });
    marked(Json(json!({ "object": "list", "data": [model] })).into_response())
}

impl Request {
    fn reply(&self, call: u64, fault: Option<&str>) -> Value {
        // A repair repeats the question as its first message.
        let prompt = self.messages.first().map_or("", |first| &first.content);
        let digest = question::digest(prompt);
        let format = self.response_format.as_ref();
        let schema = format.and_then(|format| format.pointer("/json_schema/schema"));
        let mut content = answer::answer(schema, digest).to_string();
        let mut finish_reason = "stop";
        match fault {
            Some("malformed") => content = "SIMULATED: this is not JSON {".to_owned(),
            Some("truncated") => {
                content.truncate(content.floor_char_boundary(content.len() / 2));
                finish_reason = "length";
            }
            Some(_) | None => {}
        }
        let asked: usize = self.messages.iter().map(|said| said.content.len()).sum();
        let (asked, said) = (asked.div_ceil(4), content.len().div_ceil(4));
        let message = json!({ "role": "assistant", "content": content });
        let choice = json!({ "index": 0, "message": message, "finish_reason": finish_reason });
        json!({
            "id": format!("simulated-{call}"), "object": "chat.completion", "created": 0, "model": MODEL, "simulated": true,
            "choices": [choice],
            "usage": { "prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said },
        })
    }
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    let error = json!({ "message": message, "type": code, "code": code });
    let body = json!({ "error": error, "simulated": true });
    marked((status, Json(body)).into_response())
}

fn marked(response: Response) -> Response {
    ([("x-simulated", "true")], response).into_response()
}
