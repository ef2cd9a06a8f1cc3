//! Kind `qas` from POST to result: computed parts, the judge's part, and incomplete results.

use serde_json::{Value, json};

use super::{ended_case, incomplete_case, on_every_setup};
use crate::support::home::Home;
use crate::support::judge_server::{MODEL, Reply};
use crate::support::world::World;

on_every_setup!(
    case_is_scored_by_its_judge_with_one_call,
    identical_queries_make_no_call,
    two_open_questions_are_two_calls,
    unavailable_judge_preserves_computed_parts_for_a_retry,
    every_payload_error_is_listed,
);

fn opinion(score: f64) -> Reply {
    Reply::Content(json!({ "explanation": "ORDER BY is missing.", "score": score }).to_string())
}

fn payload() -> Value {
    json!({
        "test_id": "Q7", "question": "Which three customers spent most?", "agent_used": "sql", "difficulty": "medium",
        "expected_sql": "SELECT name FROM customers ORDER BY spent DESC LIMIT 3",
        "generated_sql": "SELECT name FROM customers LIMIT 3", "expected_answer_type": "table",
        "expected_results": [{ "name": "Ada" }, { "name": "Bo" }, { "name": "Cy" }],
        "actual_results": [{ "name": "Cy" }, { "name": "Ada" }, { "name": "Bo" }], "success": true,
    })
}

async fn case_is_scored_by_its_judge_with_one_call(home: Home) {
    let world = World::start(home, opinion(0.85)).await;
    for _ in 0..2 {
        let job = ended_case(&world, "qas", payload()).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
        let result = &job["result"];
        assert_eq!(result["final_score"], 0.94, "{result:#}");
        assert_eq!(
            (&result["passed"], &result["status"]),
            (&json!(true), &json!("complete"))
        );
        assert_eq!(
            result["breakdown"]["semantic_explanation"],
            "ORDER BY is missing."
        );
        assert_eq!(result["judge"]["model"], MODEL);
        assert_eq!(job["simulated"], false);
    }
    assert_eq!(world.judge.count(), 1, "the second run makes no call");
    let prompt = world.judge.calls()[0].prompt();
    assert!(
        prompt.contains("Which three customers spent most?")
            && prompt.contains("<<<EVIDENCE generated-sql")
    );
    world.end().await;
}

async fn identical_queries_make_no_call(home: Home) {
    let world = World::start(home, Reply::Status(500)).await;
    let mut same = payload();
    same["generated_sql"] = json!("select name from customers order by spent desc limit 3;");
    let job = ended_case(&world, "qas", same).await;
    assert_eq!(
        (&job["state"], &job["result"]["final_score"]),
        (&json!("succeeded"), &json!(1.0)),
        "{job:#}"
    );
    assert_eq!(world.judge.count(), 0);
    world.end().await;
}

async fn two_open_questions_are_two_calls(home: Home) {
    let world = World::start(home, opinion(0.5)).await;
    let mut both = payload();
    both["expected_answer_type"] = json!("analysis");
    both["expected_results"] = json!("Ada, Bo and Cy.");
    both["actual_results"] = json!({ "customers": ["Ada", "Bo"], "why": "spent most" });
    let job = ended_case(&world, "qas", both).await;
    assert_eq!(job["result"]["final_score"], 0.6, "{job:#}");
    assert_eq!(world.judge.count(), 2);
    world.end().await;
}

async fn unavailable_judge_preserves_computed_parts_for_a_retry(home: Home) {
    let world = World::start(home, Reply::Status(500)).await;
    let (id, result) = incomplete_case(&world, "qas", payload()).await;
    assert_eq!(
        (
            &result["final_score"],
            &result["passed"],
            &result["semantic_score"]
        ),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(
        (&result["execution_score"], &result["datatype_score"]),
        (&json!(1.0), &json!(1.0))
    );

    world.judge.says(opinion(0.85));
    world.api.post_job_action(id, "retry").await.expect(202);
    let job = world.api.ended(id).await;
    assert_eq!(
        (&job["state"], &job["result"]["final_score"]),
        (&json!("succeeded"), &json!(0.94)),
        "{job:#}"
    );
    assert_eq!(job["error"], Value::Null);
    world.end().await;
}

async fn every_payload_error_is_listed(home: Home) {
    let world = World::idle(home, Reply::Status(500)).await;
    let mut bad = payload();
    bad["expected_answer_type"] = json!("chart");
    bad["success"] = json!("yes");
    bad["generated_sq"] = json!("select 1");
    let body = json!({ "kind": "qas", "payload": bad });
    let problem = world.api.post_json("/api/v1/jobs", body).await.expect(422);
    let errors = problem["errors"].as_array().unwrap().iter();
    let pointers: Vec<&Value> = errors.map(|fault| &fault["pointer"]).collect();
    assert_eq!(
        pointers,
        [
            "/payload/generated_sq",
            "/payload/expected_answer_type",
            "/payload/success"
        ],
        "{problem:#}"
    );
    world.end().await;
}
