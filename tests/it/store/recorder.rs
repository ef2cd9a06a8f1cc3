//! Results that the database takes later than others, or not at all: no other result waits behind them.

use std::time::Duration;

use futures::future::join_all;
use gavel::job::{Job, JobState};
use gavel::store::{Ending, RecordTicket, Recorded, Store, StoreError};
use sqlx::Connection as _;
use sqlx::Executor as _;
use uuid::Uuid;

use super::fixtures::{claim, define, failed, job, record_of, recorded, scored, session_with_job};
use crate::support::{self};

/// How long what must happen may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs of so many jobs, each with the end of a score.
async fn runs(store: &Store, count: usize) -> Vec<(Job, Ending)> {
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let (session_id, id) = session_with_job(store).await;
        runs.push((
            claim(store, id, Uuid::now_v7()).await,
            scored(session_id, 50),
        ));
    }
    runs
}

/// Hands the ends of all over at once.
async fn hand_over(store: &Store, runs: &[(Job, Ending)]) -> Vec<RecordTicket> {
    define(store, &runs[0].1).await;
    let handed = runs
        .iter()
        .map(|(job, ending)| store.jobs().record(record_of(job, ending.clone())));
    join_all(handed)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

/// Waits until all are committed.
async fn applied(tickets: Vec<RecordTicket>) {
    let all = join_all(tickets.into_iter().map(RecordTicket::committed));
    let outcomes = tokio::time::timeout(DEADLINE, all).await;
    for outcome in outcomes.expect("they are recorded") {
        assert_eq!(outcome.unwrap(), Recorded::Applied);
    }
}

/// A hundred results of which one is held up, and a hundred newer ones: all but the one are recorded.
struct Held {
    job: Job,
    ticket: RecordTicket,
}

impl Held {
    async fn among_others(store: &Store, runs: &[(Job, Ending)]) -> Self {
        const AT: usize = 37;
        let mut tickets = hand_over(store, &runs[..100]).await;
        let ticket = tickets.remove(AT);
        applied(tickets).await;
        applied(hand_over(store, &runs[100..]).await).await;
        let job = runs[AT].0.clone();
        let held = Self { job, ticket };
        assert_eq!(held.state(store).await, JobState::Running);
        held
    }

    async fn state(&self, store: &Store) -> JobState {
        job(store, self.job.job_id).await.state
    }

    async fn ends(self, store: &Store) {
        applied(vec![self.ticket]).await;
        let ended = job(store, self.job.job_id).await;
        assert_eq!(ended.state, JobState::Succeeded);
        let scores = store
            .scores()
            .of_session(ended.subject_id.unwrap())
            .await
            .unwrap();
        assert_eq!(scores.len(), 1);
    }
}

/// Locks a job's row until the transaction ends.
async fn lock_row(by: &mut sqlx::PgTransaction<'_>, job: &Job) {
    let lock = "select job_id from scoring_jobs where job_id = $1 for update";
    let locked = sqlx::query(lock).bind(job.job_id.0).execute(&mut **by);
    locked.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_whose_row_is_locked_holds_up_no_other() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let store = &test.store;
    let runs = runs(store, 200).await;
    let mut other = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    lock_row(&mut lock, &runs[37].0).await;
    let held = Held::among_others(store, &runs).await;
    lock.rollback().await.unwrap();
    held.ends(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_takes_too_long_holds_up_no_other() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let store = &test.store;
    let runs = runs(store, 200).await;
    let mut other = sqlx::PgConnection::connect(&test.url).await.unwrap();
    // The server ends the statement as one that takes too long: the error is the same, 57014.
    let slow = format!(
        "create function takes_too_long() returns trigger language plpgsql as $$ begin
            perform pg_cancel_backend(pg_backend_pid());
            perform pg_sleep(60);
            return new;
         end $$;
         create trigger takes_too_long before update on scoring_jobs for each row
            when (new.job_id = '{}') execute function takes_too_long()",
        runs[37].0.job_id
    );
    other.execute(sqlx::AssertSqlSafe(slow)).await.unwrap();
    let held = Held::among_others(store, &runs).await;
    let mend = "drop trigger takes_too_long on scoring_jobs";
    other.execute(mend).await.unwrap();
    held.ends(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_refused_fails_alone_and_holds_up_no_other() {
    for test in support::stores().await {
        let store = &test.store;
        let mut runs = runs(store, 100).await;
        // A total above 100, and a session that isn't there.
        runs[37].1 = scored(runs[37].0.subject_id.unwrap(), 101);
        runs[39].1 = scored(Uuid::now_v7(), 50);
        let mut tickets = hand_over(store, &runs).await;
        let refused = [(39, tickets.remove(39)), (37, tickets.remove(37))];
        applied(tickets).await;
        for (at, ticket) in refused {
            let error = ticket.committed().await.unwrap_err();
            assert!(matches!(error, StoreError::Unexpected { .. }), "{error}");
            // The job may end otherwise.
            let end = record_of(&runs[at].0, failed());
            assert_eq!(recorded(store, end).await, Recorded::Applied);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_that_wait_for_a_table_are_all_recorded_when_it_is_free() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let store = &test.store;
    let runs = runs(store, 60).await;
    let mut other = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    let take = "lock table scoring_jobs in share mode";
    sqlx::Executor::execute(&mut *lock, take).await.unwrap();
    let tickets = hand_over(store, &runs).await;
    // Until the recorder has met the lock.
    support::wait::eventually(DEADLINE, "a result waits for the lock", || async {
        let waiting = "select count(*) from pg_locks where not granted and relation = 'scoring_jobs'::regclass";
        let mut watcher = sqlx::PgConnection::connect(&test.url).await.unwrap();
        let count = sqlx::query_scalar(waiting).fetch_one(&mut watcher).await;
        let count: i64 = count.unwrap();
        (count > 0).then_some(())
    })
    .await;
    lock.rollback().await.unwrap();
    applied(tickets).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_held_up_is_given_up_at_close() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let store = &test.store;
    let runs = runs(store, 2).await;
    let mut other = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    lock_row(&mut lock, &runs[0].0).await;
    let mut tickets = hand_over(store, &runs).await;
    let held = tickets.remove(0);
    let closing = tokio::time::timeout(DEADLINE, store.close());
    closing.await.expect("it ends");
    // Closing divides what is held up from what isn't.
    applied(tickets).await;
    let error = held.committed().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    lock.rollback().await.unwrap();
    let again = support::reopen(&test).await;
    assert_eq!(job(&again, runs[0].0.job_id).await.state, JobState::Running);
}
