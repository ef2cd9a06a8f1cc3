//! From POST to the score, without errors.

use std::collections::BTreeSet;

use serde_json::json;

use super::on_every_setup;
use crate::support::client::{SCORE_FIELDS, id_of, score_path};
use crate::support::home::{Home, JUDGE, KEY};
use crate::support::judge_server::{MODEL, Reply, TOKENS_IN, TOKENS_OUT};
use crate::support::sessions::session;
use crate::support::world::World;

on_every_setup!(
    session_is_enqueued_by_post_and_polled_to_its_score,
    score_body_has_exactly_the_fields_of_the_rules,
    prefer_wait_returns_the_score,
    job_survives_a_restart_of_the_program,
    many_sessions_are_each_scored_by_one_call,
    repeated_request_returns_the_active_job,
);

async fn session_is_enqueued_by_post_and_polled_to_its_score(home: Home) {
    let world = World::start(home, Reply::held(64)).await;
    let id = world.api.put(session()).await;
    assert_eq!(world.api.score(id).await.status, 404);

    let accepted = world.api.ask(id).await;
    let job = id_of(&accepted.body["job_id"]);
    assert_eq!(
        accepted.header("location"),
        Some(format!("/api/v1/jobs/{job}").as_str())
    );
    assert!(
        accepted
            .header("retry-after")
            .is_some_and(|text| text.parse::<u32>().is_ok())
    );
    assert_eq!(accepted.body["session_id"], json!(id));
    let body = accepted.expect(202);
    assert!(
        ["queued", "running"].contains(&body["state"].as_str().unwrap()),
        "{body}"
    );

    let running = world
        .api
        .job_until(job, "the job runs", |job| job["state"] == "running")
        .await;
    assert_eq!(running["wait"], json!(null));
    let not_yet = world.api.score(id).await;
    assert_eq!(not_yet.body["type"], "urn:gavel:problem:not-scored");
    assert_eq!(not_yet.body["job"]["job_id"], json!(job));
    not_yet.expect(404);

    world.judge.release();
    let score = world.api.scored(id).await;
    assert_eq!(score["total_score"], 64);
    let done = world.api.ended(job).await;
    assert_eq!(done["state"], "succeeded");
    assert_eq!(
        (&done["retries"], &done["attempts"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(world.judge.count(), 1);
    assert_eq!(
        world.judge.calls()[0].authorization,
        Some(format!("Bearer {KEY}"))
    );

    let again = world.api.ask(id).await.expect(200);
    assert_eq!(again, score);
    world.end().await;
}

async fn score_body_has_exactly_the_fields_of_the_rules(home: Home) {
    let world = World::start(home, Reply::Score(81)).await;
    let (id, job) = world.api.enqueue(session()).await;
    world.api.ended(job).await;
    let answer = world.api.score(id).await;
    assert!(answer.header("etag").is_some());
    let score = answer.expect(200);

    let fields: BTreeSet<&str> = score
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(fields, BTreeSet::from(SCORE_FIELDS));
    let breakdown = score["score_breakdown"].as_object().unwrap();
    let dimensions: BTreeSet<&str> = breakdown.keys().map(String::as_str).collect();
    let four = [
        "consistency",
        "logical_flow",
        "synthesis_quality",
        "tool_relevance",
    ];
    assert_eq!(dimensions, BTreeSet::from(four));
    assert_eq!(
        breakdown
            .values()
            .filter_map(serde_json::Value::as_f64)
            .sum::<f64>(),
        81.0
    );
    assert_eq!(score["session_id"], json!(id));
    assert_eq!(score["job_id"], json!(job));
    assert_eq!(score["rating"], "good");
    assert_eq!(score["judge"], json!({ "provider": JUDGE, "model": MODEL }));
    assert_eq!(score["simulated"], false);
    assert_eq!(score["flags"], json!([]));
    assert_eq!(score["is_current_criteria"], true);
    assert_eq!(score["criteria_hash"].as_str().unwrap().len(), 64);
    assert_eq!(score["scored_triggered_by"], "api-client");
    assert_eq!(score["missing_tools"][0]["tool_name"], "kubectl-events");
    assert_eq!(
        score["alternative_approaches"][0]["steps"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(score["usage"]["tokens_in"], TOKENS_IN);
    assert_eq!(score["usage"]["tokens_out"], TOKENS_OUT);
    let cost = score["usage"]["cost_usd"].as_f64().unwrap();
    assert!((cost - 0.0014).abs() < 1e-9, "{cost}");
    chrono::DateTime::parse_from_rfc3339(score["scored_at"].as_str().unwrap()).unwrap();
    world.end().await;
}

async fn prefer_wait_returns_the_score(home: Home) {
    let world = World::start(home, Reply::Score(58)).await;
    let id = world.api.put(session()).await;
    let answer = world
        .api
        .send("POST", &score_path(id), None, &[("prefer", "wait=30")])
        .await;
    let score = answer.expect(200);
    assert_eq!(score["total_score"], 58);

    world.judge.says(Reply::Status(400));
    let id = world.api.put(session()).await;
    let answer = world
        .api
        .send("POST", &score_path(id), None, &[("prefer", "wait=30")])
        .await;
    assert_eq!(answer.body["type"], "urn:gavel:problem:judge-failed");
    assert_eq!(answer.body["class"], "rejected");
    assert!(
        answer.body["job"]["job_id"].is_string(),
        "{:#}",
        answer.body
    );
    answer.expect(502);

    world.judge.says(Reply::held(50));
    let id = world.api.put(session()).await;
    let answer = world
        .api
        .send("POST", &score_path(id), None, &[("prefer", "wait=1")])
        .await;
    let body = answer.expect(202);
    world.judge.release();
    assert_eq!(
        world.api.ended(id_of(&body["job_id"])).await["state"],
        "succeeded"
    );
    world.end().await;
}

async fn job_survives_a_restart_of_the_program(home: Home) {
    let world = World::idle(home, Reply::Score(66)).await;
    let (id, job) = world.api.enqueue(session()).await;
    let waiting = world.api.job(job).await;
    assert_eq!(waiting["state"], "queued");
    assert_eq!(waiting["wait"]["reason"], "no_worker");
    assert_eq!(waiting["wait"]["position"], 1);

    // The row is authoritative.
    let mut world = world.restart().await;
    world.work();
    assert_eq!(world.api.scored(id).await["total_score"], 66);
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}

async fn many_sessions_are_each_scored_by_one_call(home: Home) {
    let mut world = World::start(home, Reply::Score(70)).await;
    world.work();
    let mut jobs = Vec::new();
    for _ in 0..60 {
        jobs.push(world.api.enqueue(session()).await);
    }
    for (session, job) in jobs {
        assert_eq!(world.api.ended(job).await["state"], "succeeded");
        assert_eq!(world.api.history(session).await.len(), 1);
    }
    assert_eq!(world.judge.count(), 60);
    world.end().await;
}

async fn repeated_request_returns_the_active_job(home: Home) {
    let world = World::start(home, Reply::held(70)).await;
    let (id, job) = world.api.enqueue(session()).await;
    world
        .api
        .job_until(job, "the job runs", |job| job["state"] == "running")
        .await;
    let again = world.api.ask(id).await.expect(202);
    assert_eq!(again["job_id"], json!(job));

    let forced = world.api.force(id).await;
    assert_eq!(forced.body["type"], "urn:gavel:problem:scoring-in-progress");
    assert_eq!(forced.body["job"]["job_id"], json!(job));
    forced.expect(409);
    world.judge.release();
    assert_eq!(world.api.ended(job).await["state"], "succeeded");
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}
