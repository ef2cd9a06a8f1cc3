//! Two definitions beside each other, printed: what they make of the same sessions, and how their texts differ.

use std::io;

use crate::cli::outcome::{CliError, Exit};
use crate::cli::output::{self, Printed, rounded};
use crate::wire::words;
use crate::wire::{CriteriaComparison, CriteriaDiff, Mover};

impl Printed for CriteriaComparison {
    fn print(&self) -> Result<(), CliError> {
        output::line(&format!("a  {}\nb  {}\n", self.a, self.b))?;
        output::line(&format!(
            "{} under both, {} under a alone, {} under b alone",
            words::counted(self.n, "session"),
            self.only_a,
            self.only_b
        ))?;
        if self.simulated {
            output::line("SIMULATED: made up by a simulated judge")?;
        }
        if self.n > 0 {
            figures(self)?;
        }
        output::warnings(&self.warnings);
        Ok(())
    }

    fn exit(&self) -> Exit {
        match self.n {
            0 => Exit::Nothing,
            _ => Exit::Done,
        }
    }
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
    if !found.movers.is_empty() {
        output::line("")?;
        let head = ["moved most", "a", "b", "by"];
        output::table(&head, found.movers.iter().map(row))?;
    }
    Ok(())
}

impl Printed for CriteriaDiff {
    fn print(&self) -> Result<(), CliError> {
        for part in &self.parts {
            output::line(output::clean(&part.diff).trim_end_matches('\n'))?;
        }
        if self.parts.is_empty() {
            output::note("the two don't differ");
        }
        Ok(())
    }
}
