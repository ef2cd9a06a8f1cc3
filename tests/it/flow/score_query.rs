//! POST `/api/score-query`, from the request to the judge and back.

use serde_json::{Value, json};
use uuid::Uuid;

use super::on_every_setup;
use crate::support::client::{Answer, Api, PATIENCE, id_of};
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::{MODEL, Reply, TOKENS_IN, TOKENS_OUT};
use crate::support::wait::eventually;
use crate::support::world::World;

on_every_setup!(
    minor_difference_is_graded_by_the_judge_and_passes,
    second_run_makes_no_call,
    identical_queries_make_no_call,
    failing_judge_leaves_an_incomplete_score_that_a_retry_fills,
    grade_out_of_range_is_repaired_once_then_an_error,
    errors_are_returned_at_once_with_pointers_into_the_body,
    model_is_a_judge_or_any_model_of_the_default_judge,
    respond_async_returns_the_job_at_once,
    slow_judge_is_504_and_the_job_continues,
    response_waits_for_a_worker_that_starts_later,
    same_key_is_scored_once,
    waiting_client_gets_the_cancellation,
    large_result_is_compared,
);

const PATH: &str = "/api/score-query";
const RIGHT: &str =
    "AppTraces | where TimeGenerated > ago(1h) | summarize count() by SeverityLevel";

/// Example of the rules: an hour and sixty minutes.
fn minor_difference() -> Value {
    let rows = json!([{"SeverityLevel": 3, "count_": 17}, {"SeverityLevel": 4, "count_": 2}]);
    json!({
        "prompt": "How many errors were there in the last hour, by severity?",
        "generated_kql": RIGHT.replace("ago(1h)", "ago(60m)"),
        "expected_kql": RIGHT,
        "generated_columns": ["SeverityLevel", "count_"],
        "expected_columns": ["SeverityLevel", "count_"],
        "generated_results": rows,
        "expected_results": rows,
    })
}

fn grade(score: f64) -> Reply {
    let reply = json!({"reasoning": "An hour is sixty minutes.", "score": score});
    Reply::Content(reply.to_string())
}

async fn post(api: &Api, body: Value, headers: &[(&str, &str)]) -> Answer {
    api.send("POST", PATH, Some(body), headers).await
}

async fn minor_difference_is_graded_by_the_judge_and_passes(home: Home) {
    let world = World::start(home, grade(0.95)).await;
    let body = post(&world.api, minor_difference(), &[]).await.expect(200);
    assert_eq!(body["success"], true);
    assert_eq!(body["simulated"], false);
    assert_eq!(
        (&body["usage"]["tokens_in"], &body["usage"]["tokens_out"]),
        (&json!(TOKENS_IN), &json!(TOKENS_OUT))
    );
    let score = &body["score"];
    let total = score["total_score"].as_f64().unwrap();
    assert!((total - 0.9875).abs() < 1e-12, "{score:#}");
    assert_eq!(score["is_successful"], true);
    assert_eq!(score["status"], "complete");
    assert_eq!(score["threshold"], 0.9);
    for (name, expected) in [
        ("schema_match", 1.0),
        ("semantic_similarity", 1.0),
        ("results_match", 1.0),
        ("llm_grading", 0.95),
    ] {
        let component = &score["components"][name];
        assert_eq!(component["score"], expected, "{name}: {component:#}");
        assert_eq!(component["weighted_score"], expected * 0.25, "{name}");
        assert_eq!(component["weight"], 0.25, "{name}");
        assert!(component["details"].is_object(), "{name}");
    }
    let details = &score["components"]["llm_grading"]["details"];
    assert_eq!(details["reasoning"], "An hour is sixty minutes.");
    assert_eq!(
        score["judge"],
        json!({"provider": JUDGE, "model": MODEL, "simulated": false})
    );
    let prompt = world.judge.calls()[0].prompt();
    assert!(
        prompt.contains("ago(60m)") && prompt.contains("by severity?"),
        "{prompt}"
    );

    let job = world.api.job(id_of(&body["job_id"])).await;
    assert_eq!(
        (&job["kind"], &job["state"]),
        (&json!("query"), &json!("succeeded"))
    );
    assert_eq!(&job["result"], score);
    world.end().await;
}

async fn second_run_makes_no_call(home: Home) {
    let world = World::start(home, grade(0.95)).await;
    let first = post(&world.api, minor_difference(), &[]).await.expect(200);
    let mut again = minor_difference();
    // Other rows don't change the question, because the judge doesn't see them.
    again["generated_results"] = json!([]);
    let second = post(&world.api, again, &[]).await.expect(200);
    assert_ne!(first["job_id"], second["job_id"]);
    let grading = |body: &Value| body["score"]["components"]["llm_grading"].clone();
    assert_eq!(grading(&first), grading(&second));
    assert_eq!(second["score"]["components"]["results_match"]["score"], 0.0);
    assert_eq!(second["usage"]["tokens_in"], 0);
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}

async fn identical_queries_make_no_call(home: Home) {
    let world = World::start(home, Reply::Status(500)).await;
    let mut body = minor_difference();
    body["generated_kql"] = json!(format!("// mine\n{}", RIGHT.replace(" | ", "\n| ")));
    let body = post(&world.api, body, &[]).await.expect(200);
    assert_eq!(body["score"]["total_score"], 1.0);
    assert_eq!(body["score"]["judge"], Value::Null);
    let details = &body["score"]["components"]["llm_grading"]["details"];
    assert_eq!(details["outcome"], "identical");
    let job = world.api.job(id_of(&body["job_id"])).await;
    assert_eq!(job["judge"], Value::Null);
    assert_eq!(world.judge.count(), 0);
    world.end().await;
}

async fn failing_judge_leaves_an_incomplete_score_that_a_retry_fills(home: Home) {
    let world = World::start(home, Reply::Status(500)).await;
    let body = post(&world.api, minor_difference(), &[]).await.expect(200);
    assert_eq!(body["success"], true);
    let score = &body["score"];
    assert_eq!(score["status"], "incomplete");
    assert_eq!(score["total_score"], Value::Null);
    assert_eq!(score["is_successful"], false);
    assert_eq!(score["components"]["results_match"]["score"], 1.0);
    let grading = &score["components"]["llm_grading"];
    assert_eq!(grading["score"], Value::Null);
    assert_eq!(grading["error"]["class"], "transient");
    assert_eq!(world.judge.count(), 4);

    let id = id_of(&body["job_id"]);
    let job = world.api.job(id).await;
    assert_eq!(
        (&job["state"], &job["error"]["class"]),
        (&json!("failed"), &json!("transient"))
    );
    assert_eq!(&job["result"], score);

    world.judge.says(grade(1.0));
    let retry = world.api.post_job_action(id, "retry").await;
    assert!([200, 202].contains(&retry.status), "{retry:?}");
    let job = world.api.ended(id).await;
    assert_eq!(job["state"], "succeeded");
    assert_eq!(job["result"]["total_score"], 1.0);
    world.end().await;
}

async fn grade_out_of_range_is_repaired_once_then_an_error(home: Home) {
    let world = World::start(home, grade(95.0)).await;
    let body = post(&world.api, minor_difference(), &[]).await.expect(200);
    let grading = &body["score"]["components"]["llm_grading"];
    assert_eq!(grading["error"]["class"], "unparsable", "{grading:#}");
    assert!(
        grading["error"]["message"]
            .as_str()
            .unwrap()
            .contains("/score"),
        "{grading:#}"
    );
    let calls = world.judge.calls();
    assert_eq!(calls.len(), 2);
    assert!(
        calls[1]
            .prompt()
            .contains("/score: is 95; a number from 0 to 1 is expected")
    );
    world.end().await;
}

async fn errors_are_returned_at_once_with_pointers_into_the_body(home: Home) {
    let world = World::start(home, grade(1.0)).await;
    let bad = json!({
        "generated_sql": "T",
        "expected_kql": "T",
        "generated_results": [{"a": 1}, 2],
        "threshold": 90,
    });
    let problem = post(&world.api, bad, &[]).await.expect(422);
    assert_eq!(problem["type"], "urn:gavel:problem:invalid-request");
    let faults: Vec<(&str, &str)> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| {
            let text = |name: &str| fault[name].as_str().unwrap();
            (text("pointer"), text("message"))
        })
        .collect();
    assert_eq!(
        faults,
        [
            ("/generated_sql", "is unknown; did you mean generated_kql?"),
            (
                "/generated_kql",
                "is missing; a query, as text, is expected"
            ),
            (
                "/generated_results/1",
                "is a number; a row is an object, or a list of cells"
            ),
            ("/threshold", "is 90; a number from 0 to 1 is expected"),
        ]
    );
    // As a job, the same errors have pointers below the payload.
    let job = json!({"kind": "query", "payload": {"expected_kql": "T"}});
    let problem = world.api.post_json("/api/v1/jobs", job).await;
    assert_eq!(
        problem.expect(422)["errors"][0]["pointer"],
        "/payload/generated_kql"
    );
    for body in [json!([]), json!("T")] {
        post(&world.api, body, &[]).await.expect(422);
    }
    world.api.post(&format!("{PATH}?wait=1")).await.expect(422);
    let jobs = world.api.get("/api/v1/jobs").await.expect(200);
    assert_eq!(jobs["items"], json!([]), "nothing was accepted");
    world.end().await;
}

async fn model_is_a_judge_or_any_model_of_the_default_judge(home: Home) {
    let world = World::start(home, grade(1.0)).await;
    let with = |model: &str| {
        let mut body = minor_difference();
        body["model"] = json!(model);
        body
    };
    let nobody = format!("{JUDGE}:");
    let problem = post(&world.api, with(&nobody), &[]).await.expect(422);
    let fault = &problem["errors"][0];
    assert_eq!(fault["pointer"], "/model");
    let message = fault["message"].as_str().unwrap();
    assert!(message.contains(JUDGE), "{message}");
    // Invalid field of the request, which no setting can fix.
    assert!(!message.contains("DEFAULT_LLM_PROVIDER"), "{message}");
    let mut same = with(&nobody);
    same["generated_kql"] = same["expected_kql"].clone();
    let problem = post(&world.api, same, &[]).await.expect(422);
    assert_eq!(problem["errors"][0], *fault, "whatever the queries are");
    for (model, judge) in [
        (JUDGE, JUDGE.to_owned()),
        (MODEL, format!("{JUDGE}:{MODEL}")),
        ("gpt-99", format!("{JUDGE}:gpt-99")),
    ] {
        let body = post(&world.api, with(model), &[]).await.expect(200);
        let job = world.api.job(id_of(&body["job_id"])).await;
        assert_eq!(job["judge"], judge);
    }
    world.end().await;
}

async fn respond_async_returns_the_job_at_once(home: Home) {
    let world = World::start(home, Reply::Held(Box::new(grade(1.0)))).await;
    let answer = post(
        &world.api,
        minor_difference(),
        &[("prefer", "respond-async")],
    )
    .await;
    assert_eq!(answer.header("preference-applied"), Some("respond-async"));
    let location = answer.header("location").unwrap().to_owned();
    let id = id_of(&answer.expect(202)["job_id"]);
    assert_eq!(location, format!("/api/v1/jobs/{id}"));
    world.judge.release();
    let job = world.api.ended(id).await;
    assert_eq!(job["result"]["total_score"], 1.0);

    world.judge.hold();
    let mut other = minor_difference();
    other["prompt"] = json!("Another question?");
    let answer = post(&world.api, other, &[("prefer", "wait=1")]).await;
    assert_eq!(answer.header("preference-applied"), Some("wait=1"));
    answer.expect(202);
    world.end().await;
}

async fn slow_judge_is_504_and_the_job_continues(mut home: Home) {
    home.set("GAVEL_HTTP_SCORE_QUERY_WAIT_S", "1");
    let world = World::start(home, Reply::Held(Box::new(grade(0.95)))).await;
    let key = [("idempotency-key", "slow-1")];
    let answer = post(&world.api, minor_difference(), &key).await;
    let location = answer.header("location").unwrap().to_owned();
    assert!(answer.header("retry-after").is_some());
    let problem = answer.expect(504);
    assert_eq!(problem["type"], "urn:gavel:problem:judge-slow");
    let id = id_of(&problem["job"]["job_id"]);
    assert_eq!(location, format!("/api/v1/jobs/{id}"));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("continues"), "{detail}");

    world.judge.release();
    let job = world.api.ended(id).await;
    assert_eq!(job["state"], "succeeded");
    // A repeat of the request finds the job of the first try.
    let again = eventually(PATIENCE, "the key is free", || async {
        let answer = post(&world.api, minor_difference(), &key).await;
        (answer.status == 200).then_some(answer.body)
    })
    .await;
    assert_eq!(again["job_id"], job["job_id"]);
    assert_eq!(&again["score"], &job["result"]);
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}

async fn response_waits_for_a_worker_that_starts_later(home: Home) {
    let mut world = World::idle(home, grade(1.0)).await;
    let api = world.api.clone();
    let asking = tokio::spawn(async move { post(&api, minor_difference(), &[]).await });
    the_only_job(&world.api).await;
    world.work();
    let body = asking.await.unwrap().expect(200);
    assert_eq!(body["score"]["total_score"], 1.0);
    world.end().await;
}

async fn same_key_is_scored_once(home: Home) {
    let world = World::start(home, grade(1.0)).await;
    let key = [("idempotency-key", "once-1")];
    let first = post(&world.api, minor_difference(), &key).await;
    let again = post(&world.api, minor_difference(), &key).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.expect(200), again.expect(200));
    let mut other = minor_difference();
    other["prompt"] = json!("Another question?");
    let reused = post(&world.api, other, &key).await.expect(422);
    assert_eq!(reused["type"], "urn:gavel:problem:idempotency-key-reused");
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}

async fn waiting_client_gets_the_cancellation(home: Home) {
    let world = World::idle(home, grade(1.0)).await;
    let api = world.api.clone();
    let asking = tokio::spawn(async move { post(&api, minor_difference(), &[]).await });
    let id = the_only_job(&world.api).await;
    let cancelled = world.api.post_job_action(id, "cancel").await;
    cancelled.expect(200);
    let problem = asking.await.unwrap().expect(409);
    assert_eq!(problem["type"], "urn:gavel:problem:job-cancelled");
    world.end().await;
}

/// More values than a worker compares on its async threads.
async fn large_result_is_compared(home: Home) {
    let world = World::start(home, grade(1.0)).await;
    let rows = |count: usize| -> Value {
        let row = |at: usize| (0..24).map(|column| json!(at * 24 + column)).collect();
        (0..count).map(row).collect::<Vec<Value>>().into()
    };
    let body = json!({
        "generated_kql": "T | take 10000",
        "expected_kql": "T | take 20",
        "generated_results": rows(10_000),
        "expected_results": rows(20),
    });
    let body = post(&world.api, body, &[]).await.expect(200);
    let results = &body["score"]["components"]["results_match"];
    assert_eq!(results["score"], 1.0, "{results:#}");
    assert_eq!(results["details"]["precision"], 0.002);
    world.end().await;
}

async fn the_only_job(api: &Api) -> Uuid {
    eventually(PATIENCE, "the job is accepted", || async {
        let jobs = api.get("/api/v1/jobs").await.expect(200);
        jobs["items"].get(0).map(|job| id_of(&job["job_id"]))
    })
    .await
}
