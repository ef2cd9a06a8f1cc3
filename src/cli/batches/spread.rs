//! How the spread of a batch reads: all of its sessions together, each judge, each session.

use crate::cli::outcome::CliError;
use crate::cli::output::{self, or_empty};
use crate::wire::words::{self, counted};
use crate::wire::{Panel, PanelJudge, PanelSummary, Spread};

/// Prints what the scores of repeats or of a jury come to; sessions, if the report has any.
pub(in crate::cli) fn print_spread(report: &Spread) -> Result<(), CliError> {
    if report.simulated {
        output::line("SIMULATED: the scores were made up by a simulated judge")?;
    }
    for line in whole(&report.summary) {
        output::line(&line)?;
    }
    if !report.summary.judges.is_empty() {
        let rows: Vec<Vec<String>> = report.summary.judges.iter().map(judge).collect();
        output::table(&["judge", "scores", "mean", "above the median"], &rows)?;
    }
    if !report.items.is_empty() {
        let rows: Vec<Vec<String>> = report.items.iter().map(session).collect();
        let head = [
            "session", "asked", "scores", "median", "rating", "sd", "range", "flips", "flags",
        ];
        output::table(&head, &rows)?;
    }
    if report.next_cursor.is_some() && !report.items.is_empty() {
        output::note(&format!(
            "shown: {}; --limit shows more",
            counted(report.items.len(), "session")
        ));
    }
    for warning in &report.warnings {
        output::note(&format!("note: {warning}"));
    }
    Ok(())
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

fn judge(judge: &PanelJudge) -> Vec<String> {
    vec![
        judge.judge.clone(),
        judge.scores.to_string(),
        format!("{:.1}", judge.mean),
        format!("{:+.1}", judge.mean_difference),
    ]
}

fn session(panel: &Panel) -> Vec<String> {
    let totals: Vec<String> = panel
        .scores
        .iter()
        .map(|vote| vote.total.to_string())
        .collect();
    let rounded = |value: Option<f64>| or_empty(value.map(|value| format!("{value:.1}")));
    vec![
        panel.session_id.to_string(),
        panel.asked.to_string(),
        totals.join(" "),
        rounded(panel.median),
        or_empty(panel.rating.map(crate::cli::score::rating)),
        rounded(panel.sd),
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
