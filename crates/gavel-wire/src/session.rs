//! Agents' sessions, as `/api/v1/sessions` tells of them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::Rating;
use crate::{FailureClass, JobState, text_enum};

text_enum! {
    /// Where an agent's session stands, as TARSy names it.
    pub enum SessionStatus {
        /// Not begun.
        Pending = "pending",
        /// Under way.
        InProgress = "in_progress",
        /// Halted.
        Paused = "paused",
        /// Being cancelled (Go's spelling).
        Canceling = "canceling",
        /// Being cancelled (Python's spelling).
        Cancelling = "cancelling",
        /// Ended well.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Ended by somebody.
        Cancelled = "cancelled",
        /// Ended by the clock.
        TimedOut = "timed_out",
    }
}

text_enum! {
    /// Form of a session file that another tool wrote.
    pub enum SessionFormat {
        /// Conversations as lists of messages: model APIs (OpenAI, Anthropic, Gemini) and agent frameworks.
        Messages = "messages",
        /// Spans of OpenTelemetry in JSON: OpenInference, the conventions for GenAI, OpenLLMetry.
        Spans = "spans",
        /// Runs of LangSmith.
        LangSmith = "langsmith",
        /// Traces and observations of Langfuse.
        Langfuse = "langfuse",
        /// Logs of Braintrust.
        Braintrust = "braintrust",
        /// A log of Inspect.
        Inspect = "inspect",
        /// A session file of Claude Code.
        ClaudeCode = "claude_code",
        /// A session file of Codex.
        Codex = "codex",
    }
}

impl SessionStatus {
    /// Whether the session has ended; only such sessions are scored.
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
    /// What a put did.
    pub enum PutOutcome {
        /// It was not there.
        New = "new",
        /// It was there, and something differs.
        Updated = "updated",
        /// It was there, the same.
        Unchanged = "unchanged",
    }
}

/// A session with its conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Session {
    pub session_id: Uuid,
    /// Where it came from.
    pub source: String,
    /// What it is called where it came from, if that isn't our id.
    pub external_id: Option<String>,
    /// Where it stands.
    pub status: SessionStatus,
    /// Whether a score may be asked for: it has ended, and completed if `scoring.score_only_completed` says so.
    pub scorable: bool,
    /// What kind of alert it was.
    pub alert_type: Option<String>,
    pub agent: Option<String>,
    /// Who started it.
    pub author: Option<String>,
    /// The alert, an object or a string.
    pub alert_data: Value,
    /// The investigation, message by message.
    pub conversation: Vec<Message>,
    /// What the agent concluded.
    pub final_analysis: Option<String>,
    /// The tools that were at hand.
    pub tools: Vec<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// Where to go from here.
    pub links: SessionLinks,
}

/// One line of the list of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionItem {
    pub session_id: Uuid,
    /// Where it came from.
    pub source: String,
    /// What it is called where it came from, if that isn't our id.
    pub external_id: Option<String>,
    /// Where it stands.
    pub status: SessionStatus,
    /// Whether a score may be asked for: it has ended, and completed if `scoring.score_only_completed` says so.
    pub scorable: bool,
    /// What kind of alert it was.
    pub alert_type: Option<String>,
    pub agent: Option<String>,
    /// Who started it.
    pub author: Option<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// When it was first seen here.
    pub created_at: DateTime<Utc>,
    /// Its current score; null: it has none.
    pub score: Option<SessionScoreSummary>,
    /// The job that scores it now; null: none does.
    pub active_job: Option<ActiveJob>,
    /// Why its newest job failed; null: it has none, or that one didn't.
    pub failed: Option<FailureClass>,
    /// Where to go from here.
    pub links: SessionLinks,
}

/// A page of sessions, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Sessions {
    pub items: Vec<SessionItem>,
    /// Where the next page begins; null on the last.
    pub next_cursor: Option<String>,
}

/// A session's current score in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionScoreSummary {
    pub score_id: Uuid,
    /// 0-100.
    pub total_score: u8,
    /// The total as a word.
    pub rating: Rating,
    /// The criteria that it was made with.
    pub criteria_hash: String,
    /// Whether its criteria are the ones that new requests get.
    pub is_current_criteria: bool,
    /// Whether a simulated judge made it.
    pub simulated: bool,
    pub scored_at: DateTime<Utc>,
    /// Who asked for it.
    pub scored_triggered_by: String,
}

/// A session's active job in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ActiveJob {
    pub job_id: Uuid,
    /// Where it stands.
    pub state: JobState,
    /// Where GET reads the job.
    pub href: String,
}

/// A session that was put, and what that did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionPut {
    pub session_id: Uuid,
    pub outcome: PutOutcome,
    /// Where it stands.
    pub status: SessionStatus,
    /// How many messages are stored.
    pub messages: usize,
    /// What it is called where it came from, if that isn't our id.
    pub external_id: Option<String>,
    /// Where to go from here.
    pub links: SessionLinks,
}

/// What putting the sessions of a file did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionsPut {
    /// Each session, in the order of their ids.
    pub items: Vec<SessionPut>,
}

/// Where to go from a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionLinks {
    #[serde(rename = "self")]
    pub this: String,
    /// Its score: GET reads it, POST asks for it.
    pub score: String,
    /// Every score it had.
    pub scores: String,
}

/// One message of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or whatever the agent's framework calls it; 1-64 characters.
    #[schema(min_length = 1, max_length = 64)]
    pub role: String,
    pub content: String,
    /// The tool that was called or that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// The agent that spoke, where a session has several; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The stage of the work that it belongs to; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// When, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateTime<Utc>>)]
    pub at: Option<String>,
}

text_enum! {
    /// Which sessions by their score.
    pub enum Scored {
        /// Those with a current score.
        Yes = "yes",
        /// Those without.
        No = "no",
        /// Those with an active job.
        Running = "running",
        /// Those whose newest job failed.
        Failed = "failed",
    }
}
