//! Judge failures: retry, wait or job failure, by error class.

use std::time::Duration;

use serde_json::{Value, json};

use super::{on_every_setup, stays_queued};
use crate::support::client::{Api, PATIENCE};
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::{Call, Reply};
use crate::support::no_listener;
use crate::support::sessions::session;
use crate::support::wait::eventually;
use crate::support::world::World;

on_every_setup!(
    two_500s_then_a_good_reply_score_after_1_and_2_seconds,
    judge_that_always_returns_500_fails_the_job_after_four_calls,
    judge_timeout_fails_the_job_as_transient,
    unreachable_judge_fails_the_job_as_transient,
    short_retry_after_is_obeyed_in_the_slot_without_a_retry,
    long_retry_after_puts_the_job_into_waiting,
    job_that_waits_too_long_fails_as_wait_expired,
    wrong_key_fails_the_job_and_closes_the_lane_until_resume,
    exhausted_quota_makes_the_job_wait_and_others_stay_queued,
    truncated_reply_is_requested_again_with_a_larger_cap,
    declined_question_is_not_retried,
    rejected_request_fails_the_job_and_leaves_the_lane_open,
    failed_job_is_retried_by_hand_under_its_id,
    firewall_blocking_one_session_fails_only_its_job,
    judge_that_forbids_every_request_is_closed,
    retired_model_closes_the_judge_after_one_call,
    reply_unusable_for_the_server_is_requested_again,
    minute_quota_in_the_body_delays_the_retry,
);

#[track_caller]
fn assert_failed(job: &Value, class: &str) {
    assert_eq!(job["state"], "failed", "{job:#}");
    assert_eq!(job["error"]["class"], class, "{job:#}");
    for field in ["message", "remedy"] {
        assert!(!job["error"][field].as_str().unwrap().is_empty(), "{job:#}");
    }
    assert!(job["times"]["finished_at"].is_string(), "{job:#}");
    assert_eq!(job["result"], Value::Null, "an error is never a score");
}

fn gaps(calls: &[Call]) -> Vec<Duration> {
    calls
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .collect()
}

async fn fail(world: &World) -> Value {
    let (id, job) = world.api.enqueue(session()).await;
    let job = world.api.ended(job).await;
    let score = world.api.score(id).await;
    assert_eq!(score.body["type"], "urn:gavel:problem:not-scored");
    assert_eq!(score.body["job"]["job_id"], job["job_id"]);
    score.expect(404);
    job
}

async fn two_500s_then_a_good_reply_score_after_1_and_2_seconds(mut home: Home) {
    home.set("GAVEL_JUDGE_RETRY_BASE_S", "1.0");
    let world = World::start(home, Reply::Score(72)).await;
    world.judge.reply_in_order(
        vec![Reply::Status(500), Reply::Status(500)],
        Reply::Score(72),
    );
    let (id, job) = world.api.enqueue(session()).await;
    assert_eq!(world.api.scored(id).await["total_score"], 72);
    assert_eq!(world.api.ended(job).await["retries"], 2);
    let gaps = gaps(&world.judge.calls());
    assert_eq!(gaps.len(), 2);
    // Only lower bounds, because a busy machine may be late.
    assert!(gaps[0] >= Duration::from_secs(1), "{gaps:?}");
    assert!(gaps[1] >= Duration::from_secs(2), "{gaps:?}");
    world.end().await;
}

async fn judge_that_always_returns_500_fails_the_job_after_four_calls(home: Home) {
    let world = World::start(home, Reply::Status(500)).await;
    let job = fail(&world).await;
    assert_failed(&job, "transient");
    assert_eq!(job["retries"], 3);
    assert_eq!(world.judge.count(), 4);
    world.end().await;
}

async fn judge_timeout_fails_the_job_as_transient(mut home: Home) {
    home.set("GAVEL_JUDGE_MAX_RETRIES", "1");
    let mut world = World::idle_with(home, Reply::held(70), "  timeout_s: 0.3\n").await;
    world.work();
    assert_failed(&fail(&world).await, "transient");
    assert_eq!(world.judge.count(), 2);
    world.end().await;
}

async fn unreachable_judge_fails_the_job_as_transient(home: Home) {
    let (_nobody, address) = no_listener();
    let more = format!("  custom_base_url: http://{address}/v1\n");
    let mut world = World::idle_with(home, Reply::Score(70), &more).await;
    world.work();
    let job = fail(&world).await;
    assert_failed(&job, "transient");
    assert_eq!(job["retries"], 3);
    let calls = world
        .app()
        .store()
        .calls()
        .of_job(job["job_id"].as_str().unwrap().parse().unwrap());
    let calls = calls.await.unwrap();
    assert_eq!(calls.len(), 4);
    assert!(
        calls
            .iter()
            .all(|call| call.status.is_none() && call.error.is_some())
    );
    world.end().await;
}

async fn short_retry_after_is_obeyed_in_the_slot_without_a_retry(home: Home) {
    let world = World::start(home, Reply::Score(72)).await;
    world
        .judge
        .reply_in_order(vec![Reply::throttled(1)], Reply::Score(72));
    let (id, job) = world.api.enqueue(session()).await;
    world.api.scored(id).await;
    assert_eq!(world.api.ended(job).await["retries"], 0);
    let gaps = gaps(&world.judge.calls());
    assert!(
        gaps.len() == 1 && gaps[0] >= Duration::from_secs(1),
        "{gaps:?}"
    );
    world.end().await;
}

async fn long_retry_after_puts_the_job_into_waiting(home: Home) {
    let world = World::start(home, Reply::throttled(40)).await;
    let before = chrono::Utc::now();
    let (_, job) = world.api.enqueue(session()).await;
    let waiting = waiting(&world.api, job).await;
    assert_eq!(waiting["wait"]["reason"], "throttled");
    assert_eq!(waiting["retries"], 0);
    let until: chrono::DateTime<chrono::Utc> =
        waiting["wait"]["until"].as_str().unwrap().parse().unwrap();
    let wait = (until - before).num_seconds();
    assert!((39..=100).contains(&wait), "{wait}");
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}

async fn job_that_waits_too_long_fails_as_wait_expired(mut home: Home) {
    home.set("GAVEL_WORKER_MAX_WAIT_S", "1");
    let world = World::start(home, Reply::throttled(600)).await;
    let (_, job) = world.api.enqueue(session()).await;
    assert_failed(&world.api.ended(job).await, "wait_expired");
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}

async fn wrong_key_fails_the_job_and_closes_the_lane_until_resume(home: Home) {
    let world = World::start(home, Reply::Status(401)).await;
    assert_failed(&fail(&world).await, "misconfigured");
    assert_eq!(world.judge.count(), 1);
    let row = judge_until(&world.api, |row| row["hold"].is_object()).await;
    assert_eq!(row["hold"]["reason"], "misconfigured", "{row:#}");
    assert!(
        !row["hold"]["message"].as_str().unwrap().is_empty(),
        "{row:#}"
    );

    let ready = world.api.get("/readyz").await.expect(200);
    assert_eq!(ready["status"], "degraded");
    let reason = ready["reasons"][0].as_str().unwrap();
    assert!(reason.contains("gavel judges resume"), "{reason}");

    world.judge.says(Reply::Score(70));
    let (id, job) = world.api.enqueue(session()).await;
    stays_queued(&world, 1, job, "misconfigured").await;

    world.api.post_judge_action("resume").await;
    assert_eq!(world.api.scored(id).await["total_score"], 70);
    assert_eq!(world.judge.count(), 2);
    world.end().await;
}

async fn exhausted_quota_makes_the_job_wait_and_others_stay_queued(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    world
        .judge
        .says(Reply::StatusWith(429, Vec::new(), "insufficient_quota"));
    let (first, job) = world.api.enqueue(session()).await;
    let held = waiting(&world.api, job).await;
    assert_eq!(held["wait"]["reason"], "exhausted");
    let row = judge_until(&world.api, |row| row["hold"].is_object()).await;
    assert_eq!(row["hold"]["reason"], "exhausted", "{row:#}");

    let (second, job) = world.api.enqueue(session()).await;
    stays_queued(&world, 1, job, "exhausted").await;

    world.judge.says(Reply::Score(70));
    world.api.post_judge_action("resume").await;
    world.api.scored(first).await;
    world.api.scored(second).await;
    assert_eq!(world.judge.count(), 3);
    world.end().await;
}

async fn truncated_reply_is_requested_again_with_a_larger_cap(home: Home) {
    let world = World::start(home, Reply::Truncated).await;
    assert_failed(&fail(&world).await, "truncated");
    let caps: Vec<u64> = world
        .judge
        .calls()
        .iter()
        .map(|call| output_cap(&call.body))
        .collect();
    assert!(caps.len() == 2 && caps[1] > caps[0], "{caps:?}");

    world
        .judge
        .reply_in_order(vec![Reply::Truncated], Reply::Score(70));
    let (id, _) = world.api.enqueue(session()).await;
    world.api.scored(id).await;
    world.end().await;
}

async fn declined_question_is_not_retried(home: Home) {
    let world = World::start(home, Reply::Refusal).await;
    assert_failed(&fail(&world).await, "refused");
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}

async fn rejected_request_fails_the_job_and_leaves_the_lane_open(home: Home) {
    let world = World::start(home, Reply::Status(400)).await;
    assert_failed(&fail(&world).await, "rejected");
    assert_eq!(world.judge.count(), 1);
    world.judge.says(Reply::Score(70));
    let (id, _) = world.api.enqueue(session()).await;
    world.api.scored(id).await;
    world.end().await;
}

async fn failed_job_is_retried_by_hand_under_its_id(home: Home) {
    let world = World::start(home, Reply::Status(400)).await;
    let job = fail(&world).await;
    world.judge.says(Reply::Score(70));
    let path = job["links"]["retry"].as_str().unwrap();
    let answer = world.api.post(path).await;
    assert!([200, 202].contains(&answer.status), "{answer:?}");
    let job = world
        .api
        .ended(job["job_id"].as_str().unwrap().parse().unwrap())
        .await;
    assert_eq!(job["state"], "succeeded");
    assert_eq!(job["error"], Value::Null);
    assert_eq!(world.judge.count(), 2);
    world.end().await;
}

async fn waiting(api: &Api, job: uuid::Uuid) -> Value {
    api.job_until(job, "the job waits", |job| job["state"] == "waiting")
        .await
}

async fn judge_until(api: &Api, fits: impl Fn(&Value) -> bool) -> Value {
    eventually(PATIENCE, "the judge's row shows it", || async {
        api.judge(JUDGE).await.filter(|row| fits(row))
    })
    .await
}

fn output_cap(body: &Value) -> u64 {
    body["max_completion_tokens"]
        .as_u64()
        .or_else(|| body["max_tokens"].as_u64())
        .unwrap()
}

fn firewall() -> Reply {
    Reply::Body(403, json!("<h1>403 Forbidden</h1>"))
}

async fn firewall_blocking_one_session_fails_only_its_job(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    world
        .judge
        .rule(|call| match call.prompt().contains("../../etc/passwd") {
            true => firewall(),
            false => Reply::Score(70),
        });
    let mut bad = session();
    bad["final_analysis"] =
        json!("The pod reads ../../etc/passwd at its start, which its image does not need.");
    let (_, job) = world.api.enqueue(bad).await;
    let job = world.api.ended(job).await;
    assert_failed(&job, "rejected");
    let message = job["error"]["message"].as_str().unwrap();
    assert!(message.contains("403 Forbidden"), "{message}");
    let (id, _) = world.api.enqueue(session()).await;
    assert_eq!(world.api.scored(id).await["total_score"], 70);
    assert_eq!(world.api.get("/readyz").await.expect(200)["status"], "ok");
    world.end().await;
}

async fn judge_that_forbids_every_request_is_closed(home: Home) {
    let world = World::start(home, firewall()).await;
    assert_failed(&fail(&world).await, "misconfigured");
    assert_eq!(world.judge.count(), 2);
    let row = judge_until(&world.api, |row| row["hold"].is_object()).await;
    assert_eq!(row["hold"]["reason"], "misconfigured", "{row:#}");
    world.end().await;
}

async fn retired_model_closes_the_judge_after_one_call(home: Home) {
    let retired = Reply::StatusWith(400, Vec::new(), "model_decommissioned");
    let world = World::start(home, retired).await;
    assert_failed(&fail(&world).await, "misconfigured");
    assert_eq!(world.judge.count(), 1);
    let row = judge_until(&world.api, |row| row["hold"].is_object()).await;
    assert_eq!(row["hold"]["reason"], "misconfigured", "{row:#}");
    world.end().await;
}

async fn reply_unusable_for_the_server_is_requested_again(home: Home) {
    let world = World::start(home, Reply::Score(72)).await;
    let body = json!({ "error": {
        "message": "Failed to generate JSON.", "code": "json_validate_failed", "failed_generation": "{\"total",
    }});
    world
        .judge
        .reply_in_order(vec![Reply::Body(400, body)], Reply::Score(72));
    let (id, _) = world.api.enqueue(session()).await;
    assert_eq!(world.api.scored(id).await["total_score"], 72);
    let calls = world.judge.calls();
    assert_eq!(calls.len(), 2);
    let turns = &calls[1].body["messages"];
    assert_eq!(turns[1]["content"], "{\"total");
    assert!(
        turns[2]["content"].as_str().unwrap().contains("schema"),
        "{turns:#}"
    );
    world.end().await;
}

async fn minute_quota_in_the_body_delays_the_retry(home: Home) {
    let world = World::start(home, Reply::Score(72)).await;
    let quota = json!([{ "error": {
        "code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "details": [
            { "@type": "type.googleapis.com/google.rpc.QuotaFailure",
              "violations": [{ "quotaId": "GenerateRequestsPerMinutePerProjectPerModel", "quotaValue": "15" }] },
            { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2s" },
        ],
    }}]);
    world
        .judge
        .reply_in_order(vec![Reply::Body(429, quota)], Reply::Score(72));
    let (id, job) = world.api.enqueue(session()).await;
    assert_eq!(world.api.scored(id).await["total_score"], 72);
    assert_eq!(world.api.ended(job).await["retries"], 0);
    let gaps = gaps(&world.judge.calls());
    assert!(
        gaps.len() == 1 && gaps[0] >= Duration::from_secs(2),
        "{gaps:?}"
    );
    world.end().await;
}
