//! Batches exist completely or not at all, and their items run only while the batch runs.

use std::sync::Arc;
use std::time::Duration;

use gavel::job::{BatchPlace, Force, JobId, JobState, Kind, Lane, NewJob, Priority};
use gavel::store::{
    Added, BatchFigures, BatchFilter, CancelStep, Cancelling, Ending, Moved, NewBatch,
    NewEvaluation, Recorded, Store,
};
use serde_json::json;
use sqlx::Connection as _;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::fixtures::{
    accept, claim, failed, item_ids, job, minutes, new_job, now, record, record_of, recorded,
    session_with_job, waiting,
};
use crate::support;
use crate::support::client::PATIENCE;
use crate::support::wait::eventually;
use gavel::wire::{BatchState, PausedBy};

fn new_batch() -> NewBatch {
    NewBatch {
        name: Some("nightly".to_owned()),
        threshold: Some(0.9),
        ..support::new_batch(Kind::Query, now())
    }
}

fn item(batch_id: Uuid, item_no: i64) -> NewJob {
    NewJob {
        kind: Kind::Query,
        batch: Some(BatchPlace { batch_id, item_no }),
        ..new_job(None)
    }
}

async fn expanding(store: &Store, items: i64) -> (Uuid, Vec<JobId>) {
    let new = new_batch();
    store.batches().begin(&new).await.unwrap();
    let items: Vec<NewJob> = (0..items).map(|no| item(new.batch_id, no)).collect();
    let ids = items.iter().map(|item| item.job_id).collect();
    let added = store
        .batches()
        .add_items(new.batch_id, &items)
        .await
        .unwrap();
    assert_eq!(added, Added::All);
    (new.batch_id, ids)
}

async fn running(store: &Store, items: i64) -> (Uuid, Vec<JobId>) {
    let (id, items) = expanding(store, items).await;
    let Moved::Now(batch) = store.batches().start(id).await.unwrap() else {
        panic!("it can be started");
    };
    assert_eq!(
        (batch.state, batch.total),
        (BatchState::Running, items.len() as i64)
    );
    (id, items)
}

async fn figures(store: &Store, id: Uuid) -> BatchFigures {
    let batch = store.batches().get(id).await.unwrap().unwrap();
    store.batches().figures(&batch).await.unwrap()
}

async fn state(store: &Store, id: Uuid) -> BatchState {
    store.batches().get(id).await.unwrap().unwrap().state
}

/// Number of these ids that are claimable, and that rescue would push.
async fn may_run(store: &Store, ids: &[JobId]) -> (usize, usize) {
    let due = store
        .jobs()
        .due(
            &Lane::of_judge("main"),
            Priority::Bulk,
            now() + minutes(1),
            None,
            500,
        )
        .await
        .unwrap();
    let pushed = due.iter().filter(|due| ids.contains(&due.job_id)).count();
    let worker = Uuid::now_v7();
    let claimed = store
        .jobs()
        .claim(ids, worker, now() + minutes(1))
        .await
        .unwrap();
    for job in &claimed {
        record(store, job, Ending::NotStarted).await;
    }
    (claimed.len(), pushed)
}

fn evaluated(total: Option<f64>, passed: Option<bool>, simulated: bool) -> Ending {
    Ending::Evaluated {
        score: Box::new(NewEvaluation {
            score_id: Uuid::now_v7(),
            kind: Kind::Query,
            batch: None,
            criteria_hash: "f".repeat(64),
            total,
            passed,
            threshold: Some(0.9),
            components: json!({}),
            error: None,
            simulated,
        }),
        result: json!({}),
        failure: None,
    }
}

#[tokio::test]
async fn items_run_only_while_their_batch_runs() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = expanding(store, 3).await;
        let alone = accept(store, new_job(None)).await;
        let all: Vec<JobId> = items.iter().copied().chain([alone]).collect();
        assert_eq!(may_run(store, &all).await, (1, 1), "expanding");
        store.batches().start(id).await.unwrap();
        assert_eq!(may_run(store, &all).await, (4, 4), "running");
        assert!(matches!(
            store.batches().pause(id).await.unwrap(),
            Moved::Now(_)
        ));
        assert!(matches!(
            store.batches().pause(id).await.unwrap(),
            Moved::Already(_)
        ));
        assert_eq!(may_run(store, &all).await, (1, 1), "paused");
        assert_eq!(
            store.batches().paused(&[id, Uuid::now_v7()]).await.unwrap(),
            [(id, PausedBy::Operator)]
        );
        assert!(matches!(
            store.batches().resume(id, now()).await.unwrap(),
            Moved::Now(_)
        ));
        assert_eq!(may_run(store, &all).await, (4, 4), "resumed");
        let first = store.batches().first_items(id, 2).await.unwrap();
        let first: Vec<JobId> = first.into_iter().map(|due| due.job_id).collect();
        assert_eq!(first, items[..2]);
        assert_eq!(item_ids(store, id).await, items);
    }
}

#[tokio::test]
async fn only_the_batch_of_a_dead_creator_is_removed_with_its_items() {
    for test in support::stores().await {
        let store = &test.store;
        let batches = store.batches();
        let (kept, _) = running(store, 2).await;
        let (id, items) = expanding(store, 3).await;
        let silent = Duration::from_secs(60);
        assert!(batches.remove_silent(silent).await.unwrap().is_empty());
        // The database clock may not advance for a millisecond.
        let removed = eventually(PATIENCE, "the batch is removed", async || {
            let removed = batches.remove_silent(Duration::ZERO).await.unwrap();
            (!removed.is_empty()).then_some(removed)
        });
        assert_eq!(removed.await, [id]);
        assert_eq!(batches.get(id).await.unwrap(), None);
        for item in items {
            assert_eq!(store.jobs().get(item).await.unwrap(), None);
        }
        // Its creator is alive after all, and gets the result.
        let late = batches.add_items(id, &[item(id, 3)]).await.unwrap();
        assert_eq!(late, Added::Gone);
        assert_eq!(batches.start(id).await.unwrap(), Moved::Unknown);
        assert_eq!(state(store, kept).await, BatchState::Running);
        assert_eq!(item_ids(store, kept).await.len(), 2);

        let (given_up, _) = expanding(store, 1).await;
        batches.remove_expanding(given_up).await.unwrap();
        batches.remove_expanding(kept).await.unwrap();
        assert_eq!(batches.get(given_up).await.unwrap(), None);
        assert_eq!(state(store, kept).await, BatchState::Running);
    }
}

#[tokio::test]
async fn items_are_added_all_or_none_and_once() {
    for test in support::stores().await {
        let store = &test.store;
        let batches = store.batches();
        let new = new_batch();
        batches.begin(&new).await.unwrap();
        batches.begin(&new).await.unwrap();
        let id = new.batch_id;
        let items = [item(id, 0), item(id, 1)];
        for _ in 0..2 {
            assert_eq!(batches.add_items(id, &items).await.unwrap(), Added::All);
        }
        let (session, _) = session_with_job(store).await;
        let busy = NewJob {
            kind: Kind::Session,
            subject_id: Some(session),
            ..item(id, 3)
        };
        let refused = batches.add_items(id, &[item(id, 2), busy]).await.unwrap();
        assert_eq!(refused, Added::Active(vec![session]));
        let batch = batches.get(id).await.unwrap().unwrap();
        assert_eq!((batch.state, batch.total), (BatchState::Expanding, 2));
        assert_eq!(item_ids(store, id).await.len(), 2);
    }
}

#[tokio::test]
async fn batch_completes_after_all_items_and_reruns_its_failures() {
    for test in support::stores().await {
        let store = &test.store;
        let batches = store.batches();
        let (id, items) = running(store, 2).await;
        let worker = Uuid::now_v7();
        let first = claim(store, items[0], worker).await;
        record(store, &first, failed()).await;
        assert!(batches.without_items_left().await.unwrap().is_empty());
        assert_eq!(batches.complete(id, now()).await.unwrap(), None);
        let second = claim(store, items[1], worker).await;
        record(store, &second, evaluated(Some(1.0), Some(true), false)).await;
        assert_eq!(batches.without_items_left().await.unwrap(), [id]);
        let done = batches.complete(id, now()).await.unwrap().unwrap();
        assert_eq!(done.state, BatchState::Completed);
        assert!(done.finished_at.is_some());
        assert_eq!(batches.complete(id, now()).await.unwrap(), None);
        for moved in [
            batches.pause(id).await,
            batches.resume(id, now()).await,
            batches.cancel(id, now()).await,
        ] {
            assert!(matches!(moved.unwrap(), Moved::Refused(_)));
        }

        let (moved, queued) = batches.retry_failed_items(id, now(), now()).await.unwrap();
        assert!(matches!(moved, Moved::Now(batch) if batch.state == BatchState::Running));
        assert_eq!(queued.len(), 1);
        assert_eq!(queued[0].job_id, items[0]);
        assert_eq!(job(store, items[0]).await.state, JobState::Queued);
        assert_eq!(batches.complete(id, now()).await.unwrap(), None);
        let (moved, queued) = batches.retry_failed_items(id, now(), now()).await.unwrap();
        assert!(matches!(moved, Moved::Already(_)) && queued.is_empty());

        // A single retried job reopens its batch.
        let again = claim(store, items[0], worker).await;
        record(store, &again, failed()).await;
        batches.complete(id, now()).await.unwrap().unwrap();
        store.jobs().retry(items[0], now()).await.unwrap().unwrap();
        assert_eq!(state(store, id).await, BatchState::Running);
    }
}

/// Runs all steps as a worker does; returns their number.
async fn cancel_all(store: &Store) -> usize {
    let (mut cancelling, mut steps) = (Cancelling::default(), 1);
    while store
        .batches()
        .cancel_step(&mut cancelling, now())
        .await
        .unwrap()
        == CancelStep::More
    {
        steps += 1;
    }
    steps
}

#[tokio::test]
async fn large_batch_is_cancelled_in_steps_that_allow_other_work() {
    const ITEMS: i64 = 20_000;
    for test in support::stores().await {
        let store = &test.store;
        let batches = store.batches();
        let (id, mut ids) = expanding(store, 1_000).await;
        for from in (1_000..ITEMS).step_by(1_000) {
            let items: Vec<NewJob> = (from..from + 1_000).map(|no| item(id, no)).collect();
            assert_eq!(batches.add_items(id, &items).await.unwrap(), Added::All);
            ids.extend(items.iter().map(|item| item.job_id));
        }
        batches.start(id).await.unwrap();
        // A running item ends at once, at any position.
        let run = claim(store, ids[15_000], Uuid::now_v7()).await;
        batches.cancel(id, now()).await.unwrap();
        assert_eq!(job(store, ids[15_000]).await.state, JobState::Cancelled);
        assert_eq!(
            recorded(store, record_of(&run, failed())).await,
            Recorded::Stale
        );
        let cancelled = async || figures(store, id).await.count(JobState::Cancelled);
        assert_eq!(cancelled().await, 1_001);
        // Its queued items don't start.
        let late = store
            .jobs()
            .claim(&ids[19_000..19_100], Uuid::now_v7(), now() + minutes(1));
        assert!(late.await.unwrap().is_empty());

        let mut cancelling = Cancelling::default();
        let mut steps = 0;
        while batches.cancel_step(&mut cancelling, now()).await.unwrap() == CancelStep::More {
            steps += 1;
            let other = accept(store, new_job(None)).await;
            let run = claim(store, other, Uuid::now_v7()).await;
            record(store, &run, failed()).await;
            if steps == 5 {
                // Another worker continues with the rest.
                cancelling = Cancelling::default();
            }
        }
        assert_eq!(cancelled().await, ITEMS);
        assert!((20..30).contains(&steps), "{steps}");
        assert_eq!(cancel_all(store).await, 1, "it is let go of");
    }
}

#[tokio::test]
async fn individually_requested_item_runs_despite_its_batch() {
    for test in support::stores().await {
        let store = &test.store;
        let jobs = store.jobs();
        let (id, items) = running(store, 3).await;
        store.batches().pause(id).await.unwrap();
        let raised = jobs.raise(items[0], Force::AsIs).await.unwrap().unwrap();
        assert!(raised.on_demand);
        let due = jobs
            .claim(&items, Uuid::now_v7(), now() + minutes(1))
            .await
            .unwrap();
        let claimed: Vec<_> = due.iter().map(|job| job.job_id).collect();
        assert_eq!(claimed, [items[0]], "the others wait");

        jobs.raise(items[1], Force::AsIs).await.unwrap().unwrap();
        store.batches().cancel(id, now()).await.unwrap();
        let states = [
            job(store, items[0]).await.state,
            job(store, items[1]).await.state,
            job(store, items[2]).await.state,
        ];
        let expected = [JobState::Running, JobState::Queued, JobState::Cancelled];
        assert_eq!(states, expected);
        record(store, &due[0], failed()).await;
        let last = claim(store, items[1], Uuid::now_v7()).await;
        record(store, &last, failed()).await;
        cancel_all(store).await;
        let figures = figures(store, id).await;
        assert_eq!(figures.count(JobState::Failed), 2);
        assert_eq!(figures.count(JobState::Cancelled), 1);
    }
}

/// A cancel that waits for an item's row lock must see the item's new state.
#[tokio::test]
async fn item_requested_during_the_cancel_of_its_batch_survives() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let store = &test.store;
    let (id, items) = running(store, 2).await;
    let mut other = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let mut asked = other.begin().await.unwrap();
    sqlx::query("update scoring_jobs set on_demand = true where job_id = $1")
        .bind(items[0].0)
        .execute(&mut *asked)
        .await
        .unwrap();

    let canceller = Arc::clone(store);
    let cancelled = tokio::spawn(async move { canceller.batches().cancel(id, now()).await });
    let mut watcher = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let watcher = Mutex::new(&mut watcher);
    eventually(PATIENCE, "the cancel waits for the row", || async {
        let waiting: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'",
        )
        .fetch_one(&mut **watcher.lock().await)
        .await
        .unwrap();
        (waiting > 0).then_some(())
    })
    .await;
    asked.commit().await.unwrap();
    cancelled.await.unwrap().unwrap();
    let states = [
        job(store, items[0]).await.state,
        job(store, items[1]).await.state,
    ];
    assert_eq!(states, [JobState::Queued, JobState::Cancelled]);
}

#[tokio::test]
async fn batch_without_retryable_failures_stays_completed() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 1).await;
        let run = claim(store, items[0], Uuid::now_v7()).await;
        record(store, &run, failed()).await;
        let done = store.batches().complete(id, now()).await.unwrap().unwrap();
        // Its failure is outside the requested time range.
        let before = now() - minutes(60);
        let (moved, queued) = store
            .batches()
            .retry_failed_items(id, before, now())
            .await
            .unwrap();
        assert!(queued.is_empty());
        let Moved::Already(batch) = moved else {
            panic!("{moved:?}");
        };
        assert_eq!(
            (batch.state, batch.finished_at),
            (done.state, done.finished_at)
        );
    }
}

#[tokio::test]
async fn cancelling_a_batch_ends_all_unfinished_items() {
    for test in support::stores().await {
        let store = &test.store;
        let batches = store.batches();
        let (id, items) = running(store, 3).await;
        let worker = Uuid::now_v7();
        let ended = claim(store, items[0], worker).await;
        record(store, &ended, evaluated(Some(0.5), Some(false), false)).await;
        claim(store, items[1], worker).await;
        let at = now();
        assert!(matches!(
            batches.cancel(id, at).await.unwrap(),
            Moved::Now(_)
        ));
        assert!(matches!(
            batches.cancel(id, at).await.unwrap(),
            Moved::Already(_)
        ));
        let figures = figures(store, id).await;
        assert_eq!(figures.count(JobState::Cancelled), 2);
        assert_eq!(figures.count(JobState::Succeeded), 1);
        let verdict = figures.verdict.unwrap();
        assert_eq!((verdict.failed, verdict.unscored), (1, 2));
        assert_eq!(verdict.mean, Some(0.5));
        let (moved, _) = batches.retry_failed_items(id, now(), now()).await.unwrap();
        assert!(matches!(moved, Moved::Refused(_)));
        cancel_all(store).await;
        let page = batches
            .list(
                BatchFilter {
                    kind: Some(Kind::Query),
                    state: Some(BatchState::Cancelled),
                },
                None,
                10,
            )
            .await
            .unwrap();
        assert_eq!(page.items.len(), 1);
        assert_eq!(page.items[0].batch_id, id);
    }
}

#[tokio::test]
async fn pause_is_excluded_from_the_wait_time_of_items() {
    for test in support::stores().await {
        let store = &test.store;
        let jobs = store.jobs();
        let (id, items) = running(store, 1).await;
        let claimed = claim(store, items[0], Uuid::now_v7()).await;
        let wait = waiting(gavel::job::WaitReason::BreakerOpen, now());
        record(store, &claimed, wait).await;
        store.batches().pause(id).await.unwrap();
        let later = now() + minutes(60);
        let long_ago = later - minutes(10);
        assert!(
            jobs.expire_waits(long_ago, &[], later)
                .await
                .unwrap()
                .is_empty()
        );
        store.batches().resume(id, later).await.unwrap();
        assert!(
            jobs.expire_waits(long_ago, &[], later)
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            jobs.expire_waits(later + minutes(1), &[], later)
                .await
                .unwrap(),
            items
        );
    }
}

#[tokio::test]
async fn totals_are_final_after_the_last_item_ends() {
    for test in support::stores().await {
        let store = &test.store;
        let batches = store.batches();
        let (id, items) = running(store, 2).await;
        let worker = Uuid::now_v7();
        let row = async || batches.get(id).await.unwrap().unwrap();
        for (item, ending) in [
            (items[0], failed()),
            (items[1], evaluated(Some(0.5), Some(false), false)),
        ] {
            let claimed = claim(store, item, worker).await;
            record(store, &claimed, ending).await;
            let counted = figures(store, id).await;
            assert_eq!(row().await.figures, None, "it runs");
            assert_eq!(
                counted.count(JobState::Failed)
                    + counted.count(JobState::Succeeded)
                    + counted.unfinished(),
                2
            );
        }
        batches.complete(id, now()).await.unwrap().unwrap();
        let counted = figures(store, id).await;
        let kept = row().await;
        assert_eq!(kept.figures.as_ref(), Some(&counted));
        assert_eq!(counted.verdict.unwrap().mean, Some(0.5));
        assert_eq!(figures(store, id).await, counted);

        // An item requeued individually or with all failures makes them provisional.
        store.jobs().retry(items[0], now()).await.unwrap().unwrap();
        assert_eq!(figures(store, id).await.unfinished(), 1);
        let claimed = claim(store, items[0], worker).await;
        record(store, &claimed, failed()).await;
        batches.complete(id, now()).await.unwrap().unwrap();
        batches.keep_figures(&kept, &counted).await.unwrap();
        assert_eq!(
            row().await.figures,
            None,
            "what was counted before doesn't hold"
        );
        figures(store, id).await;
        assert!(row().await.figures.is_some());
        batches.retry_failed_items(id, now(), now()).await.unwrap();
        assert_eq!(figures(store, id).await.count(JobState::Queued), 1);
        // An item that can't be requeued has no effect.
        assert_eq!(store.jobs().retry(items[1], now()).await.unwrap(), None);
        assert_eq!(row().await.state, BatchState::Running);
    }
}

#[tokio::test]
async fn totals_exclude_simulated_scores_if_real_ones_exist() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = running(store, 4).await;
        let worker = Uuid::now_v7();
        for (n, ending) in [
            evaluated(Some(0.4), Some(false), true),
            evaluated(None, None, false),
        ]
        .into_iter()
        .enumerate()
        {
            let claimed = claim(store, items[n], worker).await;
            record(store, &claimed, ending).await;
        }
        let verdict = figures(store, id).await.verdict.unwrap();
        assert!(verdict.simulated);
        assert_eq!(
            (verdict.failed, verdict.incomplete, verdict.unscored),
            (1, 1, 2)
        );
        let claimed = claim(store, items[2], worker).await;
        record(store, &claimed, evaluated(Some(1.0), Some(true), false)).await;
        let figures = figures(store, id).await;
        let verdict = figures.verdict.unwrap();
        assert!(!verdict.simulated);
        assert_eq!(
            (verdict.passed, verdict.failed, verdict.unscored),
            (1, 0, 2)
        );
        assert_eq!((verdict.mean, verdict.coverage), (Some(1.0), 0.25));
        assert_eq!(figures.cost_usd, Some(0.0));
    }
}
