//! Budgets: the cost of a batch is added as its calls are logged, and pauses it.

use chrono::TimeDelta;
use gavel::job::{BatchPlace, JobId, Kind, NewJob, WaitReason};
use gavel::judge::{CallLog as _, CallRecord, CallUsage};
use gavel::store::{Added, BatchRow, Died, Moved, NewBatch, Recorded, Store};
use uuid::Uuid;

use super::fixtures::{accept, claim, failed, minutes, new_job, now, record_of, recorded, waiting};
use crate::support::{self, call};
use gavel::wire::{BatchState, PausedBy, UsageBy};

async fn running(store: &Store, items: i64, budget_usd: Option<f64>) -> (Uuid, Vec<JobId>) {
    let new = NewBatch {
        budget_usd,
        ..support::new_batch(Kind::Query, now())
    };
    let batch_id = new.batch_id;
    store.batches().begin(&new).await.unwrap();
    let items: Vec<NewJob> = (0..items)
        .map(|item_no| NewJob {
            kind: Kind::Query,
            batch: Some(BatchPlace { batch_id, item_no }),
            ..new_job(None)
        })
        .collect();
    assert_eq!(
        store.batches().add_items(batch_id, &items).await.unwrap(),
        Added::All
    );
    store.batches().start(batch_id).await.unwrap();
    (batch_id, items.iter().map(|item| item.job_id).collect())
}

/// Logs a call of an item with this cost; `None`: unknown.
async fn calls(store: &Store, item: JobId, cost_usd: Option<f64>) {
    store.log(CallRecord {
        usage: CallUsage {
            tokens_in: 100,
            tokens_out: 10,
            cost_usd,
            ..CallUsage::default()
        },
        ..call(item)
    });
    store.calls().counted().await;
}

/// Runs an item with this cost; `None`: unknown.
async fn spend(store: &Store, item: JobId, cost_usd: Option<f64>) {
    let run = claim(store, item, Uuid::now_v7()).await;
    calls(store, item, cost_usd).await;
    assert_eq!(
        recorded(store, record_of(&run, failed())).await,
        Recorded::Applied
    );
}

async fn row(store: &Store, id: Uuid) -> BatchRow {
    store.batches().get(id).await.unwrap().unwrap()
}

async fn batch_status(store: &Store, id: Uuid) -> (BatchState, Option<PausedBy>) {
    let batch = row(store, id).await;
    (batch.state, batch.paused_by)
}

const RUNS: (BatchState, Option<PausedBy>) = (BatchState::Running, None);
const SPENT: (BatchState, Option<PausedBy>) = (BatchState::Paused, Some(PausedBy::Budget));

#[tokio::test]
async fn exhausted_budget_pauses_a_batch_until_it_is_raised() {
    for test in support::stores().await {
        let store = &test.store;
        let budgets = store.budgets();
        let (id, items) = running(store, 5, Some(1.0)).await;
        spend(store, items[0], Some(0.5)).await;
        assert_eq!(batch_status(store, id).await, RUNS);
        assert!(budgets.spent_batches().await.unwrap().is_empty());
        spend(store, items[1], Some(0.5)).await;
        assert_eq!(batch_status(store, id).await, SPENT);
        assert_eq!(budgets.spent_batches().await.unwrap(), [(id, Kind::Query)]);
        assert!(
            budgets.spent_batches().await.unwrap().is_empty(),
            "told once"
        );
        let claimed = store
            .jobs()
            .claim(&items, Uuid::now_v7(), now() + minutes(1))
            .await;
        assert!(claimed.unwrap().is_empty(), "nothing begins");
        let usage = budgets.batch_usage(id).await.unwrap();
        assert_eq!((usage.spent_usd, usage.unpriced), (1.0, 0));
        assert_eq!((usage.tokens_in, usage.tokens_out), (200, 20));
        // A resume would exceed the budget.
        let refused = store.batches().resume(id, now()).await.unwrap();
        assert!(matches!(refused, Moved::Refused(_)), "{refused:?}");
        let same = budgets.set(id, Some(1.0), now()).await.unwrap();
        assert!(matches!(same, Moved::Already(_)), "{same:?}");
        let Moved::Now(batch) = budgets.set(id, Some(1.5), now()).await.unwrap() else {
            panic!("it goes on");
        };
        assert_eq!(
            (batch.state, batch.budget_usd),
            (BatchState::Running, Some(1.5))
        );
        spend(store, items[2], Some(0.25)).await;
        assert_eq!(batch_status(store, id).await, RUNS);
        // A budget below the current cost pauses it; removing the budget resumes it.
        budgets.set(id, Some(1.0), now()).await.unwrap();
        assert_eq!(batch_status(store, id).await, SPENT);
        budgets.set(id, None, now()).await.unwrap();
        assert_eq!(batch_status(store, id).await, RUNS);
        assert_eq!(
            budgets.set(Uuid::now_v7(), None, now()).await.unwrap(),
            Moved::Unknown
        );
    }
}

#[tokio::test]
async fn claim_reports_whether_the_batch_has_a_budget() {
    for test in support::stores().await {
        let store = &test.store;
        for (budget, said) in [(Some(1.0), true), (None, false)] {
            let (id, items) = running(store, 2, budget).await;
            let run = claim(store, items[0], Uuid::now_v7()).await;
            assert_eq!(run.budgeted, said);
            store.budgets().set(id, Some(2.0), now()).await.unwrap();
            let run = claim(store, items[1], Uuid::now_v7()).await;
            assert!(run.budgeted, "as it is by now");
        }
        let alone = accept(store, new_job(None)).await;
        assert!(!claim(store, alone, Uuid::now_v7()).await.budgeted);
    }
}

#[tokio::test]
async fn call_costs_count_whatever_the_outcome_of_their_run() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 5, Some(1.0)).await;
        // Lost by a worker that was declared dead, and reported too late.
        let stale = claim(store, items[0], Uuid::now_v7()).await;
        calls(store, items[0], Some(0.25)).await;
        let lost = store.jobs().rescue_lost(Died::Somebody, 3, now()).await;
        assert_eq!(lost.unwrap().requeued.len(), 1);
        claim(store, items[0], Uuid::now_v7()).await;
        let late = recorded(store, record_of(&stale, failed())).await;
        assert_eq!(late, Recorded::Stale);
        let cancelled = claim(store, items[1], Uuid::now_v7()).await;
        store.jobs().cancel(items[1], now()).await.unwrap();
        calls(store, items[1], Some(0.25)).await;
        let late = recorded(store, record_of(&cancelled, failed())).await;
        assert_eq!(late, Recorded::Stale);
        let usage = store.budgets().batch_usage(id).await.unwrap();
        assert_eq!((usage.spent_usd, usage.tokens_in), (0.5, 200));
        assert_eq!(batch_status(store, id).await, RUNS);
        // Killed after its calls: the second one exceeds the budget.
        claim(store, items[2], Uuid::now_v7()).await;
        calls(store, items[2], Some(0.25)).await;
        assert_eq!(batch_status(store, id).await, RUNS);
        calls(store, items[2], Some(0.25)).await;
        assert_eq!(batch_status(store, id).await, SPENT);
    }
}

#[tokio::test]
async fn call_without_usage_is_counted_but_not_one_without_a_reply() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 2, Some(1.0)).await;
        for cost_usd in [None, Some(0.0)] {
            store.log(CallRecord {
                usage: CallUsage {
                    cost_usd,
                    ..CallUsage::default()
                },
                ..call(items[0])
            });
        }
        let usage = store.budgets().batch_usage(id).await.unwrap();
        assert_eq!((usage.spent_usd, usage.unpriced), (0.0, 1));
    }
}

/// While the log can't be written, it retains the sums of calls beyond its capacity.
#[tokio::test]
async fn calls_beyond_the_log_capacity_count_in_day_and_batch_sums() {
    const CALLS: i64 = 9_000;
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 2, None).await;
        for no in 0..CALLS {
            store.log(CallRecord {
                usage: CallUsage {
                    tokens_in: 1,
                    cost_usd: Some(0.5),
                    ..CallUsage::default()
                },
                ..call(items[usize::try_from(no % 2).unwrap()])
            });
        }
        store.calls().counted().await;
        let usage = store.budgets().batch_usage(id).await.unwrap();
        assert_eq!((usage.tokens_in, usage.spent_usd), (CALLS, 4_500.0));
        let today = now().date_naive();
        let days = store
            .budgets()
            .usage(today - TimeDelta::days(1), today, UsageBy::Judge);
        let days = days.await.unwrap();
        assert_eq!((days[0].calls, days[0].cost_usd), (CALLS, 4_500.0));
    }
}

#[tokio::test]
async fn unpriced_run_pauses_a_batch_with_a_budget_and_counts_partly() {
    for test in support::stores().await {
        let store = &test.store;
        // The first judge declined at a price, its fallback replied without one.
        for (budget, stands) in [(Some(1.0), SPENT), (None, RUNS)] {
            let (id, items) = running(store, 3, budget).await;
            let run = claim(store, items[0], Uuid::now_v7()).await;
            calls(store, items[0], Some(0.25)).await;
            calls(store, items[0], None).await;
            let end = recorded(store, record_of(&run, failed())).await;
            assert_eq!(end, Recorded::Applied);
            let usage = store.budgets().batch_usage(id).await.unwrap();
            assert_eq!((usage.spent_usd, usage.unpriced), (0.25, 1));
            assert_eq!(batch_status(store, id).await, stands);
            // A resume lasts until the next such run.
            if budget.is_some() {
                store.batches().resume(id, now()).await.unwrap();
                assert_eq!(batch_status(store, id).await, RUNS);
                assert!(
                    store
                        .budgets()
                        .spent_batches()
                        .await
                        .unwrap()
                        .contains(&(id, Kind::Query))
                );
                assert_eq!(batch_status(store, id).await, RUNS);
                spend(store, items[1], Some(0.25)).await;
                assert_eq!(batch_status(store, id).await, RUNS);
                spend(store, items[2], None).await;
                assert_eq!(
                    batch_status(store, id).await,
                    RUNS,
                    "nothing is left to stop"
                );
            }
        }
    }
}

#[tokio::test]
async fn operator_pause_is_independent_of_the_budget() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 3, Some(1.0)).await;
        spend(store, items[0], Some(0.5)).await;
        store.batches().pause(id).await.unwrap();
        store.budgets().set(id, Some(5.0), now()).await.unwrap();
        let paused = (BatchState::Paused, Some(PausedBy::Operator));
        assert_eq!(batch_status(store, id).await, paused);
        store.batches().resume(id, now()).await.unwrap();
        assert_eq!(batch_status(store, id).await, RUNS);

        // A batch paused by its budget becomes paused by the operator.
        let (id, items) = running(store, 3, Some(1.0)).await;
        spend(store, items[0], Some(1.0)).await;
        assert_eq!(batch_status(store, id).await, SPENT);
        store.batches().pause(id).await.unwrap();
        assert_eq!(batch_status(store, id).await, paused);
        store.budgets().set(id, Some(5.0), now()).await.unwrap();
        assert_eq!(batch_status(store, id).await, paused);
        store.batches().resume(id, now()).await.unwrap();
        assert_eq!(batch_status(store, id).await, RUNS);
    }
}

#[tokio::test]
async fn last_item_completes_a_batch_at_any_cost() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 1, Some(1.0)).await;
        spend(store, items[0], Some(5.0)).await;
        assert_eq!(
            batch_status(store, id).await,
            RUNS,
            "nothing is left to stop"
        );
        assert!(store.batches().complete(id, now()).await.unwrap().is_some());
        // Items in flight end anyway, and may be the last: the batch is paused only when an item has to restart.
        let (id, items) = running(store, 2, Some(1.0)).await;
        let second = claim(store, items[1], Uuid::now_v7()).await;
        spend(store, items[0], Some(5.0)).await;
        assert_eq!(
            batch_status(store, id).await,
            RUNS,
            "nothing is left to stop"
        );
        assert_eq!(store.batches().complete(id, now()).await.unwrap(), None);
        let wait = waiting(WaitReason::Throttled, now());
        assert_eq!(
            recorded(store, record_of(&second, wait)).await,
            Recorded::Applied
        );
        assert!(!store.budgets().spent_batches().await.unwrap().is_empty());
        assert_eq!(batch_status(store, id).await, SPENT);
        assert_eq!(store.batches().complete(id, now()).await.unwrap(), None);
        store.budgets().set(id, Some(6.0), now()).await.unwrap();
        let second = claim(store, items[1], Uuid::now_v7()).await;
        calls(store, items[1], Some(1.0)).await;
        assert_eq!(batch_status(store, id).await, RUNS);
        assert_eq!(
            recorded(store, record_of(&second, failed())).await,
            Recorded::Applied
        );
        assert_eq!(store.batches().without_items_left().await.unwrap(), [id]);
        let done = store.batches().complete(id, now()).await.unwrap().unwrap();
        assert_eq!((done.state, done.paused_by), (BatchState::Completed, None));
    }
}

#[tokio::test]
async fn unpriced_runs_are_counted_and_not_free() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 3, None).await;
        spend(store, items[0], Some(0.5)).await;
        spend(store, items[1], None).await;
        let usage = store.budgets().batch_usage(id).await.unwrap();
        assert_eq!((usage.spent_usd, usage.unpriced), (0.5, 1));
        assert_eq!(usage.tokens_in, 200);
        // A cached reply uses no tokens, so its run isn't unpriced.
        let run = claim(store, items[2], Uuid::now_v7()).await;
        recorded(store, record_of(&run, failed())).await;
        assert_eq!(store.budgets().batch_usage(id).await.unwrap(), usage);
    }
}

#[tokio::test]
async fn two_processes_exceeding_a_budget_together_are_detected() {
    for test in support::stores().await {
        let store = &test.store;
        let other = support::reopen(&test).await;
        let (id, items) = running(store, 4, Some(1.0)).await;
        spend(store, items[0], Some(0.6)).await;
        spend(&other, items[1], Some(0.6)).await;
        assert_eq!(batch_status(store, id).await, SPENT);
        assert_eq!(
            other.budgets().spent_batches().await.unwrap(),
            [(id, Kind::Query)]
        );
        assert!(store.budgets().spent_batches().await.unwrap().is_empty());
        let pace = store
            .budgets()
            .batch_pace(&row(store, id).await, now())
            .await
            .unwrap();
        assert!(pace.per_s > 0.0);
    }
}
