//! Jobs, workers and judges as rows of the queue's page.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::super::batch_items::session_page;
use super::super::infrastructure;
use super::super::links::segment;
use super::super::session_item::called;
use super::super::words::{self, Moment};
use crate::job::WaitReason;
use crate::wire::{Job, Judge, SessionItem, Worker, WorkerState};

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

pub(super) struct WorkerRow {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) started: Moment,
    pub(super) heard: Moment,
    /// How many jobs it works on; what a worker had that is gone runs elsewhere.
    pub(super) in_hand: String,
    /// What it does, `silent` where its heartbeat is late, or `gone`.
    pub(super) state: String,
    pub(super) colour: &'static str,
    pub(super) gone: bool,
}

/// What may be done to a judge.
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
    /// What its newest failed call said; empty: none is known, or that it is stopped by it is told already.
    pub(super) last_error: String,
    pub(super) erred: Option<Moment>,
    pub(super) in_flight: i32,
    /// What the last minute used of what a minute may; empty: nobody has asked it.
    pub(super) pace: String,
    pub(super) today: String,
}

/// What a job is about, and where that is shown.
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
    /// A job's row. Its session, if it is about one, has its name, and maybe a score that is newer than its failure.
    pub(super) fn new(job: Job, session: Option<&SessionItem>, now: DateTime<Utc>) -> Self {
        let (what, to) = place(&job);
        let what = session.map_or(what, called);
        let failed = job.error.is_some();
        let score = session.and_then(|session| session.score.as_ref());
        // An item of a batch may be a preview or a juror's, which no other score stands for.
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
            asked: words::moment(job.times.created_at, now),
            why,
            remedy: match (job.error, &job.wait) {
                (Some(_), _) if is_scored_since => "Nothing: it was scored since.".to_owned(),
                (Some(error), _) => error.remedy,
                // The head of the page says how to start a worker.
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
        let heard = infrastructure::is_heard(&worker, now);
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
            started: words::moment(worker.started_at, now),
            heard: words::moment(worker.heartbeat_at, now),
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
                // A cap ends with its day or month, or where it is raised: the API resumes nothing that is capped.
                Some(hold) if hold.reason == WaitReason::Budget => Control::None,
                Some(_) => Control::Resume,
            },
            erred: error
                .and_then(|(_, at)| at)
                .map(|at| words::moment(at, now)),
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
