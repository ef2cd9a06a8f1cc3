//! What judges and suites cost. What has no price is unknown, and never 0.

use serde::Deserialize;

use super::super::chart::{Bar, Chart, bars};
use super::super::words;

/// The bill, day by day.
#[derive(Debug, Deserialize)]
pub(super) struct Costs {
    items: Vec<Cost>,
    pub(super) total: CostFigures,
}

/// A day of it.
#[derive(Debug, Deserialize)]
pub(super) struct Cost {
    day: Option<String>,
    cost_usd: Option<f64>,
}

/// What calls came to.
#[derive(Debug, Deserialize)]
pub(super) struct CostFigures {
    pub(super) calls: i64,
    pub(super) failed_calls: i64,
    pub(super) cost_usd: Option<f64>,
    pub(super) unpriced_calls: i64,
}

/// What batches cost, by name.
#[derive(Debug, Deserialize)]
pub(super) struct BatchCosts {
    items: Vec<BatchCost>,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct BatchCost {
    name: Option<String>,
    kind: String,
    batches: i64,
    tokens_in: i64,
    tokens_out: i64,
    cost_usd: Option<f64>,
    unpriced_runs: i64,
}

/// The batches of one name as a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SuiteCost {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) batches: String,
    pub(super) tokens_in: String,
    pub(super) tokens_out: String,
    pub(super) cost: String,
}

impl BatchCosts {
    /// A row for each name, the dearest first.
    pub(super) fn rows(self) -> Vec<SuiteCost> {
        self.items.into_iter().map(SuiteCost::of).collect()
    }
}

impl SuiteCost {
    fn of(cost: BatchCost) -> Self {
        Self {
            name: cost.name.unwrap_or_else(|| "without a name".to_owned()),
            kind: cost.kind.replace('_', " "),
            batches: words::grouped(cost.batches),
            tokens_in: words::grouped(cost.tokens_in),
            tokens_out: words::grouped(cost.tokens_out),
            cost: words::usd_at_least(cost.cost_usd, cost.unpriced_runs),
        }
    }
}

/// What was spent, a bar a day; nothing where nothing is priced.
pub(super) fn chart(costs: &Costs) -> Option<Chart> {
    let day = |cost: &Cost| {
        Some(Bar {
            label: cost.day.as_deref()?.get(5..)?.to_owned(),
            value: cost.cost_usd?,
            class: String::new(),
        })
    };
    let days: Vec<Bar> = costs.items.iter().filter_map(day).collect();
    if days.iter().all(|day| day.value <= 0.0) {
        return None;
    }
    let total = &costs.total;
    let says = format!(
        "{} in all, by day.",
        words::usd_at_least(total.cost_usd, total.unpriced_calls)
    );
    let usd = |cost: f64| words::usd(Some(cost)).replace(" USD", "");
    Some(bars(
        "What judges cost, USD",
        says,
        ("Day", "USD"),
        &days,
        usd,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_whose_cost_is_unknown_is_never_shown_as_free() {
        let cost = |cost_usd, unpriced_runs| {
            let row = SuiteCost::of(BatchCost {
                name: None,
                kind: "sql_metrics".to_owned(),
                batches: 2,
                tokens_in: 1_000,
                tokens_out: 10,
                cost_usd,
                unpriced_runs,
            });
            row.cost
        };
        assert_eq!(cost(None, 4), "no price known");
        assert_eq!(cost(Some(0.0), 0), words::usd(Some(0.0)));
        assert_eq!(
            cost(Some(1.5), 1),
            format!("more than {}", words::usd(Some(1.5)))
        );
    }
}
