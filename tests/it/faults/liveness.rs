//! Liveness: silent workers, workers with other leases, and rows without an owner.

use std::time::Duration;

use sqlx::Connection as _;

use super::fleet::end;
use super::{DEADLINE, all_scored_once, enqueue, number, shared, without_heartbeats};
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, Process};
use crate::support::wait::eventually;

/// Waits until the database clock has advanced by some seconds.
async fn pass(fleet: &Fleet, seconds: i64) {
    let clock = "select extract(epoch from clock_timestamp())::bigint";
    let began = number(&fleet.home, clock).await;
    eventually(DEADLINE, "time passes", || async {
        (number(&fleet.home, clock).await >= began + seconds).then_some(())
    })
    .await;
}

const JOBS: usize = 4;

/// Starts a full worker with this lease; `None` without servers.
async fn full_worker(lease_s: &str) -> Option<(Fleet, JudgeServer, Process)> {
    let mut home = shared().await?;
    home.set("GAVEL_WORKER_LEASE_S", lease_s);
    let judge = JudgeServer::start(Reply::held(70)).await;
    let fleet = Fleet::start(home).await;
    let worker = fleet.worker("a", &judge.url("a"), JOBS);
    enqueue(&fleet.api, JOBS).await;
    judge.until_in_flight(JOBS).await;
    Some((fleet, judge, worker))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_frozen_for_longer_than_its_lease_retains_its_jobs() {
    let Some((fleet, judge, mut worker)) = full_worker("1.5").await else {
        return;
    };
    worker.freeze();
    pass(&fleet, 4).await;
    worker.thaw();
    // Longer than several rescue intervals.
    pass(&fleet, 3).await;
    judge.release();
    all_scored_once(&fleet.home, JOBS).await;
    assert_eq!(judge.count(), JOBS, "none is asked twice");
    worker.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_with_a_shorter_lease_steals_no_job_from_a_longer_one() {
    let Some((mut fleet, judge, mut slow)) = full_worker("9").await else {
        return;
    };
    fleet.home.set("GAVEL_WORKER_LEASE_S", "1.2");
    let mut quick = fleet.worker("quick", &judge.url("quick"), JOBS);
    // The heartbeat interval of the other worker is 3 s.
    pass(&fleet, 6).await;
    judge.release();
    all_scored_once(&fleet.home, JOBS).await;
    assert_eq!(judge.count(), JOBS, "none is asked twice");
    for worker in [&mut slow, &mut quick] {
        worker.stop().await;
    }
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_claimed_for_a_worker_that_does_not_run_it_runs_again() {
    let Some(home) = shared().await else { return };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 2);
    enqueue(&fleet.api, 1).await;
    all_scored_once(&fleet.home, 1).await;
    worker.freeze();
    enqueue(&fleet.api, 1).await;
    // Simulates a claim that is committed after its worker abandoned it.
    let claim = "with w as (select worker_id from workers limit 1)
        update scoring_jobs set state = 'running', claim_no = claim_no + 1, started_at = now() - interval '1 minute',
            worker_id = (select worker_id from w)
        where state = 'queued'";
    crate::support::execute(fleet.home.get("DATABASE_URL"), claim)
        .await
        .unwrap();
    judge.says(Reply::held(70));
    enqueue(&fleet.api, 30).await;
    worker.thaw();
    let queued = "select count(*) from (select state from scoring_jobs order by created_at offset 1 limit 1) as second
        where state = 'queued'";
    eventually(DEADLINE, "the row is queued again", || async {
        (number(&fleet.home, queued).await == 1).then_some(())
    })
    .await;
    judge.says(Reply::Score(70));
    judge.release();
    all_scored_once(&fleet.home, 32).await;
    assert!(worker.runs());
    let losses = number(&fleet.home, "select sum(losses)::bigint from scoring_jobs").await;
    assert_eq!(losses, 0, "nobody died");
    let before = "select count(*) from scoring_jobs where started_at <
        (select started_at from scoring_jobs order by created_at offset 1 limit 1)";
    let before = number(&fleet.home, before).await;
    assert!(
        before < 20,
        "it goes before those that came later: {before}"
    );
    worker.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn housekeeping_moves_to_another_worker_after_a_kill() {
    let Some(mut home) = shared().await else {
        return;
    };
    home.set("GAVEL_WORKER_LEASE_S", "1.5");
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let mut workers = Vec::new();
    for name in ["a", "b", "c"] {
        workers.push((name, fleet.worker(name, &judge.url(name), 2)));
    }
    let leader = "select count(*) from leaders l join workers w on w.worker_id = l.worker_id
                  where w.state = 'running' and not w.declared_dead and w.heartbeat_at > now() - interval '1.5 s'";
    eventually(DEADLINE, "one leads", || async {
        (number(&fleet.home, leader).await == 1).then_some(())
    })
    .await;
    let url = fleet.home.get("DATABASE_URL").to_owned();
    let pid = leader_pid(&url).await;
    let at = workers
        .iter()
        .position(|(_, worker)| worker.pid() == pid)
        .unwrap();
    let (_, mut killed) = workers.remove(at);
    killed.kill();
    killed.exit_code().await;
    eventually(Duration::from_secs(30), "another leads", || async {
        let other = leader_pid(&url).await != pid;
        (other && number(&fleet.home, leader).await == 1).then_some(())
    })
    .await;
    for (_, worker) in &mut workers {
        worker.stop().await;
    }
    end(fleet).await;
}

/// Process id of the leader, from its worker name.
async fn leader_pid(url: &str) -> u32 {
    let mut db = sqlx::PgConnection::connect(url).await.unwrap();
    let name: String = sqlx::query_scalar(
        "select w.name from leaders l join workers w on w.worker_id = l.worker_id",
    )
    .fetch_one(&mut db)
    .await
    .unwrap();
    db.close().await.unwrap();
    name.rsplit_once(':').unwrap().1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_started_without_heartbeats_works_once_one_is_written() {
    let Some(home) = shared().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let lock = without_heartbeats(&fleet.home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 2);
    eventually(DEADLINE, "its first heartbeat came to nothing", || async {
        worker
            .output()
            .contains("failed to register the worker")
            .then_some(())
    })
    .await;
    lock.close().await.unwrap();
    enqueue(&fleet.api, 2).await;
    all_scored_once(&fleet.home, 2).await;
    worker.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_claimed_without_heartbeats() {
    let Some(home) = shared().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 2);
    enqueue(&fleet.api, 1).await;
    all_scored_once(&fleet.home, 1).await;
    let lock = without_heartbeats(&fleet.home).await;
    let missed = async |worker: &Process, times: usize| {
        eventually(DEADLINE, "heartbeats come to nothing", || async {
            let count = worker.output().matches("missed a heartbeat").count();
            (count >= times).then_some(())
        })
        .await;
    };
    missed(&worker, 1).await;
    enqueue(&fleet.api, 2).await;
    // Long enough for an idle worker to poll the queue and the store.
    missed(&worker, 3).await;
    let claimed = "select count(*) from scoring_jobs where claim_no > 0";
    assert_eq!(number(&fleet.home, claimed).await, 1);
    lock.close().await.unwrap();
    all_scored_once(&fleet.home, 3).await;
    worker.stop().await;
    end(fleet).await;
}
