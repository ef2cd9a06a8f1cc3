//! Releases that roll: an old process beside a newer schema, and processes that are told to stop while they are used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::fleet::end;
use super::{DEADLINE, all_scored_once, enqueue, number, shared};
use crate::support;
use crate::support::client::Api;
use crate::support::judge_server::{JudgeServer, Say};
use crate::support::process::{Fleet, Process, free_address, gavel, run};
use crate::support::sessions::session;
use crate::support::wait::eventually;

/// What Kubernetes gives a process by default between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(30);

/// A version that this binary doesn't know.
const NEWER: &str =
    "insert into schema_versions (version, description, success, checksum, execution_time)
                        values (9999, 'newer', true, 'x', 0)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_binary_runs_and_starts_on_a_newer_schema() {
    let Some(home) = shared().await else { return };
    let judge = JudgeServer::start(Say::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let database = fleet.home.get("DATABASE_URL").to_owned();
    support::execute(&database, NEWER).await.unwrap();
    fleet.api.get("/readyz").await.expect(200);
    let mut worker = fleet.worker("started later", &judge.url("a"), 4);
    enqueue(&fleet.api, 3).await;
    all_scored_once(&fleet.home, 3).await;
    let (code, said) = run(&fleet.home, &["migrate"]).await;
    assert_eq!(code, Some(0), "{said}");
    worker.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_that_is_told_to_stop_breaks_no_request() {
    let Some(mut home) = shared().await else {
        return;
    };
    home.set("GAVEL_HTTP_DRAIN_DELAY_S", "3");
    let mut fleet = Fleet::start(home).await;
    let mut env = fleet.home.env().clone();
    let other = free_address();
    env.insert("GAVEL_BIND".to_owned(), other.to_string());
    let mut second = Process::spawn("second", fleet.home.dir(), gavel(&env, &["serve"]));
    let second_api = Api::new(&other.to_string());
    eventually(DEADLINE, "the second API is live", || async {
        second_api.try_send("GET", "/livez", None, &[]).await
    })
    .await;
    let (stop, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (stop, done) = (stop.clone(), done.clone());
            let both = [fleet.api.base().to_owned(), second_api.base().to_owned()];
            tokio::spawn(use_both(both, stop, done))
        })
        .collect();
    let waiting = {
        let api = fleet.api.clone();
        let id = api.put(session()).await;
        tokio::spawn(async move {
            let path = format!("/api/v1/scoring/sessions/{id}/score");
            api.send("POST", &path, None, &[("prefer", "wait=60")])
                .await
        })
    };
    let mut events = fleet.api.events("", None).await;
    assert_eq!(events.next().await.event, "hello");
    used(&done, 200).await;

    let told = Instant::now();
    fleet.serve.terminate();
    eventually(DEADLINE, "it is not ready", || async {
        let ready = fleet.api.try_send("GET", "/readyz", None, &[]).await;
        ready.filter(|ready| ready.status == 503)
    })
    .await;
    assert_eq!(
        waiting.await.unwrap().status,
        202,
        "a long wait ends with its job's address"
    );
    while let Some(told) = events.try_next().await {
        if told.event == "bye" {
            break;
        }
    }
    assert!(events.ended().await);
    assert_eq!(
        fleet.serve.exit_code().await,
        Some(0),
        "{}",
        fleet.serve.output()
    );
    assert!(told.elapsed() < GRACE, "{:?}", told.elapsed());
    used(&done, 200).await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    second.stop().await;
    fleet.home.remove().await;
}

async fn used(done: &AtomicUsize, more: usize) {
    let before = done.load(Ordering::Relaxed);
    eventually(DEADLINE, "requests are answered", || async {
        (done.load(Ordering::Relaxed) >= before + more).then_some(())
    })
    .await;
}

/// A client behind a balancer: it keeps its connection, and goes elsewhere once it is told that the connection ends. A
/// request that fails is a failure.
async fn use_both(both: [String; 2], stop: Arc<AtomicBool>, done: Arc<AtomicUsize>) {
    let client = reqwest::Client::builder()
        .retry(reqwest::retry::never())
        .build()
        .unwrap();
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        let id = uuid::Uuid::now_v7();
        let address = format!("{}/api/v1/sessions/{id}", both[at]);
        match client.put(address).json(&session()).send().await {
            Ok(answer) => {
                assert!(answer.status().is_success(), "{answer:?}");
                if answer
                    .headers()
                    .get("connection")
                    .is_some_and(|told| told == "close")
                {
                    at = 1;
                }
                answer.bytes().await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_judge_hangs_gives_back_and_ends_in_time() {
    let Some(home) = shared().await else { return };
    let judge = JudgeServer::start(Say::held(70)).await;
    let fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 4);
    enqueue(&fleet.api, 4).await;
    judge.until_in_flight(4).await;
    let told = Instant::now();
    worker.terminate();
    let code = worker.exit_code().await;
    let took = told.elapsed();
    eprintln!("from SIGTERM to the end with a judge that hangs: {took:?}");
    assert_eq!(code, Some(0), "{}", worker.output());
    assert!(took < GRACE - Duration::from_secs(2), "{took:?}");
    let queued = "select count(*) from scoring_jobs where state = 'queued'";
    assert_eq!(number(&fleet.home, queued).await, 4);
    end(fleet).await;
}
