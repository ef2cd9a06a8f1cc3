//! Two versions of the criteria side by side: how scores moved, and what was changed in the text.

use askama::Template;
use serde::Deserialize;
use uuid::Uuid;

use super::super::criteria_diff::{Diff, Drawn};
use super::super::frame::Frame;
use super::super::page::{Page, html};
use super::super::site::Site;
use super::super::visitor::Visitor;
use super::super::words;
use super::Pair;

/// Two versions of the criteria as the API compares them.
#[derive(Debug, Deserialize)]
struct CriteriaComparison {
    a: String,
    b: String,
    n: u64,
    only_a: u64,
    only_b: u64,
    mean_a: Option<f64>,
    mean_b: Option<f64>,
    mean_difference: Option<Difference>,
    kendall_tau_b: Option<f64>,
    ratings: Table,
    changed: Option<f64>,
    movers: Vec<Mover>,
    simulated: bool,
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Difference {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Table {
    labels: Vec<String>,
    table: Vec<Vec<u64>>,
}

#[derive(Debug, Deserialize)]
struct Mover {
    session_id: Uuid,
    a: u8,
    b: u8,
    difference: i16,
}

impl Mover {
    /// Both totals with their words and colours.
    fn sides(&self) -> [(u8, &'static str, &'static str); 2] {
        [self.a, self.b].map(|total| {
            let (word, colour) = words::rating(total);
            (total, word, colour)
        })
    }

    fn points(&self) -> String {
        words::points(self.difference.into())
    }
}

#[derive(Template)]
#[template(path = "compare_criteria.html")]
struct CriteriaPage {
    frame: Frame,
    pair: Pair,
    found: CriteriaComparison,
    changes: Vec<Drawn>,
}

impl CriteriaPage {
    fn one(value: Option<f64>) -> String {
        value.map_or_else(|| "not yet".to_owned(), |value| format!("{value:.1}"))
    }

    fn two(value: Option<f64>) -> String {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
    }

    fn difference(&self) -> String {
        let Some(difference) = &self.found.mean_difference else {
            return "not yet".to_owned();
        };
        let value = words::points(difference.value);
        match (difference.low, difference.high) {
            (Some(low), Some(high)) => {
                format!(
                    "{value} ({} to {})",
                    words::points(low),
                    words::points(high)
                )
            }
            _ => value,
        }
    }

    /// Rows of the table of ratings, each with its word; those that stayed are marked, and those that moved.
    fn ratings(&self) -> Vec<(String, Vec<(u64, &'static str)>)> {
        let Table { labels, table } = &self.found.ratings;
        let rows = labels.iter().zip(table).enumerate();
        rows.map(|(at, (word, counts))| {
            let class = |(to, count): (usize, &u64)| match *count {
                count if to == at => (count, "hit"),
                0 => (0, ""),
                count => (count, "shade-1"),
            };
            let counts = counts.iter().enumerate().map(class);
            (word.replace('_', " "), counts.collect())
        })
        .collect()
    }
}

/// Draws the page of two versions of the criteria.
pub(super) async fn compare(site: &Site, visitor: Visitor, pair: Pair) -> Page {
    let compared = format!("/api/v1/scoring/criteria/compare{}", pair.query());
    let diff = format!("/api/v1/scoring/criteria/diff{}", pair.query());
    let (found, diff) = tokio::try_join!(
        site.door
            .get::<CriteriaComparison>(&visitor.caller, &compared),
        site.door.get::<Diff>(&visitor.caller, &diff),
    )?;
    let frame = Frame::of(site, visitor, "Criteria", "Compare criteria").await;
    html(&CriteriaPage {
        frame,
        pair,
        found,
        changes: diff.drawn(),
    })
}
