//! Jobs, as `/api/v1/jobs` tells of them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{JobLinks, Score};
use crate::words::{grouped, time};
use crate::{FailureClass, JobState, Kind, Priority, Usage, WaitReason, text_enum};

/// What is to be scored, by which criteria, and how soon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    pub kind: Kind,
    /// The kind's payload; of `session`: {session_id, force_rescore?}.
    #[schema(value_type = Object)]
    pub payload: Value,
    /// Who waits: `interactive` (default) goes before `bulk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Whether cached replies are skipped, and of a session its existing score.
    #[serde(default)]
    pub force_rescore: bool,
    /// Stored criteria of the kind: 64 hex digits, at least the first 8, or `current`; left out: the current ones.
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criteria_hash: Option<String>,
}

impl JobRequest {
    /// A request by the current criteria that leaves everything else open.
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

/// What to score a session with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScoreRequest {
    /// Whether an existing score and cached replies are skipped.
    pub force_rescore: bool,
    /// Stored criteria: 64 hex digits, at least the first 8, or `current`; left out: the current ones.
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria_hash: Option<String>,
}

/// One subject to be scored: what was asked for, where it stands, and what it came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Job {
    pub job_id: Uuid,
    pub kind: Kind,
    /// The session's id for kind `session`.
    pub subject_id: Option<Uuid>,
    /// The batch that it is an item of.
    pub batch_id: Option<Uuid>,
    /// Its place among the batch's items, from 0.
    pub item_no: Option<i64>,
    /// Where it stands.
    pub state: JobState,
    /// Why it isn't running yet; null once it runs or has ended.
    pub wait: Option<Wait>,
    /// Deaths of its worker while it was a suspect (`worker.max_attempts`); not how often it was tried.
    pub attempts: i32,
    /// Judge calls spent beyond the first.
    pub retries: i32,
    /// Why it failed; null unless `state` is `failed`.
    pub error: Option<JobError>,
    /// What it came to; null until it has.
    pub result: Option<JobResult>,
    /// About how many tokens of evidence were left out so that it fit the judge's context window; null for none.
    pub trimmed_tokens: Option<u64>,
    /// Whether a simulated judge made the result.
    pub simulated: bool,
    /// What its judge calls used so far.
    pub usage: Usage,
    /// Who waits for it.
    pub priority: Priority,
    /// The judge that it needs.
    pub judge: Option<String>,
    /// The criteria pinned when it was asked for.
    pub criteria_hash: String,
    /// The user that a trusted proxy names, else the token's name, else `api-client`.
    pub triggered_by: String,
    /// Name of the token that authenticated the request.
    pub authenticated_as: Option<String>,
    /// Whether an existing score and cached replies are skipped.
    pub force_rescore: bool,
    /// Where to go from here.
    pub links: JobLinks,
    pub times: JobTimes,
}

impl Wait {
    /// What is stopped, by whom, why and until when, and the judge's last error, in one line.
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
            (WaitReason::Budget, Some(WaitTarget::Batch)) => {
                "its batch has spent its budget".to_owned()
            }
            (WaitReason::NoWorkerForJudge, _) => format!("no live worker can ask {judge}"),
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
        // A hold is often set with the text of the judge's last error.
        let error = self.last_error.as_ref();
        if let Some(error) = error.filter(|error| !text.contains(error.as_str())) {
            text.push_str(&format!("; last error: {error}"));
        }
        text
    }
}

text_enum! {
    /// What somebody stopped, or a cap or a budget did.
    pub enum WaitTarget {
        /// All judges.
        Queue = "queue",
        Judge = "judge",
        Batch = "batch",
    }
}

/// Why a job is not running yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Wait {
    pub reason: WaitReason,
    /// Only with `fallback`: the judge that stands in. `GET /api/v1/judges` says what closed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// When it is tried again; null where that isn't known, or somebody must act first.
    pub until: Option<DateTime<Utc>>,
    /// Its place in its lane, 1 = next, counted to 10,000; null if it isn't queued, and in lists.
    pub position: Option<i64>,
    /// Only where somebody stopped it, or a cap or a budget did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<WaitTarget>,
    /// Only with `target` `queue` or `judge`: who stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<String>,
    /// What is said of that, if anything: an operator's or a provider's words, or which cap is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Only where its judge is what it waits for (`breaker_open`, `throttled`, `exhausted`, `misconfigured`, `fallback`): what the
    /// judge's last failed call said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What an operator must do before it continues; left out where it continues without that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobError {
    pub class: FailureClass,
    /// What happened, for people. Programs go by `class`.
    pub message: String,
    /// What a person can do about it.
    pub remedy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobTimes {
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When it may be claimed.
    pub due_at: DateTime<Utc>,
    /// When it was last claimed; null before the first time.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended; null while it is active.
    pub finished_at: Option<DateTime<Utc>>,
}

/// What a job came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum JobResult {
    /// Kind `session`: the score that it made.
    Session(Box<Score>),
    /// What the job's row keeps, where there is no score to show.
    #[schema(value_type = Object)]
    Kept(Value),
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Jobs {
    /// The jobs; their place in the queue is not counted here.
    pub items: Vec<Job>,
    /// Where the next page begins; null on the last.
    pub next_cursor: Option<String>,
}

/// One call to a judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Call {
    /// Identifies the call.
    pub call_id: Uuid,
    /// Its name: a provider entry, or `entry:model`.
    pub judge: String,
    /// The model as asked, or as reported if there was a reply.
    pub model: String,
    /// When it was sent.
    pub at: DateTime<Utc>,
    /// How long it took, milliseconds; 0 for a reply that was collected from a provider's batch.
    pub latency_ms: u64,
    /// The class of its error; null for a good reply.
    pub error: Option<String>,
    /// What happened, for an error.
    pub message: Option<String>,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    pub usage: Usage,
    /// Those of the prompt tokens that the provider read from its cache.
    pub tokens_in_cached: i64,
    /// The reply's text, cut at 64 KiB.
    pub reply: Option<String>,
}

/// A job, with its calls where they were asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobDetail {
    #[serde(flatten)]
    pub job: Job,
    /// The calls made for it, oldest first, with the raw replies; only with `calls=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<Call>>,
}

impl From<Job> for JobDetail {
    fn from(job: Job) -> Self {
        Self { job, calls: None }
    }
}

impl Job {
    /// The score that it made, of kind `session`.
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
    fn wait_text_names_what_is_stopped_by_whom_until_when_and_each_cause_once() {
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
                "its batch has spent its budget",
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
                "its judge failed too often in a row and is left alone for a while until 2026-01-02 00:00:00 UTC; \
                 last error: HTTP 503",
            ),
            (
                json!({"reason": "misconfigured", "message": "judge gpt: 401: no such key", "last_error": "401: no such key"}),
                "its judge refuses the key, the model or the address (judge gpt: 401: no such key)",
            ),
        ] {
            let wait: Wait = serde_json::from_value(wait).expect("a wait");
            assert_eq!(wait.text(Some("gpt")), text);
        }
    }
}
