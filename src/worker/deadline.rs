//! Deadline of a judge's answer to one question, retries included, as in kind `sql_metrics`. It starts with the first call, because waits
//! for a permit or a gate aren't the judge's failure.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::judge::{
    CallPermits, CallUsage, ConcurrencyPermit, ErrorClass, JudgeAnswer, JudgeError, PermitHooks,
    sleep_awake,
};
use crate::store::Ending;

/// Added to the deadline so that a call's timeout of the same length fires first and is reported to the gate and the call log.
const GRACE: Duration = Duration::from_millis(100);
/// Maximum wait before the first call: one second for a permit, ten at the gate. If the question joined another run's call, no call is
/// seen, and the deadline starts after this wait.
const MAX_WAIT_BEFORE_CALL: Duration = Duration::from_secs(11);

pub(super) struct Deadline {
    after: Duration,
    permits: Watched,
}

#[derive(Debug, PartialEq)]
pub(super) enum DeadlineResult {
    /// An answer in time, or an outcome that makes the job wait.
    InTime(Result<JudgeAnswer, Ending>),
    /// The timeout error, and the usage of the completed calls.
    Over(JudgeError, Vec<CallUsage>),
}

impl Deadline {
    /// Returns a deadline of `after` that starts with the first call made with one of these permits.
    pub(super) fn new(after: Duration, concurrency: Arc<dyn CallPermits>) -> Self {
        Self {
            after,
            permits: Watched {
                concurrency,
                calls: Arc::default(),
            },
        }
    }

    pub(super) fn concurrency(&self) -> Arc<dyn CallPermits> {
        Arc::new(self.permits.clone())
    }

    pub(super) async fn of_answer(
        self,
        answer: impl Future<Output = Result<JudgeAnswer, Ending>>,
    ) -> DeadlineResult {
        tokio::select! {
            // An answer that is ready counts, even after the deadline.
            biased;
            answered = answer => DeadlineResult::InTime(answered),
            () = self.passed() => {
                let used = std::mem::take(&mut *self.permits.calls.used.lock());
                DeadlineResult::Over(timeout(), used)
            }
        }
    }

    async fn passed(&self) {
        let mut called = self.permits.calls.called.subscribe();
        // The sender lives as long as `self`, so the channel isn't closed.
        let _ = tokio::time::timeout(MAX_WAIT_BEFORE_CALL, called.wait_for(|called| *called)).await;
        sleep_awake(self.after + GRACE).await;
    }
}

fn timeout() -> JudgeError {
    JudgeError::new(ErrorClass::Transient, "LLM judge timeout")
}

/// Permits that notice the first call and record usage.
#[derive(Debug, Clone)]
struct Watched {
    concurrency: Arc<dyn CallPermits>,
    calls: Arc<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    called: watch::Sender<bool>,
    used: Mutex<Vec<CallUsage>>,
}

struct ObservedPermit(ConcurrencyPermit, Arc<Calls>);

impl PermitHooks for ObservedPermit {
    fn calls(&mut self) {
        self.0.calls();
        self.1.called.send_replace(true);
    }

    fn used(&mut self, usage: CallUsage) {
        self.0.used(usage);
        self.1.used.lock().push(usage);
    }
}

impl Watched {
    fn watch(&self, permit: ConcurrencyPermit) -> ConcurrencyPermit {
        ConcurrencyPermit::holding(ObservedPermit(permit, Arc::clone(&self.calls)))
    }
}

#[async_trait]
impl CallPermits for Watched {
    async fn first(&self) -> Option<ConcurrencyPermit> {
        let permit = self.concurrency.first().await;
        permit.map(|permit| self.watch(permit))
    }

    async fn another(&self) -> ConcurrencyPermit {
        self.watch(self.concurrency.another().await)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::judge::Unbounded;

    fn deadline() -> Deadline {
        Deadline::new(Duration::from_secs(30), Arc::new(Unbounded))
    }

    async fn waits(seconds: u64) -> Result<JudgeAnswer, Ending> {
        sleep(Duration::from_secs(seconds)).await;
        Err(Ending::Requeued)
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_starts_with_first_call() {
        let deadline = deadline();
        let concurrency = deadline.concurrency();
        let begun = Instant::now();
        let answer = deadline.of_answer(async move {
            sleep(Duration::from_secs(9)).await;
            let mut concurrency_permit = concurrency.another().await;
            concurrency_permit.calls();
            waits(3_600).await
        });
        assert_eq!(answer.await, DeadlineResult::Over(timeout(), Vec::new()));
        assert_eq!(begun.elapsed().as_secs(), 39);
        let error = timeout();
        assert_eq!(
            (error.class, error.message.as_str()),
            (ErrorClass::Transient, "LLM judge timeout")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn timeout_keeps_usage_of_answered_calls() {
        let used = |tokens_in| CallUsage {
            tokens_in,
            ..CallUsage::default()
        };
        let deadline = deadline();
        let concurrency = deadline.concurrency();
        let answer = deadline.of_answer(async move {
            for tokens in [100, 20] {
                let mut concurrency_permit = concurrency.another().await;
                concurrency_permit.calls();
                concurrency_permit.used(used(tokens));
            }
            concurrency.another().await.calls();
            waits(3_600).await
        });
        let over = DeadlineResult::Over(timeout(), vec![used(100), used(20)]);
        assert_eq!(answer.await, over);
    }

    #[tokio::test(start_paused = true)]
    async fn question_without_call_times_out_and_waits_pass() {
        let begun = Instant::now();
        let over = DeadlineResult::Over(timeout(), Vec::new());
        assert_eq!(deadline().of_answer(waits(3_600)).await, over);
        assert_eq!(begun.elapsed().as_secs(), 41);
        let in_time = DeadlineResult::InTime(Err(Ending::Requeued));
        assert_eq!(deadline().of_answer(waits(10)).await, in_time);
    }
}
