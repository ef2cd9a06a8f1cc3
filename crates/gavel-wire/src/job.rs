//! Types of `/api/v1/jobs`.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{JobLinks, Score};
use crate::words::{grouped, time};
use crate::{FailureClass, JobState, Kind, Priority, Usage, WaitReason, text_enum};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    pub kind: Kind,
    /// Payload of the kind. For `session`: {session_id, force_rescore?}.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// `interactive` (default) precedes `bulk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Whether to bypass cached replies and, for a session, its existing score.
    #[serde(default)]
    pub force_rescore: bool,
    /// Stored criteria of the kind: 64 hex digits, a prefix of at least 8, or `current`. Default: the current criteria.
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criteria_hash: Option<String>,
}

impl JobRequest {
    /// Returns a request by the current criteria with default options.
    pub fn new(kind: Kind, payload: Value) -> Self {
        Self {
            kind,
            payload,
            priority: None,
            force_rescore: false,
            criteria_hash: None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScoreRequest {
    /// Whether to bypass an existing score and cached replies.
    pub force_rescore: bool,
    /// Stored criteria: 64 hex digits, a prefix of at least 8, or `current`. Default: the current criteria.
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria_hash: Option<String>,
}

/// A job: one subject to score, with its state and result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Job {
    pub job_id: Uuid,
    pub kind: Kind,
    /// The session's id for kind `session`.
    pub subject_id: Option<Uuid>,
    pub batch_id: Option<Uuid>,
    /// Index among the batch's items, from 0.
    pub item_no: Option<i64>,
    pub state: JobState,
    /// Reason why it isn't running. Null once it runs or has ended.
    pub wait: Option<Wait>,
    /// Number of workers that died while the job was a suspect (at most 3), not the number of runs.
    pub attempts: i32,
    /// Judge calls beyond the first.
    pub retries: i32,
    /// Error of a failed job. Null unless `state` is `failed`.
    pub error: Option<JobError>,
    /// Null until the job has a result.
    pub result: Option<JobResult>,
    /// Approximate tokens of evidence removed to fit the judge's context window. Null: none.
    pub trimmed_tokens: Option<u64>,
    /// Whether a simulated judge produced the result.
    pub simulated: bool,
    pub usage: Usage,
    pub priority: Priority,
    /// The required judge.
    pub judge: Option<String>,
    /// Criteria pinned at creation.
    pub criteria_hash: String,
    /// The user that a trusted proxy names, else the token's name, else `api-client`.
    pub triggered_by: String,
    /// Name of the token that authenticated the request.
    pub authenticated_as: Option<String>,
    /// Whether to bypass an existing score and cached replies.
    pub force_rescore: bool,
    pub links: JobLinks,
    pub times: JobTimes,
}

impl Wait {
    /// Describes in one line: the stopped target, who stopped it, why and until when, and the judge's last error.
    pub fn text(&self, judge: Option<&str>) -> String {
        let judge = judge.unwrap_or("its judge");
        let mut text = match (self.reason, self.target) {
            (WaitReason::Queued, _) if self.position == Some(1) => {
                return "it is the next in line".to_owned();
            }
            (WaitReason::Paused, Some(WaitTarget::Queue)) => "the queue is paused".to_owned(),
            (WaitReason::Paused, Some(WaitTarget::Judge)) => format!("{judge} is paused"),
            (WaitReason::Paused, Some(WaitTarget::Batch)) => "its batch is paused".to_owned(),
            (WaitReason::Budget, Some(WaitTarget::Judge)) => {
                format!("{judge} has reached its spending cap")
            }
            (WaitReason::Budget, Some(WaitTarget::Queue)) => {
                "the spending cap over all judges is reached".to_owned()
            }
            (WaitReason::Budget, Some(WaitTarget::Batch)) => "its batch is over budget".to_owned(),
            (WaitReason::NoWorkerForJudge, _) => format!("no live worker can call {judge}"),
            (reason, _) => reason.description().to_owned(),
        };
        let by = self.set_by.as_ref();
        if let Some(by) = by.filter(|_| self.reason == WaitReason::Paused) {
            text.push_str(&format!(" by {by}"));
        }
        if let Some(message) = &self.message {
            text.push_str(&format!(" ({message})"));
        }
        if let Some(until) = self.until {
            text.push_str(&format!(" until {}", time(until)));
        }
        if let Some(position) = self.position {
            text.push_str(&format!(", number {} in line", grouped(position)));
        }
        // A hold often has the text of the judge's last error.
        let error = self.last_error.as_ref();
        if let Some(error) = error.filter(|error| !text.contains(error.as_str())) {
            text.push_str(&format!("; last error: {error}"));
        }
        text
    }
}

text_enum! {
    /// Target of a pause or of a spending limit.
    pub enum WaitTarget {
        /// All judges.
        Queue = "queue",
        Judge = "judge",
        Batch = "batch",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Wait {
    pub reason: WaitReason,
    /// Only with `fallback`: the fallback judge. `GET /api/v1/judges` shows why it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Time of the next try. Null if unknown, or if an operator must act first.
    pub until: Option<DateTime<Utc>>,
    /// Position in its lane, 1 = next, counted up to 10,000. Null in lists, and if the job isn't queued.
    pub position: Option<i64>,
    /// Only if an operator, a spending limit or a budget stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<WaitTarget>,
    /// Only with `target` `queue` or `judge`: who stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<String>,
    /// Message of the operator or provider, or the reached spending limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Text of the judge's last error. Only if the judge causes the wait (`breaker_open`, `throttled`, `exhausted`,
    /// `misconfigured`, `fallback`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Action required from an operator. Absent if the job continues automatically.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobError {
    pub class: FailureClass,
    /// Message for users. Programs should use `class`.
    pub message: String,
    pub remedy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobTimes {
    pub created_at: DateTime<Utc>,
    /// Earliest time of a claim.
    pub due_at: DateTime<Utc>,
    /// Time of the last claim. Null before the first.
    pub started_at: Option<DateTime<Utc>>,
    /// Null while the job is active.
    pub finished_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum JobResult {
    /// Kind `session`: its score.
    Session(Box<Score>),
    /// Raw result of the job's row, used if no score can be shown.
    #[schema(value_type = Object)]
    Kept(Value),
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Jobs {
    /// The jobs, without their queue positions.
    pub items: Vec<Job>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Call {
    pub call_id: Uuid,
    /// The judge: a provider entry, or `entry:model`.
    pub judge: String,
    /// The reported model, or the requested one without a reply.
    pub model: String,
    /// Time of sending.
    pub at: DateTime<Utc>,
    /// Milliseconds. 0 for a reply collected from a provider's batch.
    pub latency_ms: u64,
    /// Error class. Null for a valid reply.
    pub error: Option<String>,
    pub message: Option<String>,
    /// HTTP status, if a response arrived.
    pub status: Option<u16>,
    pub usage: Usage,
    /// Prompt tokens that the provider read from its cache.
    pub tokens_in_cached: i64,
    /// Text of the reply, truncated to 64 KiB.
    pub reply: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobDetail {
    #[serde(flatten)]
    pub job: Job,
    /// Calls of the job with raw replies, oldest first. Only with `calls=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<Call>>,
}

impl From<Job> for JobDetail {
    fn from(job: Job) -> Self {
        Self { job, calls: None }
    }
}

impl Job {
    pub fn score(&self) -> Option<&Score> {
        match &self.result {
            Some(JobResult::Session(score)) => Some(score),
            Some(JobResult::Kept(_)) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wait_text_states_target_actor_end_and_each_cause_once() {
        for (wait, text) in [
            (
                json!({"reason": "paused", "target": "queue", "set_by": "ann", "message": "lunch"}),
                "the queue is paused by ann (lunch)",
            ),
            (
                json!({"reason": "paused", "target": "judge", "set_by": "ann"}),
                "gpt is paused by ann",
            ),
            (
                json!({"reason": "budget", "target": "batch"}),
                "its batch is over budget",
            ),
            (
                json!({"reason": "budget", "target": "judge", "set_by": "cap", "message": "the daily cap of gpt, 2 USD, is reached",
                    "until": "2026-01-02T00:00:00Z"}),
                "gpt has reached its spending cap (the daily cap of gpt, 2 USD, is reached) until 2026-01-02 00:00:00 UTC",
            ),
            (
                json!({"reason": "queued", "position": 1}),
                "it is the next in line",
            ),
            (
                json!({"reason": "queued", "position": 1_200}),
                "it waits for its turn, number 1,200 in line",
            ),
            (
                json!({"reason": "breaker_open", "until": "2026-01-02T00:00:00Z", "last_error": "HTTP 503"}),
                "its judge failed too often in a row and is paused for a while until 2026-01-02 00:00:00 UTC; \
                 last error: HTTP 503",
            ),
            (
                json!({"reason": "misconfigured", "message": "judge gpt: 401: no such key", "last_error": "401: no such key"}),
                "its judge rejects the key, the model or the address (judge gpt: 401: no such key)",
            ),
        ] {
            let wait: Wait = serde_json::from_value(wait).expect("a wait");
            assert_eq!(wait.text(Some("gpt")), text);
        }
    }
}
