//! What is past its time goes, with all that was made of it, and nothing that is still needed does.

use chrono::{SecondsFormat, SubsecRound as _};
use gavel::job::{JobId, JobState, Kind, NewJob};
use gavel::judge::{CacheKey, CallLog as _, CallRecord};
use gavel::score::trust::Given;
use gavel::store::{
    Aged, CancelStep, Cancelling, Erased, Erasure, Moved, NewRating, Pruning, RatingOf,
    ScoreFilter, Store,
};
use uuid::Uuid;

use super::fixtures::{
    accept, claim, current_score, delete_older, failed, job, minutes, new_job, now, record,
    record_of, scored, session, session_with_job,
};
use crate::support::{self, call};

/// Deletes everything of a kind that may go; answers how many went.
async fn prune(store: &Store, aged: Aged) -> u64 {
    delete_older(store, aged, now() + minutes(1)).await
}

/// As analytics count them.
async fn counted_scores(store: &Store) -> u64 {
    let all = ScoreFilter::default();
    let totals = store.analytics().totals(&all).await.unwrap();
    totals.iter().map(|total| total.scores).sum()
}

async fn is_there(store: &Store, id: JobId) -> bool {
    store.jobs().get(id).await.unwrap().is_some()
}

async fn calls(store: &Store, id: JobId) -> usize {
    store.calls().of_job(id).await.unwrap().len()
}

/// A session whose job has ended with a score, with a call and a rating.
async fn session_with_score(store: &Store, total: u8) -> (Uuid, JobId) {
    let (id, job_id) = session_with_job(store).await;
    let run = claim(store, job_id, Uuid::now_v7()).await;
    store.log(call(job_id));
    assert_eq!(calls(store, job_id).await, 1);
    record(store, &run, scored(id, total)).await;
    let rating = NewRating {
        rating_id: Uuid::now_v7(),
        of: RatingOf::Session(id),
        given: Given::Total(60),
        by: "ann".to_owned(),
        comment: None,
        at: now(),
    };
    store.ratings().put(&rating).await.unwrap().unwrap();
    (id, job_id)
}

/// A batch that runs, with an item for each of these sessions.
async fn batch_of(store: &Store, sessions: &[Uuid]) -> (Uuid, Vec<JobId>) {
    let new = support::new_batch(Kind::Session, now());
    let batch_id = new.batch_id;
    store.batches().begin(&new).await.unwrap();
    let items: Vec<NewJob> = (0..)
        .zip(sessions)
        .map(|(item_no, session)| NewJob {
            batch: Some(gavel::job::BatchPlace { batch_id, item_no }),
            ..new_job(Some(*session))
        })
        .collect();
    store.batches().add_items(batch_id, &items).await.unwrap();
    store.batches().start(batch_id).await.unwrap();
    (batch_id, items.iter().map(|item| item.job_id).collect())
}

async fn end(store: &Store, ids: &[JobId]) {
    for id in ids {
        let run = claim(store, *id, Uuid::now_v7()).await;
        record(store, &run, failed()).await;
    }
}

#[tokio::test]
async fn jobs_that_ended_go_and_what_is_needed_of_them_stays() {
    for test in support::stores().await {
        let store = &test.store;
        let (session_id, ended) = session_with_score(store, 70).await;
        let (waiting_one, active) = session_with_job(store).await;
        let (going_on, items) = batch_of(store, &[Uuid::now_v7(), Uuid::now_v7()]).await;
        end(store, &items[..1]).await;

        assert_eq!(prune(store, Aged::Batches).await, 0);
        assert_eq!(prune(store, Aged::Jobs).await, 1);
        assert!(!is_there(store, ended).await && is_there(store, active).await);
        assert!(is_there(store, items[0]).await, "its batch goes on");
        assert_eq!(calls(store, ended).await, 0);
        let score = current_score(store, session_id).await;
        assert_eq!((score.score.total_score, score.job_id), (70, ended));
        assert!(store.sessions().get(waiting_one).await.unwrap().is_some());
        assert!(store.batches().get(going_on).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_batch_goes_whole_once_it_has_ended_and_no_item_was_asked_for_again() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = batch_of(store, &[Uuid::now_v7(), Uuid::now_v7()]).await;
        end(store, &items).await;
        store.batches().complete(id, now()).await.unwrap().unwrap();
        store.jobs().retry(items[0], now()).await.unwrap().unwrap();
        assert_eq!(prune(store, Aged::Batches).await, 0, "it runs again");
        end(store, &items[..1]).await;
        store.batches().complete(id, now()).await.unwrap().unwrap();

        let (cancelled, others) = batch_of(store, &[Uuid::now_v7()]).await;
        store.batches().cancel(cancelled, now()).await.unwrap();
        let mut cancelling = Cancelling::default();
        let step = store.batches().cancel_step(&mut cancelling, now()).await;
        assert_eq!(step.unwrap(), CancelStep::Done);
        assert_eq!(prune(store, Aged::Batches).await, 3);
        for job in items.iter().chain(&others) {
            assert!(!is_there(store, *job).await);
        }
        for batch in [id, cancelled] {
            assert!(store.batches().get(batch).await.unwrap().is_none());
        }
    }
}

#[tokio::test]
async fn nothing_of_a_batch_that_goes_is_queued_again() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, items) = batch_of(store, &[Uuid::now_v7(), Uuid::now_v7()]).await;
        end(store, &items).await;
        store.batches().complete(id, now()).await.unwrap().unwrap();
        // As if its deletion had broken off behind its choice.
        let chosen = "update scoring_batches set abandoned = true";
        support::execute(&test.url, chosen).await.unwrap();
        assert_eq!(store.jobs().retry(items[0], now()).await.unwrap(), None);
        let (moved, due) = store
            .batches()
            .retry_failed_items(id, now() + minutes(1), now())
            .await
            .unwrap();
        assert_eq!((moved, due.len()), (Moved::Unknown, 0));
        assert_eq!(prune(store, Aged::Batches).await, 2, "it goes on");
    }
}

#[tokio::test]
async fn sessions_go_with_all_that_was_made_of_them_and_their_days_stay() {
    for test in support::stores().await {
        let store = &test.store;
        let sessions = store.sessions();
        let (old, ended) = session_with_score(store, 70).await;
        let (busy, active) = session_with_job(store).await;
        let in_batch = Uuid::now_v7();
        sessions.put(&session(in_batch), now()).await.unwrap();
        let (_, items) = batch_of(store, &[in_batch, Uuid::now_v7()]).await;
        end(store, &items[..1]).await;
        let (kept, _) = session_with_score(store, 40).await;
        let put = session(kept);
        sessions.put(&put, now() + minutes(9)).await.unwrap();

        assert_eq!(prune(store, Aged::Sessions).await, 0, "the day is dirty");
        while store.analytics().roll_up_days().await.unwrap().more {}
        assert_eq!(prune(store, Aged::Sessions).await, 1);
        assert!(sessions.get(old).await.unwrap().is_none());
        assert!(!is_there(store, ended).await);
        assert_eq!(calls(store, ended).await, 0);
        assert!(store.scores().of_session(old).await.unwrap().is_empty());
        for (session, why) in [
            (busy, "a job is active"),
            (in_batch, "its batch goes on"),
            (kept, "it was put since"),
        ] {
            assert!(sessions.get(session).await.unwrap().is_some(), "{why}");
        }
        assert!(is_there(store, active).await);
        assert_eq!(counted_scores(store).await, 2, "what was rolled up stays");
    }
}

#[tokio::test]
async fn a_limit_that_leaps_over_most_rows_is_refused_until_an_operator_deletes_them() {
    for test in support::stores().await {
        let retention = test.store.retention();
        for (day, of_day) in [(100, 10), (50, 30), (1, 20)] {
            for _ in 0..of_day {
                let mut old = call(JobId::new());
                old.at = now() - minutes(60 * 24 * day);
                test.store.log(old);
            }
        }
        assert_eq!(calls(&test.store, JobId::new()).await, 0, "all are written");
        let limit = |days: i64| (now() - minutes(60 * 24 * days)).trunc_subsecs(0);
        let refusal = async |before| retention.refusal(Aged::Calls, before).await.unwrap();

        // 10 of 60, as kept for 90 days.
        let right = limit(90);
        assert_eq!(refusal(right).await, None);
        assert_eq!(delete_older(&test.store, Aged::Calls, right).await, 10);
        retention.complete(Aged::Calls, right).await.unwrap();
        // An hour later it isn't counted again.
        assert_eq!(refusal(right + minutes(60)).await, None);

        // The clock is 60 days ahead: 30 of 50.
        let leapt = limit(30);
        let expired = refusal(leapt).await.unwrap();
        assert_eq!((expired.rows, expired.stored), (30, 50));
        assert_eq!(retention.refused().await.unwrap(), [expired]);
        assert_eq!(
            expired.to_string(),
            format!(
                "30 of 50 judge calls are older than {}, which is more than half",
                leapt.to_rfc3339_opts(SecondsFormat::Secs, true)
            )
        );
        // It is right again.
        assert_eq!(refusal(right).await, None);
        retention.complete(Aged::Calls, right).await.unwrap();
        assert_eq!(retention.refused().await.unwrap(), []);

        // An operator deletes fewer, then as many as were refused.
        assert_eq!(refusal(leapt).await, Some(expired));
        retention
            .approve(Aged::Calls, leapt - minutes(1))
            .await
            .unwrap();
        assert_eq!(retention.refused().await.unwrap(), [expired]);
        assert_eq!(delete_older(&test.store, Aged::Calls, leapt).await, 30);
        retention.approve(Aged::Calls, leapt).await.unwrap();
        assert_eq!(retention.refused().await.unwrap(), []);
        assert_eq!(refusal(leapt + minutes(60)).await, None);
    }
}

#[tokio::test]
async fn few_rows_and_at_most_half_are_deleted_without_an_operator() {
    for test in support::stores().await {
        let retention = test.store.retention();
        let refusal = async || {
            let limit = now() - minutes(60);
            retention.refusal(Aged::Calls, limit).await.unwrap()
        };
        let log = async |number: usize, age: i64| {
            for _ in 0..number {
                let mut call = call(JobId::new());
                call.at = now() - minutes(age);
                test.store.log(call);
            }
            assert_eq!(calls(&test.store, JobId::new()).await, 0, "all are written");
        };
        log(20, 90).await;
        assert_eq!(refusal().await, None, "20 of 20");
        log(1, 90).await;
        assert!(refusal().await.is_some(), "21 of 21");
        log(21, 1).await;
        assert_eq!(refusal().await, None, "21 of 42");
        log(1, 90).await;
        assert!(refusal().await.is_some(), "22 of 43");
        retention.forget_limits(Aged::Calls).await.unwrap();
        assert_eq!(retention.refused().await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_deletion_that_broke_off_is_finished_whatever_is_kept() {
    for test in support::stores().await {
        let store = &test.store;
        let (session, _) = session_with_score(store, 70).await;
        let (batch, items) = batch_of(store, &[session]).await;
        store.jobs().cancel(items[0], now()).await.unwrap();
        store.batches().complete(batch, now()).await.unwrap();
        let step = async |pruning: &mut Pruning| store.retention().step(pruning).await.unwrap();
        let for_ever = || Pruning::new(Aged::Batches, chrono::DateTime::UNIX_EPOCH);
        assert!(!step(&mut for_ever()).await.more, "it is kept");
        let mut broken_off = Pruning::new(Aged::Batches, now() + minutes(1));
        assert_eq!(step(&mut broken_off).await.deleted, 1);
        assert!(store.batches().get(batch).await.unwrap().is_none());
        let mut finishing = for_ever();
        assert!(step(&mut finishing).await.more, "it is hidden already");
        assert!(!step(&mut finishing).await.more);
        assert!(!step(&mut for_ever()).await.more, "and gone");
    }
}

#[tokio::test]
async fn an_erased_session_leaves_nothing_behind() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, ended) = session_with_score(store, 70).await;
        let (other, _) = session_with_score(store, 40).await;
        let (batch, items) = batch_of(store, &[id]).await;
        let keys = [CacheKey(Uuid::now_v7()), CacheKey(Uuid::now_v7())];
        let find = |key| store.find(key, now() - minutes(9));
        for (key, asked_for) in keys.into_iter().zip([ended, JobId::new()]) {
            store.log(CallRecord {
                cache_key: Some(key),
                ..call(asked_for)
            });
            assert!(find(key).await.is_some());
        }
        while store.analytics().roll_up_days().await.unwrap().more {}

        let erase = || store.retention().erase(id, now());
        assert_eq!(erase().await.unwrap(), Erasure::Active(items[0]));
        assert!(store.sessions().get(id).await.unwrap().is_some());
        let run = claim(store, items[0], Uuid::now_v7()).await;
        store.jobs().cancel(items[0], now()).await.unwrap();
        store
            .batches()
            .complete(batch, now())
            .await
            .unwrap()
            .unwrap();
        let erased = Erased {
            sessions: 1,
            jobs: 2,
            scores: 1,
            ratings: 1,
            calls: 2,
        };
        assert_eq!(erase().await.unwrap(), Erasure::Done(erased));
        assert_eq!(erase().await.unwrap(), Erasure::Unknown);
        assert!(store.sessions().get(id).await.unwrap().is_none());
        assert!(find(keys[0]).await.is_none() && find(keys[1]).await.is_some());
        assert_eq!(counted_scores(store).await, 1, "its day is counted anew");
        assert!(store.scores().current(other).await.unwrap().is_some());
        let batch = store.batches().get(batch).await.unwrap().unwrap();
        let figures = batch.figures.unwrap();
        assert_eq!(
            figures.count(JobState::Cancelled),
            1,
            "its batch keeps its figures"
        );

        // The call that was under way when its job was cancelled is written now, and its end is nobody's.
        store.log(call(run.job_id));
        assert_eq!(calls(store, run.job_id).await, 1);
        let stale = store.jobs().record(record_of(&run, scored(id, 1))).await;
        assert_eq!(
            stale.unwrap().committed().await.unwrap(),
            gavel::store::Recorded::Stale
        );
        store.retention().prune(now()).await.unwrap();
        assert_eq!(calls(store, run.job_id).await, 0);
    }
}

#[tokio::test]
async fn what_was_erased_stands_in_none_of_sqlites_files() {
    const MARKER: &str = "a sentence that nobody else says";
    let (url, folder) = support::sqlite_database();
    let store = Store::connect(support::options(&url)).await.unwrap();
    store.migrate().await.unwrap();
    let mut told = session(Uuid::now_v7());
    told.conversation[0].content = MARKER.repeat(10_000);
    let other = session(Uuid::now_v7());
    for session in [&told, &other] {
        store.sessions().put(session, now()).await.unwrap();
    }
    let is_in_a_file = || {
        std::fs::read_dir(folder.path()).unwrap().any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            bytes
                .windows(MARKER.len())
                .any(|text| text == MARKER.as_bytes())
        })
    };
    assert!(is_in_a_file());
    store
        .retention()
        .erase(told.session_id, now())
        .await
        .unwrap();
    assert!(!is_in_a_file());
    store.close().await;
}

/// The job was accepted between the look for active ones and the end of the session.
#[tokio::test]
async fn a_score_of_a_session_that_is_gone_is_refused() {
    for test in support::stores().await {
        let store = &test.store;
        let (id, ended) = session_with_score(store, 70).await;
        assert!(matches!(
            store.retention().erase(id, now()).await.unwrap(),
            Erasure::Done(_)
        ));
        assert!(!is_there(store, ended).await);
        let late = accept(store, new_job(Some(id))).await;
        let run = claim(store, late, Uuid::now_v7()).await;
        let ticket = store.jobs().record(record_of(&run, scored(id, 70))).await;
        assert!(ticket.unwrap().committed().await.is_err());
        record(store, &run, failed()).await;
        assert_eq!(job(store, late).await.state, JobState::Failed);
        assert!(store.scores().current(id).await.unwrap().is_none());
        // Its call was written, and nobody asks for that session again.
        store.log(call(late));
        assert_eq!(calls(store, late).await, 1);
        store.retention().prune(now()).await.unwrap();
        assert_eq!(calls(store, late).await, 0);
        // Its job goes when it is asked for again.
        let erased = Erased {
            jobs: 1,
            ..Erased::default()
        };
        let again = store.retention().erase(id, now()).await.unwrap();
        assert_eq!(again, Erasure::Done(erased));
    }
}

#[tokio::test]
async fn every_step_finds_its_rows_by_an_index() {
    for test in support::stores().await {
        let store = &test.store;
        session_with_score(store, 70).await;
        let many = if test.url.starts_with("postgres") {
            "insert into scoring_jobs (job_id, kind, subject_id, purpose, payload, lane, priority, state, due_at, criteria_hash,
                force_rescore, triggered_by, created_at, finished_at)
             select gen_random_uuid(), kind, gen_random_uuid(), purpose, payload, lane, priority, state, due_at, criteria_hash,
                force_rescore, triggered_by, created_at, due_at + n * interval '1 hour'
             from scoring_jobs, generate_series(1, 20000) n;
             insert into judge_calls (call_id, job_id, judge, model, called_at, latency_us, tokens_in, tokens_in_cached, tokens_out)
             select gen_random_uuid(), job_id, 'main', 'm', finished_at, 1, 1, 0, 1 from scoring_jobs;
             insert into alert_sessions (session_id, source, status, alert_data, conversation, message_count, tools, tags,
                created_at, updated_at, listed_at, content_hash, revision)
             select subject_id, 'api', 'completed', '{}', '[]', 0, '[]', '[]', finished_at, finished_at, finished_at, '', 1
             from scoring_jobs where subject_id not in (select session_id from alert_sessions);
             analyze"
        } else {
            "select 1"
        };
        support::execute(&test.url, many).await.unwrap();
        let plan = store.retention().explain(now()).await.unwrap().join("\n");
        for table in ["scoring_jobs", "judge_calls", "alert_sessions"] {
            for whole in [format!("Seq Scan on {table}"), format!("SCAN {table}\n")] {
                assert!(!plan.contains(&whole), "{whole}: {plan}");
            }
        }
    }
}
