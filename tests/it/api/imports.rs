//! Import requests: scopes and validation. No worker runs the imports.

use super::auth::guarded;
use super::*;

const PATH: &str = "/api/v1/sessions/import";

async fn answer(server: &Server, token: Option<&str>, body: Value) -> Response {
    let mut request = server.post(PATH).json(&body);
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    request.send().await.unwrap()
}

#[tokio::test]
async fn other_address_or_faster_pace_needs_the_scope_admin() {
    let server = Server::with(guarded()).await;
    let elsewhere = json!({"from": "http://169.254.169.254/latest"});
    problem_of(
        answer(&server, Some("r-token-of-a-test"), json!({})).await,
        403,
        "forbidden",
    )
    .await;
    for calm in [
        json!({}),
        json!({"from": "https://TARSY.example.com/", "since": "1d"}),
        json!({"rps": 0.5, "since": "2d"}),
    ] {
        json_of(answer(&server, Some("e-token-of-a-test"), calm).await, 202).await;
    }
    for more in [
        elsewhere.clone(),
        json!({"from": "https://tarsy.example.com:8443"}),
        json!({"rps": 3.0, "since": "3d"}),
        json!({"rps": 0, "since": "4d"}),
    ] {
        problem_of(
            answer(&server, Some("e-token-of-a-test"), more.clone()).await,
            403,
            "forbidden",
        )
        .await;
        json_of(answer(&server, Some("a-token-of-a-test"), more).await, 202).await;
    }
    let listed = server
        .get("/api/v1/sessions/imports")
        .bearer_auth("r-token-of-a-test");
    let listed = json_of(listed.send().await.unwrap(), 200).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 7);
    assert_eq!(listed["items"][6]["started_by"], "ci");
}

#[tokio::test]
async fn invalid_import_request_is_rejected_by_field() {
    let server = Server::with(Setup::default()).await;
    for (body, pointer) in [
        (json!({"from": "tarsy"}), "/from"),
        (json!({"from": "http://user:pass@tarsy"}), "/from"),
        (json!({"status": ["done"]}), "/status"),
        (json!({"since": "yesterday"}), "/since"),
        (
            json!({"since": "2026-02-01", "until": "2026-01-01"}),
            "/since",
        ),
        (json!({"until": "soon"}), "/until"),
        (json!({"rps": -1}), "/rps"),
        (json!({"rps": 1e-19}), "/rps"),
        (json!({"rps": "fast"}), "/rps"),
        (json!({"form": "https://tarsy.example.com"}), "/form"),
    ] {
        let problem = answer(&server, None, body.clone()).await;
        let problem = problem_of(problem, 422, "invalid-request").await;
        assert_eq!(
            problem["errors"][0]["pointer"], pointer,
            "{body}: {problem}"
        );
        assert!(!problem.to_string().contains("user:pass"), "{problem}");
    }
    let id = Uuid::now_v7();
    for (method, path) in [
        (Method::GET, format!("/api/v1/sessions/imports/{id}")),
        (
            Method::POST,
            format!("/api/v1/sessions/imports/{id}/cancel"),
        ),
    ] {
        let gone = server.request(method, &path).send().await.unwrap();
        problem_of(gone, 404, "import-not-found").await;
    }
}

#[tokio::test]
async fn equivalent_requests_are_the_same_import() {
    let server = Server::with(Setup::default()).await;
    let one = json!({"status": ["failed", "completed"], "since": "30d"});
    let first = json_of(answer(&server, None, one).await, 202).await;
    let same = json!({"from": "https://tarsy.example.com", "status": ["completed", "failed", "failed"], "since": " 30d "});
    let again = json_of(answer(&server, None, same).await, 200).await;
    assert_eq!(again["import_id"], first["import_id"]);
    assert_eq!(again["filter"], first["filter"], "the window doesn't move");
    let other = json_of(answer(&server, None, json!({"since": "31d"})).await, 202).await;
    assert_ne!(other["import_id"], first["import_id"]);
    assert_eq!(first["state"], "running");
    assert_eq!(first["filter"]["status"], json!(["completed", "failed"]));
}

#[tokio::test]
async fn import_without_tarsy_names_the_remedy() {
    let setup = Setup {
        tarsy: None,
        ..Setup::default()
    };
    let server = Server::with(setup).await;
    let problem = problem_of(
        answer(&server, None, json!({})).await,
        503,
        "history-not-configured",
    )
    .await;
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("GAVEL_HISTORY_BASE_URL")
    );
    json_of(
        answer(&server, None, json!({"from": "http://tarsy.example.com"})).await,
        202,
    )
    .await;
}

#[tokio::test]
async fn same_request_at_another_pace_changes_the_running_import() {
    let server = Server::with(guarded()).await;
    let begun = json_of(
        answer(&server, Some("e-token-of-a-test"), json!({})).await,
        202,
    )
    .await;
    assert_eq!(begun["rps"], 2.0);
    for (body, rps) in [
        (json!({"rps": 50}), 50.0),
        (json!({}), 50.0),
        (json!({"rps": 0}), 0.0),
    ] {
        let again = json_of(answer(&server, Some("a-token-of-a-test"), body).await, 200).await;
        assert_eq!(
            (&again["import_id"], &again["rps"]),
            (&begun["import_id"], &json!(rps))
        );
    }
    let faster = answer(&server, Some("e-token-of-a-test"), json!({"rps": 50})).await;
    problem_of(faster, 403, "forbidden").await;
}
