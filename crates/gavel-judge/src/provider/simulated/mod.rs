//! A judge that judges nothing: chat completions over HTTP whose scores are made of a hash of the question.
//!
//! It lets the whole real path run without a key and without cost. The same question gets the same reply, whatever nonce
//! fences it. It marks everything that it says as simulated, and never calls anybody.

mod answer;
mod faults;
mod question;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use faults::Fault;
pub use faults::FaultRates;

/// The model that answers, whatever model was asked for.
pub const MODEL: &str = "simulated-judge-v1";

/// A question larger than this is refused.
const LARGEST_BODY: usize = 32 * 1024 * 1024;
/// Connections that may wait to be accepted; the system caps it.
const LONGEST_LINE: u32 = 8192;
/// What a `timeout` fault holds a call for; longer than any caller waits.
const HELD: Duration = Duration::from_secs(3600);

/// How the simulator behaves.
#[derive(Debug, Clone, Default)]
pub struct SimulatorOptions {
    /// How long after its question each reply goes out.
    pub latency: Duration,
    /// Which calls go wrong.
    pub faults: FaultRates,
    /// What faults are sampled from, with the number of the call. Scores don't depend on it.
    pub seed: u64,
}

struct Simulator {
    options: SimulatorOptions,
    calls: AtomicU64,
    shutdown: CancellationToken,
    /// The response format that was asked for last, read: thousands of questions in a row ask for the same.
    format: Mutex<Option<(Box<RawValue>, Arc<Value>)>>,
}

/// Listens with a line that a worker of thousands of slots fits into: it connects all of them at once.
pub fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LONGEST_LINE)
}

/// Serves until `shutdown` is cancelled, then lets replies that are on their way go out.
pub async fn serve(
    listener: TcpListener,
    options: SimulatorOptions,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let simulator = Arc::new(Simulator {
        options,
        calls: AtomicU64::new(0),
        shutdown: shutdown.clone(),
        format: Mutex::default(),
    });
    let routes = Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/v1/models", get(models))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(simulator);
    axum::serve(listener, routes)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}

#[derive(Deserialize)]
struct Request {
    messages: Vec<Message>,
    response_format: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Message {
    content: String,
}

async fn complete(
    State(simulator): State<Arc<Simulator>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let due = Instant::now() + simulator.options.latency;
    let refuse = |status, reason: &str| error(status, "invalid_request_error", reason);
    let request: Request = match body {
        Ok(body) => match serde_json::from_slice(&body) {
            Ok(request) => request,
            Err(fault) => return refuse(StatusCode::BAD_REQUEST, &fault.to_string()),
        },
        Err(rejection) => return refuse(rejection.status(), &rejection.body_text()),
    };
    let call = simulator.calls.fetch_add(1, Ordering::Relaxed);
    let fault = simulator
        .options
        .faults
        .sample(simulator.options.seed, call);
    // Made before the hold: what is held of thousands of calls is their replies, and none is later than it should be.
    let reply = request.reply(
        call,
        fault,
        simulator.format(request.response_format.as_deref()),
    );
    drop(request);
    if !simulator.hold_until(due).await {
        return shutting_down();
    }
    match fault {
        None | Some(Fault::Malformed | Fault::Truncated) => marked(Json(reply).into_response()),
        Some(Fault::TooManyRequests) => {
            let mut refusal = error(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_exceeded",
                "SIMULATED rate limit",
            );
            refusal
                .headers_mut()
                .insert("retry-after", axum::http::HeaderValue::from_static("1"));
            refusal
        }
        Some(Fault::ServerError) => error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "server_error",
            "SIMULATED server error",
        ),
        Some(Fault::Timeout) => {
            simulator.hold_until(Instant::now() + HELD).await;
            shutting_down()
        }
    }
}

async fn models() -> Response {
    let model = json!({ "id": MODEL, "object": "model", "owned_by": "gavel", "simulated": true });
    marked(Json(json!({ "object": "list", "data": [model] })).into_response())
}

impl Simulator {
    /// Waits; `false` if the simulator is told to stop meanwhile.
    async fn hold_until(&self, due: Instant) -> bool {
        if due <= Instant::now() {
            return true;
        }
        tokio::select! {
            () = tokio::time::sleep_until(due) => true,
            () = self.shutdown.cancelled() => false,
        }
    }

    /// A response format, read.
    fn format(&self, raw: Option<&RawValue>) -> Option<Arc<Value>> {
        let raw = raw?;
        let mut last = self.format.lock();
        if let Some((text, format)) = &*last
            && text.get() == raw.get()
        {
            return Some(Arc::clone(format));
        }
        let format: Arc<Value> = Arc::new(serde_json::from_str(raw.get()).ok()?);
        *last = Some((raw.to_owned(), Arc::clone(&format)));
        Some(format)
    }
}

impl Request {
    fn reply(&self, call: u64, fault: Option<Fault>, format: Option<Arc<Value>>) -> Value {
        // A repair turn asks the same question again: its first message decides.
        let prompt = self.messages.first().map_or("", |first| &first.content);
        let digest = question::digest(prompt);
        let schema = format
            .as_ref()
            .and_then(|format| format.pointer("/json_schema/schema"));
        let mut content = answer::answer(schema, &digest).to_string();
        let mut finish_reason = "stop";
        match fault {
            Some(Fault::Malformed) => content = "SIMULATED: this is not JSON {".to_owned(),
            Some(Fault::Truncated) => {
                content.truncate(content.floor_char_boundary(content.len() / 2));
                finish_reason = "length";
            }
            None | Some(Fault::TooManyRequests | Fault::ServerError | Fault::Timeout) => {}
        }
        let asked: usize = self.messages.iter().map(|said| said.content.len()).sum();
        let (prompt_tokens, completion_tokens) = (asked.div_ceil(4), content.len().div_ceil(4));
        json!({
            "id": format!("simulated-{call}"),
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "simulated": true,
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": content },
                "finish_reason": finish_reason,
            }],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion_tokens,
                "total_tokens": prompt_tokens + completion_tokens,
            },
        })
    }
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({
        "error": { "message": message, "type": code, "code": code },
        "simulated": true,
    });
    marked((status, Json(body)).into_response())
}

fn shutting_down() -> Response {
    error(
        StatusCode::SERVICE_UNAVAILABLE,
        "shutting_down",
        "SIMULATED judge is shutting down",
    )
}

fn marked(mut response: Response) -> Response {
    response.headers_mut().insert(
        HeaderName::from_static("x-simulated"),
        axum::http::HeaderValue::from_static("true"),
    );
    response
}
