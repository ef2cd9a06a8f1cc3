//! A session's score as clients see it.

use chrono::{DateTime, Utc};
use serde::Serialize;
use std::collections::BTreeMap;
use uuid::Uuid;

use super::job_view::UsageView;
use crate::job::Purpose;
use crate::score::session::{AlternativeApproach, Flag, MissingTool, Rating};
use crate::store::SessionScoreRow;

/// Who judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct JudgeRef {
    /// The provider entry.
    pub(super) provider: String,
    /// The model, as the provider reported it.
    pub(super) model: String,
}

/// A session's score.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct ScoreView {
    /// The score's id.
    pub(super) score_id: Uuid,
    /// The session.
    pub(super) session_id: Uuid,
    /// The criteria that it was made with.
    pub(super) criteria_hash: String,
    /// 0-100.
    pub(super) total_score: u8,
    /// Dimension -> points; empty if the judge gave the total alone.
    pub(super) score_breakdown: BTreeMap<String, f64>,
    /// The judge's reasons.
    pub(super) score_reasoning: String,
    /// Tools that the agent lacked or left unused.
    pub(super) missing_tools: Vec<MissingTool>,
    /// Other ways the investigation could have gone.
    pub(super) alternative_approaches: Vec<AlternativeApproach>,
    /// Who asked for it.
    pub(super) scored_triggered_by: String,
    /// When it was made.
    pub(super) scored_at: DateTime<Utc>,
    /// Whether its criteria are the ones that new requests get.
    pub(super) is_current_criteria: bool,
    /// The total as a word.
    pub(super) rating: Rating,
    /// Who judged.
    pub(super) judge: JudgeRef,
    /// Whether a simulated judge made it.
    pub(super) simulated: bool,
    /// Marks on the score.
    pub(super) flags: Vec<Flag>,
    /// What its job's calls used.
    pub(super) usage: UsageView,
    /// The job that made it.
    pub(super) job_id: Uuid,
}

impl ScoreView {
    /// A stored score, seen from the criteria that are current now.
    pub(super) fn of(row: SessionScoreRow, current_criteria: &str) -> Self {
        let score = row.score;
        Self {
            score_id: row.score_id,
            session_id: row.session_id,
            is_current_criteria: row.criteria_hash == current_criteria,
            criteria_hash: row.criteria_hash,
            total_score: score.total_score,
            score_breakdown: score.score_breakdown,
            score_reasoning: score.score_reasoning,
            missing_tools: score.missing_tools,
            alternative_approaches: score.alternative_approaches,
            scored_triggered_by: row.triggered_by,
            scored_at: row.scored_at,
            rating: Rating::of(score.total_score),
            judge: JudgeRef {
                provider: score.judge_provider,
                model: score.judge_model,
            },
            simulated: score.simulated,
            flags: score.flags,
            usage: row.usage.into(),
            job_id: row.job_id.0,
        }
    }

    /// Changes when the score does, or its criteria stop being current. Weak, since answers may be compressed.
    pub(super) fn etag(&self) -> String {
        let criteria = if self.is_current_criteria {
            "current"
        } else {
            "outdated"
        };
        format!("W/\"{}-{criteria}\"", self.score_id)
    }
}

/// One score, with what has become of it.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct ScoreVersion {
    /// The score.
    #[serde(flatten)]
    pub(super) score: ScoreView,
    /// Why it was judged: only `score` is or was its session's current one.
    pub(super) purpose: Purpose,
    /// When a newer score took its place; null for the current one, and where it never was that.
    pub(super) superseded_at: Option<DateTime<Utc>>,
}

impl ScoreVersion {
    /// The view of a row; `current` is the hash of the criteria in use.
    pub(super) fn of(row: SessionScoreRow, current: &str) -> Self {
        Self {
            purpose: row.purpose,
            superseded_at: row.superseded_at,
            score: ScoreView::of(row, current),
        }
    }
}
