//! What happened, told to whoever listens: so that a client needn't poll. Never the truth: an event is a hint, the row counts.
//!
//! ```text
//! enqueue, worker, api ── Announcer ──▶ one task per process ──▶ Redis stream ──▶ follow ──▶ Feed ──▶ every listener
//!                                                          └──── in process ────────────────▶
//! ```
//!
//! Nothing here may hold up the flow: what doesn't fit or can't be sent is dropped, and listeners are told by `reset` to
//! read the rows again. Events are told after the commit, carry ids and states, and never a prompt, a text or a key.

mod announce;
mod event;
mod feed;
mod redis;

use async_trait::async_trait;

pub use self::announce::{Announcer, announcer};
pub use self::event::{Event, EventType};
pub use self::feed::{Feed, Heard, Listener, Start, StoredEvent};
pub use self::redis::{RedisEvents, follow};

/// Where events go.
#[async_trait]
pub trait Events: Send + Sync {
    /// Appends events in this order.
    ///
    /// # Errors
    /// Says why not; some may have been appended all the same. Fails within seconds.
    async fn append(&self, events: &[Event]) -> Result<(), EventsError>;
}

/// Why events were not told.
#[derive(Debug, thiserror::Error)]
#[error("{attempted}: {reason}")]
pub struct EventsError {
    /// What was attempted.
    pub attempted: &'static str,
    /// What the server or the driver said.
    pub reason: String,
}
