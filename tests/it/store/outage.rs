//! Database outages and recovery.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use gavel::job::{JobId, JobState, WaitReason};
use gavel::judge::CallLog as _;
use gavel::store::{
    Accepted, Died, Ending, FirstOutcome, JobFilter, Recorded, Store, StoreError, StoreOptions,
};
use gavel::wire::{SessionStatus, UsageBy};
use sqlx::Connection as _;
use sqlx::Executor as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::fixtures::{
    accept, claim, failed, job, new_job, now, record, record_of, recorded, run_of, scored, session,
    session_with_job, waiting,
};
use super::judge_memory::reject_bad_calls;
use crate::support::{self, END_SESSIONS, call};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Connected,
    Cut,
    /// Existing connections hang but stay open; new ones work.
    Frozen,
    /// After these bytes of the client, the next response is dropped and its connection closed; then `Connected` again.
    Swallow(&'static [u8]),
}

/// Relay to a Postgres server that can be interrupted.
struct Wire {
    mode: watch::Sender<Mode>,
    store: Store,
    _tasks: JoinSet<()>,
    direct: support::TestStore,
}

impl Wire {
    async fn new() -> Option<Self> {
        let direct = support::postgres().await?;
        let (_, rest) = direct.url.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, _) = watch::channel(Mode::Connected);
        let mut tasks = JoinSet::new();
        tasks.spawn(relay(listener, server.to_owned(), mode.clone()));
        let options = support::options(&format!("postgres://gavel@{address}/{database}"));
        let store = Store::connect(options).await.unwrap();
        Some(Self {
            mode,
            store,
            _tasks: tasks,
            direct,
        })
    }

    fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    fn mend(&self) {
        self.mode.send_replace(Mode::Connected);
    }

    fn freeze(&self) {
        self.mode.send_replace(Mode::Frozen);
    }

    fn drop_response_to(&self, sent: &'static [u8]) {
        self.mode.send_replace(Mode::Swallow(sent));
    }

    fn has_swallowed(&self) -> bool {
        *self.mode.borrow() == Mode::Connected
    }
}

async fn relay(listener: TcpListener, server: String, mode: watch::Sender<Mode>) {
    let mut pipes = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if *mode.borrow() == Mode::Cut {
            continue;
        }
        let upstream = TcpStream::connect(&server).await.unwrap();
        let frozen_already = *mode.borrow() == Mode::Frozen;
        pipes.spawn(pipe(client, upstream, mode.clone(), frozen_already));
    }
}

async fn cut(changes: &mut watch::Receiver<Mode>) {
    drop(changes.wait_for(|mode| *mode == Mode::Cut).await);
}

async fn freezing(changes: &mut watch::Receiver<Mode>) {
    drop(changes.wait_for(|mode| *mode == Mode::Frozen).await);
}

async fn pipe(
    mut client: TcpStream,
    mut upstream: TcpStream,
    mode: watch::Sender<Mode>,
    newer: bool,
) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = upstream.split();
    let mut changes = mode.subscribe();
    let mut freezes = mode.subscribe();
    let (mut asked, mut answered) = ([0; 65536], [0; 65536]);
    let mut swallow = false;
    loop {
        tokio::select! {
            biased;
            () = cut(&mut changes) => return,
            () = freezing(&mut freezes), if !newer => return std::future::pending().await,
            read = from_client.read(&mut asked) => {
                let Ok(sent @ 1..) = read else { return };
                let bytes = &asked[..sent];
                if let Mode::Swallow(pattern) = *mode.borrow() {
                    swallow = pattern.is_empty() || bytes.windows(pattern.len()).any(|w| w == pattern);
                }
                to_server.write_all(bytes).await.unwrap();
            }
            read = from_server.read(&mut answered) => {
                let Ok(sent @ 1..) = read else { return };
                if swallow {
                    mode.send_replace(Mode::Connected);
                    return;
                }
                if to_client.write_all(&answered[..sent]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[track_caller]
fn assert_unavailable<T>(answer: Result<T, StoreError>) {
    let error = answer.err().unwrap();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
}

/// Number and cost in USD of the calls of today and yesterday.
async fn counted(store: &Store) -> (i64, f64) {
    let today = now().date_naive();
    let days = store
        .budgets()
        .usage(today - TimeDelta::days(1), today, UsageBy::Judge);
    let days = days.await.unwrap();
    (days[0].calls, days[0].cost_usd)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_during_an_outage_are_counted_after_it() {
    // 9,000 exceeds the capacity of the log.
    for calls in [3, 9_000] {
        let Some(wire) = Wire::new().await else {
            return;
        };
        let store = &wire.store;
        let asker = JobId::new();
        wire.cut();
        for _ in 0..calls {
            let mut call = call(asker);
            call.usage.cost_usd = Some(0.5);
            store.log(call);
        }
        // Readers don't wait for an unavailable database.
        store.calls().of_job(asker).await.unwrap_err();
        store.calls().written().await;
        wire.mend();
        store.calls().counted().await;
        let usd = 0.5 * f64::from(calls);
        assert_eq!(counted(store).await, (i64::from(calls), usd));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_with_an_unconfirmed_commit_count_once() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    let store = &wire.store;
    reject_bad_calls(&wire.direct.url).await;
    let mut first = call(JobId::new());
    first.judge = "good".to_owned();
    store.log(first);
    store.calls().counted().await;
    let mut bad = call(JobId::new());
    bad.judge = "bad".to_owned();
    bad.usage.cost_usd = Some(0.5);
    wire.drop_response_to(b"COMMIT");
    store.log(bad);
    store.calls().counted().await;
    assert!(wire.has_swallowed());
    assert_eq!(counted(store).await, (1, 0.5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_closes_despite_unwritable_calls() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    wire.cut();
    for _ in 0..9_000 {
        wire.store.log(call(JobId::new()));
    }
    let closing = tokio::time::timeout(Duration::from_secs(30), wire.store.close());
    closing.await.expect("it ends");
}

#[tokio::test]
async fn store_survives_the_end_of_every_connection() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let store = &test.store;
    let worker = Uuid::now_v7();
    for _ in 0..3 {
        let id = accept(store, new_job(None)).await;
        let run = claim(store, id, worker).await;
        record(store, &run, failed()).await;
        store.calls().of_job(id).await.unwrap();
        support::execute(&test.url, END_SESSIONS).await.unwrap();
    }
    store.ping().await.unwrap();
}

#[tokio::test]
async fn during_an_outage_accepts_fail_and_records_wait() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    let store = &wire.store;
    let run = run_of(store, new_job(None)).await;
    let id = run.job_id;
    wire.cut();
    assert_unavailable(store.jobs().accept(new_job(None)).await);
    assert_unavailable(store.jobs().claim(&[id], Uuid::now_v7(), now()).await);
    let ended = record_of(&run, failed());
    let ticket = store.jobs().record(ended).await.unwrap();
    wire.mend();
    assert_eq!(ticket.committed().await.unwrap(), Recorded::Applied);
    assert_eq!(job(store, id).await.state, JobState::Failed);
    assert_eq!(
        store.jobs().accept(new_job(None)).await.unwrap(),
        Accepted::New
    );
}

/// Concurrent requests of clients; each succeeds, or is retried while the store reports itself as unavailable.
async fn assert_clients_recover(store: &Store) {
    let work = |_| async {
        loop {
            let new = new_job(None);
            let (id, worker) = (new.job_id, Uuid::now_v7());
            let done = async {
                store.jobs().accept(new).await?;
                store.criteria().content("").await?;
                let claimed = store.jobs().claim(&[id], worker, now()).await?;
                store.jobs().get(id).await?;
                Ok::<_, StoreError>(claimed)
            };
            match done.await {
                Ok(claimed) => {
                    let ended = record_of(&claimed[0], failed());
                    return assert_eq!(recorded(store, ended).await, Recorded::Applied);
                }
                Err(StoreError::Unavailable { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    let all = futures::future::join_all((0..40).map(work));
    let works = tokio::time::timeout(Duration::from_secs(25), all).await;
    works.expect("the store works again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_are_reopened() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    assert_clients_recover(&wire.store).await;
    wire.freeze();
    assert_clients_recover(&wire.store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_a_formerly_read_only_server_are_reopened() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let store = &test.store;
    assert_clients_recover(store).await;
    let database = test.url.rsplit_once('/').unwrap().1;
    let mut other = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let set = format!("alter database \"{database}\" set default_transaction_read_only = on");
    other.execute(sqlx::AssertSqlSafe(set)).await.unwrap();
    other.execute(END_SESSIONS).await.unwrap();
    assert_unavailable(store.jobs().accept(new_job(None)).await);
    let reset = format!("alter database \"{database}\" reset default_transaction_read_only");
    other.execute(sqlx::AssertSqlSafe(reset)).await.unwrap();
    assert_clients_recover(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_waiting_for_a_lock_leaves_no_unowned_row() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let store = &test.store;
    let id = accept(store, new_job(None)).await;
    let mut other = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let mut lock = other.begin().await.unwrap();
    let take = "lock table scoring_jobs in share mode";
    sqlx::Executor::execute(&mut *lock, take).await.unwrap();
    assert_unavailable(store.jobs().claim(&[id], Uuid::now_v7(), now()).await);
    // The server cancelled the claim, so it isn't executed later.
    lock.rollback().await.unwrap();
    assert_eq!(job(store, id).await.state, JobState::Queued);
    let run = claim(store, id, Uuid::now_v7()).await;
    assert_eq!(run.claim_no, 1);
}

#[tokio::test]
async fn accept_with_a_lost_response_is_one_row_and_new() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    // The first of its size prepares the statement; the second is one message and one response.
    accept(&wire.store, new_job(Some(Uuid::now_v7()))).await;
    wire.drop_response_to(b"");
    let id = accept(&wire.store, new_job(Some(Uuid::now_v7()))).await;
    assert!(wire.has_swallowed());
    assert_eq!(job(&wire.store, id).await.state, JobState::Queued);
    let page = wire
        .store
        .jobs()
        .list(&JobFilter::default(), None, 9)
        .await
        .unwrap();
    assert_eq!(page.items.len(), 2);
}

#[tokio::test]
async fn first_job_with_a_lost_response_is_one_row_and_new() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    let store = &wire.store;
    for swallow in [false, true] {
        let session_id = Uuid::now_v7();
        let record = session(session_id);
        store.sessions().put(&record, now()).await.unwrap();
        if swallow {
            wire.drop_response_to(b"");
        }
        let new = new_job(Some(session_id));
        let scorable = vec![SessionStatus::Completed];
        let came = store.jobs().accept_first(new, scorable).await.unwrap();
        assert_eq!(came, FirstOutcome::New);
    }
    assert!(wire.has_swallowed());
    let all = store.jobs().list(&JobFilter::default(), None, 9).await;
    assert_eq!(all.unwrap().items.len(), 2);
}

#[tokio::test]
async fn claim_with_a_lost_response_is_released_and_repeated() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    let store = &wire.store;
    let worker = Uuid::now_v7();
    claim(store, accept(store, new_job(None)).await, worker).await;
    let id = accept(store, new_job(None)).await;
    wire.drop_response_to(Box::leak(Box::new(*id.0.as_bytes())));
    let run = claim(store, id, worker).await;
    assert!(wire.has_swallowed());
    // The lost claim was committed, so this is the second.
    assert_eq!(run.claim_no, 2);
    let given_back = store.jobs().take_given_back().await;
    let given_back: Vec<JobId> = given_back.iter().map(|due| due.job_id).collect();
    assert_eq!(given_back, [id], "its id may have left the queue meanwhile");
    assert_eq!(store.jobs().take_given_back().await, []);
    record(store, &run, failed()).await;
}

#[tokio::test]
async fn record_with_a_lost_response_is_applied_once() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    let store = &wire.store;
    type Made = fn(Uuid) -> Ending;
    let endings: [(Made, bool); 4] = [
        (|session_id| scored(session_id, 50), true),
        (|_| failed(), false),
        (|_| waiting(WaitReason::Throttled, now()), false),
        (|_| Ending::Requeued, false),
    ];
    for (ending, scores) in endings {
        let (session_id, id) = session_with_job(store).await;
        let run = claim(store, id, Uuid::now_v7()).await;
        let ending = ending(session_id);
        let mut end = record_of(&run, ending);
        end.usage.tokens_in = 7;
        wire.drop_response_to(Box::leak(Box::new(*id.0.as_bytes())));
        assert_eq!(recorded(store, end).await, Recorded::Applied);
        assert!(wire.has_swallowed());
        assert_eq!(job(store, id).await.usage.tokens_in, 7);
        let made = store.scores().of_session(session_id).await.unwrap().len();
        assert_eq!(made, usize::from(scores));
    }
}

#[tokio::test]
async fn record_waiting_for_the_database_is_abandoned_at_close() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    let store = &wire.store;
    let run = run_of(store, new_job(None)).await;
    wire.cut();
    let ended = record_of(&run, failed());
    let ticket = store.jobs().record(ended).await.unwrap();
    store.close().await;
    assert_unavailable(ticket.committed().await);
}

async fn cannot_connect(url: &str) -> StoreError {
    let options = StoreOptions {
        connect_timeout: Duration::ZERO,
        ..support::options(url)
    };
    Store::connect(options).await.err().unwrap()
}

#[tokio::test]
async fn unreachable_server_is_unavailable_after_the_timeout() {
    let (_nobody, address) = support::no_listener();
    let error = cannot_connect(&format!("postgres://gavel@{address}/none")).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn file_written_by_another_process_is_waited_for() {
    let test = support::sqlite().await;
    let mut other = sqlx::SqliteConnection::connect(&test.url).await.unwrap();
    other.execute("begin immediate").await.unwrap();
    let store = Arc::clone(&test.store);
    let waits = tokio::spawn(async move { store.jobs().accept(new_job(None)).await });
    // Reads continue.
    assert!(test.store.jobs().lanes().await.unwrap().is_empty());
    other.execute("rollback").await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap(), Accepted::New);
}

#[tokio::test]
async fn retry_with_a_lost_response_is_recognised() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    let store = &wire.store;
    let mut failed_jobs = Vec::new();
    for _ in 0..2 {
        let run = run_of(store, new_job(None)).await;
        record(store, &run, failed()).await;
        failed_jobs.push(run.job_id);
    }
    // The first prepares the statement; the second sends only the id.
    store.jobs().retry(failed_jobs[0], now()).await.unwrap();
    wire.drop_response_to(Box::leak(Box::new(*failed_jobs[1].0.as_bytes())));
    let retried = store.jobs().retry(failed_jobs[1], now()).await.unwrap();
    assert!(wire.has_swallowed());
    assert_eq!(retried, Some(Accepted::New));
    assert_eq!(job(store, failed_jobs[1]).await.state, JobState::Queued);
}

#[tokio::test]
async fn closed_store_is_unavailable_for_all_calls() {
    for test in support::stores().await {
        let store = &test.store;
        let jobs = store.jobs();
        let id = accept(store, new_job(None)).await;
        store.close().await;
        let worker = Uuid::now_v7();
        // Before the claim, because that leaves its outcome unknown.
        assert_unavailable(jobs.rescue_lost(Died::Somebody, 3, now()).await);
        assert_unavailable(jobs.accept(new_job(None)).await);
        assert_unavailable(jobs.claim(&[id], worker, now()).await);
        assert_unavailable(jobs.retry(id, now()).await);
        assert_unavailable(jobs.get(id).await);
        assert_unavailable(store.ping().await);
    }
}

#[tokio::test]
async fn unreadable_address_is_reported_as_such() {
    for url in ["postgres://host:notaport/db", "sqlite://x?mode=odd"] {
        let error = cannot_connect(url).await;
        assert!(matches!(error, StoreError::Unexpected { .. }), "{error}");
        assert!(error.to_string().contains("database url"), "{error}");
    }
}
