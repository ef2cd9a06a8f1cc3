//! Scores cases with the service. Each case is one job, requested idempotently, and polled until it has ended.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cli::outcome::{CliError, Exit};
use crate::cli::progress::Progress;
use crate::cli::scoring::{poll, waiting};
use crate::client::{Client, ClientError};
use crate::job::{FailureClass, JobId, JobState};
use crate::report::{Item, ItemError, Outcome};
use crate::score::about;
use crate::suite::run::folder::RunHeader;
use crate::suite::run::{CaseToScore, Computed, Scorer, Stopped};
use crate::wire::{Job, JobRequest, JobResult, Priority, Problem, WaitReason};

pub(super) struct Service<'a> {
    /// Repeats requests while the service is unavailable.
    pub(super) client: Client,
    pub(super) header: &'a RunHeader,
    /// Scores the parts that need no judge.
    pub(super) computed: &'a Computed,
    pub(super) progress: &'a Progress,
    /// Maximum wait of a case for an unavailable judge.
    pub(super) timeout: Duration,
    /// Whether this process is the service. Then no operator can correct a judge's key before the command ends.
    pub(super) works_here: bool,
    pub(super) given_up: GivenUpJudges,
    /// Cancelled when a judge rejects its settings or was given up. Waiting cases then poll at once and at short intervals.
    pub(super) hurry: CancellationToken,
}

/// Judges that aren't waited for any more with the reason, by the name in the cases.
#[derive(Default)]
pub(super) struct GivenUpJudges(Mutex<BTreeMap<String, GivenUp>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct GivenUp {
    /// Error class of items without the judge's part.
    class: FailureClass,
    message: String,
}

impl GivenUpJudges {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, GivenUp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all judges are still waited for. The jobs of given up judges were cancelled.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn get(&self, judge: &str) -> Option<GivenUp> {
        self.lock().get(judge).cloned()
    }

    /// Stores why a judge was given up, unless a reason is stored already. Returns whether it was new, and the stored reason.
    fn add(&self, judge: &str, why: GivenUp) -> (bool, GivenUp) {
        let mut given_up = self.lock();
        let is_new = !given_up.contains_key(judge);
        (
            is_new,
            given_up.entry(judge.to_owned()).or_insert(why).clone(),
        )
    }
}

impl Service<'_> {
    /// Requests a case. The idempotency key lets a resumed run find its earlier job.
    async fn request(&self, case: &CaseToScore) -> Result<Result<JobId, Box<Problem>>, Stopped> {
        let options = &self.header.options;
        let body = JobRequest {
            priority: Some(Priority::Bulk),
            force_rescore: options.force,
            criteria_hash: options.criteria_hash.clone(),
            ..JobRequest::new(case.kind, case.payload.clone())
        };
        let key = key(&self.header.run_id.to_string(), case, &body);
        match self.client.post_job(&body, &key).await {
            Ok(job) => Ok(Ok(job)),
            Err(ClientError::Refused(problem)) if concerns_case(&problem) => Ok(Err(problem)),
            Err(error) => Err(stopped(error)),
        }
    }

    /// Returns the ended job of a case, or the reason why its judge was given up.
    async fn ended(&self, id: JobId, judge: &str) -> Result<Result<Job, GivenUp>, Stopped> {
        let mut closed_since: Option<Instant> = None;
        let stop = |job: &Job, polled: Instant| match job.wait.as_ref().map(|wait| wait.reason) {
            None | Some(WaitReason::Queued | WaitReason::Paced) => {
                closed_since = None;
                None
            }
            // Waiting is useless because the key is only read at process start.
            Some(WaitReason::Misconfigured) if self.works_here => {
                Some(self.why(job, FailureClass::Misconfigured))
            }
            Some(reason) => {
                let text = format!("items wait: {}", waiting(job));
                self.progress.print_once(reason.as_str(), &text);
                let since = *closed_since.get_or_insert(polled);
                let is_over = since.elapsed() >= self.timeout || self.given_up.get(judge).is_some();
                is_over.then(|| self.why(job, FailureClass::WaitExpired))
            }
        };
        let limits = (&self.hurry, self.timeout);
        let polled = poll(&self.client, id, self.progress, limits, stop).await;
        let (job, given_up) = polled.map_err(stopped)?;
        if let Some(why) = given_up {
            return self.give_up(id, judge, why).await;
        }
        let class = job.error.as_ref().map(|error| error.class);
        if self.works_here && class == Some(FailureClass::Misconfigured) {
            self.hurry.cancel();
        }
        Ok(Ok(job))
    }

    /// Cancels a job with an unavailable judge, unless it has ended. All cases of a judge get the first reason.
    async fn give_up(
        &self,
        id: JobId,
        judge: &str,
        why: GivenUp,
    ) -> Result<Result<Job, GivenUp>, Stopped> {
        let (is_new, why) = self.given_up.add(judge, why);
        if is_new {
            self.hurry.cancel();
            self.progress.println(&format!(
                "{}; computed components are scored, the rest stays incomplete",
                why.message
            ));
        }
        if let Err(error) = self.client.cancel(id).await {
            self.progress.println(&format!(
                "job {id} may still run and cost: cancelling it failed ({error}); `gavel jobs cancel {id}` tries again"
            ));
        }
        let job = self.client.job(id).await.map_err(stopped)?;
        Ok(match job.state {
            JobState::Succeeded | JobState::Failed => Ok(job),
            JobState::Cancelled | JobState::Queued | JobState::Running | JobState::Waiting => {
                Err(why)
            }
        })
    }

    fn why(&self, waits: &Job, class: FailureClass) -> GivenUp {
        let why = waiting(waits);
        let message = if class == FailureClass::Misconfigured {
            format!(
                "{why}: correct its key, its model or its address, then finish the run with --resume and --retry-errors"
            )
        } else {
            format!(
                "no judge was available within {} s ({why}): finish the run with --resume and --retry-errors when a judge is available",
                self.timeout.as_secs()
            )
        };
        GivenUp { class, message }
    }

    /// Computes the score of a case without its judge's part.
    async fn computed(&self, case: CaseToScore, given_up: &GivenUp) -> Result<Item, Stopped> {
        let error = ItemError {
            class: given_up.class.as_str().to_owned(),
            message: given_up.message.clone(),
        };
        self.computed.because(error).score(case).await
    }
}

#[async_trait(?Send)]
impl Scorer for Service<'_> {
    async fn score(&self, case: CaseToScore) -> Result<Item, Stopped> {
        let judge = case.model().to_owned();
        if let Some(given_up) = self.given_up.get(&judge) {
            return self.computed(case, &given_up).await;
        }
        let id = match self.request(&case).await? {
            Ok(id) => id,
            Err(problem) => return Ok(case.failed("bad_input", problem.to_string())),
        };
        match self.ended(id, &judge).await? {
            Ok(job) => Ok(item(case, &job)),
            Err(given_up) => self.computed(case, &given_up).await,
        }
    }
}

/// Idempotency key from the run, the item, its attempt and a digest of the body, so that different requests have different keys.
fn key(run: &str, case: &CaseToScore, body: &JobRequest) -> String {
    let digest = Sha256::digest(json!(body).to_string());
    let digest = hex::encode(digest.get(..8).unwrap_or_default());
    format!("{run}-{}-{}-{digest}", case.item_no, case.attempt)
}

/// Whether a rejection concerns only this case, not the service or the run.
fn concerns_case(problem: &Problem) -> bool {
    let mut faults = problem.errors.iter();
    problem.name() == "invalid-request"
        && !problem.errors.is_empty()
        && faults.all(|fault| fault.pointer.starts_with("/payload"))
}

fn stopped(error: ClientError) -> Stopped {
    let remedy = match error.problem() {
        Some("judge-not-configured") => "\n  --no-judge evaluates only the computed components",
        Some(_) | None => "",
    };
    let error = CliError::from(error);
    let message = format!("{error}{remedy}");
    match error.exit == Exit::Usage {
        true => Stopped::Usage(message),
        false => Stopped::Down(message),
    }
}

fn item(case: CaseToScore, job: &Job) -> Item {
    let kind = case.kind;
    let result = match &job.result {
        Some(JobResult::Kept(result)) => Some(result.clone()),
        Some(JobResult::Session(_)) | None => None,
    };
    let (total, passed) = result
        .as_ref()
        .map_or((None, None), |result| about(kind).verdict_of(result));
    let error = match (job.state, &job.error) {
        (JobState::Cancelled, _) => Some(ItemError {
            class: "cancelled".to_owned(),
            message: "its job was cancelled".to_owned(),
        }),
        (_, None) => None,
        (_, Some(error)) => Some(ItemError {
            class: error.class.to_string(),
            message: error.message.clone(),
        }),
    };
    let outcome = match &result {
        Some(_) => Outcome::from_total(total),
        None => Outcome::Failed,
    };
    Item {
        outcome,
        total,
        passed,
        result,
        error,
        simulated: job.simulated,
        usage: job.usage,
        job_id: Some(job.job_id),
        ..case.unscored()
    }
}

#[cfg(test)]
mod tests;
