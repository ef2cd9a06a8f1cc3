//! Batches over HTTP: file formats, validation errors and actions.

use super::auth::guarded;
use super::*;

const PATH: &str = "/api/v1/batches";

fn queries(n: usize) -> Value {
    (0..n)
        .map(|n| json!({"id": format!("q{n}"), "generated_kql": "T | take 1", "expected_kql": "T | take 1"}))
        .collect()
}

impl Server {
    async fn post_batch(
        &self,
        media_type: &str,
        query: &str,
        body: impl Into<Vec<u8>>,
    ) -> Response {
        self.post(&format!("{PATH}{query}"))
            .header("Content-Type", media_type)
            .body(body.into())
            .send()
            .await
            .unwrap()
    }

    async fn json_batch(&self, body: &Value) -> Response {
        self.post_batch("application/json", "", body.to_string())
            .await
    }

    pub(super) async fn batch_of(&self, body: &Value) -> Value {
        json_of(self.json_batch(body).await, 202).await
    }

    pub(super) async fn jobs_of(&self, batch: &Value) -> Value {
        let path = batch["links"]["jobs"].as_str().unwrap();
        self.json_of(path).await
    }

    /// Starts a batch of queries without a worker.
    pub(super) async fn batch(&self, items: usize) -> Value {
        let body = json!({"kind": "query", "name": "nightly", "items": queries(items)});
        self.batch_of(&body).await
    }
}

fn this(batch: &Value) -> String {
    batch["links"]["self"].as_str().unwrap().to_owned()
}

fn workbook() -> Vec<u8> {
    let mut workbook = rust_xlsxwriter::Workbook::new();
    let sheet = workbook.add_worksheet();
    for (column, name) in ["id", "generated_kql", "expected_kql"]
        .into_iter()
        .enumerate()
    {
        sheet.write(0, column as u16, name).unwrap();
    }
    for row in 1..=2 {
        sheet.write(row, 0, row).unwrap();
        sheet.write(row, 1, "T").unwrap();
        sheet.write(row, 2, "T").unwrap();
    }
    workbook.save_to_buffer().unwrap()
}

#[tokio::test]
async fn every_file_format_creates_a_batch() {
    for db in crate::support::stores().await {
        let server = Server::over(db).await;
        let json = json!({"name": "nightly", "items": queries(2), "kind": "query"}).to_string();
        let lines = "{\"id\":\"a\",\"generated_kql\":\"T\",\"expected_kql\":\"T\"}\n\n{\"id\":\"b\",\"generated_kql\":\"T\",\"expected_kql\":\"T\"}\n";
        let csv = "id,generated_kql,expected_kql\na,\"T | where a, b\",T\nb,T,T\n";
        let query = "?kind=query&name=nightly";
        for (media_type, query, body) in [
            ("application/json", "", json.into_bytes()),
            ("application/x-ndjson", query, lines.into()),
            ("text/csv; charset=utf-8", query, csv.into()),
            (
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
                query,
                workbook(),
            ),
        ] {
            let made = server.post_batch(media_type, query, body).await;
            let location = header(&made, "location").unwrap();
            let batch = json_of(made, 202).await;
            assert_eq!(batch["state"], "running", "{media_type}");
            assert_eq!(batch["counts"]["total"], 2);
            assert_eq!(batch["counts"]["queued"], 2);
            assert_eq!(
                (&batch["name"], &batch["kind"]),
                (&json!("nightly"), &json!("query"))
            );
            assert_eq!(batch["verdict"], Value::Null);
            assert_eq!(location, this(&batch));
            let jobs = server.jobs_of(&batch).await;
            let jobs = jobs["items"].as_array().unwrap();
            let places: Vec<&Value> = jobs.iter().map(|job| &job["item_no"]).collect();
            assert_eq!(places, [&json!(1), &json!(0)]);
            assert!(jobs.iter().all(|job| job["batch_id"] == batch["batch_id"]));
            assert!(jobs.iter().all(|job| job["priority"] == "bulk"));
        }
        let listed = server
            .json_of(&format!("{PATH}?kind=query&state=running&limit=3"))
            .await;
        assert_eq!(listed["items"].as_array().unwrap().len(), 3);
        let cursor = listed["next_cursor"].as_str().unwrap();
        let rest = server.json_of(&format!("{PATH}?cursor={cursor}")).await;
        assert_eq!(rest["items"].as_array().unwrap().len(), 1);
        assert_eq!(rest["next_cursor"], Value::Null);
    }
}

#[tokio::test]
async fn invalid_batch_is_rejected_with_row_and_column() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let running = server
        .session_with(json!({"status": "in_progress", "completed_at": null}))
        .await;
    let gone = Uuid::now_v7();
    let busy = server.session().await;
    server.queued(busy).await;
    let csv = format!(
        "session_id,force_rescore\n{session},true\nx,\n{running},\n{gone},\n{session},\n{busy},maybe\n"
    );
    let refused = server.post_batch("text/csv", "?kind=session", csv).await;
    let problem = problem_of(refused, 422, "invalid-request").await;
    assert_eq!(
        pointers(&problem),
        [
            "/rows/3/session_id",
            "/rows/4/session_id",
            "/rows/5/session_id",
            "/rows/6/session_id",
            "/rows/7/force_rescore",
        ],
        "{problem:#}"
    );
    let message = problem["errors"][2]["message"].as_str().unwrap();
    assert!(
        message.starts_with("row 5, column session_id: ") && message.contains("not stored"),
        "{message}"
    );

    let items = json!({"kind": "session", "items": [{"session_id": session}, {"session": 1}, 7, {"session_id": busy}]});
    let problem = problem_of(server.json_batch(&items).await, 422, "invalid-request").await;
    assert_eq!(
        pointers(&problem),
        ["/items/1/session", "/items/2", "/items/3/session_id"],
        "{problem:#}"
    );
    let listed = server.json_of(PATH).await;
    assert_eq!(listed["items"], json!([]));
    assert_eq!(
        server.json_of("/api/v1/jobs").await["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    let good =
        json!({"kind": "session", "items": [{"session_id": session, "force_rescore": true}]});
    let batch = server.batch_of(&good).await;
    let jobs = server.jobs_of(&batch).await;
    assert_eq!(jobs["items"][0]["subject_id"], json!(session));
    assert_eq!(jobs["items"][0]["force_rescore"], true);
}

#[tokio::test]
async fn only_the_first_20_errors_are_listed() {
    let server = Server::with(Setup::default()).await;
    let items: Value = (0..600).map(|n| json!({ "n": n })).collect();
    let refused = server
        .json_batch(&json!({"kind": "session", "items": items}))
        .await;
    let problem = problem_of(refused, 422, "invalid-request").await;
    assert_eq!(pointers(&problem).len(), 20);
    assert_eq!(pointers(&problem)[0], "/items/0/n");
    assert_eq!(problem["detail"], "showing the first 20 errors; see errors");
}

#[tokio::test]
async fn duplicate_case_name_is_rejected_with_the_second_row() {
    let server = Server::with(Setup::default()).await;
    let case = |id: Value| json!({"id": id, "generated_kql": "T", "expected_kql": "T"});
    let items = json!([
        case(json!("7")),
        case(json!("b")),
        case(json!(7)),
        case(Value::Null),
        case(Value::Null)
    ]);
    let body = json!({"kind": "query", "items": items});
    let problem = problem_of(server.json_batch(&body).await, 422, "invalid-request").await;
    assert_eq!(pointers(&problem), ["/items/2/id"], "{problem:#}");
    let message = problem["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("is also the name of row 1"), "{message}");
    assert_eq!(server.json_of(PATH).await["items"], json!([]));
}

#[tokio::test]
async fn batch_options_are_validated_by_name() {
    let server = Server::with(Setup::default()).await;
    for (body, pointer) in [
        (json!({"items": []}), ""),
        (json!({"kind": "query", "items": []}), ""),
        (json!({"kind": "query"}), ""),
        (json!([{"kind": "query"}]), "/items"),
        (json!({"kind": "query", "questions": [{}]}), "/items"),
        (json!({"kind": "poetry", "items": [{}]}), "/kind"),
        (json!({"kind": "query", "nam": "x", "items": [{}]}), "/nam"),
        (json!({"kind": "query", "name": "", "items": [{}]}), "/name"),
        (
            json!({"kind": "query", "threshold": 1.5, "items": queries(1)}),
            "/threshold",
        ),
        (
            json!({"kind": "sql_metrics", "threshold": 0.5, "items": [{}]}),
            "/threshold",
        ),
        (
            json!({"kind": "query", "budget_usd": -5, "items": queries(1)}),
            "/budget_usd",
        ),
        (
            json!({"kind": "query", "criteria_hash": "0", "items": queries(1)}),
            "/criteria_hash",
        ),
    ] {
        let refused = server.json_batch(&body).await;
        let problem = problem_of(refused, 422, "invalid-request").await;
        assert_eq!(pointers(&problem), [pointer], "{body}");
    }
    for (query, pointer) in [
        ("", "/kind"),
        ("?kind=poetry", "/kind"),
        ("?kind=query&threshold=x", "/threshold"),
        ("?kind=query&colour=red", "/colour"),
    ] {
        let refused = server.post_batch("application/x-ndjson", query, "{}").await;
        let problem = problem_of(refused, 422, "invalid-request").await;
        assert_eq!(pointers(&problem), [pointer], "{query}");
    }
    let refused = server.post_batch("text/plain", "?kind=query", "x").await;
    let types = header(&refused, "accept-post").unwrap();
    assert!(
        types.contains("text/csv") && types.contains("x-ndjson"),
        "{types}"
    );
    problem_of(refused, 415, "unsupported-media-type").await;
}

#[tokio::test]
async fn json_batch_options_are_read_from_the_body() {
    let server = Server::with(Setup::default()).await;
    let body = json!({"kind": "query", "items": queries(1)}).to_string();
    let refused = server
        .post_batch(
            "application/json",
            "?kind=query&priority=bulk&colour=red",
            body,
        )
        .await;
    let problem = problem_of(refused, 422, "invalid-request").await;
    let faults = problem["errors"].as_array().unwrap();
    let told: Vec<&str> = faults
        .iter()
        .map(|fault| fault["pointer"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["/kind", "/priority", "/colour"]);
    let said = faults[0]["message"].as_str().unwrap();
    assert!(said.contains("belongs in the JSON body"), "{said}");
}

#[tokio::test]
async fn question_file_of_the_cli_gets_a_hint_about_field_names() {
    let server = Server::with(Setup::default()).await;
    let body = json!({"kind": "qas", "items": [{"id": "a", "agent": "sql"}]});
    let refused = server.json_batch(&body).await;
    let problem = problem_of(refused, 422, "invalid-request").await;
    let text = problem["errors"].to_string();
    for said in ["did you mean test_id?", "did you mean agent_used?"] {
        assert!(text.contains(said), "{text}");
    }
}

#[tokio::test]
async fn batch_body_limit_is_larger_but_finite() {
    let mut setup = Setup::default();
    setup.http.max_body_bytes = 2_000;
    setup.http.max_batch_bytes = 50_000;
    let server = Server::with(setup).await;
    let mut query = queries(1)[0].clone();
    query.as_object_mut().unwrap().remove("id");
    let line = format!("{query}\n");
    let large = line.repeat(20_000 / line.len());
    assert!(large.len() > 4_000);
    for key in [None, Some("large")] {
        let mut request = server
            .post(&format!("{PATH}?kind=query"))
            .header("Content-Type", "application/x-ndjson")
            .body(large.clone());
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        json_of(request.send().await.unwrap(), 202).await;
    }
    let refused = server
        .post_batch("application/x-ndjson", "?kind=query", line.repeat(1_000))
        .await;
    let problem = problem_of(refused, 413, "payload-too-large").await;
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("http.max_batch_bytes")
    );
}

#[tokio::test]
async fn same_key_creates_one_batch() {
    for db in crate::support::stores().await {
        let server = Server::over(db).await;
        let body = json!({"kind": "query", "items": queries(3)});
        let send = |body: &Value| {
            let request = server
                .post(PATH)
                .header("Idempotency-Key", "one")
                .json(body);
            async move { request.send().await.unwrap() }
        };
        let first = send(&body).await;
        assert_eq!(header(&first, "idempotency-replayed"), None);
        let first = json_of(first, 202).await;
        let second = send(&body).await;
        assert_eq!(
            header(&second, "idempotency-replayed").as_deref(),
            Some("true")
        );
        assert_eq!(header(&second, "location").unwrap(), this(&first));
        assert_eq!(json_of(second, 202).await, first);
        let other = json!({"kind": "query", "items": queries(4)});
        problem_of(send(&other).await, 422, "idempotency-key-reused").await;
        let listed = server.json_of(PATH).await;
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn batch_is_paused_resumed_and_cancelled_with_its_state() {
    let server = Server::with(Setup::default()).await;
    let batch = server.batch(2).await;
    let at = this(&batch);
    let verb = |verb: &str| {
        let request = server.post(&format!("{at}/{verb}"));
        async move { request.send().await.unwrap() }
    };
    assert_eq!(json_of(verb("resume").await, 200).await["state"], "running");
    let paused = json_of(verb("pause").await, 200).await;
    assert_eq!(paused["state"], "paused");
    assert_eq!(paused["links"]["resume"], format!("{at}/resume"));
    let jobs = server.jobs_of(&batch).await;
    assert_eq!(jobs["items"][0]["wait"]["reason"], "paused");
    json_of(verb("pause").await, 200).await;
    assert_eq!(json_of(verb("resume").await, 200).await["state"], "running");
    let none = json_of(verb("retry-errors").await, 200).await;
    assert_eq!(
        (&none["queued_again"], &none["batch"]["state"]),
        (&json!(0), &json!("running"))
    );
    let cancelled = json_of(verb("cancel").await, 200).await;
    assert_eq!(cancelled["state"], "cancelled");
    assert_eq!(cancelled["counts"]["cancelled"], 2);
    json_of(verb("cancel").await, 200).await;
    for refused in ["pause", "resume", "retry-errors"] {
        let problem = problem_of(verb(refused).await, 409, "batch-state").await;
        assert!(problem["detail"].as_str().unwrap().contains("is cancelled"));
    }
    let first = server.get(&at).send().await.unwrap();
    let tag = header(&first, "etag").unwrap();
    let again = server
        .get(&at)
        .header("If-None-Match", tag)
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 304);
    let unknown = format!("{PATH}/{}", Uuid::now_v7());
    problem_of(
        server.get(&unknown).send().await.unwrap(),
        404,
        "batch-not-found",
    )
    .await;
    let unknown = server
        .post(&format!("{unknown}/pause"))
        .send()
        .await
        .unwrap();
    problem_of(unknown, 404, "batch-not-found").await;
    problem_of(
        server.get(&format!("{PATH}/x")).send().await.unwrap(),
        422,
        "invalid-request",
    )
    .await;
}

#[tokio::test]
async fn batch_is_completed_on_read_after_its_last_item_ends() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let body = json!({"kind": "session", "items": [{"session_id": session}]});
    let batch = server.batch_of(&body).await;
    let jobs = server.jobs_of(&batch).await;
    let id = job_id(&jobs["items"][0]);
    server.fail(id).await;
    let completed = server.json_of(&this(&batch)).await;
    assert_eq!(completed["state"], "completed");
    assert_eq!(completed["counts"]["failed"], 1);
    assert_eq!(completed["cost_usd"], 0.25);
    let retry = completed["links"]["retry_errors"].as_str().unwrap();
    let again = server.posted(retry, 200).await;
    assert_eq!(
        (&again["queued_again"], &again["batch"]["state"]),
        (&json!(1), &json!("running"))
    );
    server.succeed(id, 80).await;
    let completed = server.json_of(&this(&batch)).await;
    assert_eq!(
        (&completed["state"], &completed["counts"]["succeeded"]),
        (&json!("completed"), &json!(1))
    );
}

#[tokio::test]
async fn batch_needs_enqueue_scope_and_a_judge() {
    let server = Server::with(guarded()).await;
    let body = json!({"kind": "query", "items": queries(1)});
    let sent = |token: &str| server.post(PATH).bearer_auth(token).json(&body).send();
    problem_of(sent("r-token-of-a-test").await.unwrap(), 403, "forbidden").await;
    json_of(sent("e-token-of-a-test").await.unwrap(), 202).await;

    let server = Server::with(Setup {
        criteria: criteria("no-key", "Judge it."),
        ..Setup::default()
    })
    .await;
    let session = server.session().await;
    let body = json!({"kind": "session", "items": [{"session_id": session}]});
    problem_of(server.json_batch(&body).await, 503, "judge-not-configured").await;
}

#[tokio::test]
async fn session_file_columns_match_those_listed_in_errors() {
    let server = Server::with(Setup::default()).await;
    let session = server.session().await;
    let send = |text: String| {
        let path = format!("{PATH}?kind=session");
        let sent = server.post(&path).header("content-type", "text/csv");
        sent.body(text).send()
    };
    let wrong = send(format!("session_id,zzz\n{session},1\n"))
        .await
        .unwrap();
    let problem = problem_of(wrong, 422, "invalid-request").await;
    let said = problem["errors"][0]["message"].as_str().unwrap();
    assert!(
        said.ends_with("there are [session_id, force_rescore]"),
        "{said}"
    );
    let right = format!("session_id,force_rescore\n{session},true\n");
    json_of(send(right).await.unwrap(), 202).await;
}
