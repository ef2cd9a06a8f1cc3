use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) fn session() -> Value {
    session_about(&Uuid::now_v7().to_string())
}

/// Session with evidence that contains `about`: equal texts make equal evidence.
pub(crate) fn session_about(about: &str) -> Value {
    json!({
        "status": "completed",
        "alert_type": "PodCrashLooping",
        "agent": "kubernetes-agent",
        "author": "alice",
        "alert_data": { "alert": "PodCrashLooping", "pod": about },
        "conversation": [
            { "role": "user", "content": format!("Pod {about} restarts again and again.") },
            { "role": "assistant", "content": "I look at its logs.", "tool_name": "kubectl-logs" },
            { "role": "tool", "content": "OOMKilled", "tool_name": "kubectl-logs" },
        ],
        "final_analysis": "The pod is out of memory.",
        "tools": ["kubectl-get", "kubectl-logs"],
        "tags": ["test"],
        "started_at": "2026-01-01T10:00:00Z",
        "completed_at": "2026-01-01T10:05:00Z",
    })
}
