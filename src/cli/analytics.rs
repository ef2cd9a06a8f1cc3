//! `gavel analytics`: statistics over scores, as tables.

use chrono::TimeDelta;
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;

use super::Global;
use super::connection::{Common, given};
use super::outcome::{CliError, Exit};
use super::output::{self, Column, Printable, Row, Text};
use crate::client::Client;
use crate::clock::{Clock as _, SystemClock};
use crate::wire::words;
use crate::wire::{
    Bucket, Coverage, Distribution, NameItem, NameList, Period, RatingShare, Trend, TrendItem,
};

/// Show statistics over current scores
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel analytics missing-tools --limit 20\n  gavel analytics distribution --days 30\n  gavel analytics trend --every week --json"
)]
pub(super) struct Analytics {
    #[command(subcommand)]
    command: AnalyticsCommand,
}

#[derive(Debug, Subcommand)]
enum AnalyticsCommand {
    /// Show tools that agents missed or left unused, by number of sessions
    MissingTools(NamesArgs),
    /// Show alternative approaches to investigations, by number of sessions
    Approaches(NamesArgs),
    /// Show the distribution of scores; of the current criteria unless --criteria is given
    Distribution {
        /// Bucket size in points: 5 or 10
        #[arg(long, default_value_t = 10)]
        points: u8,
        #[command(flatten)]
        scores: ScoreArgs,
    },
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
struct NamesArgs {
    /// Maximum number of results
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    scores: ScoreArgs,
}

#[derive(Debug, Args)]
struct ScoreArgs {
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
        match &self.command {
            AnalyticsCommand::MissingTools(names) => {
                let limit = ("limit", names.limit.to_string());
                let scores = &names.scores;
                scores
                    .show::<NameList>(global, "missing-tools", limit)
                    .await
            }
            AnalyticsCommand::Approaches(names) => {
                let limit = ("limit", names.limit.to_string());
                names
                    .scores
                    .show::<NameList>(global, "approaches", limit)
                    .await
            }
            AnalyticsCommand::Distribution { points, scores } => {
                let points = ("points", points.to_string());
                if scores.criteria.is_none() {
                    output::note("scores by the current criteria; all of them: --criteria any");
                }
                scores
                    .show::<Distribution>(global, "distribution", points)
                    .await
            }
            AnalyticsCommand::Trend { every, scores } => {
                let every = ("every", every.to_string());
                scores.show::<Trend>(global, "trend", every).await
            }
        }
    }
}

impl ScoreArgs {
    /// Requests `route`, the last segment of the path, with an additional query parameter.
    async fn show<T: DeserializeOwned + Printable>(
        &self,
        global: &Global,
        route: &str,
        more: (&str, String),
    ) -> Result<Exit, CliError> {
        let from = self
            .days
            .map(|days| (SystemClock.now() - TimeDelta::days(days.into())).to_rfc3339());
        let mut query = given([("criteria", self.criteria.clone()), ("from", from)]);
        query.push(more);
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
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.1}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), words::percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_number_is_a_dash() {
        assert_eq!(
            (number(None), percent(None)),
            ("-".to_owned(), "-".to_owned())
        );
        assert_eq!(number(Some(71.25)), "71.2");
        assert_eq!(percent(Some(0.125)), "12.5%");
    }
}
