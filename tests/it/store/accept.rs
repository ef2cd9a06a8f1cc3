//! Accepting: one active job per subject, grouped commits.

use futures::future::join_all;
use gavel::job::{JobState, Requester, Usage};
use gavel::store::{Accepted, Dialect, FirstOutcome, JobFilter, SessionRecord, Store, StoreError};
use gavel::wire::SessionStatus;
use serde_json::json;
use uuid::Uuid;

use super::fixtures::{
    accept, claim, failed, job, new_job, now, record, scored_session, session, session_with_job,
};
use crate::support;

#[tokio::test]
async fn an_accepted_job_reads_back_as_it_was_given() {
    for test in support::stores().await {
        let mut new = new_job(Some(Uuid::now_v7()));
        new.payload =
            json!({"ключ": ["日本語", [], {}, null, 1.5, true, "🦀"], "empty": ""}).into();
        new.triggered_by = Requester {
            user: "Zoë".to_owned(),
            authenticated_as: Some("ci".to_owned()),
        };
        let id = accept(&test.store, new.clone()).await;
        let read = job(&test.store, id).await;
        assert_eq!(read.payload, new.payload);
        assert_eq!(read.triggered_by, new.triggered_by);
        assert_eq!(read.state, JobState::Queued);
        assert_eq!(read.subject_id, new.subject_id);
        assert_eq!(read.lane, new.lane());
        assert_eq!(read.created_at, new.created_at);
        assert_eq!(read.due_at, new.created_at);
        assert_eq!(
            read.usage,
            Usage {
                tokens_in: 0,
                tokens_out: 0,
                cost_usd: Some(0.0)
            }
        );
        assert_eq!(
            (read.claim_no, read.attempts, read.losses, read.retries),
            (0, 0, 0, 0)
        );
        assert!(read.result.is_none() && read.failure.is_none() && read.wait.is_none());
    }
}

#[tokio::test]
async fn nul_characters_are_kept_as_replacement_characters() {
    for test in support::stores().await {
        let mut new = new_job(None);
        new.payload = json!({"a\u{0}b": ["x\u{0}y"]}).into();
        new.triggered_by = "t\u{0}".to_owned().into();
        let read = job(&test.store, accept(&test.store, new).await).await;
        assert_eq!(read.payload.value(), json!({"a\u{fffd}b": ["x\u{fffd}y"]}));
        assert_eq!(read.triggered_by.user, "t\u{fffd}");
    }
}

#[tokio::test]
async fn a_payload_may_be_any_json() {
    for test in support::stores().await {
        for payload in [
            json!(5),
            json!("5"),
            json!(null),
            json!(true),
            json!([1e3]),
            json!(-0.5),
        ] {
            let mut new = new_job(None);
            new.payload = payload.clone().into();
            let read = job(&test.store, accept(&test.store, new).await).await;
            assert_eq!(read.payload.value(), payload);
        }
    }
}

/// What a session's first job comes to, of sessions that are scored when completed. SQLite says what is known, and inserts nothing.
async fn first(store: &Store, session_id: Uuid) -> FirstOutcome {
    let new = new_job(Some(session_id));
    let (id, scorable) = (new.job_id, vec![SessionStatus::Completed]);
    let jobs = store.jobs();
    let came = jobs.accept_first(new, scorable).await.unwrap();
    if came == FirstOutcome::New {
        assert_eq!(job(store, id).await.subject_id, Some(session_id));
    } else {
        assert_eq!(jobs.get(id).await.unwrap(), None);
    }
    came
}

async fn put(store: &Store, change: impl Fn(&mut SessionRecord)) -> Uuid {
    let mut record = session(Uuid::now_v7());
    change(&mut record);
    store.sessions().put(&record, now()).await.unwrap();
    record.session_id
}

#[tokio::test]
async fn a_first_job_is_accepted_where_nothing_answers_for_the_session() {
    for test in support::stores().await {
        let store = &test.store;
        let inserts = store.dialect() == Dialect::Postgres;
        let plain = put(store, |_| {}).await;
        assert_eq!(first(store, plain).await == FirstOutcome::New, inserts);
        let FirstOutcome::Known(Some(known)) = first(store, plain).await else {
            panic!("its first job is active");
        };
        assert_eq!(known.active_job.is_some(), inserts);

        let (failed_once, id) = session_with_job(store).await;
        let run = claim(store, id, Uuid::now_v7()).await;
        record(store, &run, failed()).await;
        assert_eq!(
            first(store, failed_once).await == FirstOutcome::New,
            inserts
        );

        let scored = scored_session(store, 50).await;
        let FirstOutcome::Known(Some(known)) = first(store, scored).await else {
            panic!("it has a score");
        };
        assert!(known.current_score.is_some() && known.active_job.is_none());

        let unknown = Uuid::now_v7();
        assert_eq!(first(store, unknown).await, FirstOutcome::Known(None));
        let going_on = put(store, |it| it.status = SessionStatus::InProgress).await;
        let other_end = put(store, |it| it.status = SessionStatus::Failed).await;
        let silent = put(store, |it| it.conversation.clear()).await;
        for id in [going_on, other_end, silent] {
            let known = first(store, id).await;
            assert!(matches!(known, FirstOutcome::Known(Some(_))), "{known:?}");
        }
    }
}

#[tokio::test]
async fn of_first_jobs_at_once_each_session_gets_one() {
    for test in support::stores().await {
        let (store, mut asked) = (&test.store, Vec::new());
        for _ in 0..5 {
            let id = put(store, |_| {}).await;
            asked.extend([id; 8]);
        }
        let came = join_all(asked.iter().map(|id| first(store, *id))).await;
        let new = came.iter().filter(|it| **it == FirstOutcome::New).count();
        let inserts = store.dialect() == Dialect::Postgres;
        assert_eq!(new, if inserts { 5 } else { 0 });
        let all = store.jobs().list(&JobFilter::default(), None, 99).await;
        assert_eq!(all.unwrap().items.len(), new);
    }
}

#[tokio::test]
async fn a_second_job_for_a_subject_is_answered_with_the_first() {
    for test in support::stores().await {
        let subject = Some(Uuid::now_v7());
        let first = accept(&test.store, new_job(subject)).await;
        let second = test.store.jobs().accept(new_job(subject)).await.unwrap();
        assert_eq!(second, Accepted::Active(first));
        let claimed = claim(&test.store, first, Uuid::now_v7()).await;
        let third = test.store.jobs().accept(new_job(subject)).await.unwrap();
        assert_eq!(third, Accepted::Active(first));
        record(&test.store, &claimed, failed()).await;
        accept(&test.store, new_job(subject)).await;
    }
}

#[tokio::test]
async fn of_many_accepts_at_once_for_one_subject_one_is_new() {
    for test in support::stores().await {
        let subject = Some(Uuid::now_v7());
        let jobs: Vec<_> = (0..40).map(|_| new_job(subject)).collect();
        let outcomes = join_all(jobs.iter().map(|job| test.store.jobs().accept(job.clone()))).await;
        let new: Vec<_> = jobs
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| *outcome.as_ref().unwrap() == Accepted::New)
            .map(|(job, _)| job.job_id)
            .collect();
        assert_eq!(new.len(), 1);
        for outcome in outcomes {
            let outcome = outcome.unwrap();
            assert!(outcome == Accepted::New || outcome == Accepted::Active(new[0]));
        }
    }
}

#[tokio::test]
async fn the_same_job_accepted_twice_is_one_row_and_new_both_times() {
    for test in support::stores().await {
        let new = new_job(Some(Uuid::now_v7()));
        accept(&test.store, new.clone()).await;
        accept(&test.store, new).await;
        let page = test
            .store
            .jobs()
            .list(&Default::default(), None, 10)
            .await
            .unwrap();
        assert_eq!(page.items.len(), 1);
    }
}

#[tokio::test]
async fn a_row_that_the_database_refuses_fails_alone() {
    for test in support::stores().await {
        let mut bad = new_job(None);
        // The column takes 64 characters on Postgres; SQLite takes them all.
        bad.criteria_hash = "x".repeat(100);
        let good: Vec<_> = (0..20).map(|_| new_job(None)).collect();
        let accepts = good.iter().chain([&bad]).cloned();
        let outcomes = join_all(accepts.map(|job| test.store.jobs().accept(job))).await;
        for outcome in &outcomes[..20] {
            assert_eq!(*outcome.as_ref().unwrap(), Accepted::New);
        }
        if test.url.starts_with("postgres") {
            let error = outcomes[20].as_ref().unwrap_err();
            assert!(matches!(error, StoreError::Unexpected { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn accepts_sent_before_close_are_committed_and_later_ones_are_refused() {
    for test in support::stores().await {
        let jobs: Vec<_> = (0..50).map(|_| new_job(None)).collect();
        let accepts = join_all(jobs.into_iter().map(|job| test.store.jobs().accept(job)));
        let (outcomes, ()) = tokio::join!(accepts, test.store.close());
        assert!(outcomes.into_iter().all(|o| o.unwrap() == Accepted::New));
        let late = test.store.jobs().accept(new_job(None)).await.unwrap_err();
        assert!(matches!(late, StoreError::Unavailable { .. }), "{late}");
    }
}
