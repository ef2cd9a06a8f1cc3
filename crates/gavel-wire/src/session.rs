//! Types of `/api/v1/sessions`.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::Rating;
use crate::{FailureClass, JobState, text_enum};

text_enum! {
    /// Status of an agent's session, with TARSy's names.
    pub enum SessionStatus {
        Pending = "pending",
        InProgress = "in_progress",
        Paused = "paused",
        /// Being cancelled (Go spelling).
        Canceling = "canceling",
        /// Being cancelled (Python spelling).
        Cancelling = "cancelling",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        TimedOut = "timed_out",
    }
}

text_enum! {
    /// Format of a session file from another tool.
    pub enum SessionFormat {
        /// Conversations as lists of messages: model APIs (OpenAI, Anthropic, Gemini) and agent frameworks.
        Messages = "messages",
        /// OpenTelemetry spans in JSON: OpenInference, the GenAI conventions, OpenLLMetry.
        Spans = "spans",
        LangSmith = "langsmith",
        Langfuse = "langfuse",
        Braintrust = "braintrust",
        Inspect = "inspect",
        ClaudeCode = "claude_code",
        Codex = "codex",
    }
}

impl SessionStatus {
    /// Returns whether the session has ended. Only ended sessions are scored.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled | Self::TimedOut => true,
            Self::Pending
            | Self::InProgress
            | Self::Paused
            | Self::Canceling
            | Self::Cancelling => false,
        }
    }
}

text_enum! {
    pub enum PutOutcome {
        /// The session was created.
        New = "new",
        /// A field changed.
        Updated = "updated",
        /// It was identical to the stored session.
        Unchanged = "unchanged",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Session {
    pub session_id: Uuid,
    /// System that it was imported from.
    pub source: String,
    /// Its id in the source system, if that differs from `session_id`.
    pub external_id: Option<String>,
    pub status: SessionStatus,
    /// Whether it can be scored: it has ended, and completed if `scoring.score_only_completed` requires that.
    pub scorable: bool,
    pub alert_type: Option<String>,
    pub agent: Option<String>,
    /// User who started it.
    pub author: Option<String>,
    /// The alert, an object or a string.
    pub alert_data: Value,
    /// Messages of the investigation, in order.
    pub conversation: Vec<Message>,
    /// The agent's conclusion.
    pub final_analysis: Option<String>,
    /// Tools available to the agent.
    pub tools: Vec<String>,
    pub tags: Vec<String>,
    pub started_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
    pub links: SessionLinks,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionItem {
    pub session_id: Uuid,
    /// System that it was imported from.
    pub source: String,
    /// Its id in the source system, if that differs from `session_id`.
    pub external_id: Option<String>,
    pub status: SessionStatus,
    /// Whether it can be scored: it has ended, and completed if `scoring.score_only_completed` requires that.
    pub scorable: bool,
    pub alert_type: Option<String>,
    pub agent: Option<String>,
    /// User who started it.
    pub author: Option<String>,
    pub tags: Vec<String>,
    pub started_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
    /// Time of its first import.
    pub created_at: DateTime<Utc>,
    pub score: Option<SessionScoreSummary>,
    pub active_job: Option<ActiveJob>,
    /// Failure class of its newest job. Null without a job, or if that job didn't fail.
    pub failed: Option<FailureClass>,
    pub links: SessionLinks,
}

/// A page of sessions, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Sessions {
    pub items: Vec<SessionItem>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionScoreSummary {
    pub score_id: Uuid,
    /// 0-100.
    pub total_score: u8,
    pub rating: Rating,
    pub criteria_hash: String,
    /// Whether new requests use these criteria.
    pub is_current_criteria: bool,
    /// Whether a simulated judge produced it.
    pub simulated: bool,
    pub scored_at: DateTime<Utc>,
    /// User or token that requested it.
    pub scored_triggered_by: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ActiveJob {
    pub job_id: Uuid,
    pub state: JobState,
    pub href: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionPut {
    pub session_id: Uuid,
    pub outcome: PutOutcome,
    pub status: SessionStatus,
    pub messages: usize,
    /// Its id in the source system, if that differs from `session_id`.
    pub external_id: Option<String>,
    pub links: SessionLinks,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionsPut {
    /// The sessions, sorted by id.
    pub items: Vec<SessionPut>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionLinks {
    #[serde(rename = "self")]
    pub this: String,
    /// Its score: GET reads it, POST requests it.
    pub score: String,
    pub scores: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or a role of the agent's framework; 1-64 characters.
    #[schema(min_length = 1, max_length = 64)]
    pub role: String,
    pub content: String,
    /// The called or replying tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The speaking agent in a multi-agent session; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Stage of the work; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Time in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateTime<Utc>>)]
    pub at: Option<String>,
}

text_enum! {
    /// Filter of sessions by score.
    pub enum Scored {
        Yes = "yes",
        No = "no",
        Running = "running",
        /// With a failed newest job.
        Failed = "failed",
    }
}
