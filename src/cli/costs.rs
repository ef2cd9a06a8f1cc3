//! `gavel costs`: cost of judge calls.

use chrono::Days;
use clap::Args;

use super::Global;
use super::connection::Common;
use super::outcome::{CliError, Exit};
use super::output::{Printable, TableRow, Text};
use crate::client::Client;
use crate::clock::{Clock as _, SystemClock};
use crate::wire::words;
use crate::wire::{CostFigures, CostItem, CostList, UsageBy};

/// Show the cost of judge calls, by day, judge or model
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel costs\n  gavel costs --by model --days 7\n  gavel costs --by judge --json",
    long_about = "Show the cost of judge calls, by day, judge or model.\n\nDays are UTC. Retries and repairs count. \
        Calls to a model without a price in llm_providers.yaml are unpriced: their cost is unknown and not included \
        in the sum."
)]
pub(super) struct Costs {
    /// Group by day, judge or model
    #[arg(long, default_value_t = UsageBy::Day, value_name = "WHAT")]
    by: UsageBy,
    /// Number of days, including today
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3660))]
    days: u16,
    #[command(flatten)]
    common: Common,
}

impl Costs {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let today = SystemClock.now().date_naive();
        let first = today.checked_sub_days(Days::new(u64::from(self.days.saturating_sub(1))));
        let query = [
            ("by", self.by.as_str().to_owned()),
            ("from", first.unwrap_or(today).to_string()),
            ("to", today.to_string()),
        ];
        let ask = async |client: &Client| client.costs(&query).await;
        self.common.print(global, ask).await
    }
}

impl Printable for CostList {
    fn text(&self, out: &mut Text) {
        let total = cells("total".to_owned(), &self.total);
        let head = [
            self.by.as_str(),
            "calls",
            "failed",
            "tokens in",
            "of them cached",
            "tokens out",
            "cost USD",
            "unpriced calls",
        ];
        let rows = self.items.iter().map(row).chain([total]);
        out.table(&head, rows);
    }
}

fn row(line: &CostItem) -> TableRow {
    let day = line.day.map(|day| day.to_string());
    let names = [day, line.judge.clone(), line.model.clone()];
    let names: Vec<String> = names.into_iter().flatten().collect();
    cells(names.join(": "), &line.figures)
}

fn cells(name: String, figures: &CostFigures) -> TableRow {
    let counts = [
        figures.calls,
        figures.failed_calls,
        figures.tokens_in,
        figures.tokens_in_cached,
        figures.tokens_out,
    ];
    let mut cells = vec![name];
    cells.extend(counts.map(|count| count.to_string()));
    cells.push(usd(figures.cost_usd));
    cells.push(figures.unpriced_calls.to_string());
    cells
}

/// Formats an amount; `None` as unknown.
pub(super) fn usd(amount: Option<f64>) -> String {
    amount.map_or_else(|| "unknown".to_owned(), |usd| format!("{usd:.4}"))
}

/// Number of calls without a price, as a suffix of the amount. Empty without such calls.
pub(super) fn without_price(calls: u64) -> String {
    match calls {
        0 => String::new(),
        n => format!(" ({} without a price)", words::counted(n, "call")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_cost_is_not_0() {
        assert_eq!(usd(None), "unknown");
        assert_eq!(usd(Some(0.0)), "0.0000");
        assert_eq!(usd(Some(1.25)), "1.2500");
        let line = CostItem {
            day: None,
            judge: Some("a".to_owned()),
            model: Some("m".to_owned()),
            figures: CostFigures {
                calls: 2,
                failed_calls: 0,
                tokens_in: 0,
                tokens_in_cached: 0,
                tokens_out: 0,
                cost_usd: None,
                unpriced_calls: 2,
            },
        };
        assert_eq!(row(&line)[0], "a: m");
        assert_eq!(row(&line)[6..], ["unknown", "2"]);
    }
}
