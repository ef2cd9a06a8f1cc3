//! `/`: alerts, next steps, score distribution and trend, lowest and latest scores, latest batches. On an empty service: how to start.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::alerts::{self, Alert, alert};
use super::batches::{BatchListRow, BatchView as _};
use super::chart::Chart;
use super::figures::{self, by_rating, days_ago, percent};
use super::form::Form;
use super::frame::Frame;
use super::page::{Page, html, redirect};
use super::session_item::{Badge, called, listed};
use super::state::PageState;
use super::user::SessionUser;
use super::words::{self, Timestamp};
use crate::api::analytics::distribution::{HistogramQuery, distribution};
use crate::api::analytics::trend::{TrendQuery, trend};
use crate::api::batches::{self, BatchesQuery};
use crate::api::{ApiError, Query, sessions};
use crate::history::examples::SESSIONS;
use crate::wire::{
    Distribution, PageQuery, ScoreSelection, Scored, SessionFilter, SessionItem, SessionOrder,
    SessionSort, SessionStatus, Sessions,
};

const SHOWN: u32 = 5;
const TREND_DAYS: i64 = 14;

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/", get(overview))
        .route("/samples", post(load_samples))
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    /// Base address of this service: `http://host:port`.
    here: String,
    /// Id for the user's first session in the example command.
    new_id: Uuid,
    sessions: u64,
    /// Share of sessions with a score under any criteria, and its label. Simulated scores don't count once there are real ones.
    scored: (String, &'static str),
    /// Share of sessions with a score under the current criteria. The numbers next to it cover only those.
    current: String,
    mean: String,
    distribution: Option<Chart>,
    scores: u64,
    /// Number of sessions scored only under other criteria.
    outdated: u64,
    trend: Option<Chart>,
    alerts: Vec<Alert>,
    batches: Vec<BatchListRow>,
    steps: Vec<Step>,
    lists: Vec<ScoreList>,
}

/// A next step: text, address, link label.
type Step = (String, String, &'static str);

struct ScoreList {
    title: &'static str,
    to: &'static str,
    rows: Vec<(Badge, String, Timestamp)>,
}

impl ScoreList {
    fn new(title: &'static str, to: &'static str, found: Sessions, now: DateTime<Utc>) -> Self {
        let row = |item: SessionItem| {
            let badge = Badge::new(item.session_id, item.score.as_ref());
            (badge, called(&item), listed(&item, now))
        };
        Self {
            title,
            to,
            rows: found.items.into_iter().map(row).collect(),
        }
    }
}

/// Next steps while there are few scores. `simulates`: whether sessions are scored by a simulated judge.
fn steps(
    ever: &Distribution,
    latest: Option<&SessionItem>,
    (has_batches, has_unscored, simulates): (bool, bool, bool),
) -> Vec<Step> {
    let mut steps = Vec::new();
    if has_unscored {
        let text = "Score the sessions without a score.";
        let to = "/sessions?scored=no&status=completed";
        steps.push((text.to_owned(), to.to_owned(), "Choose sessions"));
    }
    if let Some(item) = latest {
        let text = "Read a score, with the judge's reasons.";
        let to = format!("/sessions/{}/score", item.session_id);
        steps.push((text.to_owned(), to, "The latest score"));
        let text = "Rate some sessions: ratings show whether you can trust the judge.";
        steps.push((text.to_owned(), "/annotate".to_owned(), "Annotate"));
    }
    if ever.simulated && simulates {
        let text = "Name a real judge: set its key and start Gavel without the simulated one.";
        steps.push((text.to_owned(), "/system".to_owned(), "The settings"));
    } else if ever.simulated {
        let text = "Replace simulated scores with scores of the judge.";
        steps.push((text.to_owned(), "/rescore".to_owned(), "Rescore"));
    }
    if !has_batches {
        let text = "Score a suite of cases: upload a file, or run gavel evaluate in CI.";
        steps.push((text.to_owned(), "/batches".to_owned(), "Upload a suite"));
    }
    steps
}

async fn overview(State(state): State<PageState>, user: SessionUser, headers: HeaderMap) -> Page {
    let api = state.api(&user)?;
    let now = state.about.clock.now();
    let sessions = |filter: SessionFilter, sort: Option<SessionOrder>| {
        let query = (filter, SessionSort { sort }, PageQuery::first(SHOWN));
        sessions::list_sessions(api.clone(), Query(query))
    };
    let scored = |scored| SessionFilter {
        scored: Some(scored),
        ..SessionFilter::default()
    };
    let any = ScoreSelection {
        criteria: Some("any".to_owned()),
        ..ScoreSelection::default()
    };
    let lately = ScoreSelection {
        from: Some(days_ago(now, TREND_DAYS)),
        ..ScoreSelection::default()
    };
    let newest = Query((BatchesQuery::default(), PageQuery::first(SHOWN)));
    let (
        mut alerts,
        Json(distribution),
        Json(ever),
        Json(trend),
        Json(batches),
        Json(lowest),
        Json(latest),
    ) = tokio::try_join!(
        alerts::now(&state, &user),
        distribution(api.clone(), Query((ScoreSelection::default(), by_rating()))),
        distribution(api.clone(), Query((any, HistogramQuery::default()))),
        trend(api.clone(), Query((lately, TrendQuery::default()))),
        batches::list_batches(api.clone(), newest),
        sessions(SessionFilter::default(), Some(SessionOrder::LowestScore)),
        sessions(scored(Scored::Yes), None),
    )?;
    // After the alerts, because they cache the data of the status bar: queue and judges are read once.
    let frame = Frame::load(&state, user.clone(), "", "Overview").await;
    let failed = batches.items.iter().filter(|batch| batch.counts.failed > 0);
    alerts.extend(failed.map(|batch| {
        let items = words::counted(batch.counts.failed, "item");
        let text = format!("{items} of {} could not be scored.", batch.title());
        alert(text, &format!("/batches/{}", batch.batch_id))
    }));
    let outdated = ever.scores.saturating_sub(distribution.scores);
    if outdated > 0 && ever.simulated == frame.status_bar.simulated {
        // The list includes simulated scores, but the numbers don't.
        let text = "Some scores are by other criteria than the current ones. The mean and the distribution on this page exclude them.";
        alerts.push(alert(text.to_owned(), "/rescore?criteria=not_current"));
    }
    let steps = if ever.scores < figures::ENOUGH {
        let completed = SessionFilter {
            status: Some(SessionStatus::Completed),
            ..scored(Scored::No)
        };
        let Json(unscored) = sessions(completed, None).await?;
        let has_batches = !batches.items.is_empty();
        let has_unscored = !unscored.items.is_empty();
        let stands = (has_batches, has_unscored, frame.status_bar.simulated);
        steps(&ever, latest.items.first(), stands)
    } else {
        Vec::new()
    };
    html(&Overview {
        here: here(&headers),
        new_id: Uuid::new_v4(),
        sessions: distribution.coverage.sessions,
        scored: (
            percent(ever.coverage.share),
            match ever.scores > 0 && !ever.simulated {
                true => "scored by a real judge",
                false => "scored",
            },
        ),
        current: percent(distribution.coverage.share),
        mean: distribution
            .mean
            .map_or_else(|| "–".to_owned(), |mean| format!("{mean:.1}")),
        scores: distribution.scores,
        outdated,
        distribution: figures::histogram(&distribution),
        trend: figures::means(&trend),
        batches: batches
            .items
            .into_iter()
            .map(|batch| BatchListRow::new(batch, now))
            .collect(),
        lists: vec![
            ScoreList::new("Lowest scores", "/sessions?sort=lowest_score", lowest, now),
            ScoreList::new(
                "Newest sessions with a score",
                "/sessions?scored=yes",
                latest,
                now,
            ),
        ],
        steps,
        frame,
        alerts,
    })
}

/// Base address of this service as seen by the browser; `https` behind a proxy that terminates TLS.
fn here(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        Some(_) | None => "http",
    };
    let strange = |c: char| !(c.is_ascii_alphanumeric() || ".-:[]".contains(c));
    let host = text("host").filter(|host| !host.is_empty() && !host.contains(strange));
    format!("{scheme}://{}", host.unwrap_or("localhost:8080"))
}

async fn load_samples(State(state): State<PageState>, form: Form) -> Page {
    let (caller, route) = (&form.user.caller, sessions::SESSION);
    let api = state.api.authorize(caller, &Method::PUT, route)?;
    for (name, text) in SESSIONS {
        #[derive(serde::Deserialize)]
        struct ExampleSession {
            session_id: Uuid,
        }
        let named: ExampleSession = serde_json::from_str(text)
            .map_err(|error| ApiError::Internal(format!("{name}: {error}")))?;
        sessions::put(api.clone(), named.session_id, text.to_owned()).await?;
    }
    redirect(form.user.fragment, "/sessions")
}

#[cfg(test)]
mod tests {
    use super::super::batches::tests::batch;
    use super::*;
    use serde_json::json;

    fn page(sessions: u64) -> Overview {
        Overview {
            frame: Frame::bare(),
            here: "http://gavel.example".to_owned(),
            new_id: Uuid::nil(),
            sessions,
            scored: ("50%".to_owned(), "scored"),
            current: "25%".to_owned(),
            mean: "70.1".to_owned(),
            distribution: None,
            scores: 1,
            outdated: 0,
            trend: None,
            alerts: Vec::new(),
            batches: Vec::new(),
            steps: Vec::new(),
            lists: Vec::new(),
        }
    }

    #[test]
    fn empty_overview_shows_first_steps_with_request_address() {
        let text = page(0).render().unwrap();
        for part in [
            "Seven sessions",
            "curl -X PUT http://gavel.example/api/v1/sessions/",
            "gavel evaluate suite.jsonl --server http://gavel.example",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn alerts_come_first_and_few_scores_have_no_chart() {
        let now = "2026-11-23T12:00:00Z".parse().unwrap();
        let full = Overview {
            alerts: vec![alert("<b>one</b> failed".to_owned(), "/queue")],
            batches: vec![BatchListRow::new(
                batch(&json!({"name": "<i>nightly</i>"})),
                now,
            )],
            ..page(1_234)
        };
        let text = full.render().unwrap();
        assert!(text.find("Needs attention").unwrap() < text.find("1,234").unwrap());
        assert!(
            text.contains("1 score. The chart needs at least 20"),
            "{text}"
        );
        assert!(
            !text.contains("<b>one") && !text.contains("<i>nightly"),
            "{text}"
        );
    }

    #[test]
    fn invalid_host_header_is_not_shown() {
        let asked = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", host.parse().unwrap());
            here(&headers)
        };
        assert_eq!(asked("gavel.example:8080"), "http://gavel.example:8080");
        assert_eq!(asked("[::1]:8080"), "http://[::1]:8080");
        assert_eq!(asked("a'; rm -rf /"), "http://localhost:8080");
    }
}
