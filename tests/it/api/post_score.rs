//! POST score: each row of its response table.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::support::stores;

impl Server {
    async fn request_score_with_prefer(&self, session: Uuid, prefer: &str) -> Response {
        let asked = self.post(&score_path(session)).header("prefer", prefer);
        asked.send().await.unwrap()
    }
}

fn applied(response: &Response) -> Option<String> {
    header(response, "preference-applied")
}

#[tokio::test]
async fn unknown_session_is_404_even_with_an_invalid_body() {
    let server = Server::with(Setup::default()).await;
    let unknown = Uuid::now_v7();
    problem_of(server.ask(unknown).await, 404, "session-not-found").await;
    let bad = server.request_score_with(unknown, json!({ "force_rescore": 1 }));
    problem_of(bad.await, 404, "session-not-found").await;
}

#[tokio::test]
async fn session_that_has_not_ended_is_400() {
    let server = Server::with(Setup::default()).await;
    for status in [
        "pending",
        "in_progress",
        "paused",
        "canceling",
        "cancelling",
    ] {
        let fields = json!({ "status": status, "completed_at": null });
        let session = server.session_with(fields).await;
        let body = problem_of(server.ask(session).await, 400, "session-not-completed").await;
        assert!(body["detail"].as_str().unwrap().contains(status), "{body}");
        let bad = server
            .request_score_with(session, json!({ "typo": 1 }))
            .await;
        problem_of(bad, 400, "session-not-completed").await;
    }
}

#[tokio::test]
async fn sessions_with_any_ended_status_are_scored() {
    let server = Server::with(Setup::default()).await;
    for status in ["completed", "failed", "cancelled", "timed_out"] {
        let session = server.session_with(json!({ "status": status })).await;
        server.queued(session).await;
    }
}

#[tokio::test]
async fn invalid_body_is_400_with_a_pointer() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let other = "0".repeat(64);
    let cases = [
        (r#"{"force_rescore":"yes"}"#.to_owned(), "/force_rescore"),
        (r#"{"force_rescore":null}"#.to_owned(), "/force_rescore"),
        (r#"{"criteria_hash":7}"#.to_owned(), "/criteria_hash"),
        (r#"{"criteria_hash":"abc"}"#.to_owned(), "/criteria_hash"),
        (
            format!(r#"{{"criteria_hash":"{other}"}}"#),
            "/criteria_hash",
        ),
        (r#"{"force":true}"#.to_owned(), "/force"),
        ("{".to_owned(), ""),
        ("[]".to_owned(), ""),
        ("true".to_owned(), ""),
        (
            format!("{{\"x\":{}1{}}}", "[".repeat(70), "]".repeat(70)),
            "",
        ),
    ];
    for (body, pointer) in cases {
        let asked = server
            .post(&score_path(session))
            .header("content-type", "application/json");
        let response = asked.body(body.clone()).send().await.unwrap();
        let problem = problem_of(response, 422, "invalid-request").await;
        assert_eq!(pointers(&problem), [pointer], "{body}: {problem}");
    }
    let misplaced = server.post(&format!("{}?force_rescore=true", score_path(session)));
    let problem = problem_of(misplaced.send().await.unwrap(), 422, "invalid-request").await;
    assert_eq!(pointers(&problem), ["/force_rescore"]);
    let response = server
        .post("/api/v1/scoring/sessions/42/score")
        .send()
        .await
        .unwrap();
    let problem = problem_of(response, 422, "invalid-request").await;
    assert_eq!(pointers(&problem), ["/session_id"]);
}

#[tokio::test]
async fn empty_conversation_is_rejected() {
    let server = Server::with(Setup::default()).await;
    let session = server.session_with(json!({ "conversation": [] })).await;
    problem_of(server.ask(session).await, 400, "nothing-to-judge").await;
}

#[tokio::test]
async fn missing_body_means_defaults_for_any_content_type() {
    let server = Server::with(Setup::default()).await;
    for content_type in [None, Some("application/json"), Some("text/plain")] {
        let session = server.session().await;
        let mut asked = server.post(&score_path(session));
        if let Some(content_type) = content_type {
            asked = asked.header("content-type", content_type);
        }
        let body = json_of(asked.send().await.unwrap(), 202).await;
        let job = server.job(job_id(&body)).await;
        assert!(!job.force_rescore);
        assert_eq!(job.priority, Priority::Interactive);
    }
}

#[tokio::test]
async fn new_job_is_202_with_its_location() {
    for db in stores().await {
        let server = Server::over(db).await;
        let session = server.session().await;
        let response = server.ask(session).await;
        let location = header(&response, "location").unwrap();
        assert_eq!(header(&response, "retry-after").as_deref(), Some("2"));
        let body = json_of(response, 202).await;
        assert_eq!(
            keys(&body),
            sorted(["job_id", "session_id", "state", "links"])
        );
        assert_eq!(body["session_id"], json!(session));
        assert_eq!(body["state"], "queued");
        assert_eq!(location, format!("/api/v1/jobs/{}", job_id(&body)));
        assert_eq!(body["links"]["self"], location);
        assert_eq!(server.queue.next().await.id, job_id(&body));
        server.json_of(&location).await;
    }
}

#[tokio::test]
async fn matching_score_is_returned_without_a_new_job() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (session, score_id) = server.scored(72).await;
        let hash = server.enqueue.current_criteria().hash.0.clone();
        let named =
            [hash.as_str(), &hash[..8], "current"].map(|name| json!({ "criteria_hash": name }));
        for body in [json!({})].into_iter().chain(named) {
            let score = json_of(server.request_score_with(session, body).await, 200).await;
            assert_eq!(score["score_id"], json!(score_id));
        }
        assert_eq!(
            server.json_of("/api/v1/jobs").await["items"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }
}

#[tokio::test]
async fn other_criteria_or_force_create_a_job_and_keep_the_score() {
    for db in stores().await {
        let server = Server::over(db).await;
        let other = server.other_criteria().await;
        for body in [
            json!({ "force_rescore": true }),
            json!({ "criteria_hash": other }),
        ] {
            let (session, old) = server.scored(72).await;
            let job = job_id(&json_of(server.request_score_with(session, body).await, 202).await);
            assert_eq!(
                server.json_of(&score_path(session)).await["score_id"],
                json!(old)
            );
            let new = server.succeed(job, 90).await;
            assert_eq!(
                server.json_of(&score_path(session)).await["score_id"],
                json!(new)
            );
        }
    }
}

#[tokio::test]
async fn active_job_under_other_criteria_is_409_with_that_job() {
    let server = Server::with(Setup::default()).await;
    let other = server.other_criteria().await;
    let (session, job) = server.queued_session().await;
    let asked = server.request_score_with(session, json!({ "criteria_hash": other }));
    let body = problem_of(asked.await, 409, "scoring-in-progress").await;
    assert_eq!(body["job"]["job_id"], json!(job));
}

#[tokio::test]
async fn queued_job_is_returned_raised_and_forced() {
    for db in stores().await {
        let server = Server::over(db).await;
        let session = server.session().await;
        let job = server.bulk(session).await;
        assert_eq!(server.queued(session).await, job);
        let raised = server.job(job).await;
        assert_eq!(
            (raised.priority, raised.force_rescore),
            (Priority::Interactive, false)
        );
        assert_eq!(server.queue.next().await.priority, Priority::Interactive);
        let forced = json_of(server.force(session).await, 202).await;
        assert_eq!(job_id(&forced), job);
        assert!(server.job(job).await.force_rescore);
    }
}

#[tokio::test]
async fn active_jobs_are_returned_but_force_on_running_is_409() {
    for db in stores().await {
        let server = Server::over(db).await;
        let waiting = server.queued_session().await;
        server.make_wait(waiting.1).await;
        let running = server.queued_session().await;
        server.claim(running.1).await;
        for ((session, job), state) in [(waiting, "waiting"), (running, "running")] {
            let body = json_of(server.ask(session).await, 202).await;
            assert_eq!((job_id(&body), body["state"].as_str()), (job, Some(state)));
        }
        let (session, job) = running;
        let body = problem_of(server.force(session).await, 409, "scoring-in-progress").await;
        assert_eq!(body["job"]["links"]["self"], format!("/api/v1/jobs/{job}"));
    }
}

#[tokio::test]
async fn waiting_client_gets_the_score() {
    for db in stores().await {
        let server = Server::over(db).await;
        let session = server.session().await;
        let asked = server.request_score_with_prefer(session, "wait=3600");
        let work = async {
            let job = server.queue.next().await.id;
            server.succeed(job, 81).await
        };
        let (response, score_id) = tokio::join!(asked, work);
        assert_eq!(applied(&response).as_deref(), Some("wait=60"));
        let body = json_of(response, 200).await;
        assert_eq!(body["score_id"], json!(score_id));
        assert_eq!(body["rating"], "good");
    }
}

#[tokio::test]
async fn waiting_client_gets_the_judge_failure() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let asked = server.request_score_with_prefer(session, "wait=30");
    let work = async {
        let job = server.queue.next().await.id;
        server.fail(job).await;
        job
    };
    let (response, job) = tokio::join!(asked, work);
    assert_eq!(applied(&response).as_deref(), Some("wait=30"));
    let body = problem_of(response, 502, "judge-failed").await;
    assert_eq!(body["class"], "unparsable");
    assert_eq!(body["detail"], "the reply was not what the schema asks for");
    assert!(
        body["remedy"].as_str().unwrap().contains("raw reply"),
        "{body}"
    );
    assert_eq!(body["job"]["job_id"], json!(job));
    assert_eq!(
        body["job"]["links"]["retry"],
        format!("/api/v1/jobs/{job}/retry")
    );
}

#[tokio::test]
async fn waiting_client_gets_the_cancellation() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let asked = server.request_score_with_prefer(session, "wait=30");
    let work = async {
        let job = server.queue.next().await.id;
        server
            .post(&format!("/api/v1/jobs/{job}/cancel"))
            .send()
            .await
            .unwrap()
    };
    let (response, cancelled) = tokio::join!(asked, work);
    assert_eq!(cancelled.status(), OK);
    problem_of(response, 409, "job-cancelled").await;
}

#[tokio::test]
async fn wait_that_times_out_or_is_stopped_is_202() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    for wait in ["wait=0", "wait=1"] {
        let response = server.request_score_with_prefer(session, wait).await;
        assert_eq!(applied(&response).as_deref(), Some(wait));
        json_of(response, 202).await;
    }
    server.health.draining.store(true, Ordering::Relaxed);
    json_of(
        server.request_score_with_prefer(session, "wait=60").await,
        202,
    )
    .await;
}

#[tokio::test]
async fn disabled_scoring_is_503_and_scores_stay_readable() {
    let server = Server::with(Setup::default()).await;
    let (session, _) = server.scored(50).await;
    let mut off = criteria("judge-a", "Judge it.");
    off["scoring"]["enabled"] = json!(false);
    server
        .enqueue
        .set_current_criteria(Arc::new(Criteria::from_value(&off).unwrap()));
    problem_of(server.ask(session).await, 503, "scoring-disabled").await;
    let score = server.json_of(&score_path(session)).await;
    assert_eq!(score["is_current_criteria"], true);
}

#[tokio::test]
async fn judge_without_a_key_is_503_with_the_remedy() {
    let setup = Setup {
        criteria: criteria("no-key", "Judge it."),
        ..Setup::default()
    };
    let server = Server::with(setup).await;
    let session = server.session().await;
    let body = problem_of(server.ask(session).await, 503, "judge-not-configured").await;
    let remedy = body["remedy"].to_string();
    assert!(
        remedy.contains("set its key in llm_providers.yaml"),
        "{remedy}"
    );
}

#[tokio::test]
async fn unavailable_database_is_503_with_retry_after() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    server.store().close().await;
    let response = server.ask(session).await;
    assert_eq!(header(&response, "retry-after").as_deref(), Some("5"));
    let body = problem_of(response, 503, "database-unavailable").await;
    assert_eq!(body["retry_after_s"], 5);
    assert!(!body.to_string().contains("sqlite"), "{body}");
}
