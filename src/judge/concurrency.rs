//! Whose turn it is to call: whoever asks may bound how many of its calls are out at once.
//!
//! A turn is waited for after the cache and before the gate, and ends when a reply has come: neither a look into the cache
//! nor the reading of a reply holds one; a wait that is spent in the slot, and the pause before a retry, do. Never decides
//! how many there are.

use std::fmt;

use async_trait::async_trait;

use super::CallUsage;

/// Gives turns.
#[async_trait]
pub trait CallPermits: fmt::Debug + Send + Sync {
    /// Waits for the turn of a question that was not asked yet. `None`: none is near, so the question had better be asked
    /// elsewhere, or later.
    async fn first(&self) -> Option<ConcurrencyPermit>;

    /// Waits for another turn of a question that was answered once, and badly.
    async fn another(&self) -> ConcurrencyPermit;
}

/// What a turn holds; dropped when the turn ends.
pub trait Held: Send {
    /// A call goes out now. A turn may end without one: the gate refused it.
    fn calls(&mut self) {}

    /// The call was answered, well or badly, and this is what it used: whoever breaks the question off owes it all the same.
    fn used(&mut self, _: CallUsage) {}
}

/// A turn; it ends when it is dropped.
pub struct ConcurrencyPermit(Box<dyn Held>);

impl ConcurrencyPermit {
    /// A turn that lasts as long as `held` lives.
    pub fn holding(held: impl Held + 'static) -> Self {
        Self(Box::new(held))
    }

    /// A call goes out now.
    pub(crate) fn calls(&mut self) {
        self.0.calls();
    }

    /// The call was answered, and used this.
    pub(crate) fn used(&mut self, usage: CallUsage) {
        self.0.used(usage);
    }
}

impl Held for () {}

/// As many calls at once as are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unbounded;

#[async_trait]
impl CallPermits for Unbounded {
    async fn first(&self) -> Option<ConcurrencyPermit> {
        Some(self.another().await)
    }

    async fn another(&self) -> ConcurrencyPermit {
        ConcurrencyPermit::holding(())
    }
}
