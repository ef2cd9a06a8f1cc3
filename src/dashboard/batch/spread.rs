//! Spread of the scores of repeats or of a jury, and their distance from users' ratings.

use super::super::figures::{ENOUGH, percent};
use crate::wire::{Panel, PanelJudge};

/// Scores of a panel with their judges, ordered by judge name.
pub(super) fn votes(panel: &Panel) -> String {
    let mut votes: Vec<_> = panel.scores.iter().collect();
    votes.sort_by(|a, b| a.judge.cmp(&b.judge));
    let votes: Vec<String> = votes
        .into_iter()
        .map(|v| format!("{} ({})", v.total, v.judge))
        .collect();
    votes.join(", ")
}

/// Compares a judge with users' ratings, one row per scale: scale, number of ratings, share of equal ratings, kappa, mean difference in
/// points.
pub(super) fn agreement_rows(judge: &PanelJudge) -> Vec<[String; 5]> {
    let shown = |known: Option<String>| known.unwrap_or_else(|| "–".to_owned());
    let scales = judge.agreement.iter();
    let row = |found: &crate::wire::Agreement| {
        // Statistics on fewer ratings aren't meaningful.
        let enough = found.n >= ENOUGH;
        let kappa = found.kappa_quadratic.as_ref().filter(|_| enough);
        let above = found.mean_difference.filter(|_| enough);
        [
            found.scale.to_string(),
            found.n.to_string(),
            shown(enough.then(|| percent(found.raw))),
            shown(kappa.map(|kappa| format!("{:.2}", kappa.value))),
            shown(above.map(|points| format!("{points:+.1}"))),
        ]
    };
    let rows: Vec<[String; 5]> = scales.map(row).collect();
    match rows.is_empty() {
        true => vec![[
            "–".to_owned(),
            "0".to_owned(),
            "–".to_owned(),
            "–".to_owned(),
            "–".to_owned(),
        ]],
        false => rows,
    }
}
