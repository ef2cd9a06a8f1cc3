//! Concurrency turns: the caller limits its concurrent calls, and a turn covers only the call itself.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gavel::judge::gate::HeldBack;
use gavel::judge::{
    AskContext, AskEnd, AskOutcome, CallPermits, CallUsage, ConcurrencyPermit, PermitHooks,
};
use tokio::sync::Notify;

use super::patience::down;
use super::stage::{Stage, context, good, question, reply_of, says, wait_of};

/// Records start, end and usage of turns; grants no turn while `taken`.
#[derive(Debug, Clone, Default)]
struct Ledger {
    notes: Arc<Mutex<Vec<&'static str>>>,
    used: Arc<Mutex<Vec<CallUsage>>>,
    taken: bool,
}

struct Noted(Ledger);

impl PermitHooks for Noted {
    fn used(&mut self, usage: CallUsage) {
        self.0.used.lock().unwrap().push(usage);
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.note("end");
    }
}

impl Ledger {
    fn note(&self, what: &'static str) {
        self.notes.lock().unwrap().push(what);
    }

    fn concurrency_permit(&self) -> ConcurrencyPermit {
        ConcurrencyPermit::holding(Noted(self.clone()))
    }

    async fn ask(&self, stage: &Stage) -> AskOutcome {
        let context = AskContext {
            concurrency: Arc::new(self.clone()),
            ..context()
        };
        stage.judge.ask(&question("evidence"), context).await
    }

    fn notes(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.notes.lock().unwrap())
    }
}

#[async_trait]
impl CallPermits for Ledger {
    async fn first(&self) -> Option<ConcurrencyPermit> {
        self.note("first");
        (!self.taken).then(|| self.concurrency_permit())
    }

    async fn another(&self) -> ConcurrencyPermit {
        self.note("another");
        self.concurrency_permit()
    }
}

#[tokio::test]
async fn call_uses_a_turn_and_a_cached_reply_uses_none() {
    let stage = Stage::new(vec![good()]).await;
    let ledger = Ledger::default();
    reply_of(ledger.ask(&stage).await);
    assert_eq!(ledger.notes(), ["first", "end"]);
    assert!(reply_of(ledger.ask(&stage).await).0.cached);
    assert!(ledger.notes().is_empty());
}

#[tokio::test]
async fn failed_call_retains_its_turn_for_the_retry() {
    let stage = Stage::new(vec![down(), down(), good()]).await;
    let ledger = Ledger::default();
    reply_of(ledger.ask(&stage).await);
    assert_eq!(ledger.notes(), ["first", "end"]);
}

#[tokio::test]
async fn bad_reply_ends_the_turn_and_the_repair_acquires_another() {
    let stage = Stage::new(vec![says("hm"), good()]).await;
    let ledger = Ledger::default();
    reply_of(ledger.ask(&stage).await);
    assert_eq!(ledger.notes(), ["first", "end", "another", "end"]);
}

#[tokio::test]
async fn turn_records_the_usage_of_its_call_for_any_reply() {
    let stage = Stage::new(vec![down(), says("hm"), good()]).await;
    let ledger = Ledger::default();
    let AskOutcome {
        end: AskEnd::Answered(_),
        usage,
        ..
    } = ledger.ask(&stage).await
    else {
        panic!("expected an answer")
    };
    let used = ledger.used.lock().unwrap().clone();
    let tokens_in: i64 = used.iter().map(|used| used.tokens_in).sum();
    assert_eq!((used.len(), tokens_in), (2, usage.tokens_in));
    assert!(used.iter().all(|used| used.tokens_in > 0), "{used:?}");
}

#[tokio::test]
async fn no_call_is_made_and_billed_without_a_turn() {
    let stage = Stage::new(vec![good()]).await;
    let ledger = Ledger {
        taken: true,
        ..Ledger::default()
    };
    let (held, retries_spent, _) = wait_of(ledger.ask(&stage).await);
    assert_eq!((held, retries_spent), ((HeldBack::Busy, None), 0));
    assert!(stage.requests().await.is_empty());
}

/// Grants no turn until told to, and notifies on each request.
#[derive(Debug, Default)]
struct Withheld {
    asked: Notify,
    refused: Notify,
}

#[async_trait]
impl CallPermits for Withheld {
    async fn first(&self) -> Option<ConcurrencyPermit> {
        self.asked.notify_one();
        self.refused.notified().await;
        None
    }

    async fn another(&self) -> ConcurrencyPermit {
        unreachable!("nothing was asked")
    }
}

#[tokio::test]
async fn joined_question_without_a_turn_is_released_and_repeated() {
    let stage = Stage::new(vec![good()]).await;
    let withheld = Arc::new(Withheld::default());
    let ask = || {
        let context = AskContext {
            concurrency: Arc::clone(&withheld) as Arc<dyn CallPermits>,
            ..context()
        };
        async { stage.judge.ask(&question("evidence"), context).await }
    };
    let refuse = async {
        withheld.asked.notified().await;
        withheld.refused.notify_one();
    };
    let (first, joined, ()) = tokio::join!(biased; ask(), ask(), refuse);
    for asked in [first, joined] {
        let ((why, _), ..) = wait_of(asked);
        assert_eq!(why, HeldBack::Busy);
    }
    assert!(stage.requests().await.is_empty());
    let ledger = Ledger::default();
    assert!(!reply_of(ledger.ask(&stage).await).0.cached);
    assert_eq!(ledger.notes(), ["first", "end"]);
}
