//! Claims: each id once, only due ids, with increasing claim numbers.

use chrono::{DateTime, Utc};
use futures::future::join_all;
use gavel::job::{Job, JobId, JobState, WaitReason};
use gavel::store::{Recorded, Store};
use uuid::Uuid;

use super::fixtures::{
    accept, claim, current_score, job, minutes, new_job, now, record, record_of, recorded, scored,
    session_with_job, waiting,
};
use crate::support;

async fn claims(store: &Store, ids: &[JobId], worker: Uuid, at: DateTime<Utc>) -> Vec<Job> {
    store.jobs().claim(ids, worker, at).await.unwrap()
}

#[tokio::test]
async fn claim_marks_queued_jobs_as_running_for_its_worker() {
    for test in support::stores().await {
        let worker = Uuid::now_v7();
        let id = accept(&test.store, new_job(None)).await;
        let at = now() + minutes(1);
        let asked = [id, JobId::new()];
        let claimed = claims(&test.store, &asked, worker, at).await;
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].state, JobState::Running);
        assert_eq!(claimed[0].claim_no, 1);
        assert_eq!(claimed[0].worker_id, Some(worker));
        assert_eq!(claimed[0].started_at, Some(at));
        assert_eq!(claimed[0], job(&test.store, id).await);
        assert!(claims(&test.store, &[], worker, at).await.is_empty());
    }
}

#[tokio::test]
async fn two_claimers_of_the_same_ids_get_each_id_once() {
    for test in support::stores().await {
        let mut ids = Vec::new();
        for _ in 0..30 {
            ids.push(accept(&test.store, new_job(None)).await);
        }
        let backwards: Vec<JobId> = ids.iter().rev().copied().collect();
        let other = support::reopen(&test).await;
        let at = now() + minutes(1);
        let (a, b) = (Uuid::now_v7(), Uuid::now_v7());
        let claims = join_all([
            test.store.jobs().claim(&ids, a, at),
            other.jobs().claim(&backwards, b, at),
            test.store.jobs().claim(&backwards, a, at),
            other.jobs().claim(&ids, b, at),
        ])
        .await;
        let mut claimed: Vec<JobId> = claims
            .into_iter()
            .flat_map(Result::unwrap)
            .map(|job| job.job_id)
            .collect();
        claimed.sort();
        ids.sort();
        assert_eq!(claimed, ids);
    }
}

#[tokio::test]
async fn running_ended_and_waiting_jobs_are_not_claimed() {
    for test in support::stores().await {
        let (store, worker) = (&test.store, Uuid::now_v7());
        let id = accept(store, new_job(None)).await;
        let claimed = claim(store, id, worker).await;
        let late = now() + minutes(600);
        assert!(claims(store, &[id], worker, late).await.is_empty());
        let due_at = now() + minutes(60);
        record(store, &claimed, waiting(WaitReason::Throttled, due_at)).await;
        let before = due_at - minutes(1);
        assert!(claims(store, &[id], worker, before).await.is_empty());
        // Another clock may have measured the wait.
        let early = due_at - chrono::TimeDelta::milliseconds(900);
        let again = claims(store, &[id], worker, early).await;
        assert_eq!(again[0].claim_no, 2);
        assert!(again[0].wait.is_none());
        store.jobs().cancel(id, now()).await.unwrap().unwrap();
        assert!(claims(store, &[id], worker, late).await.is_empty());
    }
}

#[tokio::test]
async fn run_that_lost_its_claim_records_no_result() {
    for test in support::stores().await {
        let (session_id, id) = session_with_job(&test.store).await;
        let lost = claim(&test.store, id, Uuid::now_v7()).await;
        let rescued = test
            .store
            .jobs()
            .rescue_lost(gavel::store::Died::Somebody, 3, now())
            .await
            .unwrap();
        assert_eq!(rescued.requeued.len(), 1);
        let current = claim(&test.store, id, Uuid::now_v7()).await;
        assert_eq!(current.claim_no, lost.claim_no + 1);

        let before = job(&test.store, id).await;
        let late = record_of(&lost, scored(session_id, 11));
        assert_eq!(recorded(&test.store, late).await, Recorded::Stale);
        // Both parts of the fence must match.
        let mut other_worker = record_of(&current, scored(session_id, 12));
        other_worker.fence.worker_id = lost.worker_id.unwrap();
        assert_eq!(recorded(&test.store, other_worker).await, Recorded::Stale);
        assert_eq!(job(&test.store, id).await, before);
        let none = test.store.scores().of_session(session_id).await.unwrap();
        assert!(none.is_empty());

        record(&test.store, &current, scored(session_id, 80)).await;
        let score = current_score(&test.store, session_id).await;
        assert_eq!(score.score.total_score, 80);
    }
}

#[tokio::test]
async fn cancelled_running_job_ends_at_once_and_drops_its_result() {
    for test in support::stores().await {
        let (session_id, id) = session_with_job(&test.store).await;
        let claimed = claim(&test.store, id, Uuid::now_v7()).await;
        let cancelled = test.store.jobs().cancel(id, now()).await.unwrap().unwrap();
        assert_eq!(cancelled.state, JobState::Cancelled);
        let late = record_of(&claimed, scored(session_id, 50));
        assert_eq!(recorded(&test.store, late).await, Recorded::Stale);
        assert_eq!(job(&test.store, id).await, cancelled);
        let none = test.store.scores().current(session_id).await.unwrap();
        assert!(none.is_none());
        accept(&test.store, new_job(Some(session_id))).await;
    }
}

#[tokio::test]
async fn claim_uses_the_primary_key() {
    for test in support::stores().await {
        let mut ids = Vec::new();
        for _ in 0..64 {
            ids.push(accept(&test.store, new_job(None)).await);
        }
        let plan = test
            .store
            .jobs()
            .explain_claim(&ids, Uuid::now_v7(), now())
            .await
            .unwrap()
            .join("\n");
        let key = if test.url.starts_with("postgres") {
            "scoring_jobs_pkey"
        } else {
            "sqlite_autoindex_scoring_jobs_1"
        };
        assert!(plan.contains(key), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
        assert!(!plan.contains("scoring_jobs_due"), "{plan}");
    }
}

#[tokio::test]
async fn unreadable_row_is_delayed_without_affecting_its_claim() {
    for test in support::stores().await {
        let store = &test.store;
        let [good, strange] = [
            accept(store, new_job(None)).await,
            accept(store, new_job(None)).await,
        ];
        let newest = if test.url.starts_with("postgres") {
            "update scoring_jobs set kind = 'of_a_later_version'
             where cast(job_id as text) = (select max(cast(job_id as text)) from scoring_jobs)"
        } else {
            "update scoring_jobs set kind = 'of_a_later_version' where job_id = (select max(job_id) from scoring_jobs)"
        };
        support::execute(&test.url, newest).await.unwrap();
        let (worker, at) = (Uuid::now_v7(), now());
        let claimed = claims(store, &[strange, good], worker, at).await;
        assert_eq!(
            claimed.iter().map(|job| job.job_id).collect::<Vec<_>>(),
            [good]
        );

        // It is unclaimed, and due again after a delay.
        support::execute(&test.url, "update scoring_jobs set kind = 'session'")
            .await
            .unwrap();
        let strange = job(store, strange).await;
        assert_eq!((strange.state, strange.worker_id), (JobState::Queued, None));
        assert!(strange.due_at > at);
    }
}

#[tokio::test]
async fn queued_job_is_claimed_regardless_of_host_clocks() {
    for test in support::stores().await {
        let id = accept(&test.store, new_job(None)).await;
        let behind = job(&test.store, id).await.due_at - minutes(60);
        let claimed = test.store.jobs().claim(&[id], Uuid::now_v7(), behind).await;
        assert_eq!(claimed.unwrap()[0].job_id, id);
    }
}

#[tokio::test]
async fn unconfirmed_rows_are_released_once_by_their_claim() {
    for test in support::stores().await {
        let store = &test.store;
        let jobs = store.jobs();
        let (worker, other) = (Uuid::now_v7(), Uuid::now_v7());
        let mut claims = Vec::new();
        for owner in [worker, worker, other] {
            let id = accept(store, new_job(None)).await;
            let run = claim(store, id, owner).await;
            claims.push((id, run.claim_no));
        }
        let ahead = now() + minutes(1);
        let mut mine = jobs.running_of(worker, ahead).await.unwrap();
        mine.sort();
        assert_eq!(mine, claims[..2]);
        let young = jobs.running_of(worker, now() - minutes(1)).await.unwrap();
        assert!(young.is_empty(), "a claim of a moment ago may be in hand");

        let stale = (claims[1].0, claims[1].1 - 1);
        let asked = [claims[0], stale, claims[2]];
        let at = now();
        let returned = jobs.return_claims(worker, &asked, at).await.unwrap();
        let ids: Vec<JobId> = returned.iter().map(|due| due.job_id).collect();
        assert_eq!(ids, [claims[0].0]);
        let back = job(store, claims[0].0).await;
        assert_eq!((back.state, back.due_at), (JobState::Queued, at));
        assert_eq!((back.worker_id, back.losses), (None, 0));
        assert!(
            jobs.return_claims(worker, &asked, at)
                .await
                .unwrap()
                .is_empty()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_row_is_skipped_without_affecting_others() {
    use sqlx::Connection as _;
    let Some(test) = support::postgres().await else {
        return;
    };
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(accept(&test.store, new_job(None)).await);
    }
    let mut other = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    let locked =
        sqlx::query("select job_id from scoring_jobs where job_id = $1 for update").bind(ids[1].0);
    locked.execute(&mut *lock).await.unwrap();
    let worker = Uuid::now_v7();
    let claimed = test.store.jobs().claim(&ids, worker, now()).await.unwrap();
    let mut claimed: Vec<JobId> = claimed.into_iter().map(|job| job.job_id).collect();
    claimed.sort();
    assert_eq!(claimed, [ids[0], ids[2]]);
    lock.rollback().await.unwrap();
    let claimed = test.store.jobs().claim(&ids, worker, now()).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].job_id, claimed[0].claim_no), (ids[1], 1));
}
