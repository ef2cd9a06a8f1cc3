//! How the spread of a batch reads: all of its sessions together, each judge, each session.

use serde_json::{Value, json};

use crate::cli::outcome::CliError;
use crate::cli::output::{self, cell, rounded};
use crate::client::{list, text};

/// Prints what the scores of repeats or of a jury come to; sessions, if the report has any.
pub(in crate::cli) fn print_spread(report: &Value) -> Result<(), CliError> {
    if report["simulated"] == json!(true) {
        output::line("SIMULATED: the scores were made up by a simulated judge")?;
    }
    for line in whole(&report["summary"]) {
        output::line(&line)?;
    }
    let judges = list(report, "/summary/judges");
    if !judges.is_empty() {
        let rows: Vec<Vec<String>> = judges.iter().map(judge).collect();
        output::table(&["judge", "scores", "mean", "above the median"], &rows)?;
    }
    let sessions = list(report, "/items");
    if !sessions.is_empty() {
        let rows: Vec<Vec<String>> = sessions.iter().map(session).collect();
        let head = [
            "session", "asked", "scores", "median", "rating", "sd", "range", "flips", "flags",
        ];
        output::table(&head, &rows)?;
    }
    if !text(report, "/next_cursor").is_empty() && !sessions.is_empty() {
        output::note(&format!(
            "shown: {}; --limit shows more",
            output::counted(sessions.len() as u64, "session")
        ));
    }
    for warning in list(report, "/warnings") {
        output::note(&format!("note: {}", warning.as_str().unwrap_or_default()));
    }
    Ok(())
}

/// All sessions together, in words.
fn whole(summary: &Value) -> Vec<String> {
    let count = |name: &str| summary[name].as_u64().unwrap_or(0);
    let mut lines = vec![format!(
        "{} of {}, {} of which with all of theirs",
        output::counted(count("scores"), "score"),
        output::counted(count("sessions"), "session"),
        count("complete")
    )];
    let sd = rounded(summary["mean_sd"].as_f64(), 1);
    let flips = summary["flip_share"].as_f64().map(|share| share * 100.0);
    if let (false, Some(flips)) = (sd.is_empty(), flips) {
        lines.push(format!(
            "standard deviation {sd} points on average; {flips:.0} % of the scores have another word than their session's \
             median; totals more than 15 points apart: those of {}",
            output::counted(count("disagreements"), "session")
        ));
    }
    lines
}

fn judge(judge: &Value) -> Vec<String> {
    let above = judge["mean_difference"].as_f64().unwrap_or_default();
    vec![
        cell(judge, "/judge"),
        cell(judge, "/scores"),
        rounded(judge["mean"].as_f64(), 1),
        format!("{above:+.1}"),
    ]
}

fn session(session: &Value) -> Vec<String> {
    let totals: Vec<String> = list(session, "/scores")
        .iter()
        .map(|vote| cell(vote, "/total"))
        .collect();
    vec![
        cell(session, "/session_id"),
        cell(session, "/asked"),
        totals.join(" "),
        rounded(session["median"].as_f64(), 1),
        cell(session, "/rating").replace('_', " "),
        rounded(session["sd"].as_f64(), 1),
        cell(session, "/range"),
        cell(session, "/flips"),
        cell(session, "/flags").replace('_', " "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_told_where_there_is_one() {
        let summary = json!({
            "sessions": 3, "complete": 2, "scores": 7, "mean_sd": 8.14, "flip_share": 0.1429, "disagreements": 1,
        });
        let lines = whole(&summary);
        assert_eq!(
            lines[0],
            "7 scores of 3 sessions, 2 of which with all of theirs"
        );
        assert!(
            lines[1].starts_with("standard deviation 8.1 points on average; 14 % of the scores")
        );
        let none = json!({ "sessions": 3, "scores": 0, "mean_sd": null, "flip_share": null });
        assert_eq!(whole(&none).len(), 1);
        let mild = json!({ "judge": "a", "scores": 2, "mean": 71.25, "mean_difference": 2.5 });
        assert_eq!(judge(&mild), ["a", "2", "71.2", "+2.5"]);
        let one = json!({
            "session_id": "s", "asked": 3, "scores": [{"total": 90}, {"total": 60}], "median": 75.0, "rating": "good",
            "sd": 21.2132, "range": 30.0, "flips": 2, "flags": ["jury_disagreement"],
        });
        let row = session(&one);
        assert_eq!(row[2..6], ["90 60", "75.0", "good", "21.2"]);
        assert_eq!(row[8], "jury disagreement");
    }
}
