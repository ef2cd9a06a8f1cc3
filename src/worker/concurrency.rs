//! A worker's concurrency permits, and how many more runs are prefetched meanwhile.
//!
//! Claiming a row, reading its session and writing its prompt take some ten milliseconds. While calls are short, that is time
//! in which a slot asks nobody, so a few more runs are prefetched. While calls are long, a job that waits for its permit here
//! could run in another worker: then none are, and whoever waited in vain goes back to the queue. Until the first call has
//! ended, calls are taken to be short.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::judge::{CallPermits, ConcurrencyPermit, PermitHooks};
use crate::queue::backend::Prefetch;

/// Calls of less than this are short.
const SHORT: Duration = Duration::from_secs(1);
/// A new call counts for one part in so many of what is typical.
const PARTS: u64 = 8;
/// While calls are short, one run for so many permits is prefetched.
const PERMITS_PER_PREFETCHED_RUN: usize = 2;

/// The permits of one worker.
#[derive(Debug)]
pub struct ConcurrencyPermits {
    permits: Arc<Semaphore>,
    prefetching: Arc<AdaptivePrefetch>,
}

/// How long calls take, and how many runs are therefore prefetched.
#[derive(Debug)]
struct AdaptivePrefetch {
    concurrency: usize,
    prefetch: Prefetch,
    /// What a call typically takes, microseconds; none has ended yet where it is `u64::MAX`.
    typical_us: AtomicU64,
}

/// A permit that was taken. Its waits at the gate are none of the call, and a permit that the gate refused teaches nothing: it
/// would look like a very short call.
struct Out {
    sent: Option<Instant>,
    prefetching: Arc<AdaptivePrefetch>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl PermitHooks for Out {
    fn calls(&mut self) {
        self.sent = Some(Instant::now());
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if let Some(sent) = self.sent {
            self.prefetching.took(sent.elapsed());
        }
    }
}

impl ConcurrencyPermits {
    /// `concurrency` permits at once; `prefetch` is what the fetcher looks at.
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
        // Never closed, so there is always a permit to come.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        ConcurrencyPermit::holding(Out {
            sent: None,
            prefetching: Arc::clone(&self.prefetching),
            _permit: permit,
        })
    }
}

impl AdaptivePrefetch {
    fn took(&self, call: Duration) {
        let took = u64::try_from(call.as_micros()).unwrap_or(u64::MAX - 1);
        let before = self.typical_us.load(Ordering::Relaxed);
        let typical = if before == u64::MAX {
            took
        } else {
            (before / PARTS) * (PARTS - 1) + took / PARTS
        };
        self.learn(typical);
    }

    /// Learns that no call ended for as long as a short one takes.
    fn is_long(&self) {
        self.learn(u64::try_from(SHORT.as_micros()).unwrap_or(u64::MAX - 1));
    }

    fn learn(&self, typical: u64) {
        // Two calls that end at once may forget one of them: what is typical stays so.
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
    async fn runs_are_made_ready_ahead_while_calls_are_short_and_only_then() {
        let prefetch = Prefetch::default();
        let prefetching = ConcurrencyPermits::new(40, prefetch.clone()).prefetching;
        assert_eq!(prefetch.get(), 20, "nobody knows yet");
        prefetching.took(Duration::from_millis(200));
        assert_eq!(prefetch.get(), 20);
        prefetching.took(Duration::from_secs(60));
        assert_eq!(prefetch.get(), 0, "one long call is enough");
        for _ in 0..40 {
            prefetching.took(Duration::from_millis(200));
        }
        assert_eq!(prefetch.get(), 20);
        prefetching.took(Duration::MAX);
        assert_eq!(prefetch.get(), 0);
    }

    #[tokio::test]
    async fn no_more_turns_are_taken_than_there_are() {
        let concurrency = ConcurrencyPermits::new(2, Prefetch::default());
        let (first, _second) = (concurrency.first().await, concurrency.another().await);
        assert_eq!(concurrency.permits.available_permits(), 0);
        drop(first);
        assert_eq!(concurrency.permits.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_in_vain_goes_elsewhere_and_nothing_more_is_made_ready() {
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
