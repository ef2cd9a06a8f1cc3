//! The deadline of a judge's whole question, retries included, as kind `sql_metrics` has one. Its time begins with the first call:
//! waiting for a permit or a gate is not failing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::judge::{
    CallPermits, CallUsage, ConcurrencyPermit, ErrorClass, JudgeAnswer, JudgeError, PermitHooks,
};
use crate::store::Ending;

/// A call's own timeout comes first where the two are as long: the gate and the call log learn of it.
const GRACE: Duration = Duration::from_millis(100);
/// What waits before the first call take at most: a second for a permit, ten at the gate. A question that joined another run's isn't seen to
/// call, so that its time begins here.
const LONGEST_WAITS: Duration = Duration::from_secs(11);

pub(super) struct Deadline {
    after: Duration,
    permits: Watched,
}

#[derive(Debug, PartialEq)]
pub(super) enum Ended {
    /// In time: with an answer, or with an ending that makes the job wait.
    InTime(Result<JudgeAnswer, Ending>),
    /// Broken off: the timeout as its answer, and what its calls used that were answered by then.
    Over(JudgeError, Vec<CallUsage>),
}

impl Deadline {
    /// A deadline so long after the first call that is made with one of these permits.
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

    /// Waits for the answer as long as the question has time.
    pub(super) async fn of_answer(
        self,
        answer: impl Future<Output = Result<JudgeAnswer, Ending>>,
    ) -> Ended {
        tokio::select! {
            // An answer that is there counts, however late it is.
            biased;
            answered = answer => Ended::InTime(answered),
            () = self.passed() => {
                let used = std::mem::take(&mut *self.permits.calls.used.lock());
                Ended::Over(timeout(), used)
            }
        }
    }

    async fn passed(&self) {
        let mut called = self.permits.calls.called.subscribe();
        // The sender lives as long as this: it can't be closed.
        let _ = tokio::time::timeout(LONGEST_WAITS, called.wait_for(|called| *called)).await;
        tokio::time::sleep(self.after + GRACE).await;
    }
}

fn timeout() -> JudgeError {
    JudgeError::new(ErrorClass::Transient, "LLM judge timeout")
}

/// Permits that notice when a call goes out, and what it used.
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

/// A permit within another one.
struct Calling(ConcurrencyPermit, Arc<Calls>);

impl PermitHooks for Calling {
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
        ConcurrencyPermit::holding(Calling(permit, Arc::clone(&self.calls)))
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
    async fn the_time_begins_with_the_first_call() {
        let deadline = deadline();
        let concurrency = deadline.concurrency();
        let begun = Instant::now();
        let answer = deadline.of_answer(async move {
            sleep(Duration::from_secs(9)).await;
            let mut concurrency_permit = concurrency.another().await;
            concurrency_permit.calls();
            waits(3_600).await
        });
        assert_eq!(answer.await, Ended::Over(timeout(), Vec::new()));
        assert_eq!(begun.elapsed().as_secs(), 39);
        let error = timeout();
        assert_eq!(
            (error.class, error.message.as_str()),
            (ErrorClass::Transient, "LLM judge timeout")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_answered_calls_used_is_owed_though_the_question_is_broken_off() {
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
        let over = Ended::Over(timeout(), vec![used(100), used(20)]);
        assert_eq!(answer.await, over);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_never_calls_ends_too_and_a_wait_stays_a_wait() {
        let begun = Instant::now();
        let over = Ended::Over(timeout(), Vec::new());
        assert_eq!(deadline().of_answer(waits(3_600)).await, over);
        assert_eq!(begun.elapsed().as_secs(), 41);
        let in_time = Ended::InTime(Err(Ending::Requeued));
        assert_eq!(deadline().of_answer(waits(10)).await, in_time);
    }
}
