//! `/queue`: what waits and why, what runs, what failed for good, who works, how the judges do; with the brakes.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::confirm::{self, Question, is_sure};
use super::form::{Form, segment};
use super::frame::Frame;
use super::health::{self, Health};
use super::page::{Fault, Page, go, html};
use super::site::Site;
use super::visitor::Visitor;
use super::waits::Wait;
use super::words::{self, Moment};

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
struct Brake {
    reason: String,
    message: String,
    set_by: String,
    since: DateTime<Utc>,
    until: Option<DateTime<Utc>>,
}

#[derive(Debug, Deserialize)]
struct Queue {
    brake: Option<Brake>,
    counts: Counts,
}

#[derive(Debug, Deserialize)]
struct Counts {
    queued: i64,
    running: i64,
    waiting: i64,
    succeeded_24h: i64,
    failed_24h: i64,
}

#[derive(Debug, Deserialize)]
struct Workers {
    items: Vec<Worker>,
}

#[derive(Debug, Deserialize)]
struct Worker {
    name: String,
    version: String,
    started_at: DateTime<Utc>,
    heartbeat_at: DateTime<Utc>,
    in_hand: i32,
    state: String,
    alive: bool,
}

#[derive(Debug, Deserialize)]
struct Judges {
    items: Vec<Judge>,
}

#[derive(Debug, Deserialize)]
struct Judge {
    name: String,
    configured: bool,
    remedy: Option<String>,
    simulated: bool,
    kinds: Vec<String>,
    brake: Option<Brake>,
    gates: Vec<Gate>,
    spent: Spent,
}

#[derive(Debug, Deserialize)]
struct Gate {
    breaker: String,
    failures_in_row: i32,
    reason: Option<String>,
    until: Option<DateTime<Utc>>,
    in_flight: i32,
    last_error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Spent {
    today_usd: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Jobs {
    items: Vec<Job>,
    next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Job {
    job_id: Uuid,
    kind: String,
    subject_id: Option<Uuid>,
    batch_id: Option<Uuid>,
    item_no: Option<i64>,
    judge: Option<String>,
    triggered_by: String,
    wait: Option<Wait>,
    error: Option<super::session::JobError>,
    times: Times,
}

#[derive(Debug, Deserialize)]
struct Times {
    created_at: DateTime<Utc>,
}

/// Jobs of one state.
struct Group {
    name: &'static str,
    empty: &'static str,
    rows: Vec<JobRow>,
    more: bool,
}

/// A job as a row.
struct JobRow {
    id: Uuid,
    what: String,
    to: String,
    judge: String,
    by: String,
    asked: Moment,
    why: String,
    remedy: String,
    retry: bool,
    cancel: bool,
}

struct WorkerRow {
    name: String,
    version: String,
    started: Moment,
    heard: Moment,
    in_hand: i32,
    state: String,
    alive: bool,
}

struct JudgeRow {
    name: String,
    segment: String,
    kinds: String,
    simulated: bool,
    state: String,
    colour: &'static str,
    held: bool,
    detail: String,
    last_error: String,
    in_flight: i32,
    today: String,
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
        let (queue, workers, judges, waiting, queued, running, failed) = tokio::try_join!(
            door.get::<Queue>(caller, "/api/v1/queue"),
            door.get::<Workers>(caller, "/api/v1/workers"),
            door.get::<Judges>(caller, "/api/v1/judges"),
            door.get::<Jobs>(caller, &waiting),
            door.get::<Jobs>(caller, &queued),
            door.get::<Jobs>(caller, &running),
            door.get::<Jobs>(caller, &failed),
        )?;
        let now = site.about.clock.now();
        let (judges, unused): (Vec<Judge>, Vec<Judge>) =
            judges.items.into_iter().partition(Judge::matters);
        let counts = queue.counts;
        let group = |name, empty, jobs: Jobs| Group {
            name,
            empty,
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
                group("Running", "Nothing runs.", running),
                group("Failed for good", "Nothing has failed.", failed),
            ],
            workers: workers
                .items
                .into_iter()
                .map(|w| WorkerRow::of(w, now))
                .collect(),
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

impl Judge {
    /// Whether it is set up, asked for, or stopped.
    fn matters(&self) -> bool {
        self.configured || !self.kinds.is_empty() || self.brake.is_some()
    }
}

fn held(brake: &Brake, now: DateTime<Utc>) -> String {
    let mut text = format!(
        "by {} {}",
        brake.set_by,
        words::moment(brake.since, now).ago
    );
    if let Some(until) = brake.until {
        text.push_str(&format!(", until {}", words::moment(until, now).plain));
    }
    if !brake.message.is_empty() {
        text.push_str(&format!(": {}", brake.message));
    }
    text
}

impl JobRow {
    fn of(job: Job, now: DateTime<Utc>) -> Self {
        let kind = job.kind.replace('_', " ");
        let (what, to) = match (job.subject_id, job.batch_id) {
            (Some(session), _) => (
                format!("session {}", words::short_id(&session)),
                format!("/sessions/{session}"),
            ),
            (None, Some(batch)) => {
                let place = job
                    .item_no
                    .map_or_else(String::new, |no| format!(" {}", no + 1));
                let what = format!("{kind}{place} of batch {}", words::short_id(&batch));
                let item = job
                    .item_no
                    .map_or_else(String::new, |no| format!("/items/{no}"));
                (what, format!("/batches/{batch}{item}"))
            }
            (None, None) => (
                format!("{kind} {}", words::short_id(&job.job_id)),
                format!("/api/v1/jobs/{}", job.job_id),
            ),
        };
        let failed = job.error.is_some();
        let why = match (&job.error, &job.wait) {
            (Some(error), _) => format!("{}: {}", error.class.replace('_', " "), error.message),
            (None, Some(wait)) => wait.says(job.judge.as_deref(), now),
            (None, None) => String::new(),
        };
        Self {
            id: job.job_id,
            what,
            to,
            judge: job.judge.unwrap_or_else(|| "none".to_owned()),
            by: job.triggered_by,
            asked: words::moment(job.times.created_at, now),
            why,
            remedy: job.error.map_or_else(String::new, |error| error.remedy),
            retry: failed,
            cancel: !failed,
        }
    }
}

impl WorkerRow {
    fn of(worker: Worker, now: DateTime<Utc>) -> Self {
        Self {
            name: worker.name,
            version: worker.version,
            started: words::moment(worker.started_at, now),
            heard: words::moment(worker.heartbeat_at, now),
            in_hand: worker.in_hand,
            state: worker.state,
            alive: worker.alive,
        }
    }
}

impl JudgeRow {
    fn of(judge: Judge, now: DateTime<Utc>) -> Self {
        let closed = judge.gates.iter().find(|gate| gate.reason.is_some());
        let stopped = judge.brake.is_some() || closed.is_some();
        let (state, detail) = match (&judge.brake, closed) {
            (Some(brake), _) => (brake.reason.replace('_', " "), held(brake, now)),
            (None, Some(gate)) => (
                if gate.breaker == "closed" {
                    "held back"
                } else {
                    "failing"
                }
                .to_owned(),
                gate.until.map_or_else(String::new, |until| {
                    format!("asked again {}", words::moment(until, now).ago)
                }),
            ),
            (None, None) if !judge.configured => (
                "not configured".to_owned(),
                judge.remedy.clone().unwrap_or_default(),
            ),
            (None, None) => match health::of(judge.gates.iter().map(|g| g.failures_in_row)) {
                Health::Unasked => ("not asked lately".to_owned(), String::new()),
                Health::Answers => ("answers".to_owned(), String::new()),
                Health::Fails(calls) => ("failing".to_owned(), health::failed(calls)),
            },
        };
        let colour = match (stopped, state.as_str()) {
            (true, _) | (_, "failing") => "waiting",
            (false, "answers") => "succeeded",
            (false, _) => "",
        };
        Self {
            segment: segment(&judge.name),
            kinds: judge.kinds.join(", ").replace('_', " "),
            simulated: judge.simulated,
            colour,
            held: judge.brake.is_some(),
            last_error: judge
                .gates
                .iter()
                .find_map(|gate| gate.last_error.clone())
                .unwrap_or_default(),
            in_flight: judge.gates.iter().map(|gate| gate.in_flight).sum(),
            today: words::usd(judge.spent.today_usd),
            name: judge.name,
            state,
            detail,
        }
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
            consequence: "No job starts until somebody resumes it; what runs ends.",
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
            consequence: "Its jobs wait until somebody resumes it.",
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
            consequence: "It ends without a score.",
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
