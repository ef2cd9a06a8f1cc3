//! Log of all provider calls including retries and repair turns, for billing, audit and the reply cache.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::CacheKey;
use super::error::ErrorClass;

/// Tokens and cost of one or more calls.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CallUsage {
    /// Prompt tokens, including cached ones.
    pub tokens_in: i64,
    /// Prompt tokens read from the provider's cache.
    pub tokens_in_cached: i64,
    /// Reply tokens, including hidden reasoning.
    pub tokens_out: i64,
    /// USD. `None` if a model has no price.
    pub cost_usd: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    pub call_id: Uuid,
    /// Id of the job. The judge doesn't interpret it.
    pub asked_for: Uuid,
    pub judge: String,
    /// Requested model, or the reported one if there was a reply.
    pub model: String,
    pub at: DateTime<Utc>,
    /// Zero for answers collected from a batch.
    pub latency: Duration,
    /// `None` for a good reply.
    pub error: Option<ErrorClass>,
    /// Error text, or a note on an unusual finish reason.
    pub message: Option<String>,
    /// HTTP status, if a response arrived.
    pub status: Option<u16>,
    pub usage: CallUsage,
    /// Reply text, cut at 64 KiB.
    pub reply: Option<String>,
    pub simulated: bool,
    pub repaired: bool,
    /// Retries of the question before this call, over all runs.
    pub retries_spent: u32,
    /// Key for reuse by later calls. `None` if it can't be reused.
    pub cache_key: Option<CacheKey>,
}

/// Stores and finds call records. Errors don't reach the caller: implementations queue records and log dropped ones.
#[async_trait]
pub trait CallLog: Send + Sync {
    /// Stores one record without blocking.
    fn log(&self, call: CallRecord);
    /// Returns the newest call with this key sent after `since`.
    async fn find(&self, key: CacheKey, since: DateTime<Utc>) -> Option<CallRecord>;
}
