//! What judges and suites cost. What has no price is unknown, and never 0.

use chrono::NaiveDate;
use serde::Deserialize;

use super::super::chart::{Bar, Chart, bars};
use super::super::figures::{each_day, short_day};
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
    day: Option<NaiveDate>,
    cost_usd: Option<f64>,
    unpriced_calls: i64,
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
    unpriced_calls: i64,
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
            cost: words::usd_at_least(cost.cost_usd, cost.unpriced_calls),
        }
    }
}

/// What was spent, a bar for every day from the first with a call to the last; nothing where nothing is priced.
pub(super) fn chart(costs: &Costs) -> Option<Chart> {
    let usd = |cost: f64| words::usd(Some(cost)).replace(" USD", "");
    let bar = |day: NaiveDate| {
        let told = costs.items.iter().find(|cost| cost.day == Some(day));
        Bar {
            label: short_day(day),
            value: told.and_then(|cost| cost.cost_usd).unwrap_or_default(),
            told: told.map_or_else(
                || "no call".to_owned(),
                |cost| words::usd_at_least(cost.cost_usd, cost.unpriced_calls).replace(" USD", ""),
            ),
            class: String::new(),
        }
    };
    let days = each_day(costs.items.iter().filter_map(|cost| cost.day));
    let days: Vec<Bar> = days.into_iter().map(bar).collect();
    if days.iter().all(|day| day.value <= 0.0) {
        return None;
    }
    let total = &costs.total;
    let says = format!(
        "{} in all, by day.",
        words::usd_at_least(total.cost_usd, total.unpriced_calls)
    );
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
        let cost = |cost_usd, unpriced_calls| {
            let row = SuiteCost::of(BatchCost {
                name: None,
                kind: "sql_metrics".to_owned(),
                batches: 2,
                tokens_in: 1_000,
                tokens_out: 10,
                cost_usd,
                unpriced_calls,
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

    #[test]
    fn days_without_calls_keep_their_place_and_those_without_a_price_are_not_free() {
        let item = |day, cost_usd: Option<f64>, unpriced_calls| serde_json::json!({"day": day, "cost_usd": cost_usd, "unpriced_calls": unpriced_calls});
        let total = serde_json::json!({"calls": 9, "failed_calls": 0, "cost_usd": 2.0, "unpriced_calls": 3});
        let items = [
            item("2026-11-02", Some(0.5), 0),
            item("2026-11-04", None, 2),
            item("2026-11-05", Some(1.5), 1),
        ];
        let costs = serde_json::json!({"items": items, "total": total});
        let costs: Costs = serde_json::from_value(costs).unwrap();
        let page = askama::Template::render(&chart(&costs).unwrap()).unwrap();
        let cells: Vec<&str> = page
            .split("<td>")
            .skip(1)
            .filter_map(|rest| rest.split("</td>").next())
            .collect();
        assert_eq!(
            cells,
            [
                "2 Nov",
                "0.5000",
                "3 Nov",
                "no call",
                "4 Nov",
                "no price known",
                "5 Nov",
                "more than 1.50"
            ]
        );
        assert_eq!(page.matches("<rect").count(), 4, "{page}");
    }
}
