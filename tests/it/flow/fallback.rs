//! A declining judge with a fallback: attribution, cost, and a closed fallback.

use std::time::Duration;

use serde_json::{Value, json};

use super::on_every_setup;
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::{JudgeServer, MODEL, Reply, TOKENS_IN, TOKENS_OUT};
use crate::support::sessions::session;
use crate::support::wait::stays;
use crate::support::world::World;

on_every_setup!(
    declined_session_is_scored_and_marked_by_the_fallback,
    session_that_both_decline_fails_and_names_both,
    job_waits_for_a_closed_fallback_and_calls_its_judge_once,
    job_waits_out_a_throttled_fallback_and_is_scored,
);

/// The first judge declines; its fallback `judge-2` replies with `say` at three times the price.
async fn world(home: Home, say: Reply) -> (World, JudgeServer) {
    let second = JudgeServer::start(say).await;
    let more = format!(
        "  fallback: second\nsecond:\n  type: openai\n  base_url: {}\n  key: other-key\n  model: judge-2\n  \
         prices:\n    judge-2: {{ input_per_mtok: 3.0, output_per_mtok: 6.0, as_of: 2026-01-01, source: a test }}\n",
        second.url("second")
    );
    let mut world = World::idle_with(home, Reply::Refusal, &more).await;
    world.work();
    (world, second)
}

fn is_about(cost: &Value, expected: f64) -> bool {
    (cost.as_f64().unwrap() - expected).abs() < 1e-9
}

async fn declined_session_is_scored_and_marked_by_the_fallback(home: Home) {
    let (world, second) = world(home, Reply::Score(64)).await;
    let (id, job) = world.api.enqueue(session()).await;
    let score = world.api.scored(id).await;
    assert_eq!(score["total_score"], 64);
    assert_eq!(score["flags"], json!(["fallback_judge"]));
    let answered = json!({ "provider": "second", "model": "judge-2" });
    assert_eq!(score["judge"], answered);
    assert_eq!(score["simulated"], false);
    // The refusal has nine output tokens.
    let [input, output] =
        [TOKENS_IN, TOKENS_OUT].map(|tokens| f64::from(i32::try_from(tokens).unwrap()));
    let cost = (input + 9.0 * 2.0 + input * 3.0 + output * 6.0) / 1e6;
    assert!(is_about(&score["usage"]["cost_usd"], cost), "{score:#}");
    assert_eq!(score["usage"]["tokens_in"], 2 * TOKENS_IN);

    let job = world
        .api
        .get(&format!("/api/v1/jobs/{job}?calls=true"))
        .await
        .expect(200);
    assert_eq!(job["judge"], JUDGE, "the judge that it was asked of");
    let calls: Vec<(&str, &str)> = job["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| {
            (
                call["judge"].as_str().unwrap(),
                call["model"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(calls, [(JUDGE, MODEL), ("second", "judge-2")], "{job:#}");
    assert_eq!((world.judge.count(), second.count()), (1, 1));
    world.end().await;
}

async fn session_that_both_decline_fails_and_names_both(home: Home) {
    let (world, _second) = world(home, Reply::Refusal).await;
    let (_, job) = world.api.enqueue(session()).await;
    let job = world.api.ended(job).await;
    assert_eq!(job["error"]["class"], "refused", "{job:#}");
    let message = job["error"]["message"].as_str().unwrap();
    assert!(
        message.contains(JUDGE) && message.contains("second"),
        "{message}"
    );
    assert!(
        job["error"]["remedy"]
            .as_str()
            .unwrap()
            .contains("fallback")
    );
    world.end().await;
}

async fn job_waits_for_a_closed_fallback_and_calls_its_judge_once(home: Home) {
    let (world, second) = world(home, Reply::Score(64)).await;
    // A worker reads the holds every 0.5 s: the first job may still be scored.
    world
        .api
        .post("/api/v1/judges/second/pause")
        .await
        .expect(200);
    let held = crate::support::wait::eventually(
        crate::support::client::PATIENCE,
        "a job waits for the fallback",
        || async {
            let (_, job) = world.api.enqueue(session()).await;
            let ended_or_waits =
                |job: &Value| job["state"] == "waiting" || job["state"] == "succeeded";
            let job = world
                .api
                .job_until(job, "it waits or ends", ended_or_waits)
                .await;
            (job["state"] == "waiting").then_some(job)
        },
    )
    .await;
    assert_eq!(held["wait"]["reason"], "fallback", "{held:#}");
    assert_eq!(held["wait"]["judge"], "second", "{held:#}");
    assert!(held["wait"]["until"].is_string(), "{held:#}");
    assert_eq!(
        (&held["attempts"], &held["retries"]),
        (&json!(0), &json!(0))
    );
    let calls = (world.judge.count(), second.count());
    stays(Duration::from_millis(800), "nobody is asked", || async {
        (world.judge.count(), second.count()) == calls
    })
    .await;
    world.end().await;
}

async fn job_waits_out_a_throttled_fallback_and_is_scored(mut home: Home) {
    home.set("GAVEL_JUDGE_MAX_SLOT_WAIT_S", "0.2");
    let (world, second) = world(home, Reply::Score(64)).await;
    second.reply_in_order(vec![Reply::throttled(2)], Reply::Score(64));
    let (id, job) = world.api.enqueue(session()).await;
    let waits = |job: &Value| job["state"] == "waiting";
    let held = world
        .api
        .job_until(job, "it waits for the fallback", waits)
        .await;
    assert_eq!(held["wait"]["reason"], "fallback", "{held:#}");
    let score = world.api.scored(id).await;
    assert_eq!(score["flags"], json!(["fallback_judge"]));
    assert_eq!(world.judge.count(), 1, "declining was paid for once");
    assert_eq!(second.count(), 2);
    world.end().await;
}
