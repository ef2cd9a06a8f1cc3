//! Two definitions beside each other, printed: what they make of the same sessions, and how their texts differ.

use std::io;

use crate::cli::outcome::{CliError, Exit};
use crate::cli::output::{self, rounded};
use crate::wire::words;
use crate::wire::{CriteriaComparison, CriteriaDiff, Mover};

/// Prints what two definitions make of the same sessions. Exit 4 where there are none.
pub(super) fn print_comparison(
    found: &CriteriaComparison,
    as_json: bool,
) -> Result<Exit, CliError> {
    let exit = match found.n {
        0 => Exit::Nothing,
        _ => Exit::Done,
    };
    if as_json {
        output::json(found)?;
        return Ok(exit);
    }
    output::line(&format!("a  {}", found.a))?;
    output::line(&format!("b  {}", found.b))?;
    output::line(&format!(
        "\n{} under both, {} under a alone, {} under b alone",
        words::counted(found.n, "session"),
        found.only_a,
        found.only_b
    ))?;
    if found.simulated {
        output::line("SIMULATED: made up by a simulated judge")?;
    }
    if exit == Exit::Done {
        figures(found)?;
    }
    for warning in &found.warnings {
        output::note(&format!("note: {warning}"));
    }
    Ok(exit)
}

fn figures(found: &CriteriaComparison) -> io::Result<()> {
    let number = |figure: Option<f64>| rounded(figure, 2);
    let difference = found.mean_difference;
    let interval = match difference.and_then(|difference| difference.low.zip(difference.high)) {
        None => String::new(),
        Some((low, high)) => format!(", 95 % from {low:.2} to {high:.2}"),
    };
    output::line(&format!(
        "mean {} under a, {} under b: {}{interval}",
        number(found.mean_a),
        number(found.mean_b),
        number(difference.map(|difference| difference.value))
    ))?;
    let order = match found.kendall_tau_b {
        None => "there is no order to compare".to_owned(),
        Some(tau) => format!("Kendall's tau-b of the two orders is {tau:.2}"),
    };
    let changed = words::percent(found.changed.unwrap_or_default());
    output::line(&format!("{order}; {changed} have another rating\n"))?;
    output::counts("a \\ b", &found.ratings)?;
    let row = |mover: &Mover| {
        vec![
            mover.session_id.to_string(),
            mover.a.to_string(),
            mover.b.to_string(),
            mover.difference.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = found.movers.iter().map(row).collect();
    if !rows.is_empty() {
        output::line("")?;
        output::table(&["moved most", "a", "b", "by"], &rows)?;
    }
    Ok(())
}

/// Prints how the texts of two definitions differ.
pub(super) fn print_diff(found: &CriteriaDiff, as_json: bool) -> Result<Exit, CliError> {
    if as_json {
        output::json(found)?;
        return Ok(Exit::Done);
    }
    for part in &found.parts {
        output::line(output::clean(&part.diff).trim_end_matches('\n'))?;
    }
    if found.parts.is_empty() {
        output::note("the two don't differ");
    }
    Ok(Exit::Done)
}
