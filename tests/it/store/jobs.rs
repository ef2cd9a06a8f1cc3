//! Reading jobs, and user actions on them.

use gavel::job::{Force, JobId, JobState, Priority, WaitReason};
use gavel::store::{Accepted, Cursor, Died, Ending, JobCounts, JobFilter, StoreError};
use uuid::Uuid;

use super::fixtures::{
    accept, claim, failed, job, minutes, new_job, now, record, scored, session_with_job, waiting,
};
use crate::support;

#[tokio::test]
async fn unknown_job_is_none_everywhere() {
    for test in support::stores().await {
        let id = JobId::new();
        assert!(test.store.jobs().get(id).await.unwrap().is_none());
        assert!(
            test.store
                .jobs()
                .raise(id, Force::Yes)
                .await
                .unwrap()
                .is_none()
        );
        assert!(test.store.jobs().cancel(id, now()).await.unwrap().is_none());
        assert!(test.store.jobs().retry(id, now()).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn jobs_of_a_state_are_found_without_reading_ended_jobs() {
    for test in support::stores().await {
        accept(&test.store, new_job(None)).await;
        let ended = if test.url.starts_with("postgres") {
            "insert into scoring_jobs (job_id, kind, purpose, payload, judge, lane, priority, state, due_at, criteria_hash,
                force_rescore, triggered_by, created_at, finished_at)
             select gen_random_uuid(), kind, purpose, payload, judge, lane, priority, 'succeeded', due_at, criteria_hash,
                force_rescore, triggered_by, created_at, due_at
             from scoring_jobs, generate_series(1, 20000);
             analyze scoring_jobs"
        } else {
            "insert into scoring_jobs (job_id, kind, purpose, payload, judge, lane, priority, state, due_at, criteria_hash,
                force_rescore, triggered_by, created_at, finished_at)
             with recursive n(n) as (select 1 union all select n + 1 from n where n < 20000)
             select randomblob(16), kind, purpose, payload, judge, lane, priority, 'succeeded', due_at, criteria_hash,
                force_rescore, triggered_by, created_at, due_at
             from scoring_jobs, n"
        };
        support::execute(&test.url, ended).await.unwrap();
        for (state, index) in [
            (JobState::Queued, "scoring_jobs_"),
            (JobState::Running, "scoring_jobs_"),
            (JobState::Waiting, "scoring_jobs_"),
            (JobState::Failed, "scoring_jobs_errors"),
        ] {
            let state = Some(state);
            let filter = JobFilter {
                state,
                ..Default::default()
            };
            let plan = test
                .store
                .jobs()
                .explain_list(&filter)
                .await
                .unwrap()
                .join("\n");
            assert!(plan.contains(index), "{state:?}: {plan}");
            for whole in ["Seq Scan", "scoring_jobs_pkey", "autoindex"] {
                assert!(!plan.contains(whole), "{state:?}: {plan}");
            }
        }
    }
}

#[tokio::test]
async fn job_pages_are_newest_first_and_filtered() {
    for test in support::stores().await {
        let store = &test.store;
        let jobs = store.jobs();
        let mut ids = Vec::new();
        for n in 0..7 {
            let mut new = new_job(Some(Uuid::now_v7()));
            new.judge = Some(if n == 3 { "other" } else { "main" }.to_owned());
            ids.push(accept(store, new).await);
        }
        let run = claim(store, ids[2], Uuid::now_v7()).await;
        record(store, &run, failed()).await;
        ids.reverse();

        let mut seen = Vec::new();
        let mut after: Option<Cursor> = None;
        loop {
            let page = jobs
                .list(&JobFilter::default(), after.as_ref(), 3)
                .await
                .unwrap();
            seen.extend(page.items.iter().map(|job| job.job_id));
            after = page.next_cursor;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, ids);

        let find = async |filter: JobFilter| {
            let page = jobs.list(&filter, None, 500).await.unwrap();
            page.items.iter().map(|job| job.job_id).collect::<Vec<_>>()
        };
        let state = Some(JobState::Failed);
        assert_eq!(
            find(JobFilter {
                state,
                ..Default::default()
            })
            .await,
            [ids[4]]
        );
        let state = Some(JobState::Queued);
        assert_eq!(
            find(JobFilter {
                state,
                ..Default::default()
            })
            .await
            .len(),
            6
        );
        let judge = Some("other".to_owned());
        assert_eq!(
            find(JobFilter {
                judge,
                ..Default::default()
            })
            .await,
            [ids[3]]
        );
        let subject_id = job(store, ids[0]).await.subject_id;
        assert_eq!(
            find(JobFilter {
                subject_id,
                ..Default::default()
            })
            .await,
            [ids[0]]
        );
        let kind = Some(gavel::job::Kind::Session);
        assert_eq!(
            find(JobFilter {
                kind,
                ..Default::default()
            })
            .await
            .len(),
            7
        );

        let bad = Cursor("nonsense".to_owned());
        let error = jobs
            .list(&JobFilter::default(), Some(&bad), 3)
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::BadCursor(_)), "{error}");
    }
}

#[tokio::test]
async fn jobs_are_counted_by_state_and_ended_ones_for_a_day() {
    for test in support::stores().await {
        let store = &test.store;
        let jobs = store.jobs();
        for _ in 0..3 {
            accept(store, new_job(None)).await;
        }
        claim(store, accept(store, new_job(None)).await, Uuid::now_v7()).await;
        let run = claim(store, accept(store, new_job(None)).await, Uuid::now_v7()).await;
        record(store, &run, waiting(WaitReason::Throttled, now())).await;
        let run = claim(store, accept(store, new_job(None)).await, Uuid::now_v7()).await;
        record(store, &run, failed()).await;
        let (session_id, id) = session_with_job(store).await;
        let run = claim(store, id, Uuid::now_v7()).await;
        record(store, &run, scored(session_id, 5)).await;
        jobs.cancel(accept(store, new_job(None)).await, now())
            .await
            .unwrap();
        let expected = JobCounts {
            queued: 3,
            running: 1,
            waiting: 1,
            succeeded: 1,
            failed: 1,
            cancelled: 1,
        };
        assert_eq!(jobs.counts(now()).await.unwrap(), expected);
        let tomorrow = jobs.counts(now() + minutes(25 * 60)).await.unwrap();
        let expected = JobCounts {
            succeeded: 0,
            failed: 0,
            cancelled: 0,
            ..expected
        };
        assert_eq!(tomorrow, expected);
    }
}

#[tokio::test]
async fn queued_job_has_its_position_with_interactive_jobs_first() {
    for test in support::stores().await {
        let store = &test.store;
        let mut bulk = Vec::new();
        for _ in 0..3 {
            bulk.push(accept(store, new_job(None)).await);
        }
        let mut other = new_job(None);
        other.judge = Some("other".to_owned());
        accept(store, other).await;
        let mut interactive = Vec::new();
        for _ in 0..2 {
            let mut new = new_job(None);
            new.priority = Priority::Interactive;
            interactive.push(accept(store, new).await);
        }
        let position = async |id| store.jobs().position(&job(store, id).await).await.unwrap();
        assert_eq!(position(interactive[0]).await, Some(1));
        assert_eq!(position(interactive[1]).await, Some(2));
        assert_eq!(position(bulk[0]).await, Some(3));
        assert_eq!(position(bulk[2]).await, Some(5));
        claim(store, interactive[0], Uuid::now_v7()).await;
        assert_eq!(position(interactive[0]).await, None);
        assert_eq!(position(bulk[0]).await, Some(2));
    }
}

#[tokio::test]
async fn only_a_queued_or_waiting_job_is_raised() {
    for test in support::stores().await {
        let store = &test.store;
        let jobs = store.jobs();
        let id = accept(store, new_job(None)).await;
        let raised = jobs.raise(id, Force::AsIs).await.unwrap().unwrap();
        assert_eq!(
            (raised.priority, raised.force_rescore),
            (Priority::Interactive, false)
        );
        assert!(
            jobs.raise(id, Force::Yes)
                .await
                .unwrap()
                .unwrap()
                .force_rescore
        );
        assert!(
            jobs.raise(id, Force::AsIs)
                .await
                .unwrap()
                .unwrap()
                .force_rescore
        );
        let run = claim(store, id, Uuid::now_v7()).await;
        assert!(jobs.raise(id, Force::Yes).await.unwrap().is_none());
        record(store, &run, waiting(WaitReason::Throttled, now())).await;
        assert!(jobs.raise(id, Force::Yes).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn every_active_job_is_cancelled_and_an_ended_one_stays() {
    for test in support::stores().await {
        let store = &test.store;
        let queued = accept(store, new_job(None)).await;
        let running = accept(store, new_job(None)).await;
        claim(store, running, Uuid::now_v7()).await;
        let waits = accept(store, new_job(None)).await;
        let run = claim(store, waits, Uuid::now_v7()).await;
        record(store, &run, waiting(WaitReason::Exhausted, now())).await;
        for id in [queued, running, waits] {
            let at = now();
            let cancelled = store.jobs().cancel(id, at).await.unwrap().unwrap();
            assert_eq!(cancelled.state, JobState::Cancelled);
            assert_eq!(cancelled.finished_at, Some(at));
            assert!(cancelled.wait.is_none());
            let again = store
                .jobs()
                .cancel(id, now() + minutes(1))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(again, cancelled);
        }
    }
}

#[tokio::test]
async fn retried_job_resets_its_counters_but_not_its_claim_number() {
    for test in support::stores().await {
        let store = &test.store;
        let jobs = store.jobs();
        let id = accept(store, new_job(Some(Uuid::now_v7()))).await;
        for _ in 0..2 {
            claim(store, id, Uuid::now_v7()).await;
            jobs.rescue_lost(Died::Somebody, 3, now()).await.unwrap();
        }
        let run = claim(store, id, Uuid::now_v7()).await;
        assert!(run.lane.is_suspect());
        assert!(jobs.retry(id, now()).await.unwrap().is_none());
        record(store, &run, failed()).await;
        let at = now();
        assert_eq!(jobs.retry(id, at).await.unwrap(), Some(Accepted::New));
        let queued = job(store, id).await;
        assert_eq!(queued.state, JobState::Queued);
        assert_eq!(
            (queued.lane.as_str(), queued.priority),
            ("main", Priority::Interactive)
        );
        assert_eq!((queued.attempts, queued.losses, queued.retries), (0, 0, 0));
        assert_eq!((queued.claim_no, queued.due_at), (3, at));
        assert!(queued.failure.is_none() && queued.finished_at.is_none());
        assert_eq!(claim(store, id, Uuid::now_v7()).await.claim_no, 4);
    }
}

#[tokio::test]
async fn retry_next_to_an_active_job_returns_the_active_one() {
    for test in support::stores().await {
        let store = &test.store;
        let subject = Some(Uuid::now_v7());
        let first = accept(store, new_job(subject)).await;
        let run = claim(store, first, Uuid::now_v7()).await;
        record(store, &run, failed()).await;
        let second = accept(store, new_job(subject)).await;
        let retried = store.jobs().retry(first, now()).await.unwrap();
        assert_eq!(retried, Some(Accepted::Active(second)));
        assert_eq!(job(store, first).await.state, JobState::Failed);
        store.jobs().cancel(second, now()).await.unwrap();
        assert_eq!(
            store.jobs().retry(first, now()).await.unwrap(),
            Some(Accepted::New)
        );
    }
}

#[tokio::test]
async fn database_rejects_an_inconsistent_row() {
    for test in support::stores().await {
        let id = accept(&test.store, new_job(None)).await;
        let wrong = [
            "update scoring_jobs set state = 'done'",
            "update scoring_jobs set state = 'succeeded'",
            "update scoring_jobs set finished_at = created_at",
            "update scoring_jobs set state = 'waiting'",
            "update scoring_jobs set error_class = 'internal'",
            "update scoring_jobs set priority = 'urgent'",
        ];
        for statement in wrong {
            assert!(
                support::execute(&test.url, statement).await.is_err(),
                "{statement}"
            );
        }
        assert_eq!(job(&test.store, id).await.state, JobState::Queued);
    }
}

#[tokio::test]
async fn ended_job_cannot_be_recorded_again() {
    for test in support::stores().await {
        let id = accept(&test.store, new_job(None)).await;
        let run = claim(&test.store, id, Uuid::now_v7()).await;
        record(&test.store, &run, failed()).await;
        let again = super::fixtures::record_of(&run, Ending::Requeued);
        let outcome = super::fixtures::recorded(&test.store, again).await;
        assert_eq!(outcome, gavel::store::Recorded::Stale);
    }
}
