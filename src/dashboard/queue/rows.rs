//! Jobs, workers and judges as rows of the queue's page.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use uuid::Uuid;

use super::super::form::segment;
use super::super::health::{self, Health};
use super::super::machinery::{Brake, Judge, Worker};
use super::super::session::JobError;
use super::super::waits::Wait;
use super::super::words::{self, Moment};

/// A job as the API tells it.
#[derive(Debug, Deserialize)]
pub(super) struct Job {
    job_id: Uuid,
    kind: String,
    subject_id: Option<Uuid>,
    batch_id: Option<Uuid>,
    item_no: Option<i64>,
    judge: Option<String>,
    triggered_by: String,
    wait: Option<Wait>,
    error: Option<JobError>,
    times: Times,
}

#[derive(Debug, Deserialize)]
struct Times {
    created_at: DateTime<Utc>,
}

/// A job as a row.
pub(super) struct JobRow {
    pub(super) id: Uuid,
    pub(super) what: String,
    pub(super) to: String,
    pub(super) judge: String,
    pub(super) by: String,
    pub(super) asked: Moment,
    pub(super) why: String,
    pub(super) remedy: String,
    pub(super) retry: bool,
    pub(super) cancel: bool,
}

/// A worker as a row.
pub(super) struct WorkerRow {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) started: Moment,
    pub(super) heard: Moment,
    pub(super) in_hand: i32,
    pub(super) state: String,
    pub(super) alive: bool,
}

/// A judge as a row.
pub(super) struct JudgeRow {
    pub(super) name: String,
    pub(super) segment: String,
    pub(super) kinds: String,
    pub(super) simulated: bool,
    pub(super) state: String,
    pub(super) colour: &'static str,
    pub(super) held: bool,
    pub(super) detail: String,
    pub(super) last_error: String,
    pub(super) in_flight: i32,
    pub(super) today: String,
}

/// Who holds it, since and until when.
pub(super) fn held(brake: &Brake, now: DateTime<Utc>) -> String {
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

impl Job {
    /// What it is about, and where that is shown.
    fn place(&self) -> (String, String) {
        let kind = self.kind.replace('_', " ");
        match (self.subject_id, self.batch_id) {
            (Some(session), _) => (
                format!("session {}", words::short_id(&session)),
                format!("/sessions/{session}"),
            ),
            (None, Some(batch)) => {
                let of = words::short_id(&batch);
                match self.item_no {
                    Some(no) => (
                        format!("{kind} {} of batch {of}", no + 1),
                        format!("/batches/{batch}/items/{no}"),
                    ),
                    None => (format!("{kind} of batch {of}"), format!("/batches/{batch}")),
                }
            }
            (None, None) => (
                format!("{kind} {}", words::short_id(&self.job_id)),
                format!("/api/v1/jobs/{}", self.job_id),
            ),
        }
    }
}

impl JobRow {
    pub(super) fn of(job: Job, now: DateTime<Utc>) -> Self {
        let (what, to) = job.place();
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
    pub(super) fn of(worker: Worker, now: DateTime<Utc>) -> Self {
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
    pub(super) fn of(judge: Judge, now: DateTime<Utc>) -> Self {
        let closed = judge.gates.iter().find(|gate| gate.reason.is_some());
        let stopped = judge.brake.is_some() || closed.is_some();
        let (state, detail) = match (&judge.brake, closed) {
            (Some(brake), _) => (brake.reason.replace('_', " "), held(brake, now)),
            (None, Some(gate)) => (
                match (gate.breaker.as_str(), &gate.reason) {
                    ("closed", Some(reason)) => reason.replace('_', " "),
                    (_, _) => "failing".to_owned(),
                },
                gate.until.map_or_else(String::new, |until| {
                    format!("asked again {}", words::moment(until, now).ago)
                }),
            ),
            (None, None) if !judge.configured => (
                "not configured".to_owned(),
                judge.remedy.clone().unwrap_or_default(),
            ),
            (None, None) => match judge.health() {
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
