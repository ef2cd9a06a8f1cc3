//! Five failed calls in a row: jobs wait with a reason and use no retries, one probe is sent, then all are scored.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::on_every_setup;
use crate::support::client::PATIENCE;
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::wait::{eventually, stays};
use crate::support::world::World;

on_every_setup!(
    five_failures_in_a_row_stop_all_calls_until_a_probe_succeeds,
    failed_probe_opens_the_breaker_again,
);

const JOBS: usize = 8;

/// Five concurrent jobs. A retry starts a second after its call, so all five have failed by then.
fn five_at_once(home: &mut Home, cooldown_s: f64, slot_wait_s: f64) {
    home.set("GAVEL_WORKER_CONCURRENCY", "5");
    home.set("GAVEL_JUDGE_RETRY_BASE_S", "1.0");
    home.set("GAVEL_JUDGE_BREAKER_COOLDOWN_S", cooldown_s);
    home.set("GAVEL_JUDGE_MAX_SLOT_WAIT_S", slot_wait_s);
}

async fn enqueue_and_fail_five(world: &World) -> Vec<(uuid::Uuid, uuid::Uuid)> {
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        jobs.push(world.api.enqueue(session()).await);
    }
    world.judge.until_in_flight(5).await;
    world.judge.release();
    jobs
}

async fn states(world: &World, jobs: &[(uuid::Uuid, uuid::Uuid)]) -> Vec<Value> {
    let mut found = Vec::new();
    for (_, job) in jobs {
        found.push(world.api.job(*job).await);
    }
    found
}

async fn five_failures_in_a_row_stop_all_calls_until_a_probe_succeeds(mut home: Home) {
    // The rest of the cool-down after that second exceeds the slot wait.
    five_at_once(&mut home, 4.0, 1.5);
    let world = World::start(home, Reply::Held(Box::new(Reply::Status(500)))).await;
    let jobs = enqueue_and_fail_five(&world).await;

    // More than five if others became ready in between.
    let held = eventually(PATIENCE, "at least five jobs wait", || async {
        let jobs = states(&world, &jobs).await;
        let none_runs = jobs.iter().all(|job| job["state"] != "running");
        let waiting = jobs.iter().filter(|job| job["state"] == "waiting").count();
        (none_runs && waiting >= 5).then_some(jobs)
    })
    .await;
    for job in &held {
        assert!(
            ["waiting", "queued"].contains(&job["state"].as_str().unwrap()),
            "{job:#}"
        );
        assert_eq!(job["wait"]["reason"], "breaker_open", "{job:#}");
        if job["state"] == "waiting" {
            assert!(job["wait"]["until"].is_string(), "{job:#}");
        }
        assert_eq!(job["attempts"], 0);
    }
    assert_eq!(
        world.judge.count(),
        5,
        "nothing is asked while the breaker is open"
    );
    let row = world.api.judge(JUDGE).await.unwrap();
    assert_eq!(row["gates"][0]["breaker"], "open", "{row:#}");
    assert_eq!(row["gates"][0]["failures_in_row"], 5, "{row:#}");
    let ready = world.api.get("/readyz?verbose=true").await;
    assert_eq!(ready.body["status"], "degraded", "{:#}", ready.body);
    let said = ready.body.to_string();
    assert!(said.contains("its breaker is open"), "{said}");
    ready.expect(200);
    let spent: Vec<Value> = held.iter().map(|job| job["retries"].clone()).collect();

    // The first call after the cool-down is the only one until it succeeds.
    world.judge.hold();
    world.judge.says(Reply::held(75));
    eventually(PATIENCE, "a probe goes out", || async {
        (world.judge.count() == 6).then_some(())
    })
    .await;
    stays(Duration::from_millis(800), "there is one probe", || async {
        world.judge.count() == 6
    })
    .await;
    let probed = states(&world, &jobs).await;
    for (job, before) in probed.iter().zip(&spent) {
        if job["state"] != "running" {
            assert_eq!(&job["retries"], before, "a wait spends nothing: {job:#}");
        }
    }
    world.judge.release();
    for (session, job) in &jobs {
        let ended = world.api.ended(*job).await;
        assert_eq!(ended["state"], "succeeded", "{ended:#}");
        assert_eq!(ended["attempts"], 0);
        assert_eq!(world.api.history(*session).await.len(), 1);
    }
    assert_eq!(world.judge.count(), 5 + JOBS);
    world.end().await;
}

async fn failed_probe_opens_the_breaker_again(mut home: Home) {
    five_at_once(&mut home, 2.0, 1.5);
    let world = World::start(home, Reply::Held(Box::new(Reply::Status(500)))).await;
    let probes = std::sync::Arc::new(AtomicUsize::new(0));
    let jobs = enqueue_and_fail_five(&world).await;
    world.judge.rule({
        let probes = probes.clone();
        move |_| match probes.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Status(503),
            _ => Reply::Score(75),
        }
    });
    for (_, job) in &jobs {
        assert_eq!(world.api.ended(*job).await["state"], "succeeded");
    }
    let calls = world.judge.calls();
    assert_eq!(calls.len(), 5 + 1 + JOBS);
    let pause = calls[6].at - calls[5].at;
    assert!(pause >= Duration::from_secs(2), "{pause:?}");
    world.end().await;
}
