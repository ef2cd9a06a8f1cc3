//! Requests scores and waits for their jobs. Used by `score`, `demo` and `evaluate`.

use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::outcome::CliError;
use super::output::after_colon;
use super::progress::{OUTAGE_TIMEOUT, Progress};
use crate::client::{Client, ClientError, ScoreOrJob};
use crate::job::{JobId, JobState};
use crate::wire::{Job, Problem, Score, ScoreRequest, WaitReason};

const MAX_CONCURRENT_SESSIONS: usize = 32;
/// Minimum interval between two polls of a job, if the server responds at once.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum duration of a job's first poll. After it, the user sees why the job waits.
const FIRST_POLL: Duration = Duration::from_secs(3);
const LONG_POLL: Duration = Duration::from_secs(20);

/// Condition to stop waiting for jobs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// All jobs have ended.
    Ended,
    /// All jobs have ended, or wait for a correction of this process's own settings.
    Stuck,
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
    /// The wait ended before its job did.
    Unfinished {
        job: Box<Job>,
    },
    /// The service rejected this session.
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

impl SessionVerdict {
    pub(super) fn score(&self) -> Option<&Score> {
        match &self.verdict {
            Verdict::Scored { score } => Some(score),
            Verdict::Failed { .. } | Verdict::Unfinished { .. } | Verdict::Refused { .. } => None,
        }
    }

    pub(super) fn is_simulated(&self) -> bool {
        self.score().is_some_and(|score| score.simulated)
    }

    /// Whether the session has a job that gave no score.
    pub(super) fn has_unscored_job(&self) -> bool {
        matches!(
            self.verdict,
            Verdict::Failed { .. } | Verdict::Unfinished { .. }
        )
    }

    /// Reason for a missing new score. Empty for a score.
    pub(super) fn why(&self) -> String {
        match &self.verdict {
            Verdict::Scored { .. } => String::new(),
            Verdict::Failed { job } | Verdict::Unfinished { job } => why_unscored(job),
            Verdict::Refused { problem } => problem.to_string(),
        }
    }
}

fn why_unscored(job: &Job) -> String {
    let (id, state) = (job.job_id, job.state);
    match (&job.error, waiting(job)) {
        (Some(error), _) if job.state.is_terminal() => {
            let message = error.message.trim_end_matches('.');
            let (class, remedy) = (error.class, &error.remedy);
            format!("job {id} failed, {class}: {message}. {remedy}")
        }
        (_, why) => format!("job {id} is {state}{}", after_colon(&why)),
    }
}

/// Requests the scores of all sessions and waits. Problems of one session are its verdict; problems of the service are errors.
pub(super) async fn score_all(
    client: &Client,
    sessions: &[Uuid],
    request: &ScoreRequest,
    until: Until,
) -> Result<Vec<SessionVerdict>, CliError> {
    let progress = &Progress::new("sessions", sessions.len());
    let client = &progress.retrying(client, OUTAGE_TIMEOUT);
    stream::iter(sessions.iter().copied())
        .map(|session_id| async move {
            let verdict = score_one(client, session_id, request, until, progress).await?;
            progress.one(matches!(verdict, Verdict::Scored { .. }));
            Ok(SessionVerdict {
                session_id,
                verdict,
            })
        })
        .buffered(MAX_CONCURRENT_SESSIONS)
        .try_collect()
        .await
}

async fn score_one(
    client: &Client,
    session_id: Uuid,
    request: &ScoreRequest,
    until: Until,
    progress: &Progress,
) -> Result<Verdict, CliError> {
    let job_id = match client.ask_score(session_id, request).await {
        Ok(ScoreOrJob::Score(score)) => return Ok(Verdict::Scored { score }),
        Ok(ScoreOrJob::Job(job_id)) => job_id,
        Err(ClientError::Refused(problem)) if is_of_session(problem.name()) => {
            return Ok(Verdict::Refused { problem });
        }
        Err(error) => return Err(error.into()),
    };
    let job = Box::new(wait(client, job_id, until, progress).await?);
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

/// Problems of one session, not of the service.
fn is_of_session(name: &str) -> bool {
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

/// Returns the job, unfinished if the wait ended first.
async fn wait(
    client: &Client,
    id: JobId,
    until: Until,
    progress: &Progress,
) -> Result<Job, ClientError> {
    let hurry = CancellationToken::new();
    let stop = |job: &Job, _| {
        let wait = job.wait.as_ref();
        let is_stuck = wait.is_some_and(|wait| wait.reason == WaitReason::Misconfigured);
        if is_stuck && matches!(until, Until::Stuck) {
            return Some(());
        }
        match wait {
            Some(wait) => {
                let text = format!("waiting: {}", waiting(job));
                progress.print_once(wait.reason.as_str(), &text);
            }
            None => {
                let judge = job.judge.as_deref().unwrap_or("none");
                progress.print_once(judge, &format!("waiting for judge {judge}"));
            }
        }
        None
    };
    let ended = poll(client, id, progress, (&hurry, LONG_POLL), stop);
    let polled = match until {
        Until::Ended | Until::Stuck => ended.await,
        Until::Deadline(deadline) => match timeout_at(deadline, ended).await {
            Ok(polled) => polled,
            Err(_) => return client.job(id).await,
        },
    };
    polled.map(|(job, _)| job)
}

/// Polls a job until it has ended or `stop` returns a reason to stop waiting. `stop` gets the job and the time of its poll. A poll lasts at
/// most `longest`. Cancelling `hurry` ends a poll early; later polls are short.
pub(super) async fn poll<T>(
    client: &Client,
    id: JobId,
    progress: &Progress,
    (hurry, longest): (&CancellationToken, Duration),
    mut stop: impl FnMut(&Job, Instant) -> Option<T>,
) -> Result<(Job, Option<T>), ClientError> {
    let mut next = FIRST_POLL;
    loop {
        let started = Instant::now();
        let hurried = hurry.is_cancelled();
        let wait = match hurried {
            true => POLL_INTERVAL,
            false => std::mem::replace(&mut next, LONG_POLL).min(longest),
        };
        let job = tokio::select! {
            job = client.job_ended_within(id, wait.as_secs().max(1)) => job?,
            () = hurry.cancelled(), if !hurried => continue,
        };
        if job.state.is_terminal() {
            return Ok((job, None));
        }
        if let Some(reason) = stop(&job, started) {
            return Ok((job, Some(reason)));
        }
        progress.print_if_due();
        sleep(POLL_INTERVAL.saturating_sub(started.elapsed())).await;
    }
}

/// Why a job waits, until when, and its judge's last error. Empty if it doesn't wait.
pub(super) fn waiting(job: &Job) -> String {
    let wait = job.wait.as_ref();
    wait.map_or_else(String::new, |wait| wait.text(job.judge.as_deref()))
}
