//! `/batches/{id}`: progress, results, items by outcome, and actions of a batch.

mod acts;
mod spread;

use std::collections::HashMap;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::address::Address;
use super::batch_items::{ItemsView, Section, Show};
use super::batches::{BatchVerdict, BatchView as _};
use super::frame::Frame;
use super::links::query;
use super::page::{Page, PageError, html};
use super::session_item::{name_of, named};
use super::state::PageState;
use super::user::SessionUser;
use super::words::{self, Timestamp};
use crate::api::batches::reports::{self, ReportQuery};
use crate::api::ratings::panels;
use crate::api::{Path, Query, batches};
use crate::job::{Kind, Purpose};
use crate::wire::{Batch, PageQuery, Spread};

const REPORTS: [(&str, &str); 7] = [
    ("report.xlsx", "XLSX"),
    ("report.csv", "CSV"),
    ("report.parquet", "Parquet"),
    ("report.json", "JSON"),
    ("report.jsonl", "JSONL"),
    ("report.junit.xml", "JUnit"),
    ("report.md", "Markdown"),
];
/// Minimum refresh interval of the page, milliseconds, by number of items, because counting the items of a large batch is slow.
const MIN_REFRESH_MS: [(i64, u32); 2] = [(10_000, 1_000), (i64::MAX, 10_000)];

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/batches/{id}", get(batch))
        .route("/batches/{id}/body", get(body))
        .merge(acts::routes())
}

/// Separate router for reports, which need a longer timeout.
pub(super) fn reports() -> Router<PageState> {
    Router::new().route("/batches/{id}/{report}", get(report))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BatchParams {
    show: String,
    cursor: String,
}

/// Part of the page below the head, reloaded on events.
#[derive(Template)]
#[template(path = "batch_body.html")]
struct Body {
    verdict: BatchVerdict,
    figures: Vec<(&'static str, String)>,
    created: Timestamp,
    finished: Option<Timestamp>,
    pace: String,
    idle: String,
    filter: Vec<(String, String)>,
    sections: Vec<Section>,
    shows: Vec<(&'static str, String, bool)>,
    spread: Option<Spread>,
    names: HashMap<Uuid, (String, Timestamp)>,
    may: bool,
    form_token: String,
    back: String,
    rejected: Option<RejectedBudget>,
    batch: Batch,
}

/// A rejected budget as typed, with the error as HTML.
struct RejectedBudget {
    typed: String,
    message: String,
}

impl Body {
    async fn read(
        state: &PageState,
        user: &SessionUser,
        id: Uuid,
        asked: &BatchParams,
    ) -> Result<Self, PageError> {
        let api = state.api(user)?;
        let batch = batches::read(api.clone(), Path(id)).await?;
        let show = Show::parse(&asked.show)?;
        let read = ItemsView {
            state,
            user,
            batch: &batch,
        };
        let sections = read.sections(show, &asked.cursor).await?;
        let spread = match batch.purpose {
            Purpose::Repeat | Purpose::Jury => {
                let few = Query(PageQuery::first(20));
                Some(panels::get_spread(api, Path(id), few).await?.0)
            }
            Purpose::Score | Purpose::Preview => None,
        };
        let panels = spread.iter().flat_map(|spread| &spread.items);
        let names = named(state, user, panels.map(|panel| panel.session_id)).await?;
        let now = state.about.clock.now();
        let status_bar = state.status_bar(user).await;
        Ok(Self {
            verdict: batch.verdict(),
            figures: figures(&batch),
            created: words::timestamp(batch.times.created_at, now),
            finished: batch.times.finished_at.map(|at| words::timestamp(at, now)),
            pace: pace(&batch, status_bar.workers),
            idle: idle(&batch, status_bar.workers, now),
            filter: batch.filter.as_ref().map(filter_labels).unwrap_or_default(),
            shows: show.choices(&batch),
            sections,
            spread,
            names,
            may: user.may_enqueue(),
            form_token: user.form_token.clone(),
            back: address(batch.batch_id, "", asked),
            rejected: None,
            batch,
        })
    }

    fn reports() -> [(&'static str, &'static str); 7] {
        REPORTS
    }

    /// Whether a simulated judge made scores of the batch. Such scores can't pass.
    fn simulated(&self) -> bool {
        let verdict = self.batch.verdict.as_ref();
        verdict.is_some_and(|verdict| verdict.simulated)
    }

    fn has_actions(&self) -> bool {
        let links = &self.batch.links;
        self.may && (self.batch.moves() || links.retry_errors.is_some())
    }
}

fn address(id: Uuid, end: &str, asked: &BatchParams) -> String {
    let asked = query(&[("show", &asked.show), ("cursor", &asked.cursor)]);
    format!("/batches/{id}{end}{asked}")
}

fn figures(batch: &Batch) -> Vec<(&'static str, String)> {
    let counts = &batch.counts;
    let mut figures = Vec::new();
    match &batch.verdict {
        Some(verdict) => {
            figures.push(("Passed", words::grouped(verdict.passed)));
            figures.push(("Missed", words::grouped(verdict.failed)));
            let percent = |share: Option<f64>| share.map_or("–".to_owned(), words::percent);
            let (rate, mean) = match batch.moves() {
                true => ("Pass rate so far", "Mean score so far"),
                false => ("Pass rate", "Mean score"),
            };
            figures.push((rate, percent(verdict.pass_rate)));
            figures.push((mean, percent(verdict.mean)));
        }
        None => figures.push(("Scored", words::grouped(counts.succeeded))),
    }
    figures.push(("Judge errors", words::grouped(counts.failed)));
    if counts.cancelled > 0 {
        figures.push(("Cancelled", words::grouped(counts.cancelled)));
    }
    if batch.moves() {
        figures.push(("Queued", words::grouped(counts.queued)));
        figures.push(("Waiting", words::grouped(counts.waiting)));
        figures.push(("Running", words::grouped(counts.running)));
    }
    let cost = if batch.moves() { "Cost so far" } else { "Cost" };
    figures.push((cost, batch.cost()));
    figures
}

/// Throughput and estimated end. Empty unless the batch is running.
fn pace(batch: &Batch, workers: usize) -> String {
    let runs = batch.moves() && batch.paused.is_none() && batch.stopped.is_none() && workers > 0;
    let rate = batch.progress.rate_per_s.filter(|rate| *rate > 0.0);
    let Some(rate) = rate.filter(|_| runs) else {
        return String::new();
    };
    let rate = if rate >= 1.0 {
        format!("{rate:.1} items a second")
    } else {
        format!("{:.1} items a minute", rate * 60.0)
    };
    match batch.progress.eta_s {
        Some(eta) => format!("{rate}, about {} left", words::duration(eta)),
        None => rate,
    }
}

/// Reason why no item starts although the batch isn't paused.
fn idle(batch: &Batch, workers: usize, now: DateTime<Utc>) -> String {
    if !batch.moves() || batch.paused.is_some() {
        return String::new();
    }
    match &batch.stopped {
        Some(stopped) => {
            let until = stopped.until.map(|at| words::timestamp(at, now).ago);
            let until = until.map_or_else(String::new, |at| format!("; it resumes {at}"));
            format!("No item starts: {}{until}.", stopped.message)
        }
        None if workers == 0 => "No item starts: no worker is running.".to_owned(),
        None => String::new(),
    }
}

fn filter_labels(filter: &Value) -> Vec<(String, String)> {
    let Some(fields) = filter.as_object() else {
        return Vec::new();
    };
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    fields
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.replace('_', " "), word(value)))
        .collect()
}

#[derive(Template)]
#[template(path = "batch.html")]
struct BatchPage {
    frame: Frame,
    id: Uuid,
    live: String,
    least_ms: u32,
    body: Body,
}

async fn batch(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
    Address(asked): Address<BatchParams>,
) -> Page {
    html(&BatchPage::read(&state, user, id, &asked).await?)
}

impl BatchPage {
    async fn read(
        state: &PageState,
        user: SessionUser,
        id: Uuid,
        asked: &BatchParams,
    ) -> Result<Self, PageError> {
        let body = Body::read(state, &user, id, asked).await?;
        let title = format!("{} · {}", body.verdict.word, body.batch.title());
        let total = body.batch.progress.total;
        let least = MIN_REFRESH_MS.iter().find(|(most, _)| total <= *most);
        let frame = Frame::load(state, user, "Batches", title).await;
        Ok(Self {
            frame: frame.moving(body.batch.moves()),
            live: address(id, "/body", asked),
            least_ms: least.map_or(0, |(_, ms)| *ms),
            id,
            body,
        })
    }
}

async fn body(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
    Address(asked): Address<BatchParams>,
) -> Page {
    html(&Body::read(&state, &user, id, &asked).await?)
}

async fn report(
    State(state): State<PageState>,
    user: SessionUser,
    path: Path<(Uuid, String)>,
    query: Query<ReportQuery>,
) -> Page {
    let api = state.api(&user)?;
    Ok(reports::batch_report(api, path, query).await?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::batches::tests::batch;
    use super::*;

    #[test]
    fn running_batch_shows_its_pace() {
        let moving = |rate: f64, eta: Option<f64>| {
            batch(
                &json!({"times": {"created_at": "2026-11-22T12:00:00Z", "finished_at": null},
                "progress": {"done": 1, "total": 40, "rate_per_s": rate, "eta_s": eta}}),
            )
        };
        assert_eq!(
            pace(&moving(2.34, Some(90.0)), 1),
            "2.3 items a second, about 2 min left"
        );
        assert_eq!(pace(&moving(0.1, None), 1), "6.0 items a minute");
        assert_eq!(pace(&moving(0.0, None), 1), "");
        assert_eq!(pace(&batch(&json!({})), 1), "");
    }

    #[test]
    fn idle_batch_shows_the_reason_instead_of_a_pace() {
        let now = "2026-11-22T12:00:00Z".parse().unwrap();
        let with = |name: &str, value: Value| {
            let mut fields = json!({"times": {"created_at": "2026-11-22T12:00:00Z", "finished_at": null},
                "progress": {"done": 1, "total": 40, "rate_per_s": 2.0, "eta_s": 20.0}});
            fields[name] = value;
            batch(&fields)
        };
        let alone = with("purpose", json!("score"));
        assert_eq!(pace(&alone, 0), "");
        assert_eq!(
            idle(&alone, 0, now),
            "No item starts: no worker is running."
        );
        assert_eq!(idle(&alone, 1, now), "");
        let paused = with(
            "paused",
            json!({"by": "operator", "reason": "somebody paused it"}),
        );
        assert_eq!(
            (pace(&paused, 1), idle(&paused, 0, now)),
            (String::new(), String::new())
        );
        let stopped = with(
            "stopped",
            json!({"reason": "paused", "message": "judge a is paused", "until": "2026-11-22T14:00:00Z"}),
        );
        assert_eq!(pace(&stopped, 1), "");
        assert_eq!(
            idle(&stopped, 1, now),
            "No item starts: judge a is paused; it resumes in 2 h."
        );
    }

    #[test]
    fn filter_is_shown_as_names_and_values() {
        let filter = json!({"status": "completed", "min_score": 10, "tag": null, "ids": 3});
        let words = filter_labels(&filter);
        let words: Vec<_> = words
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            words,
            [("status", "completed"), ("min score", "10"), ("ids", "3")]
        );
    }
}
