//! Scoring by the service: each case a job, asked for once whatever breaks in between, and waited for until it has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cli::outage::retried;
use crate::cli::outcome::{Exit, exit_of};
use crate::cli::progress::Progress;
use crate::cli::scoring::{FIRST_LOOK_S, waiting};
use crate::client::{Client, ClientError};
use crate::job::{FailureClass, JobId, JobState};
use crate::report::{Item, ItemError, Outcome};
use crate::score::about;
use crate::suite::run::folder::RunHeader;
use crate::suite::run::{CaseToScore, Computed, Scorer, Stopped};
use crate::wire::{Job, JobRequest, JobResult, JobWaitReason, Priority, Problem};

/// Between two looks at a job where the server doesn't hold its answer back.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a case waits for a judge that can't be asked, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The longest look at a job, seconds.
const LOOK_S: u64 = 20;

pub(super) struct Service<'a> {
    client: &'a Client,
    header: &'a RunHeader,
    computed: &'a Computed,
    progress: &'a Progress,
    /// How long a case may wait for a judge that can't be asked.
    timeout: Duration,
    /// Who opens the lane of a judge that refuses its key.
    opener: Opener,
    /// Judges that are waited for no longer, by the name that cases ask for, and why.
    given_up: Mutex<BTreeMap<String, GivenUp>>,
    /// That a judge refuses what it is configured with, or is waited for no longer: who waits looks at once, and often.
    hurry: CancellationToken,
    /// Reasons that were noted already.
    noted: Mutex<BTreeSet<JobWaitReason>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct GivenUp {
    /// The class of what has no judge's part.
    class: FailureClass,
    /// What happened, and the remedy.
    message: String,
}

/// Who opens the lane of a judge that refuses its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opener {
    /// Whoever runs the service, with another key.
    Operator,
    /// Nobody: the service is this process, and ends with its command.
    Nobody,
}

/// What came of asking for a case.
enum Submission {
    Job(JobId),
    Refused(Box<Problem>),
}

impl<'a> Service<'a> {
    /// A scorer for a run; `computed` scores what no judge can be asked for.
    pub(super) fn new(
        client: &'a Client,
        header: &'a RunHeader,
        computed: &'a Computed,
        progress: &'a Progress,
    ) -> Self {
        Self {
            client,
            header,
            computed,
            progress,
            timeout: TIMEOUT,
            opener: Opener::Operator,
            given_up: Mutex::default(),
            hurry: CancellationToken::new(),
            noted: Mutex::default(),
        }
    }

    /// The same, with another time that a case may wait for a judge that can't be asked.
    pub(super) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same, with somebody else who opens lanes.
    pub(super) fn opened_by(mut self, opener: Opener) -> Self {
        self.opener = opener;
        self
    }

    /// Asks for the case. Its key makes a run that was killed find its job again.
    async fn ask(&self, case: &CaseToScore) -> Result<Submission, Stopped> {
        let options = &self.header.options;
        let body = JobRequest {
            priority: Some(Priority::Bulk),
            force_rescore: options.force,
            criteria_hash: options.criteria_hash.clone(),
            ..JobRequest::new(case.kind, case.payload.clone())
        };
        let key = key(&self.header.run_id.to_string(), case, &body);
        match self.retried(|| self.client.post_job(&body, &key)).await {
            Ok(job) => Ok(Submission::Job(job)),
            Err(ClientError::Refused(problem)) if is_of_the_case(&problem) => {
                Ok(Submission::Refused(problem))
            }
            Err(error) => Err(stopped(&error)),
        }
    }

    /// The job of a case for this judge when it has ended; else why it is waited for no longer.
    async fn ended(&self, id: JobId, judge: &str) -> Result<Result<Job, GivenUp>, Stopped> {
        let mut closed_since: Option<Instant> = None;
        let mut look_s = FIRST_LOOK_S;
        loop {
            let begun = Instant::now();
            let longest = std::mem::replace(&mut look_s, LOOK_S);
            let Some(job) = self.look(id, longest).await? else {
                continue;
            };
            if job.state.is_terminal() {
                if self.opener == Opener::Nobody
                    && job
                        .error
                        .as_ref()
                        .is_some_and(|error| error.class == FailureClass::Misconfigured)
                {
                    self.hurry.cancel();
                }
                return Ok(Ok(job));
            }
            match job.wait.as_ref().map(|wait| wait.reason) {
                None | Some(JobWaitReason::Queued | JobWaitReason::Paced) => closed_since = None,
                // No later try helps: the key is read when the process starts.
                Some(JobWaitReason::Misconfigured) if self.opener == Opener::Nobody => {
                    let why = self.why(&job, FailureClass::Misconfigured);
                    return self.give_up(id, judge, why).await;
                }
                Some(reason) => {
                    self.note_wait(reason, &job);
                    let since = *closed_since.get_or_insert(begun);
                    if since.elapsed() >= self.timeout || self.given_up(judge).is_some() {
                        let why = self.why(&job, FailureClass::WaitExpired);
                        return self.give_up(id, judge, why).await;
                    }
                }
            }
            self.progress.still();
            if begun.elapsed() < PAUSE {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// The job when it has ended, or as it is after a while; `None`: look again, there is hurry.
    async fn look(&self, id: JobId, longest_s: u64) -> Result<Option<Job>, Stopped> {
        let hurried = self.hurry.is_cancelled();
        let look_s = match hurried {
            true => 1,
            false => self.timeout.as_secs().clamp(1, longest_s),
        };
        let look = self.retried(|| self.client.job_ended_within(id, look_s));
        tokio::select! {
            job = look => job.map(Some).map_err(|error| stopped(&error)),
            () = self.hurry.cancelled(), if !hurried => Ok(None),
        }
    }

    /// Whether some judge is waited for no longer: the jobs that it lacked were cancelled.
    pub(super) fn has_given_up(&self) -> bool {
        let given_up = self.given_up.lock();
        !given_up.unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Why this judge is waited for no longer, if it is.
    fn given_up(&self, judge: &str) -> Option<GivenUp> {
        let given_up = self.given_up.lock();
        let given_up = given_up.unwrap_or_else(PoisonError::into_inner);
        given_up.get(judge).cloned()
    }

    /// Cancels a job whose judge can't be asked; it may have ended meanwhile. The first reason of a judge stands for all its cases.
    async fn give_up(
        &self,
        id: JobId,
        judge: &str,
        why: GivenUp,
    ) -> Result<Result<Job, GivenUp>, Stopped> {
        let (first, why) = self.note(judge, why);
        if first {
            self.hurry.cancel();
            self.progress.say(&format!(
                "{}; what can be computed is, the rest stays incomplete",
                why.message
            ));
        }
        let cancelled = self.client.cancel(id).await;
        if let Err(error) = &cancelled {
            self.progress.say(&format!(
                "job {id} may go on, and cost: cancelling it failed ({error}); `gavel jobs cancel {id}` tries again"
            ));
        }
        let look = || self.client.job(id);
        let job = self.retried(look).await.map_err(|error| stopped(&error))?;
        Ok(match job.state {
            JobState::Succeeded | JobState::Failed => Ok(job),
            JobState::Cancelled | JobState::Queued | JobState::Running | JobState::Waiting => {
                Err(why)
            }
        })
    }

    /// Notes why a judge is waited for no longer: whether nothing was noted before, and what stands.
    fn note(&self, judge: &str, why: GivenUp) -> (bool, GivenUp) {
        let given_up = self.given_up.lock();
        let mut given_up = given_up.unwrap_or_else(PoisonError::into_inner);
        let first = !given_up.contains_key(judge);
        let stands = given_up.entry(judge.to_owned()).or_insert(why);
        (first, stands.clone())
    }

    fn why(&self, waits: &Job, class: FailureClass) -> GivenUp {
        let why = waiting(waits);
        let message = if class == FailureClass::Misconfigured {
            format!(
                "{why}: correct its key, its model or its address, then finish the run with --resume and --retry-errors"
            )
        } else {
            format!(
                "no judge could be asked within {} s ({why}): finish it with --resume and --retry-errors once there is one",
                self.timeout.as_secs()
            )
        };
        GivenUp { class, message }
    }

    /// Says once why jobs wait.
    fn note_wait(&self, reason: JobWaitReason, job: &Job) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.insert(reason) {
            self.progress.say(&format!("items wait: {}", waiting(job)));
        }
    }

    /// What can be computed of a case that no judge is waited for.
    async fn computed(&self, case: CaseToScore, given_up: &GivenUp) -> Result<Item, Stopped> {
        let error = ItemError {
            class: given_up.class.as_str().to_owned(),
            message: given_up.message.clone(),
        };
        self.computed.because(error).score(case).await
    }

    async fn retried<T>(
        &self,
        send: impl AsyncFn() -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        retried(self.progress, send).await
    }
}

#[async_trait(?Send)]
impl Scorer for Service<'_> {
    async fn score(&self, case: CaseToScore) -> Result<Item, Stopped> {
        let judge = case.model().to_owned();
        if let Some(given_up) = self.given_up(&judge) {
            return self.computed(case, &given_up).await;
        }
        let id = match self.ask(&case).await? {
            Submission::Job(id) => id,
            Submission::Refused(problem) => return Ok(refused(case, &problem)),
        };
        match self.ended(id, &judge).await? {
            Ok(job) => Ok(item(case, &job)),
            Err(given_up) => self.computed(case, &given_up).await,
        }
    }
}

/// The request's key: the run, the item, its try, and what is asked, so that no key ever stands for two requests.
fn key(run: &str, case: &CaseToScore, body: &JobRequest) -> String {
    let digest = Sha256::digest(json!(body).to_string());
    let digest = hex::encode(digest.get(..8).unwrap_or_default());
    format!("{run}-{}-{}-{digest}", case.item_no, case.attempt)
}

/// Whether a refusal says something of this case, and nothing of the service or of the whole run.
fn is_of_the_case(problem: &Problem) -> bool {
    let mut faults = problem.errors.iter();
    problem.name() == "invalid-request"
        && !problem.errors.is_empty()
        && faults.all(|fault| fault.pointer.starts_with("/payload"))
}

fn stopped(error: &ClientError) -> Stopped {
    let mut message = error.to_string();
    match error.problem() {
        Some("unauthorized") => {
            message.push_str("\n  give the token with --token (GAVEL_TOKEN)");
        }
        Some("judge-not-configured") => {
            message.push_str("\n  --no-judge evaluates what can be computed");
        }
        Some(_) | None => {}
    }
    match exit_of(error) {
        Exit::Usage => Stopped::usage(message),
        Exit::Done | Exit::GateFailed | Exit::Incomplete | Exit::Nothing | Exit::Interrupted => {
            Stopped::down(message)
        }
    }
}

/// The item of a case that the service refuses as it is.
fn refused(case: CaseToScore, problem: &Problem) -> Item {
    case.failed("bad_input", problem.to_string())
}

/// The item that a job which has ended makes.
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
