//! Whole bodies for tests of those who read them; `change` replaces fields at the top.

use serde_json::{Value, json};

const ID: &str = "01938c4e-7a10-7c3e-9b41-2f6d8e0a1c01";
const AT: &str = "2026-11-23T11:59:00Z";

fn changed(mut body: Value, change: &Value) -> Value {
    for (name, value) in change.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// A running job of a session.
pub(crate) fn job(change: &Value) -> Value {
    let body = json!({
        "job_id": ID, "kind": "session", "subject_id": "01938c4e-7a10-7c3e-9b41-2f6d8e0a1c02", "batch_id": null,
        "item_no": null, "state": "running", "wait": null, "attempts": 0, "retries": 0, "error": null, "result": null,
        "trimmed_tokens": null, "simulated": false, "usage": {"tokens_in": 100, "tokens_out": 20, "cost_usd": 0.01},
        "priority": "bulk", "judge": "gpt", "criteria_hash": "c".repeat(64), "triggered_by": "ann", "force_rescore": false,
        "links": {"self": "/api/v1/jobs/1"},
        "times": {"created_at": AT, "due_at": AT, "started_at": null, "finished_at": null}});
    changed(body, change)
}

/// A call of a judge that answered.
pub(crate) fn call(change: &Value) -> Value {
    let body = json!({
        "call_id": ID, "judge": "gpt", "model": "m", "at": AT, "latency_ms": 5, "error": null, "message": null,
        "status": 200, "usage": {"tokens_in": 100, "tokens_out": 20, "cost_usd": 0.01}, "tokens_in_cached": 0,
        "reply": "{}"});
    changed(body, change)
}

/// A score that is its session's current one.
pub(crate) fn score(change: &Value) -> Value {
    let body = json!({
        "score_id": "01938c4e-7a10-7c3e-9b41-2f6d8e0a1c03", "session_id": "01938c4e-7a10-7c3e-9b41-2f6d8e0a1c02",
        "job_id": ID, "criteria_hash": "c".repeat(64), "total_score": 72, "score_breakdown": {}, "score_reasoning": "r",
        "missing_tools": [], "alternative_approaches": [], "scored_triggered_by": "ann", "scored_at": AT,
        "is_current_criteria": true, "rating": "adequate", "judge": {"provider": "gpt", "model": "m"}, "simulated": false,
        "flags": [], "usage": {"tokens_in": 100, "tokens_out": 20, "cost_usd": 0.01}, "purpose": "score",
        "superseded_at": null});
    changed(body, change)
}

/// A completed session in a list, without a score.
pub(crate) fn session_item(change: &Value) -> Value {
    let body = json!({
        "session_id": ID, "source": "api", "status": "completed", "scorable": true, "alert_type": "PodCrashLooping",
        "agent": "kubernetes", "author": null, "tags": [], "started_at": null, "completed_at": AT, "created_at": AT,
        "score": null, "active_job": null, "failed": null, "links": {"self": "/", "score": "/", "scores": "/"}});
    changed(body, change)
}
