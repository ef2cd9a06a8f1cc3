//! Anthropic's wire format: calls in one request, results in one file.

use super::*;

fn message(content: &str, body: &Value) -> Value {
    json!({
        "id": "msg_test", "type": "message", "role": "assistant", "model": body["model"],
        "content": [{ "type": "text", "text": content }], "stop_reason": "end_turn",
        "usage": { "input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT },
    })
}

fn end(fate: &Fate, body: &Value) -> Value {
    let succeeded =
        |content: &str| json!({ "type": "succeeded", "message": message(content, body) });
    match fate {
        Fate::Score(total) => succeeded(&good_reply(*total, body).to_string()),
        Fate::Content(text) => succeeded(text),
        Fate::Errored(status) => json!({ "type": "errored", "error": {
            "type": "error", "error": { "type": kind_of(*status), "message": "no" } } }),
        Fate::Expired | Fate::Missing | Fate::Rubbish => json!({ "type": "expired" }),
    }
}

pub(super) async fn answer(
    State(shared): State<Shared>,
    body: axum::Json<Value>,
) -> Response<Body> {
    let fate = shared.asked(&body.0);
    match (&fate, end(&fate, &body.0)) {
        (Fate::Score(_) | Fate::Content(_), end) => respond(200, end["message"].to_string()),
        (Fate::Errored(status), _) => fault(*status, "no"),
        (Fate::Expired | Fate::Missing | Fate::Rubbish, _) => fault(529, "it has no answer"),
    }
}

pub(super) async fn create(
    State(shared): State<Shared>,
    headers: HeaderMap,
    wanted: axum::Json<Value>,
) -> Response<Body> {
    if !headers.contains_key("anthropic-version") {
        return fault(400, "anthropic-version is missing");
    }
    let calls = wanted["requests"].as_array().cloned().unwrap_or_default();
    let calls = calls.into_iter().map(|call| {
        let id = call["custom_id"].as_str().unwrap().to_owned();
        (id, call["params"].clone())
    });
    match checked(calls.collect()) {
        Ok(calls) => {
            let mut inner = shared.lock();
            let held = inner.take(None, calls);
            respond(200, view(&held, None).to_string())
        }
        Err(what) => fault(400, &what),
    }
}

fn view(batch: &StoredBatch, results_at: Option<&str>) -> Value {
    let ended = batch.status != Status::Runs;
    json!({
        "id": batch.id, "type": "message_batch",
        "processing_status": if ended { "ended" } else { "in_progress" },
        "request_counts": {
            "processing": if ended { 0 } else { batch.calls.len() },
            "succeeded": if ended { batch.calls.len() } else { 0 },
            "errored": 0, "canceled": 0, "expired": 0,
        },
        "results_url": results_at,
    })
}

pub(super) async fn look(State(shared): State<Shared>, Path(id): Path<String>) -> Response<Body> {
    let mut inner = shared.lock();
    let results_at = inner.results_at.clone();
    let found = inner.of(&id);
    shown(found.map(|batch| view(batch, results_at.as_deref())))
}

pub(super) async fn cancel(State(shared): State<Shared>, Path(id): Path<String>) -> Response<Body> {
    let cancelled = shared.lock().cancel(&id);
    shown(cancelled.map(|batch| view(&batch, None)))
}

pub(super) async fn results(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Response<Body> {
    let mut inner = shared.lock();
    let rule = inner.rule.clone();
    let Some(batch) = inner.of(&id).cloned() else {
        return fault(404, "no such batch");
    };
    let mut lines = Vec::new();
    for (id, body) in batch.calls.iter().rev() {
        let fate = match batch.status {
            Status::Cancelled => Fate::Expired,
            Status::Runs | Status::Ended | Status::Refused(_) => rule(body),
        };
        match fate {
            Fate::Missing => {}
            Fate::Rubbish => lines.push("{\"custom_id\": ".to_owned()),
            Fate::Score(_) | Fate::Content(_) | Fate::Errored(_) | Fate::Expired => {
                let result = end(&fate, body);
                lines.push(json!({ "custom_id": id, "result": result }).to_string());
            }
        }
    }
    inner.send(lines)
}
