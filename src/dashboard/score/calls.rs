//! `/scores/{id}/calls`, `/jobs/{id}/calls`: the judge's calls behind a score, or of a job that has none, each with the beginning of its raw
//! reply.

use askama::Template;
use axum::extract::{Path, State};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use uuid::Uuid;

use super::super::form::segment;
use super::super::frame::Frame;
use super::super::markdown::{self, Cut};
use super::super::page::{Page, html};
use super::super::site::Site;
use super::super::visitor::Visitor;
use super::view::Answer;

/// HTML of all replies together, bytes: with its head the page stays below 150 KB.
const TOGETHER: usize = 96 << 10;

#[derive(Debug, Deserialize)]
struct Job {
    job_id: Uuid,
    kind: String,
    subject_id: Option<Uuid>,
    calls: Option<Vec<Call>>,
}

#[derive(Debug, Deserialize)]
struct Call {
    at: DateTime<Utc>,
    judge: String,
    model: String,
    status: Option<u16>,
    error: Option<String>,
    latency_ms: u64,
    reply: Option<String>,
}

impl Call {
    fn drawn(self, most: usize) -> Drawn {
        let reply = self.reply.as_deref();
        Drawn {
            reply: reply.map(|text| markdown::plain(text, most)),
            call: self,
        }
    }
}

/// A call with as much of its reply as the page holds.
struct Drawn {
    call: Call,
    reply: Option<Cut>,
}

#[derive(Template)]
#[template(path = "calls.html")]
struct CallsPage {
    frame: Frame,
    /// Where to go back to, and what that is.
    back: (String, &'static str),
    job_id: Uuid,
    calls: Vec<Drawn>,
}

impl CallsPage {
    async fn of(
        site: &Site,
        visitor: Visitor,
        back: (String, &'static str),
        (job_id, calls): (Uuid, Vec<Call>),
    ) -> Self {
        let share = TOGETHER / calls.len().max(1);
        Self {
            frame: Frame::of(site, visitor, "Sessions", "Calls").await,
            back,
            job_id,
            calls: calls.into_iter().map(|call| call.drawn(share)).collect(),
        }
    }
}

/// The calls behind a score with their raw replies: loaded when they are asked for.
pub(super) async fn calls(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Page {
    let path = format!("/api/v1/scores/{}", segment(&id));
    let answer: Answer = site.door.get(&visitor.caller, &path).await?;
    let job = format!("/api/v1/jobs/{}?calls=true", answer.job_id);
    let job: Option<Job> = site.door.find(&visitor.caller, &job).await?;
    let calls = job.and_then(|job| job.calls).unwrap_or_default();
    let back = (format!("/scores/{}", answer.score_id), "the score");
    html(&CallsPage::of(&site, visitor, back, (answer.job_id, calls)).await)
}

/// The calls of a job, which may have failed and have no score.
pub(super) async fn of_job(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Page {
    let path = format!("/api/v1/jobs/{}?calls=true", segment(&id));
    let job: Job = site.door.get(&visitor.caller, &path).await?;
    let back = match (job.kind.as_str(), job.subject_id) {
        ("session", Some(session)) => (format!("/sessions/{session}"), "the session"),
        (_, _) => ("/queue".to_owned(), "the queue"),
    };
    let calls = (job.job_id, job.calls.unwrap_or_default());
    html(&CallsPage::of(&site, visitor, back, calls).await)
}
