//! `/scores/{id}/calls`: the judge's calls behind a score, each with the beginning of its raw reply.

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
    score_id: Uuid,
    job_id: Uuid,
    calls: Vec<Drawn>,
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
    let share = TOGETHER / calls.len().max(1);
    html(&CallsPage {
        frame: Frame::of(&site, visitor, "Sessions", "Calls").await,
        score_id: answer.score_id,
        job_id: answer.job_id,
        calls: calls.into_iter().map(|call| call.drawn(share)).collect(),
    })
}
