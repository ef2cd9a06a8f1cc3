//! POST `/api/v1/metrics/calibration`: results of the rules, and errors with their pointers.

use gavel::store::{MadeBy, NewEvaluation};

use super::*;
use crate::support::stores;

const PATH: &str = "/api/v1/metrics/calibration";

/// Cases by level, as (level, right, total).
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
async fn worked_examples_are_reproduced() {
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
async fn targets_and_factor_are_settable_and_few_cases_have_no_score() {
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
async fn errors_have_their_pointers() {
    let server = Server::with(Setup::default()).await;
    let body = json!({
        "cases": [{ "confidence": "high", "correctness": 1.5 }, { "correctness": -1 }],
        "targets": { "high": 2, "medium": 0.5, "low": 0.1 }, "factor": 0,
    });
    let (status, problem) = post(&server, &body).await;
    assert_eq!(status, 422);
    assert_eq!(
        pointers(&problem),
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

impl Server {
    /// Creates a batch of SQL cases with these confidences; returns its id. `None` as correctness: not ended.
    pub(super) async fn graded(
        &self,
        name: &str,
        cases: &[(Option<&str>, Option<f64>)],
        simulated: bool,
    ) -> Uuid {
        let case = |(confidence, _): &(Option<&str>, Option<f64>)| json!({"generated_sql": "select 1", "expected_sql": "select 2", "confidence": confidence});
        let items: Vec<Value> = cases.iter().map(case).collect();
        let body = json!({"kind": "sql_metrics", "name": name, "items": items});
        let (id, jobs) = self.begun(&body).await;
        for (job, (_, correctness)) in jobs.into_iter().zip(cases) {
            if let Some(correctness) = correctness {
                let by = match simulated {
                    true => MadeBy::Simulated,
                    false => MadeBy::Judge,
                };
                self.grade(job, *correctness, Some(by)).await;
            }
        }
        id
    }

    /// Ends a job with this correctness; `by: None` is a score without a judge call.
    async fn grade(&self, id: JobId, correctness: f64, by: Option<MadeBy>) {
        let job = self.claim(id).await;
        let score = NewEvaluation {
            passed: Some(correctness >= 1.0),
            threshold: None,
            components: json!({ "query_correctness": correctness }),
            simulated: by == Some(MadeBy::Simulated),
            ..evaluation(&job, Some(correctness))
        };
        let details = json!({ "judge": by.map(|_| json!({ "name": "judge" })) });
        let result = json!({ "metrics": { "query_correctness": { "score": correctness, "details": details } } });
        self.evaluated(&job, score, result).await;
    }
}

#[tokio::test]
async fn stored_suite_is_calibrated_over_its_ended_items() {
    for db in stores().await {
        let server = Server::over(db).await;
        let mut cases = vec![(Some("High"), Some(1.0)); 15];
        cases.extend([(Some("high"), Some(0.0)); 5]);
        cases.extend([(Some("low"), Some(0.5)); 4]);
        cases.extend([(None, Some(1.0)), (Some("medium"), None)]);
        let suite = server.graded("sql", &cases, false).await;
        let path = |id: Uuid| format!("/api/v1/batches/{id}/calibration");
        let found = server.json_of(&path(suite)).await;
        let figures = ["items", "looked_at", "n", "left_out"].map(|name| found[name].clone());
        assert_eq!(figures, [26, 26, 24, 2].map(Value::from), "{found:#}");
        assert_eq!(
            (
                &found["groups"][0]["accuracy"],
                &found["groups"][2]["accuracy"]
            ),
            (&json!(0.75), &json!(0.5))
        );
        assert_eq!(
            (&found["groups"][1]["n"], &found["simulated"]),
            (&json!(0), &json!(false))
        );
        // Result for the same cases sent in the body.
        let sent: Vec<Value> = cases
            .iter()
            .map(|(confidence, right)| json!({"confidence": confidence, "correctness": right}))
            .collect();
        let (_, at_once) = post(&server, &json!({ "cases": sent })).await;
        assert_eq!(found["score"], at_once["score"]);
        assert!(found["score"].is_f64(), "{found:#}");

        let (queries, _) = server.cases(&["q"]).await;
        let other = server.get(&path(queries)).send().await.unwrap();
        let problem = problem_of(other, 422, "invalid-request").await;
        assert!(
            problem["errors"][0]["message"]
                .as_str()
                .unwrap()
                .contains("sql_metrics"),
            "{problem:#}"
        );
        let unknown = server.get(&path(Uuid::now_v7())).send().await.unwrap();
        problem_of(unknown, 404, "batch-not-found").await;
    }
}

#[tokio::test]
async fn simulated_grades_are_excluded_next_to_real_ones_and_counted() {
    for db in stores().await {
        let server = Server::over(db).await;
        let mut cases = vec![(Some("high"), Some(1.0)); 20];
        cases.push((Some("low"), None));
        let suite = server.graded("sql", &cases, false).await;
        let open = format!("/api/v1/jobs?batch_id={suite}&state=queued");
        let open = job_id(&server.json_of(&open).await["items"][0]);
        server.grade(open, 1.0, Some(MadeBy::Simulated)).await;
        let path = format!("/api/v1/batches/{suite}/calibration");
        let found = server.json_of(&path).await;
        assert_eq!(
            (&found["n"], &found["left_out"], &found["simulated"]),
            (&json!(20), &json!(1), &json!(false))
        );
        assert_eq!(found["groups"][2]["n"], 0, "{found:#}");
        let warning = found["warnings"][0].as_str().unwrap();
        assert!(
            warning.starts_with("excluded: 1 case that a simulated judge graded"),
            "{warning}"
        );
    }
}

#[tokio::test]
async fn all_simulated_suite_is_marked_and_includes_judgeless_items() {
    for db in stores().await {
        let server = Server::over(db).await;
        let mut cases = vec![(Some("low"), Some(0.5)); 3];
        cases.push((Some("high"), None));
        let suite = server.graded("sql", &cases, true).await;
        let open = format!("/api/v1/jobs?batch_id={suite}&state=queued");
        let open = job_id(&server.json_of(&open).await["items"][0]);
        server.grade(open, 1.0, None).await;
        let path = format!("/api/v1/batches/{suite}/calibration");
        let found = server.json_of(&path).await;
        assert_eq!(
            (&found["simulated"], &found["n"], &found["score"]),
            (&json!(true), &json!(4), &Value::Null)
        );
        let warnings = found["warnings"].to_string();
        for part in ["graded by a simulated judge", "20 cases"] {
            assert!(warnings.contains(part), "{part}: {warnings}");
        }
    }
}
