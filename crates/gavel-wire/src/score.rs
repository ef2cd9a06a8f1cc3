//! A session's scores, as `/api/v1/scoring` tells of them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Rating;
use crate::{Purpose, Usage, text_enum};

/// What a judge made of a session, by which criteria, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Score {
    pub score_id: Uuid,
    pub session_id: Uuid,
    /// The criteria that it was made with.
    pub criteria_hash: String,
    /// 0-100.
    pub total_score: u8,
    /// Dimension -> points, in the criteria's order, then what else the judge gave; empty if it gave the total alone.
    #[schema(value_type = std::collections::BTreeMap<String, Value>)]
    pub score_breakdown: Map<String, Value>,
    /// The judge's reasons, as it wrote them.
    pub score_reasoning: String,
    /// Tools that the agent lacked or left unused.
    pub missing_tools: Vec<MissingTool>,
    /// Other ways the investigation could have gone.
    pub alternative_approaches: Vec<AlternativeApproach>,
    /// The user that a trusted proxy names, else the token's name, else `api-client`.
    pub scored_triggered_by: String,
    /// Name of the token that authenticated the request.
    pub authenticated_as: Option<String>,
    pub scored_at: DateTime<Utc>,
    /// Whether its criteria are the ones that new requests get.
    pub is_current_criteria: bool,
    /// The total as a word.
    pub rating: Rating,
    pub judge: JudgeRef,
    /// Whether a simulated judge made it.
    pub simulated: bool,
    /// Marks on the score.
    pub flags: Vec<Flag>,
    /// What its job's calls used.
    pub usage: Usage,
    /// The job that made it.
    pub job_id: Uuid,
}

/// One score, with what has become of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScoreVersion {
    #[serde(flatten)]
    pub score: Score,
    /// Why it was judged: only `score` is or was its session's current one.
    pub purpose: Purpose,
    /// When a newer score took its place; null for the current one, and where it never was that.
    pub superseded_at: Option<DateTime<Utc>>,
}

/// Every score of a session, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Scores {
    /// The scores; at most 1,000.
    pub items: Vec<ScoreVersion>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

/// Who judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JudgeRef {
    /// The provider entry, without a model.
    pub provider: String,
    /// The model, as the provider reported it.
    pub model: String,
}

text_enum! {
    /// Marks on a score; a closed set.
    pub enum Flag {
        /// The session ended without completing.
        NotCompleted = "not_completed",
        /// The conversation was trimmed to fit the context window.
        InputTrimmed = "input_trimmed",
        /// The total isn't the sum of the parts, or a dimension has no part; both are stored as the judge gave them.
        TotalNotSum = "total_not_sum",
        /// The reply held the total without its reasoning or without its breakdown.
        ReplyPartial = "reply_partial",
        /// The judge's reasons are a word or two, where 200 words were asked for.
        ReasoningThin = "reasoning_thin",
        /// More than half of the judge's reasons are the words of the evidence or of its instructions.
        ReasoningCopied = "reasoning_copied",
        /// The reply took a repair turn.
        ReplyRepaired = "reply_repaired",
        /// The reply is whole, but the judge's server gave a finish reason other than done, such as `eos` or `length`.
        OddFinish = "odd_finish",
        /// The fallback judge answered.
        FallbackJudge = "fallback_judge",
        /// A jury's members differed.
        JuryDisagreement = "jury_disagreement",
    }
}

/// A tool that the agent lacked or left unused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MissingTool {
    /// At most 255 characters.
    pub tool_name: String,
    /// Why it would have helped.
    pub rationale: String,
}

/// Another way the investigation could have gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AlternativeApproach {
    /// At most 255 characters.
    pub name: String,
    pub description: String,
    /// What the agent would have done, in order.
    pub steps: Vec<String>,
}
