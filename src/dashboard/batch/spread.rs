//! How far the scores of repeats or of a jury lie apart.

use serde::Deserialize;
use uuid::Uuid;

/// A session's panel, in a line.
#[derive(Debug, Deserialize)]
pub(super) struct Panel {
    pub(super) session_id: Uuid,
    pub(super) asked: usize,
    pub(super) scores: Vec<Vote>,
    pub(super) median: Option<f64>,
    pub(super) sd: Option<f64>,
    pub(super) range: Option<f64>,
    pub(super) flips: usize,
}

#[derive(Debug, Deserialize)]
pub(super) struct Vote {
    pub(super) judge: String,
    pub(super) total: u8,
}

#[derive(Debug, Deserialize)]
pub(super) struct PanelSummary {
    pub(super) sessions: usize,
    pub(super) complete: usize,
    pub(super) mean_sd: Option<f64>,
    pub(super) flip_share: Option<f64>,
    pub(super) disagreements: usize,
}

/// How far the scores of a batch's panels lie apart.
#[derive(Debug, Deserialize)]
pub(super) struct Spread {
    pub(super) summary: PanelSummary,
    pub(super) items: Vec<Panel>,
    pub(super) warnings: Vec<String>,
}

impl Panel {
    pub(super) fn votes(&self) -> String {
        let votes = self.scores.iter();
        let votes: Vec<String> = votes
            .map(|v| format!("{} ({})", v.total, v.judge))
            .collect();
        votes.join(", ")
    }
}
