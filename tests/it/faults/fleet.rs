//! One API and several workers that start and stop.

use std::time::Duration;

use super::{DEADLINE, all_scored_once, enqueue, number, shared};
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, Process, free_address, gavel};
use crate::support::wait::{eventually, stays};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sessions_are_scored_once_as_workers_change() {
    const SESSIONS: usize = 200;
    let Some(mut home) = shared().await else {
        return;
    };
    let judge = free_address();
    home.set("GAVEL_SIMULATED_URL", format!("http://{judge}/v1"));
    home.set("DEFAULT_LLM_PROVIDER", "simulated");
    home.set("GAVEL_WORKER_CONCURRENCY", "4");
    let port = judge.port().to_string();
    let simulate = ["simulate-judge", "--port", &port, "--latency", "100ms"];
    let _simulator = Process::spawn("simulator", home.dir(), gavel(home.env(), &simulate));
    let fleet = Fleet::start(home).await;
    let start =
        |name: &str| Process::spawn(name, fleet.home.dir(), gavel(fleet.home.env(), &["worker"]));

    let mut workers = vec![start("worker-1"), start("worker-2"), start("worker-3")];
    let asking = {
        let api = fleet.api.clone();
        tokio::spawn(async move { enqueue(&api, SESSIONS).await })
    };
    // Each step of the work stops one worker and starts another.
    for step in 1..=4_i64 {
        let done = step * 35;
        eventually(DEADLINE, "the work goes on", || async {
            let scored = number(&fleet.home, "select count(*) from session_scores").await;
            (scored >= done).then_some(())
        })
        .await;
        workers.remove(0).stop().await;
        workers.push(start(&format!("worker-{}", step + 3)));
    }
    asking.await.unwrap();
    all_scored_once(&fleet.home, SESSIONS).await;
    let simulated = number(
        &fleet.home,
        "select count(*) from session_scores where simulated",
    )
    .await;
    assert_eq!(
        simulated, 200,
        "simulated scores are never mistaken for real ones"
    );
    for worker in &mut workers {
        worker.stop().await;
    }
    // Workers that stopped cleanly logged all their calls, without duplicates.
    assert_eq!(
        number(&fleet.home, "select count(*) from judge_calls").await,
        200
    );
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_worker_finishes_its_jobs_and_claims_no_more() {
    let Some(home) = shared().await else { return };
    let judge = JudgeServer::start(Reply::held(70)).await;
    let fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 5);
    enqueue(&fleet.api, 5).await;
    judge.until_in_flight(5).await;
    worker.terminate();
    enqueue(&fleet.api, 2).await;
    stays(
        Duration::from_millis(1_200),
        "no further job is taken",
        || async { judge.count() == 5 },
    )
    .await;
    judge.release();
    assert_eq!(worker.exit_code().await, Some(0), "{}", worker.output());
    assert_eq!(
        number(&fleet.home, "select count(*) from session_scores").await,
        5
    );

    let mut next = fleet.worker("b", &judge.url("b"), 5);
    all_scored_once(&fleet.home, 7).await;
    assert_eq!(judge.count(), 7);
    next.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_drain_requeues_its_jobs_at_once() {
    let Some(mut home) = shared().await else {
        return;
    };
    home.set("GAVEL_WORKER_DRAIN_TIMEOUT_S", "1");
    // The lease is too long to cause the requeueing.
    home.set("GAVEL_WORKER_LEASE_S", "120");
    let judge = JudgeServer::start(Reply::Score(70)).await;
    judge.block_calls_of("a");
    let fleet = Fleet::start(home).await;
    let mut stuck = fleet.worker("a", &judge.url("a"), 5);
    enqueue(&fleet.api, 5).await;
    judge.until_in_flight(5).await;
    stuck.terminate();
    assert_eq!(stuck.exit_code().await, Some(0), "{}", stuck.output());
    let mut next = fleet.worker("b", &judge.url("b"), 5);
    all_scored_once(&fleet.home, 5).await;
    let lost = number(
        &fleet.home,
        "select count(*) from scoring_jobs where attempts > 0",
    )
    .await;
    assert_eq!(lost, 0);
    next.stop().await;
    end(fleet).await;
}

pub(super) async fn end(mut fleet: Fleet) {
    fleet.serve.stop().await;
    fleet.home.remove().await;
}
