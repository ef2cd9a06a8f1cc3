//! Files of sessions, in our format and in others. A file is stored completely or not at all.

use super::*;
use crate::support::stores;

const PATH: &str = "/api/v1/sessions";

fn conversation(id: &str) -> Value {
    json!({"id": id, "messages": [
        {"role": "user", "content": "Why does cart-7d9f restart?"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "logs", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "OOMKilled"},
        {"role": "assistant", "content": "It runs out of memory."},
    ]})
}

async fn posted(server: &Server, path: &str, media_type: &str, file: String) -> Response {
    let request = server.post(path).header("content-type", media_type);
    request.body(file).send().await.unwrap()
}

async fn count(server: &Server) -> usize {
    server.json_of(PATH).await["items"]
        .as_array()
        .unwrap()
        .len()
}

#[tokio::test]
async fn sessions_of_a_file_are_stored_under_generated_ids() {
    for db in stores().await {
        let server = Server::over(db).await;
        let lines = format!("{}\n{}\n", conversation("run 1"), conversation("run 2"));
        for (n, outcome) in ["new", "unchanged"].into_iter().enumerate() {
            let posted = posted(&server, PATH, "application/x-ndjson", lines.clone()).await;
            let put = json_of(posted, 200).await;
            let items = put["items"].as_array().unwrap();
            assert_eq!(items.len(), 2, "{n}");
            for item in items {
                let id = item["external_id"].as_str().unwrap();
                assert!(id.starts_with("run "), "{id}");
                assert_eq!(
                    (&item["outcome"], &item["messages"]),
                    (&json!(outcome), &json!(2))
                );
            }
        }
        let mut changed = conversation("run 2");
        changed["agent"] = json!("kubernetes");
        let path = format!("{PATH}?format=messages");
        let put = posted(&server, &path, "application/json", changed.to_string());
        let put = json_of(put.await, 200).await;
        assert_eq!(put["items"][0]["outcome"], "updated");
        let this = put["items"][0]["links"]["self"].as_str().unwrap();
        let session = server.json_of(this).await;
        assert_eq!(session["external_id"], "run 2");
        assert_eq!(session["alert_data"], "Why does cart-7d9f restart?");
        assert_eq!(session["final_analysis"], "It runs out of memory.");
        assert_eq!(session["conversation"][1]["tool_name"], "logs");
        assert_eq!(count(&server).await, 2);
    }
}

#[tokio::test]
async fn file_with_one_error_is_not_stored() {
    let server = Server::with(Setup::default()).await;
    let bad = json!({"id": "run 2", "messages": [{"content": "?"}]});
    let lines = format!("{}\n{bad}\n", conversation("run 1"));
    let refused = posted(&server, PATH, "application/x-ndjson", lines).await;
    let problem = problem_of(refused, 422, "invalid-request").await;
    assert_eq!(problem["errors"][0]["pointer"], "/messages/0");
    let message = problem["errors"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("line 2: is no message; an object with a role"),
        "{message}"
    );
    for (path, media_type, status, kind) in [
        (PATH, "text/csv", 415, "unsupported-media-type"),
        (PATH, "application/json", 422, "invalid-request"),
        (
            "/api/v1/sessions?format=tea",
            "application/json",
            422,
            "invalid-request",
        ),
    ] {
        let refused = posted(&server, path, media_type, "[]".to_owned()).await;
        problem_of(refused, status, kind).await;
    }
    assert_eq!(count(&server).await, 0);
}

#[tokio::test]
async fn session_is_put_in_a_named_format() {
    let server = Server::with(Setup::default()).await;
    let id = Uuid::now_v7();
    let mut body = conversation("run 1");
    body["format"] = json!("messages");
    let put = server.request(Method::PUT, &format!("{PATH}/{id}"));
    let put = json_of(put.json(&body).send().await.unwrap(), 201).await;
    assert_eq!(put["session_id"], id.to_string());
    let session = server.json_of(&format!("{PATH}/{id}")).await;
    assert_eq!(
        (&session["external_id"], &session["status"]),
        (&json!("run 1"), &json!("completed"))
    );
    body["format"] = json!("mesages");
    let refused = server.request(Method::PUT, &format!("{PATH}/{id}"));
    let problem = problem_of(
        refused.json(&body).send().await.unwrap(),
        422,
        "invalid-request",
    )
    .await;
    assert_eq!(problem["errors"][0]["pointer"], "/format");
}
