//! Jobs, workers and judges as rows of the queue's page.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::super::batch_items::session_page;
use super::super::infrastructure;
use super::super::links::segment;
use super::super::session_item::called;
use super::super::waits::WaitWords as _;
use super::super::words::{self, Moment};
use crate::job::WaitReason;
use crate::wire::{Health, Hold, Job, Judge, JudgePace, Meter, SessionItem, Worker, WorkerState};

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

pub(super) fn held(hold: &Hold, now: DateTime<Utc>) -> String {
    let mut text = format!("by {} {}", hold.set_by, words::moment(hold.since, now).ago);
    if let Some(until) = hold.until {
        text.push_str(&format!(", until {}", words::moment(until, now).plain));
    }
    if !hold.message.is_empty() {
        text.push_str(&format!(": {}", hold.message));
    }
    text
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
            remedy: match (job.error, &job.wait) {
                (Some(_), _) if is_scored_since => "Nothing: it was scored since.".to_owned(),
                (Some(error), _) => error.remedy,
                // What to do about workers stands above, once.
                (None, Some(wait)) if !wait.lacks_a_worker() => {
                    wait.remedy().unwrap_or_default().to_owned()
                }
                (None, _) => String::new(),
            },
            retry: failed && !is_scored_since,
            cancel: !failed,
        }
    }
}

/// What the last minute used of what a minute may, over the workers.
fn pace<'a>(paces: impl Iterator<Item = &'a JudgePace> + Clone) -> String {
    let of = |meter: fn(&JudgePace) -> &Meter, what: &str| {
        let used: u64 = paces.clone().map(|p| meter(p).used_last_minute).sum();
        // One limit for all of them, or each its own.
        let limits = |together| {
            let of = paces.clone().filter(move |p| p.together == together);
            of.map(move |p| meter(p).limit)
        };
        let limit = match limits(true).next() {
            Some(_) => limits(true).flatten().max(),
            None => limits(false).sum(),
        };
        match limit {
            Some(limit) => format!(
                "{} of {}",
                words::grouped(used),
                words::counted(limit, what)
            ),
            None => words::counted(used, what),
        }
    };
    if paces.clone().next().is_none() {
        return String::new();
    }
    let (requests, tokens) = (of(|p| &p.requests, "request"), of(|p| &p.tokens, "token"));
    let mut text = format!("{requests}, {tokens} a minute");
    if let Some(until) = paces.clone().filter_map(|p| p.shrunk_until).max() {
        let at = until.format("%H:%M:%S UTC");
        text.push_str(&format!("; slower until {at}, since it said 429"));
    }
    if let Some(workers) = paces.filter_map(|p| p.part_of).max() {
        text.push_str(&format!(
            "; Redis is away, so each of {workers} workers keeps to its part"
        ));
    }
    text
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
        let closed = judge.gates.iter().find(|gate| gate.reason.is_some());
        let stopped = judge.hold.is_some() || closed.is_some();
        let (state, detail) = match (&judge.hold, closed) {
            (Some(hold), _) => (
                hold.reason.brief().to_owned(),
                match hold.reason == WaitReason::Budget {
                    true => format!(
                        "{}. To go on before, raise the cap and restart the workers.",
                        held(hold, now)
                    ),
                    false => held(hold, now),
                },
            ),
            (None, Some(gate)) => (
                match (gate.breaker.as_str(), &gate.reason) {
                    ("closed", Some(reason)) => reason.brief().to_owned(),
                    (_, _) => WaitReason::BreakerOpen.brief().to_owned(),
                },
                gate.until.map_or_else(String::new, |until| {
                    format!("asked again by itself at {}", until.format("%H:%M:%S UTC"))
                }),
            ),
            (None, None) if !judge.configured => (
                "not configured".to_owned(),
                judge.remedy.clone().unwrap_or_default(),
            ),
            (None, None) => match judge.health() {
                health @ Health::Fails(_) => ("failing".to_owned(), health.to_string()),
                health @ (Health::Unasked | Health::Answers) => (health.to_string(), String::new()),
            },
        };
        let colour = match (stopped, state.as_str()) {
            (true, _) | (_, "failing") => "waiting",
            (false, "answers") => "succeeded",
            (false, _) => "",
        };
        let newest = judge
            .gates
            .iter()
            .filter(|gate| gate.last_error.is_some())
            .max_by_key(|gate| gate.last_error_at);
        let last_error = newest
            .and_then(|gate| gate.last_error.clone())
            .filter(|said| !detail.contains(said.as_str()));
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
            erred: last_error
                .as_ref()
                .and_then(|_| newest?.last_error_at)
                .map(|at| words::moment(at, now)),
            last_error: last_error.unwrap_or_default(),
            in_flight: judge.gates.iter().map(|gate| gate.in_flight).sum(),
            pace: pace(judge.gates.iter().filter_map(|gate| gate.pace.as_ref())),
            today: infrastructure::today(&judge.spent),
            name: judge.name,
            state,
            detail,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn paces(found: &[Value]) -> String {
        let found: Vec<JudgePace> = found
            .iter()
            .map(|pace| serde_json::from_value(pace.clone()).unwrap())
            .collect();
        pace(found.iter())
    }

    #[test]
    fn the_last_minute_is_told_over_all_workers() {
        let one = |limit: Value, used: i64, until: Value| {
            let meter = |limit: Value, used: i64| json!({"limit": limit, "configured": limit, "learned": null, "used_last_minute": used});
            json!({"requests": meter(limit, used), "tokens": meter(Value::Null, 100 * used), "input_tokens": meter(Value::Null, 0),
                "output_tokens": meter(Value::Null, 0), "shrunk_until": until, "held_until": null, "together": false, "part_of": null})
        };
        assert_eq!(paces(&[]), "");
        let two = [
            one(json!(30), 12, Value::Null),
            one(json!(30), 8, Value::Null),
        ];
        assert_eq!(paces(&two), "20 of 60 requests, 2,000 tokens a minute");
        let mut shared = two.clone();
        for pace in &mut shared {
            pace["together"] = json!(true);
        }
        assert_eq!(paces(&shared), "20 of 30 requests, 2,000 tokens a minute");
        let mut alone = two.clone();
        alone[0]["part_of"] = json!(2);
        assert_eq!(
            paces(&alone),
            "20 of 60 requests, 2,000 tokens a minute; Redis is away, so each of 2 workers keeps to its part"
        );
        let unlimited = [one(Value::Null, 1, Value::Null)];
        assert_eq!(paces(&unlimited), "1 request, 100 tokens a minute");
        let shrunk = [one(json!(30), 3, json!("2026-11-22T12:00:30Z"))];
        assert_eq!(
            paces(&shrunk),
            "3 of 30 requests, 300 tokens a minute; slower until 12:00:30 UTC, since it said 429"
        );
    }
}
