//! A judge that records the time of each call and delays its replies until released.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::watch;

struct Shared {
    calls: Mutex<Vec<(String, Instant)>>,
    in_flight: AtomicUsize,
    open: watch::Sender<bool>,
}

pub(crate) struct DelayedJudge {
    address: std::net::SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for DelayedJudge {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl DelayedJudge {
    /// Starts a judge that delays every call.
    pub(crate) async fn start() -> Self {
        let shared = Arc::new(Shared {
            calls: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            open: watch::Sender::new(false),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .layer(axum::extract::DefaultBodyLimit::max(64 << 20))
            .with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            shared,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Replies to all pending and future calls.
    pub(crate) fn release(&self) {
        self.shared.open.send_replace(true);
    }

    pub(crate) fn calls(&self) -> Vec<(String, Instant)> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// Waits until this number of calls is pending.
    pub(crate) async fn until_in_flight(&self, calls: usize) {
        let begun = Instant::now();
        while self.shared.in_flight.load(Ordering::SeqCst) < calls {
            assert!(
                begun.elapsed() < super::PATIENCE,
                "{calls} calls are not in flight"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn complete(State(shared): State<Arc<Shared>>, body: axum::body::Bytes) -> axum::Json<Value> {
    let at = Instant::now();
    let text = String::from_utf8_lossy(&body);
    let begin = text.find("mark-0").expect("each session has a mark");
    let mark = text[begin..begin + 37].to_owned();
    shared.calls.lock().unwrap().push((mark, at));
    shared.in_flight.fetch_add(1, Ordering::SeqCst);
    drop(text);
    drop(body);
    shared
        .open
        .subscribe()
        .wait_for(|open| *open)
        .await
        .unwrap();
    let reply = json!({
        "score_reasoning": "The agent read the logs of the pod and stopped there. It didn't check for earlier restarts.",
        "score_breakdown": { "logical_flow": 15, "consistency": 15, "tool_relevance": 15, "synthesis_quality": 15 },
        "total_score": 60,
        "missing_tools": [],
        "alternative_approaches": [],
    });
    axum::Json(json!({
        "model": "simulated-bench",
        "choices": [{ "finish_reason": "stop", "message": { "role": "assistant", "content": reply.to_string() } }],
        "usage": { "prompt_tokens": 1_000, "completion_tokens": 100 },
    }))
}
