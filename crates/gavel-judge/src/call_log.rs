//! Every call to a provider, retries and repairs included: what the bill and the audit are made of, and where a question's reply
//! is found again.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::CacheKey;
use super::error::ErrorClass;

/// Tokens and money of one call, or of several.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CallUsage {
    /// Prompt tokens, cached ones included.
    pub tokens_in: i64,
    /// Those of them that the provider read from its prompt cache.
    pub tokens_in_cached: i64,
    /// Reply tokens, hidden reasoning included.
    pub tokens_out: i64,
    /// USD; `None` if a model has no price.
    pub cost_usd: Option<f64>,
}

/// One call to a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    /// Identifies the call.
    pub call_id: Uuid,
    /// Whose question it was: the job's id, which the judge doesn't interpret.
    pub asked_for: Uuid,
    pub judge: String,
    /// The model as asked, or as reported if there was a reply.
    pub model: String,
    /// When it was sent.
    pub at: DateTime<Utc>,
    /// How long it took; zero for one that was collected from a provider's batch.
    pub latency: Duration,
    /// `None` for a good reply.
    pub error: Option<ErrorClass>,
    /// What happened, for an error and for a good reply with an odd finish reason.
    pub message: Option<String>,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// What it used, as reported.
    pub usage: CallUsage,
    /// The reply's text, cut at 64 KiB.
    pub reply: Option<String>,
    /// Whether a simulated judge answered.
    pub simulated: bool,
    /// Whether it was the repair turn of its question.
    pub repaired: bool,
    /// Retries of its question that were spent before, over all runs.
    pub retries_spent: u32,
    /// The key under which it may stand for a later call; `None`: for none.
    pub cache_key: Option<CacheKey>,
}

/// Takes call records and finds them again. Never fails the caller: the implementer queues, logs what it had to drop, and finds
/// nothing where it can't look.
#[async_trait]
pub trait CallLog: Send + Sync {
    /// Takes one record, without blocking.
    fn log(&self, call: CallRecord);
    /// The newest call with this key that was sent after `since`.
    async fn find(&self, key: CacheKey, since: DateTime<Utc>) -> Option<CallRecord>;
}
