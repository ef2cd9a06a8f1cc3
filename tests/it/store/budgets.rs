//! Budgets: what a batch spends is added where its runs end, and stops it.

use gavel::job::{BatchPlace, JobId, Kind, NewJob, Usage};
use gavel::store::{
    Added, BatchOrigin, BatchRow, BatchState, Moved, NewBatch, PausedBy, Recorded, Store,
};
use uuid::Uuid;

use super::fixtures::{accept, claim, failed, hash, minutes, new_job, now, record_of, recorded};
use crate::support;

/// A batch that runs, with so many items and a budget.
async fn running(store: &Store, items: i64, budget_usd: Option<f64>) -> (Uuid, Vec<JobId>) {
    let new = NewBatch {
        batch_id: Uuid::now_v7(),
        name: None,
        kind: Kind::Query,
        origin: BatchOrigin::Suite,
        threshold: None,
        criteria_hash: hash('a'),
        budget_usd,
        created_by: "ann".to_owned(),
        created_at: now(),
    };
    let batch_id = new.batch_id;
    store.begin_batch(&new).await.unwrap();
    let items: Vec<NewJob> = (0..items)
        .map(|item_no| NewJob {
            kind: Kind::Query,
            batch: Some(BatchPlace { batch_id, item_no }),
            ..new_job(None)
        })
        .collect();
    assert_eq!(store.add_items(batch_id, &items).await.unwrap(), Added::All);
    store.start_batch(batch_id).await.unwrap();
    (batch_id, items.iter().map(|item| item.job_id).collect())
}

/// Runs an item that costs so much; `None`: nobody knows.
async fn spend(store: &Store, item: JobId, cost_usd: Option<f64>) {
    let run = claim(store, item, Uuid::now_v7()).await;
    let mut end = record_of(&run, failed());
    end.usage = Usage {
        tokens_in: 100,
        tokens_out: 10,
        cost_usd,
    };
    end.known_usd = cost_usd.unwrap_or(0.0);
    assert_eq!(recorded(store, end).await, Recorded::Applied);
}

async fn row(store: &Store, id: Uuid) -> BatchRow {
    store.batch(id).await.unwrap().unwrap()
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
        let (id, items) = running(store, 5, Some(1.0)).await;
        spend(store, items[0], Some(0.5)).await;
        assert_eq!(standing(store, id).await, RUNS);
        assert!(store.spent_batches().await.unwrap().is_empty());
        spend(store, items[1], Some(0.5)).await;
        assert_eq!(standing(store, id).await, SPENT);
        assert_eq!(store.spent_batches().await.unwrap(), [(id, Kind::Query)]);
        assert!(store.spent_batches().await.unwrap().is_empty(), "told once");
        let claimed = store
            .claim(&items, Uuid::now_v7(), now() + minutes(1))
            .await;
        assert!(claimed.unwrap().is_empty(), "nothing begins");
        let usage = store.batch_usage(id).await.unwrap();
        assert_eq!((usage.spent_usd, usage.unpriced), (1.0, 0));
        assert_eq!((usage.tokens_in, usage.tokens_out), (200, 20));
        // Resuming it would spend more than it may.
        let refused = store.resume_batch(id, now()).await.unwrap();
        assert!(matches!(refused, Moved::Refused(_)), "{refused:?}");
        let same = store.set_budget(id, Some(1.0), now()).await.unwrap();
        assert!(matches!(same, Moved::Already(_)), "{same:?}");
        let Moved::Now(batch) = store.set_budget(id, Some(1.5), now()).await.unwrap() else {
            panic!("it goes on");
        };
        assert_eq!(
            (batch.state, batch.budget_usd),
            (BatchState::Running, Some(1.5))
        );
        spend(store, items[2], Some(0.25)).await;
        assert_eq!(standing(store, id).await, RUNS);
        // A smaller one than it has spent stops it, none lets it go on.
        store.set_budget(id, Some(1.0), now()).await.unwrap();
        assert_eq!(standing(store, id).await, SPENT);
        store.set_budget(id, None, now()).await.unwrap();
        assert_eq!(standing(store, id).await, RUNS);
        assert_eq!(
            store.set_budget(Uuid::now_v7(), None, now()).await.unwrap(),
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
            store.set_budget(id, Some(2.0), now()).await.unwrap();
            let run = claim(store, items[1], Uuid::now_v7()).await;
            assert!(run.budgeted, "as it is by now");
        }
        let alone = accept(store, new_job(None)).await;
        assert!(!claim(store, alone, Uuid::now_v7()).await.budgeted);
    }
}

#[tokio::test]
async fn runs_whose_judge_reports_no_usage_are_counted_and_runs_without_a_call_are_not() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 2, Some(1.0)).await;
        let worker = Uuid::now_v7();
        let runs = store.claim(&items, worker, now()).await.unwrap();
        for (run, cost_usd) in runs.iter().zip([None, Some(0.0)]) {
            let mut end = record_of(run, failed());
            end.usage.cost_usd = cost_usd;
            assert_eq!(recorded(store, end).await, Recorded::Applied);
        }
        let usage = store.batch_usage(id).await.unwrap();
        assert_eq!((usage.spent_usd, usage.unpriced), (0.0, 1));
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
            let mut end = record_of(&run, failed());
            end.usage = Usage {
                tokens_in: 200,
                tokens_out: 20,
                cost_usd: None,
            };
            end.known_usd = 0.25;
            assert_eq!(recorded(store, end).await, Recorded::Applied);
            let usage = store.batch_usage(id).await.unwrap();
            assert_eq!((usage.spent_usd, usage.unpriced), (0.25, 1));
            assert_eq!(standing(store, id).await, stands);
            // It goes on if somebody says so, until the next such run.
            if budget.is_some() {
                store.resume_batch(id, now()).await.unwrap();
                assert_eq!(standing(store, id).await, RUNS);
                assert!(
                    store
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
        store.pause_batch(id).await.unwrap();
        store.set_budget(id, Some(5.0), now()).await.unwrap();
        let paused = (BatchState::Paused, Some(PausedBy::Operator));
        assert_eq!(standing(store, id).await, paused);
        store.resume_batch(id, now()).await.unwrap();
        assert_eq!(standing(store, id).await, RUNS);

        // One that its budget has stopped already is the operator's from then on.
        let (id, items) = running(store, 3, Some(1.0)).await;
        spend(store, items[0], Some(1.0)).await;
        assert_eq!(standing(store, id).await, SPENT);
        store.pause_batch(id).await.unwrap();
        assert_eq!(standing(store, id).await, paused);
        store.set_budget(id, Some(5.0), now()).await.unwrap();
        assert_eq!(standing(store, id).await, paused);
        store.resume_batch(id, now()).await.unwrap();
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
        assert!(store.complete_batch(id, now()).await.unwrap().is_some());
        // Two in flight: the first one's end stops the batch, the second one's is its last.
        let (id, items) = running(store, 2, Some(1.0)).await;
        let second = claim(store, items[1], Uuid::now_v7()).await;
        spend(store, items[0], Some(5.0)).await;
        assert_eq!(standing(store, id).await, SPENT);
        assert_eq!(store.complete_batch(id, now()).await.unwrap(), None);
        assert_eq!(
            recorded(store, record_of(&second, failed())).await,
            Recorded::Applied
        );
        assert_eq!(store.batches_without_items_left().await.unwrap(), [id]);
        let done = store.complete_batch(id, now()).await.unwrap().unwrap();
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
        let usage = store.batch_usage(id).await.unwrap();
        assert_eq!((usage.spent_usd, usage.unpriced), (0.5, 1));
        assert_eq!(usage.tokens_in, 200);
        // A run that was answered from the cache used nothing, and is no run without a price.
        let run = claim(store, items[2], Uuid::now_v7()).await;
        let mut end = record_of(&run, failed());
        end.usage.cost_usd = Some(0.0);
        recorded(store, end).await;
        assert_eq!(store.batch_usage(id).await.unwrap(), usage);
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
        assert_eq!(other.spent_batches().await.unwrap(), [(id, Kind::Query)]);
        assert!(store.spent_batches().await.unwrap().is_empty());
        let pace = store
            .batch_pace(&row(store, id).await, now())
            .await
            .unwrap();
        assert!(pace.per_s > 0.0);
    }
}
