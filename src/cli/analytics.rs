//! `gavel analytics`: what scores come to, as tables.

use std::io;

use chrono::TimeDelta;
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Global;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::outcome::{CliError, Exit};
use super::output;
use crate::clock::{Clock as _, SystemClock};
use crate::wire::words;
use crate::wire::{Bucket, Distribution, NameItem, NameList, RatingShare, Trend, TrendItem};

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
    connection: ConnectionArgs,
}

/// What is asked for: the last part of the route, and what the query holds beside the common part.
type Asked = (&'static str, (&'static str, String));

impl Analytics {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match &self.what {
            What::MissingTools { limit, common } => {
                let asked = ("missing-tools", ("limit", limit.to_string()));
                common.show(global, asked, print_names).await
            }
            What::Approaches { limit, common } => {
                let asked = ("approaches", ("limit", limit.to_string()));
                common.show(global, asked, print_names).await
            }
            What::Distribution { points, common } => {
                let asked = ("distribution", ("points", points.to_string()));
                common.show(global, asked, print_distribution).await
            }
            What::Trend { every, common } => {
                let asked = ("trend", ("every", every.clone()));
                common.show(global, asked, print_trend).await
            }
        }
    }
}

impl Common {
    async fn show<T: DeserializeOwned>(
        &self,
        global: &Global,
        (route, more): Asked,
        print: fn(&T) -> io::Result<&[String]>,
    ) -> Result<Exit, CliError> {
        let from = self
            .days
            .map(|days| (SystemClock.now() - TimeDelta::days(days.into())).to_rfc3339());
        let given = [("criteria", self.criteria.clone()), ("from", from)];
        let query: Vec<(&str, String)> = given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .chain([more])
            .collect();
        let command = async |connection: Connection<'_>| {
            let client = connection.client;
            if self.json {
                output::json(&client.analytics::<Value>(route, &query).await?)?;
                return Ok(Exit::Done);
            }
            let answer: T = client.analytics(route, &query).await?;
            for warning in print(&answer)? {
                output::note(warning);
            }
            Ok(Exit::Done)
        };
        self.connection.run(global, Needs::Existing, command).await
    }
}

fn print_names(names: &NameList) -> io::Result<&[String]> {
    let row = |item: &NameItem| {
        let others = item.spellings.iter().skip(1);
        let others: Vec<&str> = others.map(|spelling| spelling.name.as_str()).collect();
        vec![
            item.name.clone(),
            item.sessions.to_string(),
            percent(item.share),
            others.join(", "),
        ]
    };
    let rows: Vec<Vec<String>> = names.items.iter().map(row).collect();
    output::table(&["name", "sessions", "of all", "also spelled"], &rows)?;
    output::line(&format!("{} scored sessions", names.scores))?;
    Ok(&names.warnings)
}

fn print_distribution(found: &Distribution) -> io::Result<&[String]> {
    let row = |bucket: &Bucket| {
        vec![
            format!("{}-{}", bucket.from, bucket.to),
            bucket.scores.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = found.histogram.iter().map(row).collect();
    output::table(&["total", "scores"], &rows)?;
    let row = |of: &RatingShare| {
        vec![
            of.rating.to_string(),
            of.scores.to_string(),
            percent(of.share),
        ]
    };
    let rows: Vec<Vec<String>> = found.ratings.iter().map(row).collect();
    output::table(&["rating", "scores", "of all"], &rows)?;
    let figures = [
        ("mean", found.mean),
        ("median", found.median),
        ("sd", found.sd),
        ("quartile_1", found.quartile_1),
        ("quartile_3", found.quartile_3),
        ("min", found.min.map(f64::from)),
        ("max", found.max.map(f64::from)),
    ];
    let figures = figures.map(|(name, figure)| format!("{name} {}", number(figure)));
    output::line(&figures.join(", "))?;
    let coverage = &found.coverage;
    output::line(&format!(
        "{} of {} sessions ({})",
        coverage.scored,
        coverage.sessions,
        percent(coverage.share)
    ))?;
    Ok(&found.warnings)
}

fn print_trend(found: &Trend) -> io::Result<&[String]> {
    let row = |item: &TrendItem| {
        vec![
            item.period.to_string(),
            item.criteria_hash.chars().take(12).collect(),
            item.scores.to_string(),
            number(item.mean),
            number(item.median),
        ]
    };
    let rows: Vec<Vec<String>> = found.items.iter().map(row).collect();
    let head = [found.every.as_str(), "criteria", "scores", "mean", "median"];
    output::table(&head, &rows)?;
    Ok(&found.warnings)
}

/// A figure with one digit behind the point; what there is none of is a dash.
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
    fn a_figure_that_there_is_none_of_is_no_0() {
        assert_eq!(
            (number(None), percent(None)),
            ("-".to_owned(), "-".to_owned())
        );
        assert_eq!(number(Some(71.25)), "71.2");
        assert_eq!(percent(Some(0.125)), "12.5%");
    }
}
