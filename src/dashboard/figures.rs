//! Figures over scores, as the API's analytics answer them, made into charts and words. The overview and the insights share them.

use chrono::{DateTime, NaiveDate, Utc};
use serde::Deserialize;

use super::chart::{Bar, Chart, Line, bars, lines};
use super::words;

/// Fewer scores than this say nothing: no chart is drawn of them.
pub(super) const ENOUGH: i64 = 20;

/// How totals are spread.
#[derive(Debug, Deserialize)]
pub(super) struct Distribution {
    pub(super) scores: i64,
    pub(super) simulated: bool,
    pub(super) mean: Option<f64>,
    pub(super) median: Option<f64>,
    pub(super) histogram: Vec<Bucket>,
    pub(super) coverage: Coverage,
    pub(super) warnings: Vec<String>,
}

/// Totals from one to another.
#[derive(Debug, Deserialize)]
pub(super) struct Bucket {
    from: u8,
    to: u8,
    scores: i64,
}

/// How many sessions are counted.
#[derive(Debug, Deserialize)]
pub(super) struct Coverage {
    pub(super) sessions: i64,
    pub(super) share: Option<f64>,
}

/// How means move.
#[derive(Debug, Deserialize)]
pub(super) struct Trend {
    pub(super) scores: i64,
    items: Vec<Point>,
}

#[derive(Debug, Deserialize)]
struct Point {
    period: String,
    criteria_hash: String,
    scores: i64,
    mean: Option<f64>,
}

/// A page of names with how many sessions have them.
#[derive(Debug, Deserialize)]
pub(super) struct Names {
    pub(super) items: Vec<Name>,
}

/// A missing tool, or an approach.
#[derive(Debug, Deserialize)]
pub(super) struct Name {
    pub(super) name: String,
    pub(super) sessions: i64,
    pub(super) share: Option<f64>,
}

impl Distribution {
    /// Whether there is enough to draw.
    pub(super) fn is_enough(&self) -> bool {
        self.scores >= ENOUGH
    }

    /// The histogram, coloured by rating.
    pub(super) fn chart(&self) -> Option<Chart> {
        if !self.is_enough() {
            return None;
        }
        let of = |bucket: &Bucket| Bar {
            label: format!("{}-{}", bucket.from, bucket.to),
            value: float(bucket.scores),
            class: format!("rating-{}", words::rating(bucket.from).1),
        };
        let all: Vec<Bar> = self.histogram.iter().map(of).collect();
        let says = format!(
            "{}{}: mean {:.1}, median {:.1}.",
            words::counted(self.scores, "score"),
            if self.simulated {
                " of a simulated judge"
            } else {
                ""
            },
            self.mean.unwrap_or_default(),
            self.median.unwrap_or_default(),
        );
        let shown = |n: f64| format!("{n:.0}");
        Some(bars(
            "Totals of scores",
            says,
            ("Total", "Sessions"),
            &all,
            shown,
        ))
    }
}

impl Trend {
    /// A line of means for each version of the criteria.
    pub(super) fn chart(&self) -> Option<Chart> {
        if self.scores < ENOUGH {
            return None;
        }
        let mut days: Vec<String> = self.items.iter().map(|p| p.period.clone()).collect();
        days.dedup();
        let mut of: Vec<Line> = Vec::new();
        for point in &self.items {
            let (Some(mean), Some(at)) = (point.mean, days.iter().position(|d| *d == point.period))
            else {
                continue;
            };
            let name = words::short(&point.criteria_hash).to_owned();
            match of.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((at, mean)),
                None => of.push(Line {
                    name,
                    points: vec![(at, mean)],
                }),
            }
        }
        let labels: Vec<String> = days.iter().map(|day| short_day(day)).collect();
        let says = match (self.items.first(), self.items.last()) {
            (Some(first), Some(last)) => format!(
                "Mean total under {}: {:.1} ({}) at first, {:.1} ({}) at last.",
                match of.len() {
                    1 => "one version of the criteria".to_owned(),
                    n => format!("{n} versions of the criteria"),
                },
                first.mean.unwrap_or_default(),
                words::counted(first.scores, "score"),
                last.mean.unwrap_or_default(),
                words::counted(last.scores, "score"),
            ),
            _ => String::new(),
        };
        Some(lines(
            "Mean total over time",
            says,
            &labels,
            &of,
            100.0,
            |n| format!("{n:.0}"),
        ))
    }
}

fn short_day(day: &str) -> String {
    let date = day.get(..10).unwrap_or(day);
    NaiveDate::parse_from_str(date, "%Y-%m-%d")
        .map_or_else(|_| day.to_owned(), |date| date.format("%d %b").to_string())
}

/// A share as a percentage.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

#[expect(clippy::cast_precision_loss, reason = "a height on a screen")]
fn float(n: i64) -> f64 {
    n as f64
}

/// The instant some days ago, as the API takes it.
pub(super) fn days_ago(now: DateTime<Utc>, days: i64) -> String {
    let then = now
        .checked_sub_signed(chrono::Duration::days(days))
        .unwrap_or(now);
    then.format("%Y-%m-%dT00:00:00Z").to_string()
}
