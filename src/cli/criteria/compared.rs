//! Two definitions beside each other, printed: what they make of the same sessions, and how their texts differ.

use serde_json::{Value, json};

use crate::cli::outcome::{CliError, Exit};
use crate::cli::output::{self, cell, rounded};
use crate::client::list;

/// Prints what two definitions make of the same sessions. Exit 4 where there are none.
pub(super) fn print_comparison(found: &Value, as_json: bool) -> Result<Exit, CliError> {
    let exit = if found["n"] == json!(0) {
        Exit::Nothing
    } else {
        Exit::Done
    };
    if as_json {
        output::json(found)?;
        return Ok(exit);
    }
    output::line(&format!("a  {}", cell(found, "/a")))?;
    output::line(&format!("b  {}", cell(found, "/b")))?;
    output::line(&format!(
        "\n{} under both, {} under a alone, {} under b alone",
        output::counted(found["n"].as_u64().unwrap_or(0), "session"),
        cell(found, "/only_a"),
        cell(found, "/only_b")
    ))?;
    if found["simulated"] == json!(true) {
        output::line("SIMULATED: made up by a simulated judge")?;
    }
    if exit == Exit::Done {
        figures(found)?;
    }
    for warning in list(found, "/warnings") {
        output::note(&format!("note: {}", warning.as_str().unwrap_or_default()));
    }
    Ok(exit)
}

fn figures(found: &Value) -> Result<(), CliError> {
    let number = |pointer: &str| rounded(found, pointer, 2);
    let interval = match number("/mean_difference/low") {
        low if low.is_empty() => String::new(),
        low => format!(", 95 % from {low} to {}", number("/mean_difference/high")),
    };
    output::line(&format!(
        "mean {} under a, {} under b: {}{interval}",
        number("/mean_a"),
        number("/mean_b"),
        number("/mean_difference/value")
    ))?;
    let order = match number("/kendall_tau_b") {
        tau if tau.is_empty() => "there is no order to compare".to_owned(),
        tau => format!("Kendall's tau-b of the two orders is {tau}"),
    };
    let changed = found["changed"].as_f64().unwrap_or_default() * 100.0;
    output::line(&format!("{order}; {changed:.0} % have another rating\n"))?;
    output::counts("a \\ b", &found["ratings"])?;
    let rows: Vec<Vec<String>> = list(found, "/movers")
        .iter()
        .map(|mover| {
            vec![
                cell(mover, "/session_id"),
                cell(mover, "/a"),
                cell(mover, "/b"),
                cell(mover, "/difference"),
            ]
        })
        .collect();
    if !rows.is_empty() {
        output::line("")?;
        output::table(&["moved most", "a", "b", "by"], &rows)?;
    }
    Ok(())
}

/// Prints how the texts of two definitions differ.
pub(super) fn print_diff(found: &Value, as_json: bool) -> Result<Exit, CliError> {
    if as_json {
        output::json(found)?;
        return Ok(Exit::Done);
    }
    for part in list(found, "/parts") {
        output::line(output::clean(&cell(part, "/diff")).trim_end_matches('\n'))?;
    }
    if list(found, "/parts").is_empty() {
        output::note("the two don't differ");
    }
    Ok(Exit::Done)
}
