//! `/compare?a=&b=`: compares two batches, two criteria versions, or two scores of a session. Changes come first.

mod batches;
mod criteria;
mod scores;

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use uuid::Uuid;

use super::address::Address;
use super::batches::BatchView as _;
use super::criteria::called;
use super::frame::Frame;
use super::links::query;
use super::page::found;
use super::page::{Page, html};
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::batches::BatchesQuery;
use crate::api::{self, Path, Query, problem};
use crate::wire::{Batch, CriteriaVersion, PageQuery};

const CHOICES: u32 = 100;

pub(super) fn routes() -> Router<PageState> {
    Router::new().route("/compare", get(compare))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Pair {
    a: String,
    b: String,
}

impl Pair {
    fn swapped(&self) -> String {
        format!("/compare{}", query(&[("a", &self.b), ("b", &self.a)]))
    }

    fn is_one(&self) -> bool {
        !self.a.is_empty() && self.a.trim().eq_ignore_ascii_case(self.b.trim())
    }

    /// Parses both sides as UUIDs (batches, scores). Criteria have hashes, which give `None`.
    fn ids(&self) -> Option<(Uuid, Uuid)> {
        let id = |text: &str| Uuid::try_parse(text.trim()).ok();
        Some((id(&self.a)?, id(&self.b)?))
    }
}

async fn compare(
    State(state): State<PageState>,
    user: SessionUser,
    Address(pair): Address<Pair>,
) -> Page {
    if pair.a.is_empty() || pair.b.is_empty() || pair.is_one() {
        return choose(&state, user, pair).await;
    }
    let Some((a, b)) = pair.ids() else {
        return criteria::compare(&state, user, pair).await;
    };
    let batch = api::batches::read(state.api(&user)?, Path(a)).await;
    match found(batch)? {
        Some(batch) if !batch.kind.is_case() => {
            let fault = "is a batch of sessions: choose two versions of the criteria, which its scores are compared by";
            Err(problem::of_field("a", fault).into())
        }
        Some(_) => batches::compare(&state, user, pair, (a, b)).await,
        None => scores::compare(&state, user, pair, (a, b)).await,
    }
}

struct Choice {
    value: String,
    text: String,
    group: String,
    before: bool,
    after: bool,
}

/// Keeps the choices of groups with at least two.
fn paired(found: Vec<Choice>) -> Vec<Choice> {
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    for choice in &found {
        *groups.entry(choice.group.clone()).or_default() += 1;
    }
    let has_pair = |choice: &Choice| groups.get(&choice.group).is_some_and(|n| *n > 1);
    found.into_iter().filter(has_pair).collect()
}

/// Selects both sides: those in the address, otherwise the newest two of a group. `found` is ordered newest first.
fn fill(mut found: Vec<Choice>, pair: &Pair) -> Vec<Choice> {
    let named = |id: &str| found.iter().position(|choice| choice.value == id);
    let (a, b) = (named(&pair.a), named(&pair.b));
    let newest_beside = |other: Option<usize>| {
        let group = other.and_then(|other| found.get(other));
        let alike = |choice: &Choice| group.is_none_or(|other| other.group == choice.group);
        let others = |(place, _): &(usize, &Choice)| Some(*place) != other;
        let mut beside = found.iter().enumerate().filter(others);
        let first = beside.clone().next();
        beside
            .find(|(_, choice)| alike(choice))
            .or(first)
            .map_or(0, |(place, _)| place)
    };
    let after = b.unwrap_or_else(|| newest_beside(a));
    let before = a.unwrap_or_else(|| newest_beside(Some(after)));
    for (place, choice) in found.iter_mut().enumerate() {
        choice.before = place == before;
        choice.after = place == after;
    }
    found
}

#[derive(Template)]
#[template(path = "compare_choose.html")]
struct ChoosePage {
    frame: Frame,
    is_one: bool,
    batches: Vec<Choice>,
    criteria: Vec<Choice>,
}

async fn choose(state: &PageState, user: SessionUser, pair: Pair) -> Page {
    let api = state.api(&user)?;
    let newest = Query((BatchesQuery::default(), PageQuery::first(CHOICES)));
    let (Json(recent), Json(versions)) = tokio::try_join!(
        api::batches::list_batches(api.clone(), newest),
        api::criteria::list_criteria(api),
    )?;
    let now = state.about.clock.now();
    let batch = |batch: Batch| Choice {
        group: batch.kind.to_string(),
        before: false,
        after: false,
        value: batch.batch_id.to_string(),
        text: format!(
            "{} · {} · {} · {} · {}",
            batch.title(),
            batch.kind_label(),
            batch.done(),
            words::timestamp(batch.times.created_at, now).ago,
            batch.times.created_at.format("%H:%M:%S UTC")
        ),
    };
    let version = |version: CriteriaVersion| Choice {
        group: version.kind.to_string(),
        before: false,
        after: false,
        text: format!(
            "{}{}{}",
            called(&version),
            if version.is_current { " (current)" } else { "" },
            // Candidates have only previews, which aren't counted.
            match version.scores {
                0 => String::new(),
                scores => format!(" · {}", words::counted(scores, "score")),
            }
        ),
        value: version.criteria_hash,
    };
    let cases = recent.items.into_iter().filter(|b| b.kind.is_case());
    let versions = versions.items.into_iter().filter(|v| !v.kind.is_case());
    html(&ChoosePage {
        is_one: pair.is_one(),
        batches: fill(paired(cases.map(batch).collect()), &pair),
        criteria: fill(versions.map(version).collect(), &pair),
        frame: Frame::load(state, user, "Compare", "Compare").await,
    })
}

struct ComparedValue {
    name: String,
    a: String,
    b: String,
    difference: String,
    class: &'static str,
    n: String,
}

/// CSS class of a difference. Higher is better.
fn class(difference: f64) -> &'static str {
    match words::points(difference).chars().next() {
        Some('+') => "up",
        Some('−') => "down",
        Some(_) | None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_without_a_counterpart_are_omitted() {
        let choice = |group: &str| Choice {
            value: String::new(),
            text: String::new(),
            group: group.to_owned(),
            before: false,
            after: false,
        };
        let left = |groups: &[&str]| {
            let found = paired(groups.iter().map(|group| choice(group)).collect());
            found.iter().map(|it| it.group.clone()).collect::<Vec<_>>()
        };
        assert_eq!(left(&["sql", "kql", "kql"]), ["kql", "kql"]);
        assert!(left(&["sql", "kql"]).is_empty());
    }

    #[test]
    fn preselects_two_different_sides() {
        let chosen = |a: &str, b: &str| {
            let choice = |name: &&str| Choice {
                value: (*name).to_owned(),
                text: String::new(),
                group: if *name == "sql" { "sql" } else { "kql" }.to_owned(),
                before: false,
                after: false,
            };
            let pair = Pair {
                a: a.to_owned(),
                b: b.to_owned(),
            };
            let found = fill(
                ["new", "sql", "mid", "old"].iter().map(choice).collect(),
                &pair,
            );
            let named = |is: fn(&Choice) -> bool| {
                let one: Vec<&str> = found
                    .iter()
                    .filter(|choice| is(choice))
                    .map(|choice| choice.value.as_str())
                    .collect();
                one.join(" ")
            };
            (named(|choice| choice.before), named(|choice| choice.after))
        };
        let two = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(chosen("", ""), two("mid", "new"));
        assert_eq!(chosen("old", ""), two("old", "new"));
        assert_eq!(chosen("new", ""), two("new", "mid"));
        assert_eq!(chosen("", "old"), two("new", "old"));
        assert_eq!(chosen("", "mid"), two("new", "mid"));
        assert_eq!(chosen("", "sql"), two("new", "sql"), "the only one");
        assert_eq!(chosen("gone", "old"), two("new", "old"));
        assert_eq!(chosen("old", "old"), two("old", "old"), "as it was asked");
    }

    #[test]
    fn detects_identical_sides() {
        let is_one = |a: &str, b: &str| {
            let (a, b) = (a.to_owned(), b.to_owned());
            Pair { a, b }.is_one()
        };
        assert!(is_one("abc", " ABC"));
        assert!(!is_one("abc", "abd") && !is_one("", "") && !is_one("abc", ""));
    }

    #[test]
    fn ids_require_two_uuids() {
        let id = Uuid::nil().to_string();
        let pair = |a: &str, b: &str| Pair {
            a: a.to_owned(),
            b: b.to_owned(),
        };
        assert!(pair(&id, &id).ids().is_some());
        assert!(pair(&id, "current").ids().is_none());
        assert!(pair(&"a".repeat(64), &id).ids().is_none());
    }
}
