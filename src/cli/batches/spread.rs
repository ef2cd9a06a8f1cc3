//! How the spread of a batch reads: all of its sessions together, each judge, each session.

use crate::cli::outcome::{CliError, Exit};
use crate::cli::output::{self, Printed, TableRow, or_empty, rounded};
use crate::job::Purpose;
use crate::wire::words::{self, counted};
use crate::wire::{Agreement, Panel, PanelJudge, PanelSummary, Spread};

impl Printed for Spread {
    fn print(&self) -> Result<(), CliError> {
        if self.simulated {
            output::line("SIMULATED: the scores were made up by a simulated judge")?;
        }
        for line in whole(&self.summary) {
            output::line(&line)?;
        }
        let judges = &self.summary.judges;
        if !judges.is_empty() {
            let head = ["judge", "scores", "mean", "above the median"];
            output::table(&head, judges.iter().map(judge))?;
        }
        let held: Vec<TableRow> = judges.iter().flat_map(against_people).collect();
        if !held.is_empty() {
            let head = [
                "judge",
                "scale",
                "ratings",
                "same word as people",
                "kappa",
                "points apart",
                "points above",
            ];
            output::table(&head, held)?;
        } else if self.purpose == Some(Purpose::Jury) {
            output::note(
                "people rated none of these sessions, so no judge is held against them; --rated chooses those that were",
            );
        }
        if !self.items.is_empty() {
            let head = [
                "session", "asked", "scores", "median", "rating", "sd", "range", "flips", "flags",
            ];
            output::table(&head, self.items.iter().map(session))?;
            if self.next_cursor.is_some() {
                let sessions = counted(self.items.len(), "session");
                output::note(&format!("shown: {sessions}; --limit shows more"));
            }
        }
        output::warnings(&self.warnings);
        Ok(())
    }

    fn exit(&self) -> Exit {
        match self.purpose {
            None => Exit::Nothing,
            Some(_) => Exit::Done,
        }
    }
}

/// All sessions together, in words.
fn whole(summary: &PanelSummary) -> Vec<String> {
    let mut lines = vec![format!(
        "{} of {}, {} of which with all of theirs",
        counted(summary.scores, "score"),
        counted(summary.sessions, "session"),
        summary.complete
    )];
    if let (Some(sd), Some(flips)) = (summary.mean_sd, summary.flip_share) {
        lines.push(format!(
            "standard deviation {sd:.1} points on average; {} of the scores have another word than their session's \
             median; totals more than 15 points apart: those of {}",
            words::percent(flips),
            counted(summary.disagreements, "session")
        ));
    }
    lines
}

fn judge(judge: &PanelJudge) -> TableRow {
    vec![
        judge.judge.clone(),
        judge.scores.to_string(),
        format!("{:.1}", judge.mean),
        format!("{:+.1}", judge.mean_difference),
    ]
}

/// A judge beside people, a row for each scale.
fn against_people(judge: &PanelJudge) -> Vec<TableRow> {
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

fn session(panel: &Panel) -> TableRow {
    let totals = panel.scores.iter().map(|vote| vote.total.to_string());
    let totals: Vec<String> = totals.collect();
    vec![
        panel.session_id.to_string(),
        panel.asked.to_string(),
        totals.join(" "),
        rounded(panel.median, 1),
        or_empty(panel.rating.map(crate::cli::score::rating)),
        rounded(panel.sd, 1),
        or_empty(panel.range),
        panel.flips.to_string(),
        output::joined(&panel.flags).replace('_', " "),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_spread_is_told_where_there_is_one() {
        let summary = |scores: usize, spread: Value| {
            let mut body = json!({"sessions": 3, "complete": 2, "scores": scores, "mean_sd": null, "flip_share": null,
                "disagreements": 1, "judges": []});
            for (name, value) in spread.as_object().unwrap() {
                body[name] = value.clone();
            }
            whole(&serde_json::from_value(body).unwrap())
        };
        let lines = summary(7, json!({"mean_sd": 8.14, "flip_share": 0.1429}));
        assert_eq!(
            lines[0],
            "7 scores of 3 sessions, 2 of which with all of theirs"
        );
        assert!(
            lines[1].starts_with("standard deviation 8.1 points on average; 14.3% of the scores")
        );
        assert_eq!(summary(0, json!({})).len(), 1);
        let mild = json!({ "judge": "a", "scores": 2, "mean": 71.25, "mean_difference": 2.5 });
        let mild = judge(&serde_json::from_value(mild).unwrap());
        assert_eq!(mild, ["a", "2", "71.2", "+2.5"]);
        let vote = |total: u8| json!({"job_id": uuid::Uuid::nil(), "judge": "a", "total": total, "rating": "good"});
        let one = json!({
            "session_id": uuid::Uuid::nil(), "asked": 3, "scores": [vote(90), vote(60)], "median": 75.0, "rating": "good",
            "sd": 21.2132, "range": 30.0, "flips": 2, "flipped": true, "flags": ["jury_disagreement"],
        });
        let row = session(&serde_json::from_value(one).unwrap());
        assert_eq!(row[2..6], ["90 60", "75.0", "good", "21.2"]);
        assert_eq!(row[8], "jury disagreement");
    }
}
