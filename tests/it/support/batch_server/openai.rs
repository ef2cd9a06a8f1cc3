//! OpenAI's wire format: an input file, a batch of the file, and files of results and errors.

use super::*;

fn completion(content: &str, body: &Value) -> Value {
    json!({
        "id": "chatcmpl-test", "object": "chat.completion", "model": body["model"],
        "choices": [{ "index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": content } }],
        "usage": { "prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT },
    })
}

/// Status and body of one call; `None` without a result.
fn end(fate: &Fate, body: &Value) -> Option<(u16, Value)> {
    match fate {
        Fate::Score(total) => {
            let reply = good_reply(*total, body).to_string();
            Some((200, completion(&reply, body)))
        }
        Fate::Content(text) => Some((200, completion(text, body))),
        Fate::Errored(status) => {
            let error = json!({ "error": { "message": "no", "code": "server_says_so" } });
            Some((*status, error))
        }
        Fate::Expired | Fate::Missing | Fate::Rubbish => None,
    }
}

pub(super) async fn complete(
    State(shared): State<Shared>,
    body: axum::Json<Value>,
) -> Response<Body> {
    let fate = shared.asked(&body.0);
    match end(&fate, &body.0) {
        Some((status, body)) => respond(status, body.to_string()),
        None => fault(503, "it has no answer"),
    }
}

pub(super) async fn upload(
    State(shared): State<Shared>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let kind = headers["content-type"].to_str().unwrap();
    let Some(boundary) = kind.strip_prefix("multipart/form-data; boundary=") else {
        return fault(400, "a file comes as multipart/form-data");
    };
    let text = String::from_utf8(body.to_vec()).unwrap();
    let mut fields = BTreeMap::new();
    let fence = format!("--{boundary}");
    for piece in text.split(fence.as_str()) {
        let Some((head, content)) = piece.split_once("\r\n\r\n") else {
            continue;
        };
        let name = head.split("name=\"").nth(1).unwrap().split('"').next();
        let content = content.strip_suffix("\r\n").unwrap();
        fields.insert(name.unwrap().to_owned(), content.to_owned());
    }
    if !text.ends_with(&format!("{fence}--\r\n")) {
        return fault(400, "the form has no end");
    }
    if fields.get("purpose").map(String::as_str) != Some("batch") {
        return fault(400, "purpose must be batch");
    }
    let Some(file) = fields.remove("file") else {
        return fault(400, "file is missing");
    };
    let mut inner = shared.lock();
    let id = format!("file-{}", inner.files.len());
    inner.files.insert(id.clone(), file.into_bytes());
    respond(
        200,
        json!({ "id": id, "object": "file", "purpose": "batch" }).to_string(),
    )
}

pub(super) async fn create(
    State(shared): State<Shared>,
    wanted: axum::Json<Value>,
) -> Response<Body> {
    let mut inner = shared.lock();
    if wanted["completion_window"] != "24h" || wanted["endpoint"] != "/v1/chat/completions" {
        return fault(400, "no such window or endpoint");
    }
    let file = wanted["input_file_id"].as_str().unwrap_or_default();
    let Some(file) = inner.files.get(file) else {
        return fault(400, "no such file");
    };
    let text = String::from_utf8(file.clone()).unwrap();
    let calls = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["method"], &line["url"]),
            (&json!("POST"), &wanted["endpoint"])
        );
        (
            line["custom_id"].as_str().unwrap().to_owned(),
            line["body"].clone(),
        )
    });
    match checked(calls.collect()) {
        Ok(calls) => {
            let tag = wanted["metadata"]["gavel"].as_str().map(str::to_owned);
            let held = inner.take(tag, calls);
            respond(200, view(&held).to_string())
        }
        Err(what) => fault(400, &what),
    }
}

fn view(batch: &StoredBatch) -> Value {
    let (status, answers) = match batch.status {
        Status::Runs => ("in_progress", false),
        Status::Ended => ("completed", true),
        Status::Cancelled => ("cancelled", true),
        Status::Refused(_) => ("failed", false),
    };
    let file = |kind: &str| answers.then(|| format!("{kind}-{}", batch.id));
    let refused = match batch.status {
        Status::Refused(code) => Some(json!({
            "object": "list", "data": [{ "code": code, "message": "line 1 is odd" }],
        })),
        Status::Runs | Status::Ended | Status::Cancelled => None,
    };
    json!({
        "id": batch.id, "object": "batch", "status": status, "endpoint": "/v1/chat/completions",
        "output_file_id": file("output"), "error_file_id": file("error"), "errors": refused,
        "request_counts": { "total": batch.calls.len(), "completed": 0, "failed": 0 },
        "metadata": { "gavel": batch.tag },
    })
}

pub(super) async fn look(State(shared): State<Shared>, Path(id): Path<String>) -> Response<Body> {
    shown(shared.lock().of(&id).map(|batch| view(batch)))
}

/// Pages of two, newest first, whatever the limit.
pub(super) async fn list(
    State(shared): State<Shared>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response<Body> {
    let inner = shared.lock();
    let newest_first = inner.batches.iter().rev();
    let mut left: Vec<&StoredBatch> = newest_first.collect();
    if let Some(after) = query.get("after") {
        let at = left.iter().position(|batch| batch.id == *after).unwrap();
        left.drain(..=at);
    }
    let page: Vec<Value> = left.iter().take(2).map(|batch| view(batch)).collect();
    let list = json!({ "object": "list", "data": page, "has_more": left.len() > 2 });
    respond(200, list.to_string())
}

pub(super) async fn cancel(State(shared): State<Shared>, Path(id): Path<String>) -> Response<Body> {
    let cancelled = shared.lock().cancel(&id);
    shown(cancelled.map(|batch| view(&batch)))
}

pub(super) async fn content(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Response<Body> {
    let mut inner = shared.lock();
    let rule = inner.rule.clone();
    let Some((kind, batch)) = id.split_once('-') else {
        return fault(404, "no such file");
    };
    let Some(batch) = inner.of(batch).cloned() else {
        return fault(404, "no such file");
    };
    let mut lines = Vec::new();
    for (id, body) in batch.calls.iter().rev() {
        let mut fate = rule(body);
        if batch.status == Status::Cancelled {
            fate = Fate::Expired;
        }
        let good = matches!(fate, Fate::Score(_) | Fate::Content(_) | Fate::Rubbish);
        if good != (kind == "output") || matches!(fate, Fate::Missing) {
            continue;
        }
        if matches!(fate, Fate::Rubbish) {
            lines.push("{\"custom_id\": ".to_owned());
            continue;
        }
        let line = match end(&fate, body) {
            Some((status, body)) => json!({
                "id": "batch_req_1", "custom_id": id, "error": null,
                "response": { "status_code": status, "request_id": "r", "body": body },
            }),
            None => json!({
                "id": "batch_req_1", "custom_id": id, "response": null,
                "error": { "code": "batch_expired", "message": "its time was over" },
            }),
        };
        lines.push(line.to_string());
    }
    inner.send(lines)
}
