//! Types of `/api/v1/batches/{batch_id}/spread`: spread of scores of repeats and juries.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Agreement, Flag, Rating};
use crate::Purpose;

/// Panels of a batch, sorted by session id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Spread {
    pub batch_id: Uuid,
    /// `repeat`: one judge scored each session several times; `jury`: several judges did. Null for other batches.
    pub purpose: Option<Purpose>,
    /// Whether simulated judges produced the scores. Only if no other scores exist.
    pub simulated: bool,
    pub summary: PanelSummary,
    pub items: Vec<Panel>,
    pub next_cursor: Option<String>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PanelSummary {
    pub sessions: usize,
    /// Sessions with all requested scores.
    pub complete: usize,
    pub scores: usize,
    /// Mean of the sessions' standard deviations. Null if no session has two scores.
    pub mean_sd: Option<f64>,
    /// Share of scores with another rating than their session's median, 0-1. Null if no session has two scores.
    pub flip_share: Option<f64>,
    /// Sessions with a range of more than 15 points.
    pub disagreements: usize,
    /// By name.
    pub judges: Vec<PanelJudge>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PanelJudge {
    pub judge: String,
    pub scores: usize,
    /// Mean total, 0-100.
    pub mean: f64,
    /// Mean difference to the sessions' medians, in points. Above 0: more lenient than the panel.
    pub mean_difference: f64,
    /// Agreement with human ratings of the batch's sessions, per used scale. Empty without ratings.
    #[serde(default)]
    pub agreement: Vec<Agreement>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Panel {
    pub session_id: Uuid,
    pub asked: usize,
    /// Received scores, in order of their jobs.
    pub scores: Vec<Vote>,
    /// Median. Null without scores.
    pub median: Option<f64>,
    pub rating: Option<Rating>,
    /// Standard deviation (n - 1). Null for fewer than two scores.
    pub sd: Option<f64>,
    /// Maximum minus minimum.
    pub range: Option<f64>,
    /// Number of scores with another rating than the median.
    pub flips: usize,
    /// Whether `flips` is above 0.
    pub flipped: bool,
    /// `jury_disagreement`: the range of a jury's totals exceeds 15 points.
    pub flags: Vec<Flag>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Vote {
    pub job_id: Uuid,
    /// The requested judge.
    pub judge: String,
    /// 0-100.
    pub total: u8,
    pub rating: Rating,
}
