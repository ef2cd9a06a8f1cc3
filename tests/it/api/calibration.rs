//! POST `/api/v1/metrics/calibration`: the figures of the rules, and every fault with its place.

use super::*;

const PATH: &str = "/api/v1/metrics/calibration";

/// Cases by level: how many are right of how many.
fn cases(groups: [(&str, usize, usize); 3]) -> Vec<Value> {
    let mut cases = Vec::new();
    for (level, right, all) in groups {
        for at in 0..all {
            let correctness = if at < right { 1.0 } else { 0.0 };
            cases.push(json!({ "confidence": level, "correctness": correctness }));
        }
    }
    cases
}

async fn post(server: &Server, body: &Value) -> (u16, Value) {
    let answer = server
        .request(Method::POST, PATH)
        .json(body)
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn worked_examples_are_met() {
    let server = Server::with(Setup::default()).await;
    let mut good = cases([("High", 19, 20), ("MEDIUM", 12, 15), ("low", 4, 10)]);
    good.push(json!({ "correctness": 0.0 }));
    good.push(json!({ "confidence": "high", "correctness": null }));
    let (status, found) = post(&server, &json!({ "cases": good })).await;
    assert_eq!(status, 200, "{found:#}");
    assert!(
        (found["score"].as_f64().unwrap() - 0.917).abs() < 5e-4,
        "{found:#}"
    );
    assert_eq!(
        found["interpretation"],
        "Confidence levels accurately predict correctness"
    );
    assert_eq!(
        (&found["n"], &found["left_out"], &found["factor"]),
        (&json!(45), &json!(2), &json!(3.0))
    );
    assert_eq!(
        found["targets"],
        json!({ "high": 0.95, "medium": 0.75, "low": 0.45 })
    );
    assert_eq!(
        (
            &found["groups"][0]["confidence"],
            &found["groups"][0]["accuracy"]
        ),
        (&json!("high"), &json!(0.95))
    );
    assert!(found["ece"].is_number() && found["brier"].is_number());

    let bad = cases([("high", 10, 20), ("medium", 8, 15), ("low", 5, 10)]);
    let (_, found) = post(&server, &json!({ "cases": bad })).await;
    assert!(
        (found["score"].as_f64().unwrap() - 0.150).abs() < 5e-4,
        "{found:#}"
    );
    assert_eq!(
        found["warnings"],
        json!(["Model is overconfident - high confidence not reliable"])
    );
}

#[tokio::test]
async fn targets_and_factor_may_be_others_and_few_cases_have_no_score() {
    let server = Server::with(Setup::default()).await;
    let body = json!({
        "cases": cases([("high", 16, 20), ("medium", 0, 0), ("low", 0, 0)]),
        "targets": { "high": 0.9, "medium": 0.5, "low": 0.1 }, "factor": 5,
    });
    let (_, found) = post(&server, &body).await;
    assert!(
        (found["score"].as_f64().unwrap() - 0.5).abs() < 1e-9,
        "{found:#}"
    );
    let (status, found) = post(&server, &json!({ "cases": [] })).await;
    assert_eq!(
        (status, &found["score"], &found["n"]),
        (200, &Value::Null, &json!(0))
    );
    assert_eq!(
        found["warnings"],
        json!(["Insufficient data for calibration (need ≥ 20 cases)"])
    );
}

#[tokio::test]
async fn faults_are_told_with_their_place() {
    let server = Server::with(Setup::default()).await;
    let body = json!({
        "cases": [{ "confidence": "high", "correctness": 1.5 }, { "correctness": -1 }],
        "targets": { "high": 2, "medium": 0.5, "low": 0.1 }, "factor": 0,
    });
    let (status, problem) = post(&server, &body).await;
    let pointers: Vec<&str> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|fault| fault["pointer"].as_str())
        .collect();
    assert_eq!(status, 422);
    assert_eq!(
        pointers,
        [
            "/targets/high",
            "/factor",
            "/cases/0/correctness",
            "/cases/1/correctness"
        ]
    );
    for (body, pointer) in [
        (
            json!({ "cases": [{ "confidence": "sure" }] }),
            "/cases/0/confidence",
        ),
        (
            json!({ "cases": [{ "correctness": "1" }] }),
            "/cases/0/correctness",
        ),
        (json!({ "cases": 1 }), "/cases"),
        (json!({ "cases": vec![json!({}); 200_001] }), "/cases"),
    ] {
        let (status, problem) = post(&server, &body).await;
        assert_eq!(
            (status, &problem["errors"][0]["pointer"]),
            (422, &json!(pointer))
        );
    }
}
