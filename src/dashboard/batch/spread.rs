//! How far the scores of repeats or of a jury lie apart.

use crate::wire::Panel;

impl Panel {
    pub(super) fn votes(&self) -> String {
        let votes = self.scores.iter();
        let votes: Vec<String> = votes
            .map(|v| format!("{} ({})", v.total, v.judge))
            .collect();
        votes.join(", ")
    }
}
