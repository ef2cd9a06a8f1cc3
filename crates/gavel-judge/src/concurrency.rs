//! Concurrency permits: whoever asks may bound how many of its calls are out at once.
//!
//! A question waits for a permit after the cache and before the gate, and holds it until a reply has come, also through waits in
//! the slot and pauses before retries. Never decides how many there are.

use std::fmt;

use async_trait::async_trait;

use super::CallUsage;

/// Gives permits.
#[async_trait]
pub trait CallPermits: fmt::Debug + Send + Sync {
    /// Waits for the permit of a question that was not asked yet. `None`: none is near, so the question had better be asked
    /// elsewhere, or later.
    async fn first(&self) -> Option<ConcurrencyPermit>;

    /// Waits for another permit of a question that was answered once, and badly.
    async fn another(&self) -> ConcurrencyPermit;
}

/// What a permit holds; dropped with it.
pub trait PermitHooks: Send {
    /// A call goes out now. A permit may end without one: the gate refused it.
    fn calls(&mut self) {}

    /// The call was answered, well or badly, and this is what it used: whoever breaks the question off owes it all the same.
    fn used(&mut self, _: CallUsage) {}
}

/// A permit; it ends when it is dropped.
pub struct ConcurrencyPermit(Box<dyn PermitHooks>);

impl ConcurrencyPermit {
    /// A permit that lasts as long as `hooks` lives.
    pub fn holding(hooks: impl PermitHooks + 'static) -> Self {
        Self(Box::new(hooks))
    }

    pub fn calls(&mut self) {
        self.0.calls();
    }

    pub fn used(&mut self, usage: CallUsage) {
        self.0.used(usage);
    }
}

impl PermitHooks for () {}

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
