//! Concurrency permits. They limit the concurrent calls of a caller.
//!
//! A question acquires a permit after the cache and before the gate. It keeps the permit until a reply arrives, including waits in the slot
//! and pauses before retries. The caller decides the number of permits.

use std::fmt;

use async_trait::async_trait;

use super::CallUsage;

#[async_trait]
pub trait CallPermits: fmt::Debug + Send + Sync {
    /// Acquires the permit of a first call. `None` if the wait would be long, so that the question should go elsewhere.
    async fn first(&self) -> Option<ConcurrencyPermit>;

    /// Acquires the permit for a further call of a question.
    async fn another(&self) -> ConcurrencyPermit;
}

/// Callbacks of a permit, dropped with it.
pub trait PermitHooks: Send {
    /// Called before a call is sent. Not called if the gate denies the call.
    fn calls(&mut self) {}

    /// Called with the usage of a finished call. It is due even if the question is cancelled.
    fn used(&mut self, _: CallUsage) {}
}

pub struct ConcurrencyPermit(Box<dyn PermitHooks>);

impl ConcurrencyPermit {
    /// Creates a permit that owns `hooks`.
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
