//! Types of `/api/v1/scoring`: scores of a session.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Rating;
use crate::{Purpose, Usage, text_enum};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Score {
    pub score_id: Uuid,
    pub session_id: Uuid,
    pub criteria_hash: String,
    /// 0-100.
    pub total_score: u8,
    /// Dimension -> points in the criteria's order, then extra parts of the judge. Empty if the judge gave only the total.
    #[schema(value_type = std::collections::BTreeMap<String, Value>)]
    pub score_breakdown: Map<String, Value>,
    /// The judge's reasoning, unchanged.
    pub score_reasoning: String,
    pub missing_tools: Vec<MissingTool>,
    pub alternative_approaches: Vec<AlternativeApproach>,
    /// The user that a trusted proxy names, else the token's name, else `api-client`.
    pub scored_triggered_by: String,
    /// Name of the token that authenticated the request.
    pub authenticated_as: Option<String>,
    pub scored_at: DateTime<Utc>,
    /// Whether new requests use its criteria.
    pub is_current_criteria: bool,
    pub rating: Rating,
    pub judge: JudgeRef,
    /// Whether a simulated judge produced it.
    pub simulated: bool,
    pub flags: Vec<Flag>,
    pub usage: Usage,
    pub job_id: Uuid,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreVersion {
    #[serde(flatten)]
    pub score: Score,
    /// Only `score` sets the session's current score.
    pub purpose: Purpose,
    /// Time of replacement by a newer score. Null for the current score, and for scores that were never current.
    pub superseded_at: Option<DateTime<Utc>>,
}

/// All scores of a session, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Scores {
    /// At most 1,000.
    pub items: Vec<ScoreVersion>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JudgeRef {
    /// Provider entry, without a model.
    pub provider: String,
    /// Model reported by the provider.
    pub model: String,
}

text_enum! {
    pub enum Flag {
        /// The session ended without completing.
        NotCompleted = "not_completed",
        /// The conversation was trimmed to fit the context window.
        InputTrimmed = "input_trimmed",
        /// The total isn't the sum of the parts, or a dimension has no part. Both are stored unchanged.
        TotalNotSum = "total_not_sum",
        /// The reply has a total without reasoning or breakdown.
        ReplyPartial = "reply_partial",
        /// The reasoning is much shorter than the requested 200 words.
        ReasoningThin = "reasoning_thin",
        /// More than half of the reasoning is copied from the evidence or the instructions.
        ReasoningCopied = "reasoning_copied",
        /// The reply needed a repair.
        ReplyRepaired = "reply_repaired",
        /// The reply is complete, but with an unusual finish reason such as `eos` or `length`.
        OddFinish = "odd_finish",
        FallbackJudge = "fallback_judge",
        /// A jury's members disagree.
        JuryDisagreement = "jury_disagreement",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MissingTool {
    /// At most 255 characters.
    pub tool_name: String,
    /// Reason why it would have helped.
    pub rationale: String,
}

/// An alternative way to investigate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AlternativeApproach {
    /// At most 255 characters.
    pub name: String,
    pub description: String,
    /// Steps in order.
    pub steps: Vec<String>,
}
