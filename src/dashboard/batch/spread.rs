//! How far the scores of repeats or of a jury lie apart.

use crate::wire::Panel;

/// Each score of a panel with its judge.
pub(super) fn votes(panel: &Panel) -> String {
    let votes = panel.scores.iter();
    let votes: Vec<String> = votes
        .map(|v| format!("{} ({})", v.total, v.judge))
        .collect();
    votes.join(", ")
}
