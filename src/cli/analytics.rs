//! `gavel analytics`: what scores come to, as tables.

use chrono::TimeDelta;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::Global;
use super::outcome::{CliError, Exit};
use super::output::{self, cell};
use super::reach::{Needs, ReachArgs, Reached};
use crate::client::list;
use crate::clock::{Clock as _, SystemClock};

/// Show what current scores come to
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel analytics missing-tools --limit 20\n  gavel analytics distribution --days 30\n  gavel analytics trend --every week --json"
)]
pub(super) struct Analytics {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Tools that agents lacked or left unused, by the number of sessions
    MissingTools {
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: u32,
        #[command(flatten)]
        common: Common,
    },
    /// Other ways that investigations could have gone, by the number of sessions
    Approaches {
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: u32,
        #[command(flatten)]
        common: Common,
    },
    /// How scores are spread; of the current criteria unless --criteria says otherwise
    Distribution {
        /// Totals a bucket: 5 or 10
        #[arg(long, default_value_t = 10)]
        points: u8,
        #[command(flatten)]
        common: Common,
    },
    /// How scores move over time, by criteria; the last 30 periods unless --days says otherwise
    Trend {
        /// day, week or month
        #[arg(long, default_value = "day", value_name = "PERIOD")]
        every: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// Scores made with these criteria: any, current, or a hash, at least its first 8 digits
    #[arg(long, value_name = "CRITERIA")]
    criteria: Option<String>,
    /// Of sessions that completed within so many days
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=3660))]
    days: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// What is asked for, and how it is shown.
struct Asked {
    /// The last part of the route.
    route: &'static str,
    more: (&'static str, String),
    print: fn(&Value) -> Result<(), CliError>,
}

impl Analytics {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let (common, asked) = match &self.what {
            What::MissingTools { limit, common } => (common, names("missing-tools", *limit)),
            What::Approaches { limit, common } => (common, names("approaches", *limit)),
            What::Distribution { points, common } => {
                let asked = Asked {
                    route: "distribution",
                    more: ("points", points.to_string()),
                    print: print_distribution,
                };
                (common, asked)
            }
            What::Trend { every, common } => {
                let asked = Asked {
                    route: "trend",
                    more: ("every", every.clone()),
                    print: print_trend,
                };
                (common, asked)
            }
        };
        common.show(global, asked).await
    }
}

fn names(route: &'static str, limit: u32) -> Asked {
    Asked {
        route,
        more: ("limit", limit.to_string()),
        print: print_names,
    }
}

impl Common {
    async fn show(&self, global: &Global, asked: Asked) -> Result<Exit, CliError> {
        let from = self
            .days
            .map(|days| (SystemClock.now() - TimeDelta::days(days.into())).to_rfc3339());
        let given = [("criteria", self.criteria.clone()), ("from", from)];
        let query: Vec<(&str, String)> = given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .chain([asked.more])
            .collect();
        let command = async |reached: Reached<'_>| {
            let answer = reached.client.analytics(asked.route, &query).await?;
            if self.json {
                output::json(&answer)?;
                return Ok(Exit::Done);
            }
            (asked.print)(&answer)?;
            for warning in list(&answer, "/warnings") {
                output::note(warning.as_str().unwrap_or_default());
            }
            Ok(Exit::Done)
        };
        self.reach.run(global, Needs::Existing, command).await
    }
}

fn print_names(answer: &Value) -> Result<(), CliError> {
    let rows: Vec<Vec<String>> = list(answer, "/items")
        .iter()
        .map(|item| {
            let others = list(item, "/spellings").iter().skip(1);
            let others: Vec<String> = others.map(|spelling| cell(spelling, "/name")).collect();
            vec![
                cell(item, "/name"),
                cell(item, "/sessions"),
                percent(&item["share"]),
                others.join(", "),
            ]
        })
        .collect();
    output::table(&["name", "sessions", "of all", "also spelled"], &rows)?;
    Ok(output::line(&format!(
        "{} scored sessions",
        cell(answer, "/scores")
    ))?)
}

fn print_distribution(answer: &Value) -> Result<(), CliError> {
    let rows: Vec<Vec<String>> = list(answer, "/histogram")
        .iter()
        .map(|bucket| {
            vec![
                format!("{}-{}", cell(bucket, "/from"), cell(bucket, "/to")),
                cell(bucket, "/scores"),
            ]
        })
        .collect();
    output::table(&["total", "scores"], &rows)?;
    let rows: Vec<Vec<String>> = list(answer, "/ratings")
        .iter()
        .map(|rating| {
            vec![
                cell(rating, "/rating"),
                cell(rating, "/scores"),
                percent(&rating["share"]),
            ]
        })
        .collect();
    output::table(&["rating", "scores", "of all"], &rows)?;
    let figures = [
        "mean",
        "median",
        "sd",
        "quartile_1",
        "quartile_3",
        "min",
        "max",
    ];
    let figures = figures.map(|name| format!("{name} {}", number(&answer[name])));
    output::line(&figures.join(", "))?;
    let coverage = &answer["coverage"];
    Ok(output::line(&format!(
        "{} of {} sessions ({})",
        cell(coverage, "/scored"),
        cell(coverage, "/sessions"),
        percent(&coverage["share"])
    ))?)
}

fn print_trend(answer: &Value) -> Result<(), CliError> {
    let rows: Vec<Vec<String>> = list(answer, "/items")
        .iter()
        .map(|item| {
            let hash: String = cell(item, "/criteria_hash").chars().take(12).collect();
            vec![
                cell(item, "/period"),
                hash,
                cell(item, "/scores"),
                number(&item["mean"]),
                number(&item["median"]),
            ]
        })
        .collect();
    let every = cell(answer, "/every");
    let head = [every.as_str(), "criteria", "scores", "mean", "median"];
    Ok(output::table(&head, &rows)?)
}

/// A figure with one digit behind the point; what there is none of is a dash.
fn number(value: &Value) -> String {
    value
        .as_f64()
        .map_or_else(|| "-".to_owned(), |number| format!("{number:.1}"))
}

fn percent(share: &Value) -> String {
    share
        .as_f64()
        .map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_figure_that_there_is_none_of_is_no_0() {
        assert_eq!(
            (number(&Value::Null), percent(&Value::Null)),
            ("-".to_owned(), "-".to_owned())
        );
        assert_eq!(number(&json!(71.25)), "71.2");
        assert_eq!(percent(&json!(0.125)), "12.5 %");
    }
}
