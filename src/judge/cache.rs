//! The reply cache: the same question to the same judge under the same criteria is asked once in 24 h.

use async_trait::async_trait;
use serde_json::Value;

/// SHA-256 over judge identity, parameters, criteria hash and the question before fencing, hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey(pub String);

/// What is kept of a reply that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedReply {
    /// The provider entry's name.
    pub provider: String,
    /// The model as reported.
    pub model: String,
    /// The reply's JSON.
    pub reply: Value,
    /// Whether a simulated judge made it.
    pub simulated: bool,
    /// Whether it took a repair turn.
    pub repaired: bool,
}

/// Keeps replies across runs. A failing cache is a miss, never an error: the implementer logs and answers `None`.
#[async_trait]
pub trait ReplyCache: Send + Sync {
    /// Looks up a reply that has not expired.
    async fn get(&self, key: &CacheKey) -> Option<CachedReply>;
    /// Keeps a reply for 24 h. Never fails the caller.
    async fn put(&self, key: CacheKey, reply: CachedReply);
}
