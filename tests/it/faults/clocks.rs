//! Hosts with different wall clocks: only the database clock counts.

use std::time::{Duration, Instant};

use super::fleet::end;
use super::{all_scored_once, enqueue, number, private_postgres, shared};
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, run};
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_starts_at_once_whatever_the_api_clock() {
    const JOBS: u32 = 6;
    for offset in ["+6s", "-1h"] {
        let Some(mut home) = shared().await else {
            return;
        };
        if home.set_clock(offset).is_none() {
            return;
        }
        let judge = JudgeServer::start(Reply::Score(70)).await;
        let mut fleet = Fleet::start(home).await;
        fleet.home.set_clock("");
        let mut worker = fleet.worker("a", &judge.url("a"), 4);
        enqueue(&fleet.api, 1).await;
        all_scored_once(&fleet.home, 1).await;
        let began = Instant::now();
        for n in 0..JOBS as usize {
            enqueue(&fleet.api, 1).await;
            all_scored_once(&fleet.home, n + 2).await;
        }
        let took = began.elapsed() / JOBS;
        eprintln!("serve at {offset}: {took:?} a job");
        // Rescue needs more than a second for each.
        assert!(took < Duration::from_secs(1), "{took:?} with {offset}");
        // Ids order the jobs, and use the database clock as well.
        for job in fleet.api.get("/api/v1/jobs").await.body["items"]
            .as_array()
            .unwrap()
        {
            let id: uuid::Uuid = job["job_id"].as_str().unwrap().parse().unwrap();
            let created: chrono::DateTime<chrono::Utc> = job["times"]["created_at"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            let (seconds, _) = id.get_timestamp().unwrap().to_unix();
            assert_eq!(
                i64::try_from(seconds).unwrap(),
                created.timestamp(),
                "{job:#}"
            );
        }
        worker.stop().await;
        end(fleet).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_clock_days_ahead_ends_no_wait() {
    let Some(mut home) = shared().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    judge.rule(|_| Reply::throttled(3600));
    home.set("GAVEL_WORKER_MAX_WAIT_S", 7200);
    let mut fleet = Fleet::start(home).await;
    if fleet.home.set_clock("+3d").is_none() {
        return;
    }
    let mut ahead = fleet.worker("ahead", &judge.url("ahead"), 2);
    let (_, job) = fleet.api.enqueue(super::marked("wait")).await;
    eventually(super::DEADLINE, "the job waits", || async {
        (fleet.api.job(job).await["state"] == "waiting").then_some(())
    })
    .await;
    let heartbeats = "select max(extract(epoch from heartbeat_at)::bigint) from workers";
    let seen = number(&fleet.home, heartbeats).await;
    // By then the worker has checked the waits several times.
    eventually(super::DEADLINE, "the worker goes on", || async {
        (number(&fleet.home, heartbeats).await > seen + 4).then_some(())
    })
    .await;
    let waits = fleet.api.job(job).await;
    assert_eq!(waits["state"], "waiting", "{waits:#}");
    ahead.stop().await;
    end(fleet).await;
}

/// Waits until the API is degraded for exactly these reasons.
async fn degraded_by(fleet: &Fleet, parts: &[&str]) {
    eventually(
        super::DEADLINE,
        &format!("/readyz names {parts:?}"),
        || async {
            let ready = fleet.api.try_send("GET", "/readyz", None, &[]).await?;
            let reasons = ready.body["reasons"].as_array()?.clone();
            let reasons = reasons.iter().map(|reason| reason.as_str().unwrap());
            let is_named = reasons
                .zip(parts)
                .all(|(reason, part)| reason.contains(part));
            let count = ready.body["reasons"].as_array()?.len();
            (ready.status == 200 && is_named && count == parts.len()).then_some(())
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_clock_jump_makes_no_worker_delete_rows() {
    const SESSIONS: usize = 30;
    let Some((mut home, mut postgres)) = private_postgres().await else {
        return;
    };
    home.set("GAVEL_RETENTION_SESSIONS_DAYS", 30);
    home.set("GAVEL_RETENTION_JOBS_DAYS", 30);
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    degraded_by(&fleet, &["no worker is alive"]).await;
    let mut worker = fleet.worker("before", &judge.url("before"), 4);
    enqueue(&fleet.api, SESSIONS).await;
    all_scored_once(&fleet.home, SESSIONS).await;
    degraded_by(&fleet, &[]).await;
    worker.stop().await;

    if postgres.again_at("+60d").await.is_none() {
        return;
    }
    let mut worker = fleet.worker("leapt", &judge.url("leapt"), 4);
    eventually(
        super::DEADLINE,
        "the worker's retention has run",
        || async {
            let log = worker.output();
            (log.contains("retention deletes no rows") || log.contains("deleted rows past"))
                .then_some(())
        },
    )
    .await;
    let (code, doctor) = run(&fleet.home, &["doctor", "--no-probe"]).await;
    assert_eq!(code, Some(3), "{doctor}");
    for part in [
        "FAULT  clock: the database's clock is 5184",
        "ahead of",
        "NTP",
    ] {
        assert!(doctor.contains(part), "{part}: {doctor}");
    }
    let before = ["prune", "--sessions", "--older-than", "30d"];
    let (code, pruned) = run(&fleet.home, &before).await;
    assert_eq!(code, Some(2), "{pruned}");
    assert!(pruned.contains("the database's clock is"), "{pruned}");
    degraded_by(&fleet, &["the database's clock is 5184"]).await;
    all_scored_once(&fleet.home, SESSIONS).await;
    worker.stop().await;

    postgres.again_at("").await.unwrap();
    degraded_by(&fleet, &["no worker is alive"]).await;
    end(fleet).await;
}
