//! `/`: what needs attention, how scores are spread and move, what ran last; to begin with, the ways to begin.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::chart::Chart;
use super::figures::{Distribution, Trend, days_ago, percent};
use super::form::Form;
use super::frame::Frame;
use super::page::{Fault, Page, go, html};
use super::site::Site;
use super::visitor::Visitor;
use super::words::{self, Moment};
use crate::api::Problem;
use crate::history::examples::SESSIONS;

/// How many of the newest are shown.
const SHOWN: u32 = 5;
/// How far back the trend goes, days.
const TREND_DAYS: i64 = 14;

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/", get(overview))
        .route("/samples", post(load_samples))
}

#[derive(Debug, Deserialize)]
struct Readiness {
    reasons: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Batches {
    items: Vec<Batch>,
}

#[derive(Debug, Deserialize)]
struct Batch {
    batch_id: Uuid,
    name: Option<String>,
    kind: String,
    state: String,
    counts: Counts,
    times: Times,
}

#[derive(Debug, Deserialize)]
struct Counts {
    total: i64,
    succeeded: i64,
    failed: i64,
}

#[derive(Debug, Deserialize)]
struct Times {
    created_at: DateTime<Utc>,
}

#[derive(Debug, Deserialize)]
struct Jobs {
    items: Vec<Job>,
}

#[derive(Debug, Deserialize)]
struct Job {
    subject_id: Option<Uuid>,
    kind: String,
    error: Option<super::session::JobError>,
}

/// Something that wants somebody.
struct Trouble {
    text: String,
    to: String,
}

/// A batch in a line.
struct BatchLine {
    to: String,
    name: String,
    kind: String,
    state: String,
    done: String,
    made: Moment,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    sessions: i64,
    scored: String,
    mean: String,
    distribution: Option<Chart>,
    scores: i64,
    trend: Option<Chart>,
    troubles: Vec<Trouble>,
    batches: Vec<BatchLine>,
}

async fn overview(State(site): State<Site>, visitor: Visitor) -> Page {
    let (door, caller) = (&site.door, &visitor.caller);
    let now = site.about.clock.now();
    let trend = format!("/api/v1/analytics/trend?from={}", days_ago(now, TREND_DAYS));
    let (batches, failed) = (
        format!("/api/v1/batches?limit={SHOWN}"),
        format!("/api/v1/jobs?state=failed&limit={SHOWN}"),
    );
    let (ready, distribution, trend, batches, failed) = tokio::try_join!(
        door.get::<Readiness>(caller, "/readyz"),
        door.get::<Distribution>(caller, "/api/v1/analytics/distribution"),
        door.get::<Trend>(caller, &trend),
        door.get::<Batches>(caller, &batches),
        door.get::<Jobs>(caller, &failed),
    )?;
    let mut troubles: Vec<Trouble> = ready
        .reasons
        .into_iter()
        .map(|text| Trouble {
            text,
            to: "/system".to_owned(),
        })
        .collect();
    troubles.extend(failed.items.iter().filter_map(|job| {
        let error = job.error.as_ref()?;
        let (what, to) = match job.subject_id {
            Some(id) => ("A session", format!("/sessions/{id}")),
            None => (job.kind.as_str(), "/queue".to_owned()),
        };
        let text = format!(
            "{} could not be scored ({}): {}",
            what.replace('_', " "),
            error.class.replace('_', " "),
            error.message
        );
        Some(Trouble { text, to })
    }));
    html(&Overview {
        sessions: distribution.coverage.sessions,
        scored: percent(distribution.coverage.share),
        mean: distribution
            .mean
            .map_or_else(|| "–".to_owned(), |mean| format!("{mean:.1}")),
        scores: distribution.scores,
        distribution: distribution.chart(),
        trend: trend.chart(),
        batches: batches
            .items
            .into_iter()
            .map(|batch| line(batch, now))
            .collect(),
        frame: Frame::of(&site, visitor, "", "Overview").await,
        troubles,
    })
}

fn line(batch: Batch, now: DateTime<Utc>) -> BatchLine {
    let counts = &batch.counts;
    BatchLine {
        to: format!("/batches/{}", batch.batch_id),
        name: batch
            .name
            .unwrap_or_else(|| words::short(&batch.batch_id.to_string()).to_owned()),
        kind: batch.kind.replace('_', " "),
        done: format!(
            "{} of {}",
            words::grouped(counts.succeeded + counts.failed),
            words::grouped(counts.total)
        ),
        state: batch.state,
        made: words::moment(batch.times.created_at, now),
    }
}

/// Stores the example sessions, which scores nothing.
async fn load_samples(State(site): State<Site>, form: Form) -> Page {
    for (name, text) in SESSIONS {
        let broken =
            |what: &str| Fault::from(Box::new(Problem::internal(&format!("{name}: {what}"))));
        let session: Value =
            serde_json::from_str(text).map_err(|error| broken(&error.to_string()))?;
        let id = session["session_id"]
            .as_str()
            .ok_or_else(|| broken("has no id"))?;
        let path = format!("/api/v1/sessions/{id}");
        site.door.put(&form.visitor.caller, &path, &session).await?;
    }
    go(form.visitor.piece, "/sessions")
}
