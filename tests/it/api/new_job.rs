//! POST jobs: any kind by its payload.

use serde_json::json;

use super::*;
use crate::support::stores;

const PATH: &str = "/api/v1/jobs";

async fn ask(server: &Server, body: Value) -> reqwest::Response {
    server.post(PATH).json(&body).send().await.unwrap()
}

#[tokio::test]
async fn session_job_is_created_by_id_and_scored_one_returns_its_job() {
    for db in stores().await {
        let server = Server::over(db).await;
        let session = server.session().await;
        let body = json!({ "kind": "session", "payload": { "session_id": session } });
        let asked = json_of(ask(&server, body.clone()).await, 202).await;
        assert_eq!(asked["session_id"], json!(session));
        let again = json_of(ask(&server, body.clone()).await, 202).await;
        assert_eq!(again["job_id"], asked["job_id"], "one active job a session");
        server.succeed(job_id(&asked), 61).await;
        let scored = json_of(ask(&server, body).await, 200).await;
        assert_eq!(scored["job_id"], asked["job_id"]);
        assert_eq!(scored["result"]["total_score"], 61);
        let forced = json!({
            "kind": "session", "payload": { "session_id": session, "force_rescore": true },
        });
        let forced = json_of(ask(&server, forced).await, 202).await;
        assert_ne!(forced["job_id"], asked["job_id"]);
    }
}

#[tokio::test]
async fn case_is_a_row_with_its_payload_and_no_wait() {
    for db in stores().await {
        let server = Server::over(db).await;
        let payload = json!({ "generated_sql": "select 1", "expected_sql": "select 2" });
        let body = json!({ "kind": "sql_metrics", "payload": payload, "priority": "bulk" });
        let first = json_of(ask(&server, body.clone()).await, 202).await;
        let second = json_of(ask(&server, body).await, 202).await;
        assert_ne!(
            first["job_id"], second["job_id"],
            "equal payloads are two jobs"
        );
        let row = server
            .store()
            .jobs()
            .get(job_id(&first))
            .await
            .unwrap()
            .unwrap();
        assert_eq!((row.kind, row.priority), (Kind::SqlMetrics, Priority::Bulk));
        assert_eq!(row.payload.value(), payload);
        assert_eq!(row.subject_id, None);
        assert_eq!(row.judge.as_deref(), Some("judge-a"));
        let current = server.enqueue.current_criteria_of(Kind::SqlMetrics);
        assert_eq!(row.criteria_hash, current.hash.0);
        let kept = server.store().criteria().content(&row.criteria_hash).await;
        assert_eq!(kept.unwrap(), Some(current.content.clone()));
    }
}

#[tokio::test]
async fn case_without_a_judge_has_no_lane() {
    let server = Server::with(Setup::default()).await;
    let payload = json!({ "generated_sql": "select 1", "expected_sql": "SELECT 1;" });
    let asked = ask(
        &server,
        json!({ "kind": "sql_metrics", "payload": payload }),
    )
    .await;
    let asked = json_of(asked, 202).await;
    let row = server
        .store()
        .jobs()
        .get(job_id(&asked))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.judge, None);
    assert_eq!(row.lane.as_str(), "none");
}

#[tokio::test]
async fn invalid_job_is_rejected_with_a_pointer() {
    let server = Server::with(Setup::default()).await;
    let session_hash = server.enqueue.current_criteria().hash.0.clone();
    let session = server.session().await;
    server.queued(session).await;
    let good = json!({ "generated_sql": "select 1", "expected_sql": "select 2" });
    let cases = [
        (json!({ "payload": {} }), ""),
        (json!({ "kind": "sql", "payload": {} }), "/kind"),
        (json!({ "kind": "query" }), ""),
        (json!({ "kind": "query", "payload": [] }), "/payload"),
        (
            json!({ "kind": "session", "payload": { "session_id": "x" } }),
            "/payload/session_id",
        ),
        (
            json!({ "kind": "session", "payload": { "session": session } }),
            "/payload/session",
        ),
        (
            json!({ "kind": "query", "payload": {}, "priority": "soon" }),
            "/priority",
        ),
        (
            json!({ "kind": "query", "payload": {}, "prio": "bulk" }),
            "/prio",
        ),
        (
            json!({ "kind": "sql_metrics", "payload": good, "criteria_hash": session_hash }),
            "/criteria_hash",
        ),
        (
            json!({ "kind": "sql_metrics", "payload": good, "criteria_hash": "f".repeat(64) }),
            "/criteria_hash",
        ),
        (
            json!({ "kind": "sql_metrics", "payload": good, "criteria_hash": "me" }),
            "/criteria_hash",
        ),
    ];
    for (body, pointer) in cases {
        let said = body.to_string();
        let problem = problem_of(ask(&server, body).await, 422, "invalid-request").await;
        let pointers: Vec<&str> = problem["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|fault| fault["pointer"].as_str().unwrap())
            .collect();
        assert!(pointers.contains(&pointer), "{said}: {problem}");
    }
}

#[tokio::test]
async fn same_key_creates_one_job() {
    for db in stores().await {
        let server = Server::over(db).await;
        let payload = json!({ "generated_sql": "select 1", "expected_sql": "select 2" });
        let body = json!({ "kind": "sql_metrics", "payload": payload });
        let mut jobs = Vec::new();
        for _ in 0..2 {
            let sent = server
                .post(PATH)
                .header("Idempotency-Key", "one")
                .json(&body);
            jobs.push(json_of(sent.send().await.unwrap(), 202).await["job_id"].clone());
        }
        assert_eq!(jobs[0], jobs[1]);
    }
}
