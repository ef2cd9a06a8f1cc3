//! Text output of a batch's spread: all sessions together, per judge, per session.

use crate::cli::outcome::Exit;
use crate::cli::output::{self, Column, Printable, Row, TableRow, Text, or_empty, rounded};
use crate::job::Purpose;
use crate::wire::words::{self, counted};
use crate::wire::{Agreement, Panel, PanelJudge, PanelSummary, Rating, Spread};

impl Printable for Spread {
    fn text(&self, out: &mut Text) {
        if self.simulated {
            out.line("SIMULATED: the scores were made up by a simulated judge");
        }
        for line in overall(&self.summary) {
            out.line(&line);
        }
        let judges = &self.summary.judges;
        if !judges.is_empty() {
            out.rows(judges);
        }
        let held: Vec<TableRow> = judges.iter().flat_map(agreement_rows).collect();
        if !held.is_empty() {
            let head = [
                "judge",
                "scale",
                "ratings",
                "same rating as raters",
                "kappa",
                "points apart",
                "points above",
            ];
            out.table(&head, held);
        } else if self.purpose == Some(Purpose::Jury) {
            out.note(
                "these sessions have no ratings to compare judges with; --rated selects rated sessions",
            );
        }
        if !self.items.is_empty() {
            out.rows(&self.items);
            if self.next_cursor.is_some() {
                let sessions = counted(self.items.len(), "session");
                out.note(format!(
                    "shown: the first {sessions}; the batch's page lists all"
                ));
            }
        }
        out.warnings(&self.warnings);
    }

    fn exit(&self) -> Exit {
        Exit::nothing_if(self.purpose.is_none())
    }
}

fn overall(summary: &PanelSummary) -> Vec<String> {
    let mut lines = vec![format!(
        "{} of {}, {} of them complete",
        counted(summary.scores, "score"),
        counted(summary.sessions, "session"),
        summary.complete
    )];
    if let (Some(sd), Some(flips)) = (summary.mean_sd, summary.flip_share) {
        lines.push(format!(
            "standard deviation {sd:.1} points on average; {} of the scores have another rating than their \
             session's median; {} with a range above 15 points",
            words::percent(flips),
            counted(summary.disagreements, "session")
        ));
    }
    lines
}

impl Row for PanelJudge {
    const COLUMNS: &'static [Column<Self>] = &[
        ("judge", |it| it.judge.clone()),
        ("scores", |it| it.scores.to_string()),
        ("mean", |it| format!("{:.1}", it.mean)),
        ("above the median", |it| {
            format!("{:+.1}", it.mean_difference)
        }),
    ];
}

/// Compares a judge with users' ratings, one row per scale.
fn agreement_rows(judge: &PanelJudge) -> Vec<TableRow> {
    let scales = judge.agreement.iter();
    let row = |found: &Agreement| {
        vec![
            judge.judge.clone(),
            found.scale.to_string(),
            found.n.to_string(),
            found.raw.map_or_else(String::new, words::percent),
            rounded(found.kappa_quadratic.as_ref().map(|kappa| kappa.value), 2),
            rounded(found.mean_absolute_difference, 1),
            rounded(found.mean_difference, 1),
        ]
    };
    scales.map(row).collect()
}

impl Row for Panel {
    const COLUMNS: &'static [Column<Self>] = &[
        ("session", |it| it.session_id.to_string()),
        ("asked", |it| it.asked.to_string()),
        ("scores", |it| {
            let totals = it.scores.iter().map(|vote| vote.total.to_string());
            totals.collect::<Vec<_>>().join(" ")
        }),
        ("median", |it| rounded(it.median, 1)),
        ("rating", |it| or_empty(it.rating.map(Rating::in_words))),
        ("sd", |it| rounded(it.sd, 1)),
        ("range", |it| or_empty(it.range)),
        ("flips", |it| it.flips.to_string()),
        ("flags", |it| output::joined(&it.flags).replace('_', " ")),
    ];
}
