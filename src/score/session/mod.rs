//! Kind `session`: an agent's investigation of an alert, 0-100. Source of the rules: rules/session.md. (Skeleton.)

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BadRequest, Criteria, Request, Scorecard};
use crate::judge::{Answer, Limits, Nonce, Question};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or whatever the agent's framework calls it; 1-64 characters.
    pub role: String,
    /// The text.
    pub content: String,
    /// The tool that was called or that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// When, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// The evidence of one session: what the judge sees.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRequest {
    /// Whether the session ended `completed`; others are flagged `not_completed`.
    pub completed: bool,
    /// What kind of alert it was.
    pub alert_type: Option<String>,
    /// The agent's name.
    pub agent: Option<String>,
    /// The alert, an object or a string.
    pub alert_data: Value,
    /// The investigation.
    pub conversation: Vec<Message>,
    /// What the agent concluded.
    pub final_analysis: Option<String>,
    /// The tools that were at hand.
    pub tools: Vec<String>,
}

/// Marks on a score; a closed set.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// The session ended without completing.
    NotCompleted,
    /// The conversation was trimmed to fit the context window.
    InputTrimmed,
    /// The total isn't the sum of the breakdown; both are kept.
    BreakdownMismatch,
    /// The reply held the total alone.
    ReplyPartial,
    /// The reply took a repair turn.
    ReplyRepaired,
    /// The fallback judge answered.
    FallbackJudge,
    /// A jury's members differed.
    JuryDisagreement,
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
    /// What it is.
    pub description: String,
    /// Its steps, in order.
    pub steps: Vec<String>,
}

/// A session's score.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionScore {
    /// 0-100.
    pub total_score: u8,
    /// Dimension -> points; empty if the reply held the total alone.
    pub score_breakdown: BTreeMap<String, f64>,
    /// The judge's reasons.
    pub score_reasoning: String,
    /// Tools that the agent lacked.
    pub missing_tools: Vec<MissingTool>,
    /// Other ways to go.
    pub alternative_approaches: Vec<AlternativeApproach>,
    /// Marks, sorted, each at most once.
    pub flags: Vec<Flag>,
    /// The provider entry that answered.
    pub judge_provider: String,
    /// The model that answered, as reported.
    pub judge_model: String,
    /// Whether a simulated judge made it.
    pub simulated: bool,
}

/// The word for a total.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    /// 0-44.
    Failed,
    /// 45-59.
    Weak,
    /// 60-74.
    Adequate,
    /// 75-89.
    Good,
    /// 90-100.
    NearPerfect,
}

impl Rating {
    /// The word for a total of 0-100.
    pub fn of(total: u8) -> Self {
        match total {
            0..=44 => Self::Failed,
            45..=59 => Self::Weak,
            60..=74 => Self::Adequate,
            75..=89 => Self::Good,
            90.. => Self::NearPerfect,
        }
    }

    /// The name used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Weak => "weak",
            Self::Adequate => "adequate",
            Self::Good => "good",
            Self::NearPerfect => "near_perfect",
        }
    }
}

impl Request for SessionRequest {
    fn questions(
        &self,
        _criteria: &Criteria,
        _limits: &Limits,
        _nonce: &Nonce,
    ) -> Result<Vec<Question>, BadRequest> {
        unimplemented!()
    }

    fn score(&self, _criteria: &Criteria, _answers: &[Answer]) -> Scorecard {
        unimplemented!()
    }
}
