//! Asking for scores and waiting for them, many sessions at a time. `score` and `demo` share it.

use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use serde::Serialize;
use tokio::time::Instant;
use uuid::Uuid;

use super::outcome::CliError;
use super::output;
use super::progress::Progress;
use crate::client::{Client, ClientError, ScoreOrJob};
use crate::job::{Force, JobId, JobState};
use crate::wire::{Job, JobWaitReason, Problem, Score};

const AT_ONCE: usize = 32;
/// The shortest time between two looks at a job, where the server doesn't hold its answer back.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the first look at a job lasts, and a later one, seconds: from then on a person is told what it waits for.
pub(super) const FIRST_LOOK_S: u64 = 3;
const LOOK_S: u64 = 20;

#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) force: Force,
    pub(super) criteria_hash: Option<String>,
    pub(super) until: Until,
}

/// How long to wait for jobs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// Until all have ended.
    Ended,
    /// That, or wait for what somebody has to mend in this process's own settings.
    Stuck,
    /// For all until then.
    Deadline(Instant),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(super) enum Verdict {
    Scored {
        score: Box<Score>,
    },
    Failed {
        job: Box<Job>,
    },
    /// Its job goes on; the wait is over.
    Unfinished {
        job: Box<Job>,
    },
    /// It isn't scored as it is.
    Refused {
        problem: Box<Problem>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SessionVerdict {
    pub(super) session_id: Uuid,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
}

/// Asks for every session's score and waits. Problems of one session are its verdict; those of the service end it all.
pub(super) async fn score_all(
    client: &Client,
    sessions: &[Uuid],
    ask: &Ask,
) -> Result<Vec<SessionVerdict>, CliError> {
    let progress = Progress::new("sessions", sessions.len());
    let mut verdicts = stream::iter(sessions.iter().copied())
        .map(|session_id| {
            let progress = &progress;
            async move {
                let verdict = score_one(client, session_id, ask, progress).await?;
                progress.one(matches!(verdict, Verdict::Scored { .. }));
                Ok::<_, CliError>(SessionVerdict {
                    session_id,
                    verdict,
                })
            }
        })
        .buffered(AT_ONCE);
    let mut judged = Vec::with_capacity(sessions.len());
    while let Some(one) = verdicts.next().await {
        judged.push(one?);
    }
    Ok(judged)
}

async fn score_one(
    client: &Client,
    session_id: Uuid,
    ask: &Ask,
    progress: &Progress,
) -> Result<Verdict, CliError> {
    let force = ask.force == Force::Yes;
    let hash = ask.criteria_hash.as_deref();
    let job_id = match client.ask_score(session_id, force, hash).await {
        Ok(ScoreOrJob::Score(score)) => return Ok(Verdict::Scored { score }),
        Ok(ScoreOrJob::Job(job_id)) => job_id,
        Err(ClientError::Refused(problem)) if of_this_session(problem.name()) => {
            return Ok(Verdict::Refused { problem });
        }
        Err(error) => return Err(error.into()),
    };
    let job = Box::new(wait(client, job_id, ask.until, progress).await?);
    match job.state {
        JobState::Succeeded => Ok(match client.score(session_id).await? {
            Some(score) => Verdict::Scored {
                score: Box::new(score),
            },
            None => Verdict::Failed { job },
        }),
        JobState::Failed | JobState::Cancelled => Ok(Verdict::Failed { job }),
        JobState::Queued | JobState::Running | JobState::Waiting => Ok(Verdict::Unfinished { job }),
    }
}

/// Problems that say something of one session, and nothing of the service.
fn of_this_session(name: &str) -> bool {
    matches!(
        name,
        "session-not-found"
            | "session-not-completed"
            | "nothing-to-judge"
            | "scoring-in-progress"
            | "criteria-not-found"
            | "invalid-request"
            | "job-cancelled"
    )
}

/// The job when it has ended, or as it is when the wait is over.
async fn wait(
    client: &Client,
    id: JobId,
    until: Until,
    progress: &Progress,
) -> Result<Job, CliError> {
    let deadline = match until {
        Until::Deadline(deadline) => Some(deadline),
        Until::Ended | Until::Stuck => None,
    };
    let mut look_s = FIRST_LOOK_S;
    loop {
        let begun = Instant::now();
        let looking = client.job_ended_within(id, std::mem::replace(&mut look_s, LOOK_S));
        let job = match deadline {
            Some(deadline) => match tokio::time::timeout_at(deadline, looking).await {
                Ok(job) => job?,
                Err(_) => return Ok(client.job(id).await?),
            },
            None => looking.await?,
        };
        if job.state.is_terminal() {
            return Ok(job);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(job);
        }
        if matches!(until, Until::Stuck) && is_stuck(&job) {
            return Ok(job);
        }
        progress.say_once(&match waiting(&job) {
            why if why.is_empty() => format!(
                "waiting for judge {}",
                job.judge.as_deref().unwrap_or("none")
            ),
            why => format!("waiting: {why}"),
        });
        progress.still();
        if begun.elapsed() < PAUSE {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Whether a job waits until somebody corrects its judge's key, model or address.
fn is_stuck(job: &Job) -> bool {
    (job.wait.as_ref()).is_some_and(|wait| wait.reason == JobWaitReason::Misconfigured)
}

/// Why a job waits, until when, and what its judge said last; empty if it doesn't.
pub(super) fn waiting(job: &Job) -> String {
    let Some(wait) = &job.wait else {
        return String::new();
    };
    let mut said = wait.in_short(job.judge.as_deref());
    for (before, more) in [
        (" until ", wait.until.map(output::time)),
        ("; it said last: ", wait.last_error.clone()),
        ("; to go on: ", wait.remedy.clone()),
    ] {
        // A hold is often set with the very words that the judge said last.
        if let Some(more) = more.filter(|more| !said.contains(more.as_str())) {
            said.push_str(before);
            said.push_str(&more);
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_cap_is_told_apart_from_a_batch_that_has_spent_its_budget_and_nothing_is_said_twice() {
        let says = |wait: Value| {
            let job = crate::tests::job(&json!({"state": "queued", "judge": "a", "wait": wait}));
            waiting(&serde_json::from_value(job).unwrap())
        };
        assert_eq!(
            says(
                json!({"reason": "budget", "target": "judge", "message": "the daily cap of a, 2 USD, is reached",
                "until": "2026-01-02T00:00:00Z"})
            ),
            "a has reached its spending cap (the daily cap of a, 2 USD, is reached) until 2026-01-02T00:00:00Z"
        );
        assert_eq!(
            says(
                json!({"reason": "misconfigured", "message": "judge a: 401: no such key", "last_error": "judge a: 401: no such key"})
            ),
            "its judge refuses the key, the model or the address (judge a: 401: no such key)"
        );
        assert_eq!(
            says(json!({"reason": "budget", "target": "batch"})),
            "its batch has spent its budget"
        );
    }
}
