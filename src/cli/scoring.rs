//! Asking for scores and waiting for them, many sessions at a time. `score` and `demo` share it.

use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::outcome::CliError;
use super::output;
use super::progress::Progress;
use crate::client::{Asked, Client, ClientError, text};
use crate::job::JobId;
use crate::store::Force;

/// Sessions asked for and waited for at once.
const AT_ONCE: usize = 32;
/// The shortest time between two looks at a job, where the server doesn't hold its answer back.
const PAUSE: Duration = Duration::from_secs(1);

/// How to ask.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    /// Whether an existing score is passed over.
    pub(super) force: Force,
    /// Other criteria than the current ones.
    pub(super) criteria_hash: Option<String>,
    /// How long to wait for all; `None`: until they have ended.
    pub(super) wait: Option<Duration>,
}

/// What came of one session.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// A score, new or older.
    Scored(Value),
    /// Its job failed or was cancelled.
    Failed(Value),
    /// Its job goes on; the wait is over.
    Unfinished(Value),
    /// It isn't scored as it is: the problem's name, its words and its body.
    Refused {
        /// The problem's short name.
        name: String,
        /// What was said.
        said: String,
        /// The problem document.
        problem: Value,
    },
}

/// One session and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    /// The session.
    pub(super) session_id: Uuid,
    /// What came of it.
    pub(super) verdict: Verdict,
}

impl Judged {
    /// For `--json`.
    pub(super) fn to_json(&self) -> Value {
        let id = self.session_id;
        match &self.verdict {
            Verdict::Scored(score) => {
                json!({"session_id": id, "outcome": "scored", "score": score})
            }
            Verdict::Failed(job) => json!({"session_id": id, "outcome": "failed", "job": job}),
            Verdict::Unfinished(job) => {
                json!({"session_id": id, "outcome": "unfinished", "job": job})
            }
            Verdict::Refused { problem, .. } => {
                json!({"session_id": id, "outcome": "refused", "problem": problem})
            }
        }
    }
}

/// Asks for every session's score and waits. Problems of one session are its verdict; those of the service end it all.
pub(super) async fn score_all(
    client: &Client,
    sessions: &[Uuid],
    ask: &Ask,
) -> Result<Vec<Judged>, CliError> {
    let progress = Progress::new("sessions", sessions.len());
    let deadline = ask.wait.map(|wait| Instant::now() + wait);
    let mut verdicts = stream::iter(sessions.iter().copied())
        .map(|session_id| {
            let progress = &progress;
            async move {
                let verdict = score_one(client, session_id, ask, deadline, progress).await?;
                progress.one(matches!(verdict, Verdict::Scored(_)));
                Ok::<_, CliError>(Judged {
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
    deadline: Option<Instant>,
    progress: &Progress,
) -> Result<Verdict, CliError> {
    let force = ask.force == Force::Yes;
    let hash = ask.criteria_hash.as_deref();
    let job_id = match client.ask_score(session_id, force, hash).await {
        Ok(Asked::Score(score)) => return Ok(Verdict::Scored(score)),
        Ok(Asked::Job(job_id)) => job_id,
        Err(ClientError::Refused(problem)) if of_this_session(problem.name()) => {
            return Ok(Verdict::Refused {
                name: problem.name().to_owned(),
                said: problem.to_string(),
                problem: problem.body,
            });
        }
        Err(error) => return Err(error.into()),
    };
    let job = wait(client, job_id, deadline, progress).await?;
    match text(&job, "/state") {
        "succeeded" => match client.score(session_id).await? {
            Some(score) => Ok(Verdict::Scored(score)),
            None => Ok(Verdict::Failed(job)),
        },
        "failed" | "cancelled" => Ok(Verdict::Failed(job)),
        _ => Ok(Verdict::Unfinished(job)),
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

/// The job when it has ended, or as it is at the deadline.
async fn wait(
    client: &Client,
    id: JobId,
    deadline: Option<Instant>,
    progress: &Progress,
) -> Result<Value, CliError> {
    let mut told = String::new();
    loop {
        let begun = Instant::now();
        let looking = client.job_ended(id);
        let job = match deadline {
            Some(deadline) => match tokio::time::timeout_at(deadline, looking).await {
                Ok(job) => job?,
                Err(_) => return Ok(client.job(id).await?),
            },
            None => looking.await?,
        };
        if matches!(text(&job, "/state"), "succeeded" | "failed" | "cancelled") {
            return Ok(job);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(job);
        }
        let reason = text(&job, "/wait/reason");
        if reason != told && !matches!(reason, "" | "queued") {
            reason.clone_into(&mut told);
            output::note(&format!("job {id} waits: {}", waiting(&job)));
        }
        progress.still();
        if begun.elapsed() < PAUSE {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Why a job waits, until when, and what its judge said last.
pub(super) fn waiting(job: &Value) -> String {
    let reason = match text(job, "/wait/reason") {
        "queued" => "behind other jobs",
        "economy" => "its reply is fetched by its judge's batch endpoint, within a day",
        "no_worker" => "no worker is alive",
        "no_worker_for_judge" => "no live worker can ask its judge",
        "paused" => "it is paused",
        "budget" if !text(job, "/wait/message").is_empty() => "its judge is stopped by a cap",
        "budget" => "its batch has spent its budget",
        "breaker_open" => "its judge failed too often in a row",
        "throttled" => "its judge asks for patience",
        "paced" => "its judge's requests or tokens a minute are used up for the moment",
        "exhausted" => "its judge's quota is used up",
        "misconfigured" => "its judge refuses the key or the model",
        "storage" => "the database was away",
        "fallback" => "its judge declined to answer, and the fallback can't be asked yet",
        other => other,
    };
    let mut said = reason.to_owned();
    for (before, pointer) in [
        (": ", "/wait/message"),
        (" until ", "/wait/until"),
        ("; it said last: ", "/wait/last_error"),
        ("; to go on: ", "/wait/remedy"),
    ] {
        match text(job, pointer) {
            "" => {}
            // A brake is often set with the very words that the judge said last.
            found if said.contains(found) => {}
            found => said.push_str(&format!("{before}{found}")),
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_told_apart_from_a_batch_that_has_spent_its_budget_and_nothing_is_said_twice() {
        let job = |wait: Value| json!({ "wait": wait });
        let capped = json!({
            "reason": "budget", "message": "the daily cap of a, 2 USD, is reached", "until": "2026-01-02T00:00:00Z"
        });
        assert_eq!(
            waiting(&job(capped)),
            "its judge is stopped by a cap: the daily cap of a, 2 USD, is reached until 2026-01-02T00:00:00Z"
        );
        let refused = json!({ "reason": "misconfigured", "message": "judge a: 401: no such key", "last_error": "judge a: 401: no such key" });
        assert_eq!(
            waiting(&job(refused)),
            "its judge refuses the key or the model: judge a: 401: no such key"
        );
        let spent = waiting(&job(json!({ "reason": "budget", "until": null })));
        assert_eq!(spent, "its batch has spent its budget");
    }
}
