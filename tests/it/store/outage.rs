//! The database goes away and comes back.

use std::sync::Arc;
use std::time::Duration;

use gavel::job::JobState;
use gavel::store::{Accepted, Recorded, Store, StoreError, StoreOptions};
use sqlx::Connection as _;
use sqlx::Executor as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::fixtures::{accept, claim, failed, job, new_job, now, record_of, recorded};
use crate::support;

/// A wire to a Postgres server that can be cut.
struct Wire {
    connected: watch::Sender<bool>,
    store: Store,
    _tasks: JoinSet<()>,
    _direct: support::TestStore,
}

impl Wire {
    /// `None` without a Postgres server.
    async fn new() -> Option<Self> {
        let direct = support::postgres().await?;
        let (_, rest) = direct.url.split_once('@').unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connected, state) = watch::channel(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(relay(listener, server.to_owned(), state));
        let store = Store::connect(StoreOptions {
            url: format!("postgres://gavel@{address}/{database}"),
            max_connections: 2,
            connect_timeout: Duration::from_secs(10),
        })
        .await
        .unwrap();
        Some(Self {
            connected,
            store,
            _tasks: tasks,
            _direct: direct,
        })
    }

    fn cut(&self) {
        self.connected.send_replace(false);
    }

    fn mend(&self) {
        self.connected.send_replace(true);
    }
}

async fn relay(listener: TcpListener, server: String, state: watch::Receiver<bool>) {
    let mut pipes = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        let mut state = state.clone();
        if !*state.borrow() {
            continue;
        }
        let server = server.clone();
        pipes.spawn(async move {
            let mut upstream = TcpStream::connect(server).await.unwrap();
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {}
                _ = state.wait_for(|connected| !connected) => {}
            }
        });
    }
}

#[tokio::test]
async fn a_store_outlives_the_end_of_every_connection() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let store = &test.store;
    let worker = Uuid::now_v7();
    for _ in 0..3 {
        let id = accept(store, new_job(None)).await;
        let run = claim(store, id, worker).await;
        assert_eq!(
            recorded(store, record_of(&run, failed())).await,
            Recorded::Applied
        );
        store.calls_of(id).await.unwrap();
        let mut conn = sqlx::PgConnection::connect(&test.url).await.unwrap();
        let end = "select pg_terminate_backend(pid) from pg_stat_activity
                   where datname = current_database() and pid <> pg_backend_pid()";
        conn.execute(end).await.unwrap();
    }
    store.ping().await.unwrap();
}

#[tokio::test]
async fn while_the_database_is_away_accepts_fail_and_records_wait() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    let store = &wire.store;
    let id = accept(store, new_job(None)).await;
    let run = claim(store, id, Uuid::now_v7()).await;
    wire.cut();
    let error = store.accept(new_job(None)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    let error = store.claim(&[id], Uuid::now_v7(), now()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    let ticket = store.record(record_of(&run, failed())).await.unwrap();
    wire.mend();
    assert_eq!(ticket.committed().await.unwrap(), Recorded::Applied);
    assert_eq!(job(store, id).await.state, JobState::Failed);
    assert_eq!(store.accept(new_job(None)).await.unwrap(), Accepted::New);
}

#[tokio::test]
async fn a_record_that_waits_for_the_database_is_given_up_at_close() {
    let Some(wire) = Wire::new().await else {
        return;
    };
    let store = &wire.store;
    let id = accept(store, new_job(None)).await;
    let run = claim(store, id, Uuid::now_v7()).await;
    wire.cut();
    let ticket = store.record(record_of(&run, failed())).await.unwrap();
    store.close().await;
    let error = ticket.committed().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_after_the_time_given() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Store::connect(StoreOptions {
        url: format!("postgres://gavel@{address}/none"),
        max_connections: 1,
        connect_timeout: Duration::ZERO,
    })
    .await
    .err()
    .unwrap();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn a_file_that_another_process_writes_to_is_waited_for() {
    let test = support::sqlite().await;
    let mut other = sqlx::SqliteConnection::connect(&test.url).await.unwrap();
    other.execute("begin immediate").await.unwrap();
    let store = Arc::clone(&test.store);
    let waits = tokio::spawn(async move { store.accept(new_job(None)).await });
    // Reads go on meanwhile.
    assert!(test.store.lanes().await.unwrap().is_empty());
    other.execute("rollback").await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap(), Accepted::New);
}
