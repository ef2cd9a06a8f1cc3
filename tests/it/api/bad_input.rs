//! Responses to each kind of bad input.

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::support::stores;

fn put(server: &Server, body: &Value) -> RequestBuilder {
    let path = format!("/api/v1/sessions/{}", Uuid::now_v7());
    server.request(Method::PUT, &path).json(body)
}

#[tokio::test]
async fn session_is_put_updated_unchanged_and_read_back() {
    for db in stores().await {
        let server = Server::over(db).await;
        let path = format!("/api/v1/sessions/{}", Uuid::now_v7());
        let put = |body: &Value| server.request(Method::PUT, &path).json(body).send();
        let mut session = session_body();
        let response = put(&session).await.unwrap();
        assert_eq!(header(&response, "location").as_ref(), Some(&path));
        let new = json_of(response, 201).await;
        assert_eq!(
            (&new["outcome"], &new["messages"]),
            (&json!("new"), &json!(2))
        );
        let same = json_of(put(&session).await.unwrap(), 200).await;
        assert_eq!(same["outcome"], "unchanged");
        session["agent"] = json!("another");
        let changed = json_of(put(&session).await.unwrap(), 200).await;
        assert_eq!(changed["outcome"], "updated");
        let read = server.json_of(&path).await;
        assert_eq!(read["source"], "api");
        for field in [
            "status",
            "alert_data",
            "conversation",
            "final_analysis",
            "tools",
            "tags",
            "agent",
            "completed_at",
        ] {
            assert_eq!(read[field], session[field], "{field}");
        }
        let nowhere = server.get(&format!("/api/v1/sessions/{}", Uuid::now_v7()));
        problem_of(nowhere.send().await.unwrap(), 404, "session-not-found").await;
    }
}

#[tokio::test]
async fn duplicate_json_field_is_rejected_and_enqueues_no_job() {
    let server = Server::with(Setup::default()).await;
    let twice = r#"{"generated_kql":"T","expected_kql":"T","expected_kql":"U"}"#;
    let job = format!(r#"{{"kind":"query","payload":{twice}}}"#);
    let row = r#"{"generated_kql":"T","expected_kql":"T","generated_results":[[],{"id":102,"name":"Bo","id":1}]}"#;
    let rows = format!(r#"{{"kind":"query","payload":{row}}}"#);
    let batch = format!(r#"{{"kind":"query","items":[{row}]}}"#);
    for (path, body, pointer) in [
        ("/api/score-query", twice, "/expected_kql"),
        ("/api/v1/jobs", &job, "/payload/expected_kql"),
        ("/api/score-query", row, "/generated_results/1/id"),
        ("/api/v1/jobs", &rows, "/payload/generated_results/1/id"),
        ("/api/v1/batches", &batch, "/items/0/generated_results/1/id"),
    ] {
        let asked = server.post(path).header("content-type", "application/json");
        let refused = asked.body(body.to_owned()).send().await.unwrap();
        let problem = problem_of(refused, 422, "invalid-request").await;
        assert_eq!(pointers(&problem), [pointer], "{problem:#}");
        let message = problem["errors"][0]["message"].as_str().unwrap();
        assert!(
            message.contains(" twice in one object: keep one"),
            "{message}"
        );
    }
    assert_eq!(server.json_of("/api/v1/jobs").await["items"], json!([]));
}

#[tokio::test]
async fn putting_a_session_enqueues_no_job() {
    let server = Server::with(Setup::default()).await;
    server.session().await;
    assert_eq!(server.json_of("/api/v1/jobs").await["items"], json!([]));
}

#[tokio::test]
async fn invalid_session_is_422_with_a_pointer_per_error() {
    let server = Server::with(Setup::default()).await;
    let cases = [
        (json!({ "status": "done" }), "/status"),
        (json!({ "status": 7 }), "/status"),
        (json!({ "conversation": "text" }), "/conversation"),
        (
            json!({ "conversation": [{ "role": "user" }] }),
            "/conversation/0",
        ),
        (
            json!({ "conversation": [{ "role": "user", "content": 1 }] }),
            "/conversation/0/content",
        ),
        (json!({ "tags": ["a", 1] }), "/tags/1"),
        (json!({ "completed_at": "yesterday" }), "/completed_at"),
        (json!({ "typo": 1 }), "/typo"),
        (json!({ "session_id": Uuid::now_v7() }), "/session_id"),
    ];
    for (fields, pointer) in cases {
        let mut body = session_body();
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        let problem = problem_of(
            put(&server, &body).send().await.unwrap(),
            422,
            "invalid-request",
        )
        .await;
        assert_eq!(pointers(&problem), [pointer], "{problem}");
    }
    let two = problem_of(
        put(&server, &json!({})).send().await.unwrap(),
        422,
        "invalid-request",
    )
    .await;
    assert!(
        pointers(&two).contains(&"/status") && pointers(&two).contains(&"/alert_data"),
        "{two}"
    );
}

#[tokio::test]
async fn missing_body_deep_json_and_invalid_json_are_422() {
    let server = Server::with(Setup::default()).await;
    let path = format!("/api/v1/sessions/{}", Uuid::now_v7());
    let deep = format!(
        "{{\"alert_data\":{}{}}}",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    for body in ["", "nonsense", "[]", "{\"status\"", &deep] {
        let put = server
            .request(Method::PUT, &path)
            .header("content-type", "application/json");
        let problem = problem_of(
            put.body(body.to_owned()).send().await.unwrap(),
            422,
            "invalid-request",
        )
        .await;
        assert_eq!(pointers(&problem), [""], "{problem}");
    }
    let put = server
        .request(Method::PUT, &path)
        .header("content-type", "application/json");
    let latin1 = put.body(b"{\"status\":\"\xe9\"}".to_vec());
    problem_of(latin1.send().await.unwrap(), 422, "invalid-request").await;
}

#[tokio::test]
async fn body_without_json_content_type_is_415() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    for content_type in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/jsonp"),
    ] {
        let mut asked = server.post(&score_path(session)).body("{}");
        if let Some(content_type) = content_type {
            asked = asked.header("content-type", content_type);
        }
        problem_of(asked.send().await.unwrap(), 415, "unsupported-media-type").await;
    }
    let squeezed = server
        .post(&score_path(session))
        .json(&json!({}))
        .header("content-encoding", "br");
    problem_of(
        squeezed.send().await.unwrap(),
        415,
        "unsupported-media-type",
    )
    .await;
    let session = server.session().await;
    let asked = server.post(&score_path(session)).body("{}");
    let charset = asked.header("content-type", "application/json; charset=utf-8");
    json_of(charset.send().await.unwrap(), 202).await;
}

fn gzipped(text: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(text).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn gzip_body_is_limited_by_its_inflated_size() {
    let mut setup = Setup::default();
    setup.http.max_body_bytes = 2_048;
    let server = Server::with(setup).await;
    let put = async |body: Vec<u8>, key: Option<&str>| {
        let path = format!("/api/v1/sessions/{}", Uuid::now_v7());
        let mut put = server.request(Method::PUT, &path).body(body);
        if let Some(key) = key {
            put = server
                .post("/api/v1/queue/pause")
                .header("Idempotency-Key", key)
                .body(gzipped(&vec![b' '; 64 << 20]));
        }
        let put = put.header("content-type", "application/json");
        put.header("content-encoding", "gzip").send().await.unwrap()
    };
    let stored = put(gzipped(session_body().to_string().as_bytes()), None).await;
    json_of(stored, 201).await;
    let bomb = gzipped(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 100_000);
    problem_of(put(bomb, None).await, 413, "payload-too-large").await;
    problem_of(put(Vec::new(), Some("k")).await, 413, "payload-too-large").await;
    let broken = problem_of(
        put(b"not gzip".to_vec(), None).await,
        422,
        "invalid-request",
    )
    .await;
    assert!(
        broken["detail"].as_str().unwrap().contains("gzip"),
        "{broken}"
    );
}

#[tokio::test]
async fn ten_megabyte_conversation_is_413() {
    let server = Server::with(Setup::default()).await;
    let mut session = session_body();
    session["conversation"][0]["content"] = json!("x".repeat(10 << 20));
    let problem = problem_of(
        put(&server, &session).send().await.unwrap(),
        413,
        "payload-too-large",
    )
    .await;
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("http.max_body_bytes"),
        "{problem}"
    );
    session["conversation"][0]["content"] = json!("x".repeat(5 << 20));
    let problem = problem_of(
        put(&server, &session).send().await.unwrap(),
        422,
        "invalid-request",
    )
    .await;
    assert!(
        pointers(&problem)[0].starts_with("/conversation"),
        "{problem}"
    );
}

#[tokio::test]
async fn body_of_unknown_length_is_limited_while_read() {
    let mut setup = Setup::default();
    setup.http.max_body_bytes = 1_000;
    let server = Server::with(setup).await;
    let pieces = (0..100).map(|_| Ok::<_, std::io::Error>("x".repeat(100)));
    let path = format!("/api/v1/sessions/{}", Uuid::now_v7());
    let response = raw_chunked(&server, &path, pieces.map(Result::unwrap).collect()).await;
    assert!(response.starts_with("HTTP/1.1 413"), "{response}");
}

async fn raw_chunked(server: &Server, path: &str, pieces: Vec<String>) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = server.base.trim_start_matches("http://");
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    for piece in pieces {
        let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
        socket.write_all(chunk.as_bytes()).await.unwrap();
    }
    socket.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn ids_limits_cursors_and_unknown_parameters_are_validated() {
    for db in stores().await {
        let server = Server::over(db).await;
        let cases = [
            ("/api/v1/sessions/42", "/session_id"),
            ("/api/v1/jobs/42", "/job_id"),
            ("/api/v1/sessions?limit=0", "/limit"),
            ("/api/v1/sessions?limit=501", "/limit"),
            ("/api/v1/sessions?limit=ten", "/limit"),
            ("/api/v1/sessions?cursor=nonsense", "/cursor"),
            ("/api/v1/jobs?cursor=%00%ff", "/cursor"),
            ("/api/v1/sessions?colour=red", "/colour"),
            ("/api/v1/sessions?status=done", "/status"),
            ("/api/v1/sessions?scored=maybe", "/scored"),
            ("/api/v1/sessions?rating=superb", "/rating"),
            ("/api/v1/sessions?min_score=101", "/min_score"),
            ("/api/v1/sessions?criteria=old", "/criteria"),
            ("/api/v1/sessions?from=yesterday", "/from"),
            ("/api/v1/sessions?ids=1,2", "/ids"),
            ("/api/v1/sessions?q=a&q=b", "/q"),
            ("/api/v1/jobs?state=done", "/state"),
            ("/api/v1/jobs?kind=poem", "/kind"),
            ("/api/v1/workers?x=1", "/x"),
            ("/api/v1/sessions?q=%00", "/q"),
        ];
        for (path, pointer) in cases {
            let problem = problem_of(
                server.get(path).send().await.unwrap(),
                422,
                "invalid-request",
            )
            .await;
            assert_eq!(pointers(&problem), [pointer], "{path}: {problem}");
        }
        let cursor = server
            .get("/api/v1/scoring/sessions/42/scores")
            .send()
            .await
            .unwrap();
        problem_of(cursor, 422, "invalid-request").await;
    }
}

#[tokio::test]
async fn criteria_are_added_and_read_and_variables_rejected() {
    for db in stores().await {
        let server = Server::over(db).await;
        let add = |body: Value| server.post("/api/v1/scoring/criteria").json(&body).send();
        let other = criteria("judge-b", "Judge it otherwise.");
        let added = json_of(add(other.clone()).await.unwrap(), 201).await;
        assert_eq!(
            keys(&added),
            sorted(["criteria_hash", "is_current", "is_new", "judge", "kind"])
        );
        assert_eq!(
            (&added["is_current"], &added["judge"]),
            (&json!(false), &json!("judge-b"))
        );
        assert_eq!(
            json_of(add(other).await.unwrap(), 200).await["is_new"],
            false
        );
        let hash = added["criteria_hash"].as_str().unwrap();
        let read = server
            .json_of(&format!("/api/v1/scoring/criteria/{hash}"))
            .await;
        assert!(
            read["content"]["judge_prompt"]
                .as_str()
                .unwrap()
                .contains("otherwise"),
            "{read}"
        );
        let list = server.json_of("/api/v1/scoring/criteria").await;
        let listed: Vec<(&str, bool)> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (item["kind"].as_str().unwrap(), item["is_current"] == true))
            .collect();
        let current = Kind::ALL.iter().map(|kind| (kind.as_str(), true));
        let wanted: Vec<(&str, bool)> = current.chain([("session", false)]).collect();
        assert_eq!(
            listed, wanted,
            "the current ones are listed before their first use"
        );
        let current = server.enqueue.current_criteria().hash.0.clone();
        assert!(
            server
                .json_of(&format!("/api/v1/scoring/criteria/{current}"))
                .await["created_at"]
                .is_null()
        );
        server.scored(66).await;
        let used = server
            .json_of(&format!("/api/v1/scoring/criteria/{current}"))
            .await;
        assert_eq!(
            (&used["scores"], &used["mean_total"]),
            (&json!(1), &json!(66.0))
        );
        let nowhere = server.get(&format!("/api/v1/scoring/criteria/{}", "0".repeat(64)));
        problem_of(nowhere.send().await.unwrap(), 404, "criteria-not-found").await;

        let leak = criteria("${SECRET}", "Judge it for ${USER}.");
        let problem = problem_of(add(leak).await.unwrap(), 422, "invalid-request").await;
        let mut found = pointers(&problem);
        found.sort_unstable();
        assert_eq!(found, ["/judge_prompt", "/scoring/llm_provider"]);
        let nul = criteria("judge-b", "Judge\0it.");
        let problem = problem_of(add(nul).await.unwrap(), 422, "invalid-request").await;
        assert_eq!(pointers(&problem), ["/judge_prompt"]);
        let problem = problem_of(
            add(json!({ "scoring": {} })).await.unwrap(),
            422,
            "invalid-request",
        )
        .await;
        assert_eq!(pointers(&problem).len(), 1);
    }
}

#[tokio::test]
async fn error_response_quotes_little_of_bad_input() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let long = "x".repeat(100_000);
    let response = server
        .request(
            Method::POST,
            &format!("/api/v1/scoring/sessions/{session}/score"),
        )
        .json(&json!({ "force_rescore": long }))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 422);
    let body = response.text().await.unwrap();
    assert!(body.contains("/force_rescore"), "{body}");
    assert!(body.len() < 2_000, "{} bytes", body.len());
}

#[tokio::test]
async fn time_out_of_database_range_is_rejected_everywhere() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (session, _) = server.scored(50).await;
        let far = [
            "-9999-01-01T00:00:00Z",
            "%2B10000-01-01T00:00:00Z",
            "0000-06-01T00:00:00Z",
        ];
        for route in [
            "sessions",
            "analytics/missing-tools",
            "analytics/approaches",
            "analytics/distribution",
            "analytics/trend",
            "exports/training",
        ] {
            for (name, time) in far.iter().flat_map(|time| [("from", time), ("to", time)]) {
                let asked = server.get(&format!("/api/v1/{route}?{name}={time}"));
                let problem = problem_of(asked.send().await.unwrap(), 422, "invalid-request").await;
                assert_eq!(pointers(&problem), [format!("/{name}")], "{route} {time}");
            }
            let time = server.get(&format!("/api/v1/{route}?from=soon"));
            let problem = problem_of(time.send().await.unwrap(), 422, "invalid-request").await;
            let said = problem["errors"][0]["message"].as_str().unwrap();
            assert!(said.contains("for example 2026-03-02T10:00:00Z"), "{said}");
        }
        // Filters of sessions take dates too, as the fields of pages have them.
        for (day, found) in [("2020-01-31", 1), ("2999-01-31", 0)] {
            let listed = server
                .json_of(&format!("/api/v1/sessions?from={day}"))
                .await;
            assert_eq!(listed["items"].as_array().unwrap().len(), found, "{day}");
        }
        let rating = format!("/api/v1/sessions/{session}/ratings");
        for time in ["-9999-01-01T00:00:00Z", "0000-06-01T00:00:00Z", "soon"] {
            for (path, body, pointer) in [
                (rating.as_str(), json!({ "total": 5, "at": time }), "/at"),
                (
                    "/api/v1/rescore",
                    json!({ "filter": { "from": time } }),
                    "/filter/from",
                ),
                (
                    "/api/v1/rescore",
                    json!({ "filter": { "to": time } }),
                    "/filter/to",
                ),
            ] {
                let sent = server.post(path).json(&body).send().await.unwrap();
                let problem = problem_of(sent, 422, "invalid-request").await;
                assert_eq!(pointers(&problem), [pointer], "{path} {time}");
            }
        }
        let mut body = session_body();
        body["started_at"] = json!("0000-06-01T00:00:00Z");
        let sent = put(&server, &body).send().await.unwrap();
        let problem = problem_of(sent, 422, "invalid-request").await;
        assert_eq!(pointers(&problem), ["/started_at"]);
        // Cursor that the server never issued.
        let cursor = format!("s{:016x}{}", i64::MAX / 2, Uuid::nil().simple());
        let asked = server.get(&format!("/api/v1/sessions?cursor={cursor}"));
        problem_of(asked.send().await.unwrap(), 422, "invalid-request").await;
    }
}

#[tokio::test]
async fn unknown_value_and_number_out_of_range_list_allowed_ones() {
    let server = Server::with(Setup::default()).await;
    for (query, said) in [
        ("exports/training?min_score=-1", "must be 0-100"),
        ("readyz?verbose=maybe", "must be true or false"),
        ("sessions?max_score=1e2", "must be 0-100"),
        (
            "analytics/costs?by=x",
            "\"x\" is unknown; known: day, judge, model",
        ),
        (
            "analytics/trend?every=x",
            "\"x\" is unknown; known: day, week, month",
        ),
        ("jobs?state=x", "\"x\" is unknown; known: queued"),
    ] {
        let base = if query.starts_with("readyz") {
            ""
        } else {
            "api/v1/"
        };
        let asked = server.get(&format!("/{base}{query}"));
        let problem = problem_of(asked.send().await.unwrap(), 422, "invalid-request").await;
        let message = problem["errors"][0]["message"].as_str().unwrap();
        assert!(message.starts_with(said), "{query}: {message}");
    }
}
