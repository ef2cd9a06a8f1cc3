//! Fakes around the API: a queue that records pushes, a process with settable health, judges with only their terms.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gavel::api::Health;
use gavel::enqueue::{JudgeDirectory, JudgeFacts};
use gavel::job::Lane;
use gavel::queue::{ClaimRequest, Claimed, Depth, Push, Queue, QueueError};
use gavel::score::{Criteria, Scorable};
use tokio::sync::Notify;

/// `judge-a` has a price and limits, [`NARROW`] a price, the others have none; each prompt is 1,000 tokens.
pub(super) struct Priced;

pub(super) const FIRST: &str = "anything:first";

/// Judge with a context too small for any prompt.
pub(super) const NARROW: &str = "anything:narrow";

impl JudgeDirectory for Priced {
    fn fallback(&self, _: &str) -> Option<String> {
        None
    }

    fn named(&self, name: &str, _: &str) -> String {
        name.to_owned()
    }

    fn facts(&self, judge: &str) -> Option<JudgeFacts> {
        let known = judge == "judge-a";
        Some(JudgeFacts {
            simulated: false,
            batch_price_factor: None,
            priced: known || judge == NARROW,
            requests_per_minute: known.then_some(120),
            tokens_per_minute: None,
            reply_tokens: 100.0,
        })
    }

    fn full_name(&self, judge: &str) -> Option<String> {
        match judge {
            "judge-a" | FIRST => Some("judge-a:m1".to_owned()),
            other => Some(other.to_owned()),
        }
    }

    fn prompt_tokens(&self, judge: &str, _: &dyn Scorable, _: &Criteria) -> Option<f64> {
        (judge != NARROW).then_some(1_000.0)
    }

    fn cost_usd(&self, judge: &str, tokens_in: f64, tokens_out: f64) -> Option<f64> {
        (judge == "judge-a").then(|| (tokens_in + 10.0 * tokens_out) / 1e6)
    }
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
    async fn claim(&self, _claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
        Ok(Vec::new())
    }
    async fn depth(&self, _lane: &Lane) -> Result<Depth, QueueError> {
        Ok(Depth::default())
    }
    async fn woken(&self, _at_most: Duration) {}
    async fn ping(&self) -> Result<(), QueueError> {
        Ok(())
    }
    fn holds_ids(&self) -> bool {
        true
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
