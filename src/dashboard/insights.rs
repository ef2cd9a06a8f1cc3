//! `/insights`: what criteria and agents do over time. Too few scores are said, not drawn.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::Deserialize;

use super::address::Address;
use super::chart::{Bar, Chart, bars};
use super::figures::{Distribution, Name, Names, Trend, days_ago, percent};
use super::form::query;
use super::frame::Frame;
use super::page::{Page, html};
use super::site::Site;
use super::visitor::Visitor;
use super::words;

/// How many names are shown.
const NAMES: u32 = 15;

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new().route("/insights", get(insights))
}

/// Of what time and criteria.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Choice {
    criteria: String,
    days: String,
}

impl Choice {
    fn days(&self) -> i64 {
        let days = self.days.parse().unwrap_or(90);
        if matches!(days, 14 | 30 | 90 | 365) {
            days
        } else {
            90
        }
    }
}

#[derive(Debug, Deserialize)]
struct Costs {
    items: Vec<Cost>,
    total: CostFigures,
}

#[derive(Debug, Deserialize)]
struct Cost {
    day: Option<String>,
    cost_usd: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct CostFigures {
    calls: i64,
    failed_calls: i64,
    cost_usd: Option<f64>,
    unpriced_calls: i64,
}

#[derive(Debug, Deserialize)]
struct Agreement {
    scales: Vec<Scale>,
}

#[derive(Debug, Deserialize)]
struct Scale {
    scale: String,
    n: i64,
    raters: i64,
    raw: Option<f64>,
    kappa_quadratic: Option<Kappa>,
    strength: Option<String>,
    confusion: Table,
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Kappa {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Table {
    labels: Vec<String>,
    table: Vec<Vec<i64>>,
}

/// How far people and the judge agree, on one scale.
struct Trust {
    scale: String,
    says: String,
    labels: Vec<String>,
    rows: Vec<(String, Vec<i64>)>,
    warnings: Vec<String>,
}

/// A name with how often it comes up.
struct Frequent {
    name: String,
    sessions: String,
    share: String,
    width: f64,
    to: String,
}

#[derive(Template)]
#[template(path = "insights.html")]
struct Insights {
    frame: Frame,
    choice: Choice,
    days: i64,
    scores: i64,
    warnings: Vec<String>,
    distribution: Option<Chart>,
    trend: Option<Chart>,
    missing: Vec<Frequent>,
    approaches: Vec<Frequent>,
    costs: Option<Chart>,
    spent: String,
    calls: String,
    trust: Vec<Trust>,
}

async fn insights(
    State(site): State<Site>,
    visitor: Visitor,
    Address(choice): Address<Choice>,
) -> Page {
    let (door, caller, days) = (&site.door, &visitor.caller, choice.days());
    let from = days_ago(site.about.clock.now(), days);
    let asked = |route: &str, more: &[(&str, &str)]| {
        let mut pairs = vec![
            ("from", from.as_str()),
            ("criteria", choice.criteria.as_str()),
        ];
        pairs.extend_from_slice(more);
        format!("/api/v1/analytics/{route}{}", query(&pairs))
    };
    let limit = NAMES.to_string();
    let limit = [("limit", limit.as_str())];
    let every = [("every", if days > 100 { "month" } else { "day" })];
    let (distribution, trend) = (asked("distribution", &[]), asked("trend", &every));
    let (missing, approaches) = (asked("missing-tools", &limit), asked("approaches", &limit));
    let costs = format!(
        "/api/v1/analytics/costs?from={}",
        from.get(..10).unwrap_or(&from)
    );
    let agreement = format!(
        "/api/v1/analytics/agreement{}",
        query(&[(
            "criteria",
            if choice.criteria == "any" {
                ""
            } else {
                &choice.criteria
            }
        )])
    );
    let (distribution, trend, missing, approaches, costs, agreement) = tokio::try_join!(
        door.get::<Distribution>(caller, &distribution),
        door.get::<Trend>(caller, &trend),
        door.get::<Names>(caller, &missing),
        door.get::<Names>(caller, &approaches),
        door.get::<Costs>(caller, &costs),
        door.find::<Agreement>(caller, &agreement),
    )?;
    let total = &costs.total;
    html(&Insights {
        frame: Frame::of(&site, visitor, "Insights", "Insights").await,
        days,
        scores: distribution.scores,
        distribution: distribution.chart(),
        warnings: distribution.warnings,
        trend: trend.chart(),
        missing: frequent(missing.items, |name| {
            format!("/sessions{}", query(&[("missing_tool", name)]))
        }),
        approaches: frequent(approaches.items, |_| String::new()),
        spent: words::usd(total.cost_usd),
        calls: format!(
            "{} calls, {} without a good reply, {} without a price",
            words::grouped(total.calls),
            words::grouped(total.failed_calls),
            words::grouped(total.unpriced_calls)
        ),
        costs: cost_chart(&costs),
        trust: agreement.map_or_else(Vec::new, |report| {
            report.scales.into_iter().map(Trust::of).collect()
        }),
        choice,
    })
}

/// What was spent, a bar a day; nothing where nothing is priced.
fn cost_chart(costs: &Costs) -> Option<Chart> {
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
    let says = format!("{} in all, by day.", words::usd(costs.total.cost_usd));
    let usd = |cost: f64| words::usd(Some(cost)).replace(" USD", "");
    Some(bars(
        "What judges cost, USD",
        says,
        ("Day", "USD"),
        &days,
        usd,
    ))
}

fn frequent(names: Vec<Name>, to: impl Fn(&str) -> String) -> Vec<Frequent> {
    let most = names
        .iter()
        .map(|name| name.sessions)
        .max()
        .unwrap_or(1)
        .max(1);
    let width = |n: i64| f64::from(u32::try_from(100 * n / most).unwrap_or(0));
    names
        .into_iter()
        .map(|name| Frequent {
            to: to(&name.name),
            sessions: words::grouped(name.sessions),
            share: percent(name.share),
            width: width(name.sessions),
            name: name.name,
        })
        .collect()
}

impl Trust {
    fn of(scale: Scale) -> Self {
        let mut says = format!(
            "{} ratings by {} people: the same word in {}",
            scale.n,
            scale.raters,
            percent(scale.raw)
        );
        if let Some(kappa) = &scale.kappa_quadratic {
            says.push_str(&format!(", kappa {:.2}", kappa.value));
            if let (Some(low), Some(high)) = (kappa.low, kappa.high) {
                says.push_str(&format!(" (95 %: {low:.2} to {high:.2})"));
            }
        }
        if let Some(strength) = &scale.strength {
            says.push_str(&format!(", {}", strength.replace('_', " ")));
        }
        let word = |label: &String| label.replace('_', " ");
        Self {
            scale: scale.scale,
            says: says + ".",
            rows: scale
                .confusion
                .labels
                .iter()
                .map(word)
                .zip(scale.confusion.table)
                .collect(),
            labels: scale.confusion.labels.iter().map(word).collect(),
            warnings: scale.warnings,
        }
    }
}
