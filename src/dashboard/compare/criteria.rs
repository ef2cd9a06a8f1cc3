//! Comparison of two criteria versions: score changes and the text diff.

use std::collections::HashMap;

use askama::Template;
use axum::Json;
use uuid::Uuid;

use super::super::criteria::called;
use super::super::criteria_diff::{self, ChangedPart};
use super::super::frame::Frame;
use super::super::page::{Page, html};
use super::super::session_item::{name_of, named};
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::super::words::{self, Timestamp};
use super::Pair;
use crate::api::Query;
use crate::api::criteria::compare::{MoversQuery, compare_criteria};
use crate::api::criteria::diff::diff_criteria;
use crate::api::criteria::list_criteria;
use crate::api::criteria::named::CriteriaPair;
use crate::wire::{CriteriaComparison, Mover, WordTable};

trait MoverView {
    fn sides(&self) -> [(u8, &'static str, &'static str); 2];
    fn points(&self) -> String;
}

impl MoverView for Mover {
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
    /// Display names of both versions. A version that isn't stored has its hash.
    called: [String; 2],
    names: HashMap<Uuid, (String, Timestamp)>,
    changes: Vec<ChangedPart>,
}

impl CriteriaPage {
    /// Formats a mean with one digit more than its difference, so that rounding doesn't make the two contradict.
    fn mean(value: Option<f64>) -> String {
        value.map_or_else(|| "not yet".to_owned(), |value| format!("{value:.2}"))
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

    /// Rows of the rating table with the cell's CSS class, which marks unchanged and changed ratings.
    fn ratings(&self) -> Vec<(String, Vec<(u64, &'static str)>)> {
        let WordTable { labels, table } = &self.found.ratings;
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

pub(super) async fn compare(state: &PageState, user: SessionUser, pair: Pair) -> Page {
    let api = state.api(&user)?;
    let asked = CriteriaPair {
        a: pair.a.clone(),
        b: pair.b.clone(),
    };
    let compared = Query((asked.clone(), MoversQuery::default()));
    let (Json(found), Json(diff), Json(versions)) = tokio::try_join!(
        compare_criteria(api.clone(), compared),
        diff_criteria(api.clone(), Query(asked)),
        list_criteria(api),
    )?;
    let movers = found.movers.iter().map(|mover| mover.session_id);
    let names = named(state, &user, movers).await?;
    let called = [&found.a, &found.b].map(|hash| {
        let mut versions = versions.items.iter();
        let version = versions.find(|version| version.criteria_hash == *hash);
        version.map_or_else(|| words::short(hash).to_owned(), called)
    });
    let frame = Frame::load(state, user, "Compare", "Compare criteria").await;
    html(&CriteriaPage {
        frame,
        pair,
        found,
        called,
        names,
        changes: criteria_diff::changed_parts(diff),
    })
}
