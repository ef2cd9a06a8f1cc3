//! Budgets: what a batch spends is added where its calls are logged, and stops it.

use chrono::TimeDelta;
use gavel::job::{BatchPlace, JobId, Kind, NewJob, WaitReason};
use gavel::judge::{CallLog as _, CallRecord, CallUsage};
use gavel::store::{Added, BatchRow, Died, Moved, NewBatch, Recorded, Store};
use uuid::Uuid;

use super::fixtures::{accept, claim, failed, minutes, new_job, now, record_of, recorded, waiting};
use crate::support::{self, call};
use gavel::wire::{BatchState, PausedBy, UsageBy};

/// A batch that runs, with so many items and a budget.
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

/// A call for an item, which costs so much; `None`: nobody knows.
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

/// Runs an item that costs so much; `None`: nobody knows.
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

async fn standing(store: &Store, id: Uuid) -> (BatchState, Option<PausedBy>) {
    let batch = row(store, id).await;
    (batch.state, batch.paused_by)
}

const RUNS: (BatchState, Option<PausedBy>) = (BatchState::Running, None);
const SPENT: (BatchState, Option<PausedBy>) = (BatchState::Paused, Some(PausedBy::Budget));

#[tokio::test]
async fn a_batch_is_paused_by_the_end_that_spends_its_budget_and_goes_on_with_a_larger_one() {
    for test in support::stores().await {
        let store = &test.store;
        let budgets = store.budgets();
        let (id, items) = running(store, 5, Some(1.0)).await;
        spend(store, items[0], Some(0.5)).await;
        assert_eq!(standing(store, id).await, RUNS);
        assert!(budgets.spent_batches().await.unwrap().is_empty());
        spend(store, items[1], Some(0.5)).await;
        assert_eq!(standing(store, id).await, SPENT);
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
        // Resuming it would spend more than it may.
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
        assert_eq!(standing(store, id).await, RUNS);
        // A smaller one than it has spent stops it, none lets it go on.
        budgets.set(id, Some(1.0), now()).await.unwrap();
        assert_eq!(standing(store, id).await, SPENT);
        budgets.set(id, None, now()).await.unwrap();
        assert_eq!(standing(store, id).await, RUNS);
        assert_eq!(
            budgets.set(Uuid::now_v7(), None, now()).await.unwrap(),
            Moved::Unknown
        );
    }
}

#[tokio::test]
async fn a_claim_tells_whether_the_batch_has_a_budget() {
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
async fn what_calls_cost_counts_whatever_became_of_their_run() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 5, Some(1.0)).await;
        // Lost by a worker that was taken for dead, and told too late.
        let stale = claim(store, items[0], Uuid::now_v7()).await;
        calls(store, items[0], Some(0.25)).await;
        let lost = store.jobs().rescue_lost(Died::Somebody, 3, now()).await;
        assert_eq!(lost.unwrap().requeued.len(), 1);
        claim(store, items[0], Uuid::now_v7()).await;
        let late = recorded(store, record_of(&stale, failed())).await;
        assert_eq!(late, Recorded::Stale);
        // Cancelled while it ran.
        let cancelled = claim(store, items[1], Uuid::now_v7()).await;
        store.jobs().cancel(items[1], now()).await.unwrap();
        calls(store, items[1], Some(0.25)).await;
        let late = recorded(store, record_of(&cancelled, failed())).await;
        assert_eq!(late, Recorded::Stale);
        let usage = store.budgets().batch_usage(id).await.unwrap();
        assert_eq!((usage.spent_usd, usage.tokens_in), (0.5, 200));
        assert_eq!(standing(store, id).await, RUNS);
        // Killed after its calls: the second one spends the budget.
        claim(store, items[2], Uuid::now_v7()).await;
        calls(store, items[2], Some(0.25)).await;
        assert_eq!(standing(store, id).await, RUNS);
        calls(store, items[2], Some(0.25)).await;
        assert_eq!(standing(store, id).await, SPENT);
    }
}

#[tokio::test]
async fn a_call_without_usage_is_counted_and_one_without_an_answer_is_not() {
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

/// A log that can't be written for long keeps the sums of what it has no room for.
#[tokio::test]
async fn calls_beyond_what_the_log_holds_are_in_the_sums_of_their_day_and_batch() {
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
async fn a_run_without_a_price_stops_a_batch_with_a_budget_and_its_known_part_counts() {
    for test in support::stores().await {
        let store = &test.store;
        // The first judge declined at a price, its fallback answered without one.
        for (budget, stands) in [(Some(1.0), SPENT), (None, RUNS)] {
            let (id, items) = running(store, 3, budget).await;
            let run = claim(store, items[0], Uuid::now_v7()).await;
            calls(store, items[0], Some(0.25)).await;
            calls(store, items[0], None).await;
            let end = recorded(store, record_of(&run, failed())).await;
            assert_eq!(end, Recorded::Applied);
            let usage = store.budgets().batch_usage(id).await.unwrap();
            assert_eq!((usage.spent_usd, usage.unpriced), (0.25, 1));
            assert_eq!(standing(store, id).await, stands);
            // It goes on if somebody says so, until the next such run.
            if budget.is_some() {
                store.batches().resume(id, now()).await.unwrap();
                assert_eq!(standing(store, id).await, RUNS);
                assert!(
                    store
                        .budgets()
                        .spent_batches()
                        .await
                        .unwrap()
                        .contains(&(id, Kind::Query))
                );
                assert_eq!(standing(store, id).await, RUNS);
                spend(store, items[1], Some(0.25)).await;
                assert_eq!(standing(store, id).await, RUNS);
                spend(store, items[2], None).await;
                assert_eq!(standing(store, id).await, RUNS, "nothing is left to stop");
            }
        }
    }
}

#[tokio::test]
async fn an_operators_pause_stays_whatever_the_budget() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 3, Some(1.0)).await;
        spend(store, items[0], Some(0.5)).await;
        store.batches().pause(id).await.unwrap();
        store.budgets().set(id, Some(5.0), now()).await.unwrap();
        let paused = (BatchState::Paused, Some(PausedBy::Operator));
        assert_eq!(standing(store, id).await, paused);
        store.batches().resume(id, now()).await.unwrap();
        assert_eq!(standing(store, id).await, RUNS);

        // One that its budget has stopped already is the operator's from then on.
        let (id, items) = running(store, 3, Some(1.0)).await;
        spend(store, items[0], Some(1.0)).await;
        assert_eq!(standing(store, id).await, SPENT);
        store.batches().pause(id).await.unwrap();
        assert_eq!(standing(store, id).await, paused);
        store.budgets().set(id, Some(5.0), now()).await.unwrap();
        assert_eq!(standing(store, id).await, paused);
        store.batches().resume(id, now()).await.unwrap();
        assert_eq!(standing(store, id).await, RUNS);
    }
}

#[tokio::test]
async fn the_last_item_completes_a_batch_whatever_it_cost() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 1, Some(1.0)).await;
        spend(store, items[0], Some(5.0)).await;
        assert_eq!(standing(store, id).await, RUNS, "nothing is left to stop");
        assert!(store.batches().complete(id, now()).await.unwrap().is_some());
        // What is in flight ends anyway, and may be the last: the batch is stopped once some of it has to begin again.
        let (id, items) = running(store, 2, Some(1.0)).await;
        let second = claim(store, items[1], Uuid::now_v7()).await;
        spend(store, items[0], Some(5.0)).await;
        assert_eq!(standing(store, id).await, RUNS, "nothing is left to stop");
        assert_eq!(store.batches().complete(id, now()).await.unwrap(), None);
        let wait = waiting(WaitReason::Throttled, now());
        assert_eq!(
            recorded(store, record_of(&second, wait)).await,
            Recorded::Applied
        );
        assert!(!store.budgets().spent_batches().await.unwrap().is_empty());
        assert_eq!(standing(store, id).await, SPENT);
        assert_eq!(store.batches().complete(id, now()).await.unwrap(), None);
        store.budgets().set(id, Some(6.0), now()).await.unwrap();
        let second = claim(store, items[1], Uuid::now_v7()).await;
        calls(store, items[1], Some(1.0)).await;
        assert_eq!(standing(store, id).await, RUNS);
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
async fn what_has_no_price_is_counted_and_never_free() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 3, None).await;
        spend(store, items[0], Some(0.5)).await;
        spend(store, items[1], None).await;
        let usage = store.budgets().batch_usage(id).await.unwrap();
        assert_eq!((usage.spent_usd, usage.unpriced), (0.5, 1));
        assert_eq!(usage.tokens_in, 200);
        // A run that was answered from the cache used nothing, and is no run without a price.
        let run = claim(store, items[2], Uuid::now_v7()).await;
        recorded(store, record_of(&run, failed())).await;
        assert_eq!(store.budgets().batch_usage(id).await.unwrap(), usage);
    }
}

#[tokio::test]
async fn two_processes_that_spend_a_budget_together_are_found_out() {
    for test in support::stores().await {
        let store = &test.store;
        let other = support::reopen(&test).await;
        let (id, items) = running(store, 4, Some(1.0)).await;
        spend(store, items[0], Some(0.6)).await;
        spend(&other, items[1], Some(0.6)).await;
        assert_eq!(standing(store, id).await, SPENT);
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
