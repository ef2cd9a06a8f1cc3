//! Rows of the queue page: jobs, workers, judges.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::super::batch_items::session_page;
use super::super::infrastructure;
use super::super::links::segment;
use super::super::session_item::called;
use super::super::words::{self, Timestamp};
use crate::job::WaitReason;
use crate::wire::{Job, Judge, SessionItem, Worker, WorkerState};

pub(super) struct JobRow {
    pub(super) id: Uuid,
    pub(super) what: String,
    pub(super) to: String,
    pub(super) judge: String,
    pub(super) by: String,
    pub(super) asked: Timestamp,
    pub(super) why: String,
    pub(super) remedy: String,
    pub(super) retry: bool,
    pub(super) cancel: bool,
}

pub(super) struct WorkerRow {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) started: Timestamp,
    pub(super) heard: Timestamp,
    /// Number of active jobs, `–` for a lost worker because its jobs run elsewhere.
    pub(super) in_hand: String,
    /// The worker's state, `silent` if its heartbeat is late, or `gone`.
    pub(super) state: String,
    pub(super) colour: &'static str,
    pub(super) gone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    Pause,
    Resume,
    None,
}

pub(super) struct JudgeRow {
    pub(super) name: String,
    pub(super) segment: String,
    pub(super) kinds: String,
    pub(super) simulated: bool,
    pub(super) state: String,
    pub(super) colour: &'static str,
    pub(super) control: Control,
    pub(super) detail: String,
    /// Message of the newest failed call. Empty without failed calls, or if it is already shown as the reason of the hold.
    pub(super) last_error: String,
    pub(super) erred: Option<Timestamp>,
    pub(super) in_flight: i32,
    /// Use of the rate limits in the last minute. Empty without calls.
    pub(super) pace: String,
    pub(super) today: String,
}

/// Label and address of a job's subject.
fn place(job: &Job) -> (String, String) {
    let kind = job.kind.in_words();
    match (job.subject_id, job.batch_id) {
        (Some(session), _) => (
            format!("session {}", words::short_id(&session)),
            session_page(session, job),
        ),
        (None, Some(batch)) => {
            let of = words::short_id(&batch);
            match job.item_no {
                Some(no) => (
                    format!("{kind} {} of batch {of}", no + 1),
                    format!("/batches/{batch}/items/{no}"),
                ),
                None => (format!("{kind} of batch {of}"), format!("/batches/{batch}")),
            }
        }
        (None, None) => (
            format!("{kind} {}", words::short_id(&job.job_id)),
            format!("/api/v1/jobs/{}", job.job_id),
        ),
    }
}

impl JobRow {
    /// Builds a job's row. `session` provides the name, and the score if it is newer than the job's failure.
    pub(super) fn new(job: Job, session: Option<&SessionItem>, now: DateTime<Utc>) -> Self {
        let (what, to) = place(&job);
        let what = session.map_or(what, called);
        let failed = job.error.is_some();
        let score = session.and_then(|session| session.score.as_ref());
        // A batch item may be a preview or a jury score, which the session's score doesn't replace.
        let is_alone = failed && job.batch_id.is_none();
        let is_scored_since =
            is_alone && score.map(|score| score.scored_at) > job.times.finished_at;
        let why = match (&job.error, &job.wait) {
            (Some(error), _) => format!("{}: {}", error.class.in_words(), error.message),
            (None, Some(wait)) => wait.text(job.judge.as_deref()),
            (None, None) => String::new(),
        };
        Self {
            id: job.job_id,
            what,
            to,
            judge: job.judge.unwrap_or_else(|| "none".to_owned()),
            by: job.triggered_by,
            asked: words::timestamp(job.times.created_at, now),
            why,
            remedy: match (job.error, &job.wait) {
                (Some(_), _) if is_scored_since => {
                    "No action needed: it was scored since.".to_owned()
                }
                (Some(error), _) => error.remedy,
                // The head of the page explains how to start a worker.
                (None, Some(wait)) if wait.reason != WaitReason::NoWorker => {
                    wait.remedy.clone().unwrap_or_default()
                }
                (None, _) => String::new(),
            },
            retry: failed && !is_scored_since,
            cancel: !failed,
        }
    }
}

impl WorkerRow {
    pub(super) fn new(worker: Worker, now: DateTime<Utc>) -> Self {
        let gone = infrastructure::is_gone(&worker, now);
        let heard = infrastructure::has_recent_heartbeat(&worker, now);
        let (state, colour) = match (gone, heard) {
            (true, _) if worker.state == WorkerState::Stopped => {
                (worker.state.to_string(), "waiting")
            }
            (true, _) => ("gone".to_owned(), "failed"),
            (false, true) => (worker.state.to_string(), "succeeded"),
            (false, false) => ("silent".to_owned(), "waiting"),
        };
        Self {
            name: worker.name,
            version: worker.version,
            started: words::timestamp(worker.started_at, now),
            heard: words::timestamp(worker.heartbeat_at, now),
            in_hand: match heard && !gone {
                true => worker.in_hand.to_string(),
                false => "–".to_owned(),
            },
            state,
            colour,
            gone,
        }
    }
}

impl JudgeRow {
    pub(super) fn new(judge: Judge, now: DateTime<Utc>) -> Self {
        let stopped = judge.hold.is_some() || judge.gates.iter().any(|gate| gate.reason.is_some());
        let (state, detail) = judge.state_text();
        let colour = match (stopped, state.as_str()) {
            (true, _) | (_, "failing") => "waiting",
            (false, "answers") => "succeeded",
            (false, _) => "",
        };
        let error = judge.last_error();
        let error = error.filter(|(text, _)| !detail.contains(text));
        Self {
            segment: segment(&judge.name),
            kinds: words::kinds(&judge.kinds),
            simulated: judge.simulated,
            colour,
            control: match &judge.hold {
                None => Control::Pause,
                // A cap ends with its day or month or when it is raised. The API doesn't resume a capped judge.
                Some(hold) if hold.reason == WaitReason::Budget => Control::None,
                Some(_) => Control::Resume,
            },
            erred: error
                .and_then(|(_, at)| at)
                .map(|at| words::timestamp(at, now)),
            last_error: error.map_or_else(String::new, |(text, _)| text.to_owned()),
            in_flight: judge.gates.iter().map(|gate| gate.in_flight).sum(),
            pace: judge.pace_text(),
            today: infrastructure::today(&judge.spent),
            name: judge.name,
            state,
            detail,
        }
    }
}
