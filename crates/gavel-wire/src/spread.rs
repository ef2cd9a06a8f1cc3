//! How far the scores of repeats or of a jury lie apart, as `/api/v1/batches/{batch_id}/spread` tells.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Agreement, Flag, Rating};
use crate::Purpose;

/// The panels of a batch, by the ids of their sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Spread {
    pub batch_id: Uuid,
    /// `repeat`: a judge was asked again; `jury`: several judges were; null: the batch asks nothing of that kind.
    pub purpose: Option<Purpose>,
    /// Whether the scores are those of simulated judges: there are no others.
    pub simulated: bool,
    /// All sessions together.
    pub summary: PanelSummary,
    /// The sessions of this page.
    pub items: Vec<Panel>,
    /// Where the next page begins; null on the last.
    pub next_cursor: Option<String>,
    /// What to beware of.
    pub warnings: Vec<String>,
}

/// What the panels of a batch come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PanelSummary {
    /// Sessions that were asked for.
    pub sessions: usize,
    /// Those all of whose scores came.
    pub complete: usize,
    /// Scores in all.
    pub scores: usize,
    /// The mean standard deviation of a session; null where none has two scores.
    pub mean_sd: Option<f64>,
    /// The share of scores that have another word than their session's median, 0-1; null where no session has two.
    pub flip_share: Option<f64>,
    /// Sessions whose totals lie more than 15 points apart.
    pub disagreements: usize,
    /// Each judge, by name.
    pub judges: Vec<PanelJudge>,
}

/// One judge of the batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PanelJudge {
    pub judge: String,
    /// How many scores it gave.
    pub scores: usize,
    /// The mean of its totals, 0-100.
    pub mean: f64,
    /// By how many points they lie above the medians of their sessions on average: above 0 it is milder than the panel.
    pub mean_difference: f64,
    /// How far it and people agree about the batch's sessions, on each scale that anybody used; empty where nobody rated them.
    #[serde(default)]
    pub agreement: Vec<Agreement>,
}

/// One session's panel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Panel {
    pub session_id: Uuid,
    /// How many scores were asked for.
    pub asked: usize,
    /// Those that came, in the order of their jobs.
    pub scores: Vec<Vote>,
    /// Their median; null without any.
    pub median: Option<f64>,
    /// The median as a word.
    pub rating: Option<Rating>,
    /// Their standard deviation (n - 1); null for fewer than two.
    pub sd: Option<f64>,
    /// The largest less the smallest.
    pub range: Option<f64>,
    /// How many of them have another word than the median.
    pub flips: usize,
    /// Whether any has.
    pub flipped: bool,
    /// `jury_disagreement`: the totals of a jury lie more than 15 points apart.
    pub flags: Vec<Flag>,
}

/// One score of a panel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Vote {
    /// The job that made it.
    pub job_id: Uuid,
    /// Who was asked.
    pub judge: String,
    /// 0-100.
    pub total: u8,
    /// The total as a word.
    pub rating: Rating,
}
