//! The deadline of a judge's whole question, retries included, as kind `sql_metrics` has one. Its time begins with the first call: waiting for
//! a turn or a gate is not failing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::judge::{Answer, CallTurns, ErrorClass, Held, JudgeError, Turn};
use crate::store::Ending;

/// The deadline of `sql_metrics`.
pub(super) const METRICS: Duration = Duration::from_secs(30);
/// A call's own timeout comes first where the two are as long: the gate and the call log learn of it.
const GRACE: Duration = Duration::from_millis(100);
/// What waits before the first call take at most: a second for a turn, ten at the gate. A question that joined another run's isn't seen to
/// call, so that its time begins here.
const LONGEST_WAITS: Duration = Duration::from_secs(11);

/// One question's deadline.
pub(super) struct Deadline {
    after: Duration,
    turns: Arc<dyn CallTurns>,
    called: watch::Sender<bool>,
}

impl Deadline {
    /// A deadline so long after the first call that is made in a turn of `turns`.
    pub(super) fn of(after: Duration, turns: Arc<dyn CallTurns>) -> Self {
        Self {
            after,
            turns,
            called: watch::Sender::new(false),
        }
    }

    /// The turns to ask with.
    pub(super) fn turns(&self) -> Arc<dyn CallTurns> {
        Arc::new(Watched {
            turns: Arc::clone(&self.turns),
            called: self.called.clone(),
        })
    }

    /// The answer, or the timeout as one; an ending that makes the job wait stays what it is.
    pub(super) async fn of_answer(
        self,
        answer: impl Future<Output = Result<Answer, Ending>>,
    ) -> Result<Answer, Ending> {
        tokio::select! {
            // An answer that is there counts, however late it is.
            biased;
            answered = answer => answered,
            () = self.passed() => Ok(Err(timeout())),
        }
    }

    async fn passed(&self) {
        let mut called = self.called.subscribe();
        // The sender lives as long as this: it can't be closed.
        let _ = tokio::time::timeout(LONGEST_WAITS, called.wait_for(|called| *called)).await;
        tokio::time::sleep(self.after + GRACE).await;
    }
}

fn timeout() -> JudgeError {
    JudgeError {
        class: ErrorClass::Transient,
        message: "LLM judge timeout".to_owned(),
        status: None,
        retry_after: None,
        raw_reply: None,
    }
}

/// Turns that tell when a call goes out.
#[derive(Debug)]
struct Watched {
    turns: Arc<dyn CallTurns>,
    called: watch::Sender<bool>,
}

/// A turn within another one.
struct Calling {
    turn: Turn,
    called: watch::Sender<bool>,
}

impl Held for Calling {
    fn calls(&mut self) {
        self.turn.calls();
        self.called.send_replace(true);
    }
}

impl Watched {
    fn watch(&self, turn: Turn) -> Turn {
        Turn::holding(Calling {
            turn,
            called: self.called.clone(),
        })
    }
}

#[async_trait]
impl CallTurns for Watched {
    async fn first(&self) -> Option<Turn> {
        self.turns.first().await.map(|turn| self.watch(turn))
    }

    async fn another(&self) -> Turn {
        self.watch(self.turns.another().await)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::judge::Unbounded;

    fn deadline() -> Deadline {
        Deadline::of(METRICS, Arc::new(Unbounded))
    }

    async fn waits(seconds: u64) -> Result<Answer, Ending> {
        sleep(Duration::from_secs(seconds)).await;
        Err(Ending::Requeued)
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_begins_with_the_first_call() {
        let deadline = deadline();
        let turns = deadline.turns();
        let begun = Instant::now();
        let answer = deadline.of_answer(async move {
            sleep(Duration::from_secs(9)).await;
            let mut turn = turns.another().await;
            turn.calls();
            waits(3_600).await
        });
        let error = answer.await.unwrap().unwrap_err();
        assert_eq!(
            (error.class, error.message.as_str()),
            (ErrorClass::Transient, "LLM judge timeout")
        );
        assert_eq!(begun.elapsed().as_secs(), 39);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_never_calls_ends_too_and_a_wait_stays_a_wait() {
        let begun = Instant::now();
        assert!(deadline().of_answer(waits(3_600)).await.unwrap().is_err());
        assert_eq!(begun.elapsed().as_secs(), 41);
        assert_eq!(deadline().of_answer(waits(10)).await, Err(Ending::Requeued));
    }
}
