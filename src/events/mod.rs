//! Events for listeners, so that clients needn't poll. Events may be lost; the rows in the store are authoritative.
//!
//! ```text
//! enqueue, worker, api ── Announcer ──▶ one task per process ──▶ Redis stream ──▶ follow ──▶ Feed ──▶ every listener
//!                                                          └──── in process ────────────────▶
//! ```
//!
//! Events must not delay jobs: if one doesn't fit or can't be sent, it is dropped, and `reset` makes listeners read the rows again. Events
//! are announced after the commit. They contain ids and states, but no prompts, texts or keys.

mod announce;
mod event;
mod feed;
mod redis;

use async_trait::async_trait;

pub use self::announce::{Announcer, announcer};
pub use self::event::{Event, EventType};
pub use self::feed::{Feed, Heard, Listener, Start, StoredEvent};
pub use self::redis::{RedisEvents, follow};

#[async_trait]
pub trait Events: Send + Sync {
    /// Appends events in this order. Errors: the reason; some events may have been appended. Fails within seconds.
    async fn append(&self, events: &[Event]) -> Result<(), EventsError>;
}

#[derive(Debug, thiserror::Error)]
#[error("{attempted}: {reason}")]
pub struct EventsError {
    pub attempted: &'static str,
    pub reason: String,
}
