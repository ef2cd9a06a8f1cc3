//! `gavel analytics` and `gavel costs`: statistics over scores and judge calls, as tables.

use chrono::{Days, TimeDelta};
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;

use super::Global;
use super::connection::{Common, given};
use super::outcome::{CliError, Exit};
use super::output::{self, Column, Printable, Row, TableRow, Text, or_dash};
use crate::client::Client;
use crate::clock::{Clock as _, SystemClock};
use crate::wire::{
    Bucket, CostFigures, CostItem, CostList, Coverage, Distribution, NameItem, NameList, Period,
    RatingShare, Trend, TrendItem, UsageBy, words,
};

/// Show statistics over current scores
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  gavel analytics missing-tools --limit 20\n  gavel analytics distribution --days 30\n  gavel analytics trend --every week --json"
)]
pub(super) enum Analytics {
    /// Show tools that agents missed or left unused, by number of sessions
    MissingTools(NamesArgs),
    /// Show alternative approaches to investigations, by number of sessions
    Approaches(NamesArgs),
    /// Show the distribution of scores; of the current criteria unless --criteria is given
    Distribution(ScoreArgs),
    /// Show the trend of scores by criteria; the last 30 periods unless --days is given
    Trend {
        /// Period: day, week or month
        #[arg(long, default_value_t = Period::Day, value_name = "PERIOD")]
        every: Period,
        #[command(flatten)]
        scores: ScoreArgs,
    },
}

#[derive(Debug, Args)]
pub(super) struct NamesArgs {
    /// Maximum number of results
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    scores: ScoreArgs,
}

#[derive(Debug, Args)]
pub(super) struct ScoreArgs {
    /// Only scores made with these criteria: any, current, or a hash (at least 8 digits)
    #[arg(long, value_name = "CRITERIA")]
    criteria: Option<String>,
    /// Only sessions completed within this many days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=3660))]
    days: Option<u16>,
    #[command(flatten)]
    common: Common,
}

impl Analytics {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match self {
            Self::MissingTools(names) => names.show(global, "missing-tools").await,
            Self::Approaches(names) => names.show(global, "approaches").await,
            Self::Distribution(scores) => {
                if scores.criteria.is_none() {
                    output::note("scores by the current criteria; all of them: --criteria any");
                }
                scores
                    .show::<Distribution>(global, "distribution", None)
                    .await
            }
            Self::Trend { every, scores } => {
                let every = Some(("every", every.to_string()));
                scores.show::<Trend>(global, "trend", every).await
            }
        }
    }
}

impl NamesArgs {
    async fn show(&self, global: &Global, route: &str) -> Result<Exit, CliError> {
        let limit = Some(("limit", self.limit.to_string()));
        self.scores.show::<NameList>(global, route, limit).await
    }
}

impl ScoreArgs {
    /// Requests `route`, the last segment of the path, with an additional query parameter.
    async fn show<T: DeserializeOwned + Printable>(
        &self,
        global: &Global,
        route: &str,
        more: Option<(&str, String)>,
    ) -> Result<Exit, CliError> {
        let from = self
            .days
            .map(|days| (SystemClock.now() - TimeDelta::days(days.into())).to_rfc3339());
        let mut query = given([("criteria", self.criteria.clone()), ("from", from)]);
        query.extend(more);
        let ask = async |client: &Client| client.analytics::<T>(route, &query).await;
        self.common.print(global, ask).await
    }
}

impl Printable for NameList {
    fn text(&self, out: &mut Text) {
        out.rows(&self.items);
        out.line(format!("{} scored sessions", self.scores));
        out.warnings(&self.warnings);
    }
}

impl Row for NameItem {
    const COLUMNS: &'static [Column<Self>] = &[
        ("name", |it| it.name.clone()),
        ("sessions", |it| it.sessions.to_string()),
        ("of all", |it| percent(it.share)),
        ("also spelled", |it| {
            let others = it.spellings.iter().skip(1);
            let others: Vec<&str> = others.map(|spelling| spelling.name.as_str()).collect();
            others.join(", ")
        }),
    ];
}

impl Row for Bucket {
    const COLUMNS: &'static [Column<Self>] = &[
        ("total", |it| format!("{}-{}", it.from, it.to)),
        ("scores", |it| it.scores.to_string()),
    ];
}

impl Row for RatingShare {
    const COLUMNS: &'static [Column<Self>] = &[
        ("rating", |it| it.rating.to_string()),
        ("scores", |it| it.scores.to_string()),
        ("of all", |it| percent(it.share)),
    ];
}

impl Printable for Distribution {
    fn text(&self, out: &mut Text) {
        out.rows(&self.histogram);
        out.rows(&self.ratings);
        let figures = [
            ("mean", self.mean),
            ("median", self.median),
            ("sd", self.sd),
            ("quartile_1", self.quartile_1),
            ("quartile_3", self.quartile_3),
            ("min", self.min.map(f64::from)),
            ("max", self.max.map(f64::from)),
        ];
        let figures = figures.map(|(name, figure)| format!("{name} {}", number(figure)));
        out.line(figures.join(", "));
        let Coverage {
            scored,
            sessions,
            share,
            ..
        } = self.coverage;
        let share = percent(share);
        out.line(format!("{scored} of {sessions} sessions ({share})"));
        out.warnings(&self.warnings);
    }
}

impl Printable for Trend {
    fn text(&self, out: &mut Text) {
        let row = |item: &TrendItem| {
            vec![
                item.period.to_string(),
                item.criteria_hash.chars().take(12).collect(),
                item.scores.to_string(),
                number(item.mean),
                number(item.median),
            ]
        };
        let head = [self.every.as_str(), "criteria", "scores", "mean", "median"];
        out.table(&head, self.items.iter().map(row));
        out.warnings(&self.warnings);
    }
}

/// Formats a number with one decimal; `None` as a dash.
fn number(figure: Option<f64>) -> String {
    or_dash(figure.map(|figure| format!("{figure:.1}")))
}

fn percent(share: Option<f64>) -> String {
    or_dash(share.map(words::percent))
}

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
