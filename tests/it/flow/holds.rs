//! Operator holds: no calls while paused, and jobs resume on request.

use std::time::Duration;

use super::{on_every_setup, stays_queued};
use crate::support::client::PATIENCE;
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::wait::{eventually, stays};
use crate::support::world::World;

on_every_setup!(
    paused_queue_accepts_requests_and_calls_no_judge,
    paused_judge_blocks_its_lane,
    live_worker_obeys_a_pause,
    resume_before_the_known_reset_is_obeyed_at_once,
);

async fn paused_queue_accepts_requests_and_calls_no_judge(home: Home) {
    pause_and_resume(home, "/api/v1/queue").await;
}

async fn paused_judge_blocks_its_lane(home: Home) {
    pause_and_resume(home, &format!("/api/v1/judges/{JUDGE}")).await;
}

async fn pause_and_resume(home: Home, what: &str) {
    let mut world = World::idle(home, Reply::Score(70)).await;
    world.api.post(&format!("{what}/pause")).await.expect(200);
    let (id, job) = world.api.enqueue(session()).await;
    world.work();
    stays_queued(&world, 0, job, "paused").await;

    world.api.post(&format!("{what}/resume")).await.expect(200);
    assert_eq!(world.api.scored(id).await["total_score"], 70);
    let done = world.api.ended(job).await;
    assert_eq!(
        (done["retries"].as_i64(), done["attempts"].as_i64()),
        (Some(0), Some(0))
    );
    world.end().await;
}

async fn live_worker_obeys_a_pause(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    world.api.post_judge_action("pause").await;
    // The worker reads the holds every 0.5 s; jobs claimed before that are scored.
    let held = eventually(PATIENCE, "a new job stays queued", || async {
        let (_, job) = world.api.enqueue(session()).await;
        let path = format!("/api/v1/jobs/{job}");
        let looked = world
            .api
            .send("GET", &path, None, &[("prefer", "wait=1")])
            .await;
        let looked = looked.expect(200);
        (looked["state"] == "queued").then_some(job)
    })
    .await;
    let calls = world.judge.count();
    stays(Duration::from_millis(500), "nothing is asked", || async {
        world.judge.count() == calls
    })
    .await;
    world.api.post_judge_action("resume").await;
    assert_eq!(world.api.ended(held).await["state"], "succeeded");
    world.end().await;
}

async fn resume_before_the_known_reset_is_obeyed_at_once(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let headers = vec![
        ("x-ratelimit-remaining-requests", "0".to_owned()),
        ("x-ratelimit-reset-requests", "1h".to_owned()),
    ];
    world
        .judge
        .says(Reply::StatusWith(429, headers, "insufficient_quota"));
    let (id, job) = world.api.enqueue(session()).await;
    let waits = |job: &serde_json::Value| job["state"] == "waiting";
    let held = world.api.job_until(job, "the job waits", waits).await;
    assert!(held["wait"]["until"].is_string(), "{held:#}");
    eventually(PATIENCE, "the hold is written", || async {
        let row = world.api.judge(JUDGE).await?;
        row["hold"].is_object().then_some(())
    })
    .await;
    world.judge.says(Reply::Score(70));
    world.api.post_judge_action("resume").await;
    world.api.scored(id).await;
    world.end().await;
}
