//! Fakes around the API: a queue that records pushes, a process with settable health, judges that are never called.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use gavel::api::Health;
use gavel::job::{JobId, Lane};
use gavel::judge::Providers;
use gavel::queue::{ClaimRequest, Claimed, Depth, Push, Queue, QueueError};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

/// Judge with a context window too small for any prompt.
pub(super) const NARROW: &str = "narrow";

/// `judge-a` has a price and limits, [`NARROW`] a price; `judge-b` and the models of `anything` have none. `no-key` isn't configured.
pub(super) fn providers() -> Providers {
    let entry = |more: Value| {
        let mut entry =
            json!({"type": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m1"});
        let fields = more.as_object().unwrap().clone();
        entry.as_object_mut().unwrap().extend(fields);
        entry
    };
    let prices = json!({"m1": {
        "input_per_mtok": 1.0, "output_per_mtok": 10.0, "as_of": "2024-10-01", "source": "test",
    }});
    let entries = json!({
        "judge-a": entry(json!({"key": "k", "prices": prices, "requests_per_minute": 120})),
        "judge-b": entry(json!({"key": "k"})),
        "anything": entry(json!({"key": "k", "models": ["*"]})),
        NARROW: entry(json!({"key": "k", "prices": prices, "context_window": 600, "max_output_tokens": 500})),
        "no-key": entry(json!({"hint": "set its key in llm_providers.yaml"})),
    });
    Providers::from_value(&entries, &|_| Err("no file".to_owned())).unwrap()
}

#[derive(Default)]
pub(super) struct Pushed {
    pushes: Mutex<Vec<Push>>,
    arrived: Notify,
}

impl Pushed {
    pub(super) async fn next(&self) -> Push {
        loop {
            let arrived = self.arrived.notified();
            if let Some(push) = self.pushes.lock().unwrap().pop() {
                return push;
            }
            arrived.await;
        }
    }
}

#[async_trait]
impl Queue for Pushed {
    async fn push(&self, ids: &[Push]) -> Result<(), QueueError> {
        self.pushes.lock().unwrap().extend_from_slice(ids);
        self.arrived.notify_one();
        Ok(())
    }
    async fn push_first(&self, ids: &[Push]) -> Result<(), QueueError> {
        self.push(ids).await
    }
    async fn claim(&self, _owner: Uuid, _claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
        Ok(Vec::new())
    }
    async fn ack(&self, _owner: Uuid, _ids: &[JobId]) -> Result<(), QueueError> {
        Ok(())
    }
    async fn release(&self, _owner: Uuid, _ids: &[Claimed]) -> Result<(), QueueError> {
        Ok(())
    }
    async fn later(
        &self,
        _owner: Uuid,
        _push: &Push,
        _when: DateTime<Utc>,
    ) -> Result<(), QueueError> {
        Ok(())
    }
    async fn renew(&self, _owner: Uuid, _ids: &[JobId]) -> Result<Vec<JobId>, QueueError> {
        Ok(Vec::new())
    }
    async fn remove(&self, _ids: &[JobId]) -> Result<(), QueueError> {
        Ok(())
    }
    async fn depth(&self, _lane: &Lane) -> Result<Depth, QueueError> {
        Ok(Depth::default())
    }
    async fn woken(&self, _at_most: Duration) {}
    async fn ping(&self) -> Result<(), QueueError> {
        Ok(())
    }
    fn lease(&self) -> Duration {
        Duration::from_secs(5)
    }
}

#[derive(Default)]
pub(super) struct Condition {
    pub(super) degraded: Mutex<Vec<(&'static str, String)>>,
    pub(super) draining: AtomicBool,
}

#[async_trait]
impl Health for Condition {
    async fn degraded(&self) -> Vec<(&'static str, String)> {
        self.degraded.lock().unwrap().clone()
    }
    fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
