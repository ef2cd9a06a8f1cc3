//! Whose turn it is to call: whoever asks may bound how many of its calls are out at once.
//!
//! A turn is waited for after the cache and before the gate, and ends when a reply has come: neither a look into the cache
//! nor the reading of a reply holds one; a wait that is spent in the slot, and the pause before a retry, do. Never decides
//! how many there are.

use std::any::Any;
use std::fmt;

use async_trait::async_trait;

/// Gives turns.
#[async_trait]
pub trait CallTurns: fmt::Debug + Send + Sync {
    /// Waits for the turn of a question that was not asked yet. `None`: none is near, so the question had better be asked
    /// elsewhere, or later.
    async fn first(&self) -> Option<Turn>;

    /// Waits for another turn of a question that was answered once, and badly.
    async fn another(&self) -> Turn;
}

/// A turn; it ends when it is dropped.
pub struct Turn(#[expect(dead_code, reason = "held for its drop")] Box<dyn Any + Send>);

impl Turn {
    /// A turn that lasts as long as `held` lives.
    pub fn holding(held: impl Any + Send) -> Self {
        Self(Box::new(held))
    }
}

/// As many calls at once as are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unbounded;

#[async_trait]
impl CallTurns for Unbounded {
    async fn first(&self) -> Option<Turn> {
        Some(self.another().await)
    }

    async fn another(&self) -> Turn {
        Turn::holding(())
    }
}
