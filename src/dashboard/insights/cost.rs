//! Cost of judges and suites. A cost without a price is unknown, not 0.

use chrono::NaiveDate;

use super::super::chart::{Bar, Chart, bars};
use super::super::figures::{each_day, short_day};
use super::super::words;
use crate::wire::CostList;

/// Chart of daily cost from the first day with a call to the last. `None` if no call has a price.
pub(super) fn chart(costs: &CostList) -> Option<Chart> {
    let usd = |cost: f64| words::usd(Some(cost)).replace(" USD", "");
    let bar = |day: NaiveDate| {
        let calls = costs.items.iter().find(|cost| cost.day == Some(day));
        Bar {
            label: short_day(day),
            value: calls
                .and_then(|cost| cost.figures.cost_usd)
                .unwrap_or_default(),
            shown: calls.map_or_else(
                || "no call".to_owned(),
                |cost| {
                    let figures = &cost.figures;
                    words::usd_at_least(figures.cost_usd, figures.unpriced_calls)
                        .replace(" USD", "")
                },
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
    let summary = format!(
        "{} in all, by day.",
        words::usd_at_least(total.cost_usd, total.unpriced_calls)
    );
    Some(bars(
        "What judges cost, USD",
        summary,
        ("Day", "USD"),
        &days,
        usd,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{CostFigures, CostItem, UsageBy};

    #[test]
    fn chart_includes_days_without_calls_or_prices() {
        let figures = |cost_usd, unpriced_calls| CostFigures {
            calls: 3,
            failed_calls: 0,
            tokens_in: 0,
            tokens_in_cached: 0,
            tokens_out: 0,
            cost_usd,
            unpriced_calls,
        };
        let item = |day: &str, cost_usd, unpriced_calls| CostItem {
            day: day.parse().ok(),
            judge: None,
            model: None,
            figures: figures(cost_usd, unpriced_calls),
        };
        let items = [
            item("2026-11-02", Some(0.5), 0),
            item("2026-11-04", None, 2),
            item("2026-11-05", Some(1.5), 1),
        ];
        let costs = CostList {
            by: UsageBy::Day,
            from: NaiveDate::default(),
            to: NaiveDate::default(),
            items: items.to_vec(),
            total: figures(Some(2.0), 3),
            next_cursor: None,
        };
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
