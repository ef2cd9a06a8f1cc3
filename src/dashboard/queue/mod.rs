//! `/queue`: what waits and why, what runs, what failed for good, who works, how the judges do; with the brakes.

mod rows;

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::json;

use rows::{Job, JobRow, JudgeRow, WorkerRow, held};

use super::confirm::{self, Question, is_sure};
use super::form::{Form, segment};
use super::frame::Frame;
use super::machinery::{Judge, Machinery};
use super::page::{Fault, Page, go, html};
use super::site::Site;
use super::visitor::Visitor;
use super::words;

/// The heading of what workers have in hand.
const RUNNING: &str = "Running";
/// How many jobs of a state are shown.
const SHOWN: u32 = 20;

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/queue", get(queue))
        .route("/queue/body", get(body))
        .route("/queue/pause", post(pause_queue))
        .route("/queue/resume", post(resume_queue))
        .route("/judges/{name}/pause", post(pause_judge))
        .route("/judges/{name}/resume", post(resume_judge))
        .route("/jobs/{id}/retry", post(retry_job))
        .route("/jobs/{id}/cancel", post(cancel_job))
}

#[derive(Debug, Deserialize)]
struct Jobs {
    items: Vec<Job>,
    next_cursor: Option<String>,
}

/// Jobs of one state.
struct Group {
    name: &'static str,
    empty: &'static str,
    /// Whether its jobs have a reason to be told: what runs has none.
    has_why: bool,
    rows: Vec<JobRow>,
    more: bool,
}

/// The page below its head: what is asked for again as things happen.
#[derive(Template)]
#[template(path = "queue_body.html")]
struct Body {
    counts: Vec<(&'static str, String)>,
    held: Option<String>,
    groups: Vec<Group>,
    workers: Vec<WorkerRow>,
    judges: Vec<JudgeRow>,
    /// Judges that aren't set up and that nothing asks for.
    unused: Vec<JudgeRow>,
    may_admin: bool,
    may_enqueue: bool,
    form_token: String,
}

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    frame: Frame,
    body: Body,
}

impl Body {
    async fn read(site: &Site, visitor: &Visitor) -> Result<Self, Fault> {
        let (door, caller) = (&site.door, &visitor.caller);
        let jobs = |state: &str| format!("/api/v1/jobs?state={state}&limit={SHOWN}");
        let (waiting, queued) = (jobs("waiting"), jobs("queued"));
        let (running, failed) = (jobs("running"), jobs("failed"));
        let (machinery, waiting, queued, running, failed) = tokio::try_join!(
            Machinery::read(door, caller),
            door.get::<Jobs>(caller, &waiting),
            door.get::<Jobs>(caller, &queued),
            door.get::<Jobs>(caller, &running),
            door.get::<Jobs>(caller, &failed),
        )?;
        let now = site.about.clock.now();
        let (judges, unused): (Vec<Judge>, Vec<Judge>) =
            machinery.judges.into_iter().partition(Judge::matters);
        let (queue, workers) = (machinery.queue, machinery.workers);
        let counts = queue.counts;
        let group = |name, empty, jobs: Jobs| Group {
            name,
            empty,
            has_why: name != RUNNING,
            more: jobs.next_cursor.is_some(),
            rows: jobs
                .items
                .into_iter()
                .map(|job| JobRow::of(job, now))
                .collect(),
        };
        Ok(Self {
            counts: vec![
                ("queued", words::count(counts.queued)),
                ("waiting", words::count(counts.waiting)),
                ("running", words::count(counts.running)),
                ("scored in 24 h", words::count(counts.succeeded_24h)),
                ("failed in 24 h", words::count(counts.failed_24h)),
            ],
            held: queue.brake.map(|brake| held(&brake, now)),
            groups: vec![
                group("Waiting", "Nothing waits.", waiting),
                group("Queued", "Nothing is queued.", queued),
                group(RUNNING, "Nothing runs.", running),
                group("Failed for good", "Nothing has failed.", failed),
            ],
            workers: workers.into_iter().map(|w| WorkerRow::of(w, now)).collect(),
            judges: judges.into_iter().map(|j| JudgeRow::of(j, now)).collect(),
            unused: unused.into_iter().map(|j| JudgeRow::of(j, now)).collect(),
            may_admin: visitor.may_admin(),
            may_enqueue: visitor.may_enqueue(),
            form_token: visitor.form_token.clone(),
        })
    }

    /// Whether anybody works.
    fn has_worker(&self) -> bool {
        self.workers.iter().any(|worker| worker.alive)
    }
}

async fn queue(State(site): State<Site>, visitor: Visitor) -> Page {
    let body = Body::read(&site, &visitor).await?;
    let frame = Frame::of(&site, visitor, "Queue", "Queue")
        .await
        .moving(true);
    html(&QueuePage { frame, body })
}

async fn body(State(site): State<Site>, visitor: Visitor) -> Page {
    html(&Body::read(&site, &visitor).await?)
}

async fn pause_queue(State(site): State<Site>, form: Form) -> Page {
    if form.visitor.may_admin() && !is_sure(&form) {
        let question = Question {
            title: "Pause the queue?".to_owned(),
            consequence: "Workers hear of it within a second: from then on no job starts until somebody resumes it; what runs ends.".to_owned(),
            button: "Pause the queue",
            stops: true,
            part: "Queue",
        };
        return confirm::ask(&site, &form, "/queue/pause".to_owned(), question).await;
    }
    brake(&site, &form, "/api/v1/queue/pause").await
}

async fn resume_queue(State(site): State<Site>, form: Form) -> Page {
    brake(&site, &form, "/api/v1/queue/resume").await
}

async fn pause_judge(State(site): State<Site>, Path(name): Path<String>, form: Form) -> Page {
    if form.visitor.may_admin() && !is_sure(&form) {
        let question = Question {
            title: format!("Pause {name}?"),
            consequence: "Workers hear of it within a second: from then on its jobs wait until somebody resumes it; what runs ends.".to_owned(),
            button: "Pause the judge",
            stops: true,
            part: "Queue",
        };
        let action = format!("/judges/{}/pause", segment(&name));
        return confirm::ask(&site, &form, action, question).await;
    }
    brake(
        &site,
        &form,
        &format!("/api/v1/judges/{}/pause", segment(&name)),
    )
    .await
}

async fn resume_judge(State(site): State<Site>, Path(name): Path<String>, form: Form) -> Page {
    brake(
        &site,
        &form,
        &format!("/api/v1/judges/{}/resume", segment(&name)),
    )
    .await
}

async fn brake(site: &Site, form: &Form, path: &str) -> Page {
    let body = match form.text("message") {
        Some(message) => json!({"message": message}),
        None => json!({}),
    };
    site.door
        .post(&form.visitor.caller, path, form.key(), &body)
        .await?;
    go(form.visitor.piece, form.back().unwrap_or("/queue"))
}

async fn retry_job(State(site): State<Site>, Path(id): Path<String>, form: Form) -> Page {
    let path = format!("/api/v1/jobs/{}/retry", segment(&id));
    site.door
        .post(&form.visitor.caller, &path, form.key(), &json!({}))
        .await?;
    go(form.visitor.piece, form.back().unwrap_or("/queue"))
}

async fn cancel_job(State(site): State<Site>, Path(id): Path<String>, form: Form) -> Page {
    if form.visitor.may_enqueue() && !is_sure(&form) {
        let question = Question {
            title: "Cancel this job?".to_owned(),
            consequence: "It ends without a score.".to_owned(),
            button: "Cancel the job",
            stops: true,
            part: "Queue",
        };
        let action = format!("/jobs/{}/cancel", segment(&id));
        return confirm::ask(&site, &form, action, question).await;
    }
    let path = format!("/api/v1/jobs/{}/cancel", segment(&id));
    site.door
        .post(&form.visitor.caller, &path, form.key(), &json!({}))
        .await?;
    go(form.visitor.piece, form.back().unwrap_or("/queue"))
}
