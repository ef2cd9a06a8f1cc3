//! Text output of a comparison of two criteria versions: their scores for the same sessions and their text diff.

use crate::cli::outcome::Exit;
use crate::cli::output::{Column, Printable, Row, Text, rounded};
use crate::wire::words;
use crate::wire::{CriteriaComparison, CriteriaDiff, Mover};

impl Printable for CriteriaComparison {
    fn text(&self, out: &mut Text) {
        out.line(format!("a  {}\nb  {}\n", self.a, self.b));
        out.line(format!(
            "{} under both, {} only under a, {} only under b",
            words::counted(self.n, "session"),
            self.only_a,
            self.only_b
        ));
        if self.simulated {
            out.line("SIMULATED: made up by a simulated judge");
        }
        if self.n > 0 {
            figures(self, out);
        }
        out.warnings(&self.warnings);
    }

    fn exit(&self) -> Exit {
        Exit::nothing_if(self.n == 0)
    }
}

fn figures(found: &CriteriaComparison, out: &mut Text) {
    let number = |figure: Option<f64>| rounded(figure, 2);
    let difference = found.mean_difference;
    let interval = match difference.and_then(|difference| difference.low.zip(difference.high)) {
        None => String::new(),
        Some((low, high)) => format!(", 95 % from {low:.2} to {high:.2}"),
    };
    out.line(format!(
        "mean {} under a, {} under b: {}{interval}",
        number(found.mean_a),
        number(found.mean_b),
        number(difference.map(|difference| difference.value))
    ));
    let order = match found.kendall_tau_b {
        None => "no order to compare".to_owned(),
        Some(tau) => format!("Kendall's tau-b of the two orders is {tau:.2}"),
    };
    let changed = words::percent(found.changed.unwrap_or_default());
    out.line(format!("{order}; {changed} have another rating\n"));
    out.counts("a \\ b", &found.ratings);
    if !found.movers.is_empty() {
        out.line("");
        out.rows(&found.movers);
    }
}

impl Row for Mover {
    const COLUMNS: &'static [Column<Self>] = &[
        ("moved most", |it| it.session_id.to_string()),
        ("a", |it| it.a.to_string()),
        ("b", |it| it.b.to_string()),
        ("by", |it| it.difference.to_string()),
    ];
}

impl Printable for CriteriaDiff {
    fn text(&self, out: &mut Text) {
        for part in &self.parts {
            out.line(part.diff.trim_end_matches('\n'));
        }
        if self.parts.is_empty() {
            out.note("the two don't differ");
        }
    }
}
