//! Concurrency permits of a worker, and the number of runs prefetched in addition.
//!
//! Claiming a row, reading its session and building its prompt take about ten milliseconds. While calls are short, slots would be idle
//! during that time, so a few runs are prefetched. While calls are long, a job that waits for its permit here could run in another worker,
//! so none are prefetched and waiting jobs return to the queue. Before the first call has ended, calls count as short.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::judge::{CallPermits, ConcurrencyPermit, PermitHooks};
use crate::queue::backend::Prefetch;

/// Calls shorter than this are short.
const SHORT: Duration = Duration::from_secs(1);
/// Weight of a new call in the typical duration: one part in 8.
const PARTS: u64 = 8;
/// While calls are short, one run is prefetched per this number of permits.
const PERMITS_PER_PREFETCHED_RUN: usize = 2;

#[derive(Debug)]
pub struct ConcurrencyPermits {
    permits: Arc<Semaphore>,
    prefetching: Arc<AdaptivePrefetch>,
}

/// Typical call duration, and the prefetch derived from it.
#[derive(Debug)]
struct AdaptivePrefetch {
    concurrency: usize,
    prefetch: Prefetch,
    /// Typical call duration in microseconds; `u64::MAX` before the first call has ended.
    typical_us: AtomicU64,
}

/// Permit in use. Waits at the gate don't count as call time. A permit that the gate denied is ignored, because it would look like a very
/// short call.
struct OccupiedPermit {
    sent: Option<Instant>,
    prefetching: Arc<AdaptivePrefetch>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl PermitHooks for OccupiedPermit {
    fn calls(&mut self) {
        self.sent = Some(Instant::now());
    }
}

impl Drop for OccupiedPermit {
    fn drop(&mut self) {
        if let Some(sent) = self.sent {
            self.prefetching.observe_call(sent.elapsed());
        }
    }
}

impl ConcurrencyPermits {
    /// `concurrency` is the number of permits; the fetcher reads `prefetch`.
    pub fn new(concurrency: usize, prefetch: Prefetch) -> Self {
        prefetch.set(concurrency / PERMITS_PER_PREFETCHED_RUN);
        let prefetching = AdaptivePrefetch {
            concurrency,
            prefetch,
            typical_us: AtomicU64::new(u64::MAX),
        };
        Self {
            permits: Arc::new(Semaphore::new(concurrency.max(1))),
            prefetching: Arc::new(prefetching),
        }
    }
}

#[async_trait]
impl CallPermits for ConcurrencyPermits {
    async fn first(&self) -> Option<ConcurrencyPermit> {
        match tokio::time::timeout(SHORT, self.another()).await {
            Ok(concurrency_permit) => Some(concurrency_permit),
            Err(_) => {
                self.prefetching.is_long();
                None
            }
        }
    }

    async fn another(&self) -> ConcurrencyPermit {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        ConcurrencyPermit::holding(OccupiedPermit {
            sent: None,
            prefetching: Arc::clone(&self.prefetching),
            _permit: permit,
        })
    }
}

impl AdaptivePrefetch {
    fn observe_call(&self, call: Duration) {
        let took = u64::try_from(call.as_micros()).unwrap_or(u64::MAX - 1);
        let before = self.typical_us.load(Ordering::Relaxed);
        let typical = if before == u64::MAX {
            took
        } else {
            (before / PARTS) * (PARTS - 1) + took / PARTS
        };
        self.learn(typical);
    }

    /// Notes that no call ended within the duration of a short one.
    fn is_long(&self) {
        self.learn(u64::try_from(SHORT.as_micros()).unwrap_or(u64::MAX - 1));
    }

    fn learn(&self, typical: u64) {
        // Of two calls that end concurrently, one may be lost. The typical duration is still a good estimate.
        self.typical_us.store(typical, Ordering::Relaxed);
        let short = Duration::from_micros(typical) < SHORT;
        let prefetch = self.concurrency / PERMITS_PER_PREFETCHED_RUN;
        self.prefetch.set(if short { prefetch } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn prefetches_only_while_calls_are_short() {
        let prefetch = Prefetch::default();
        let prefetching = ConcurrencyPermits::new(40, prefetch.clone()).prefetching;
        assert_eq!(prefetch.get(), 20, "nobody knows yet");
        prefetching.observe_call(Duration::from_millis(200));
        assert_eq!(prefetch.get(), 20);
        prefetching.observe_call(Duration::from_secs(60));
        assert_eq!(prefetch.get(), 0, "one long call is enough");
        for _ in 0..40 {
            prefetching.observe_call(Duration::from_millis(200));
        }
        assert_eq!(prefetch.get(), 20);
        prefetching.observe_call(Duration::MAX);
        assert_eq!(prefetch.get(), 0);
    }

    #[tokio::test]
    async fn permits_are_limited_to_concurrency() {
        let concurrency = ConcurrencyPermits::new(2, Prefetch::default());
        let (first, _second) = (concurrency.first().await, concurrency.another().await);
        assert_eq!(concurrency.permits.available_permits(), 0);
        drop(first);
        assert_eq!(concurrency.permits.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn timed_out_wait_ends_prefetch() {
        let prefetch = Prefetch::default();
        let concurrency = ConcurrencyPermits::new(2, prefetch.clone());
        let (first, _second) = (concurrency.first().await, concurrency.first().await);
        assert_eq!(prefetch.get(), 1);
        assert!(concurrency.first().await.is_none());
        assert_eq!(prefetch.get(), 0);
        let retried = concurrency.another();
        tokio::pin!(retried);
        let waited = tokio::time::timeout(SHORT * 60, &mut retried).await;
        assert!(waited.is_err(), "a question under way waits on");
        drop(first);
        retried.await;
    }
}
