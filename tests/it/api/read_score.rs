use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::support::client::SCORE_FIELDS;
use crate::support::stores;

#[tokio::test]
async fn score_body_matches_the_documented_format() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (session, score_id) = server.scored(61).await;
        let score = server.json_of(&score_path(session)).await;
        assert_eq!(keys(&score), sorted(SCORE_FIELDS));
        assert_eq!(score["score_id"], json!(score_id));
        assert_eq!(score["session_id"], json!(session));
        assert_eq!(score["total_score"], 61);
        assert_eq!(score["rating"], "adequate");
        // Breakdown in the order of the criteria, integers without a fraction.
        assert_eq!(
            score["score_breakdown"].to_string(),
            r#"{"logical_flow":20.5,"consistency":12,"note":"late"}"#
        );
        assert_eq!(score["missing_tools"][0]["tool_name"], "metrics.query");
        assert_eq!(
            score["alternative_approaches"][0]["steps"],
            json!(["events.list", "logs.get"])
        );
        assert_eq!(score["scored_triggered_by"], "api-client");
        assert_eq!(score["is_current_criteria"], true);
        assert_eq!(
            score["judge"],
            json!({ "provider": "judge-a", "model": "model-1" })
        );
        assert_eq!(score["flags"], json!(["total_not_sum"]));
        assert_eq!(
            score["usage"],
            json!({ "tokens_in": 1200, "tokens_out": 300, "cost_usd": 0.25 })
        );
        assert!(
            score["scored_at"].as_str().unwrap().ends_with('Z'),
            "{score}"
        );
    }
}

#[tokio::test]
async fn session_without_a_score_names_its_active_or_failed_job() {
    for db in stores().await {
        let server = Server::over(db).await;
        let session = server.session().await;
        let get = || server.get(&score_path(session)).send();
        let body = problem_of(get().await.unwrap(), 404, "not-scored").await;
        assert!(body.get("job").is_none(), "{body}");
        let job = server.queued(session).await;
        let body = problem_of(get().await.unwrap(), 404, "not-scored").await;
        assert_eq!(body["job"]["job_id"], json!(job));
        assert_eq!(body["job"]["state"], "queued");
        server.fail(job).await;
        let body = problem_of(get().await.unwrap(), 404, "not-scored").await;
        assert_eq!(body["job"]["state"], "failed");
        let again = server.queued(session).await;
        let body = problem_of(get().await.unwrap(), 404, "not-scored").await;
        assert_eq!(body["job"]["job_id"], json!(again));
    }
}

#[tokio::test]
async fn unknown_session_has_no_score_and_no_history() {
    let server = Server::with(Setup::default()).await;
    let path = score_path(Uuid::now_v7());
    problem_of(
        server.get(&path).send().await.unwrap(),
        404,
        "session-not-found",
    )
    .await;
    let path = format!("{path}s");
    problem_of(
        server.get(&path).send().await.unwrap(),
        404,
        "session-not-found",
    )
    .await;
}

#[tokio::test]
async fn etag_changes_with_the_score_or_the_current_criteria() {
    let server = Server::with(Setup::default()).await;
    let (session, _) = server.scored(61).await;
    let get = |etag: Option<String>| {
        let mut get = server.get(&score_path(session));
        if let Some(etag) = etag {
            get = get.header("if-none-match", etag);
        }
        get.send()
    };
    let first = get(None).await.unwrap();
    let etag = header(&first, "etag").unwrap();
    assert_eq!(first.status(), OK);
    for same in [etag.clone(), format!("\"x\", {etag}"), "*".to_owned()] {
        let unchanged = get(Some(same)).await.unwrap();
        assert_eq!(unchanged.status().as_u16(), 304);
        assert_eq!(header(&unchanged, "etag").as_ref(), Some(&etag));
        assert!(unchanged.bytes().await.unwrap().is_empty());
    }
    assert_eq!(get(Some("\"x\"".to_owned())).await.unwrap().status(), OK);
    let other = Criteria::from_value(&criteria("judge-b", "Otherwise.")).unwrap();
    server.enqueue.set_current_criteria(Arc::new(other));
    let outdated = get(Some(etag.clone())).await.unwrap();
    assert_ne!(header(&outdated, "etag"), Some(etag));
    assert_eq!(json_of(outdated, 200).await["is_current_criteria"], false);
}

#[tokio::test]
async fn history_has_earlier_scores_and_failed_rescore_hides_none() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (session, first) = server.scored(40).await;
        let job = job_id(&json_of(server.force(session).await, 202).await);
        let second = server.succeed(job, 80).await;
        let job = job_id(&json_of(server.force(session).await, 202).await);
        server.fail(job).await;
        let history = server.json_of(&format!("{}s", score_path(session))).await;
        let items = history["items"].as_array().unwrap();
        let ids: Vec<&Value> = items.iter().map(|item| &item["score_id"]).collect();
        assert_eq!(ids, [&json!(second), &json!(first)]);
        assert!(items[0]["superseded_at"].is_null() && items[1]["superseded_at"].is_string());
        assert_eq!(history["next_cursor"], Value::Null);
        assert_eq!(
            server.json_of(&score_path(session)).await["score_id"],
            json!(second)
        );
    }
}
