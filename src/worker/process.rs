//! Pipeline of one run of one claimed job, from reading its row to recording its outcome.
//!
//! No transaction, lock or shared permit spans the judge call: the claim is committed before it, the record written
//! after it. The run keeps only its own concurrency permit. Every step may be repeated; the fence in the record makes its
//! effect happen once.

mod question;
mod subject;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use uuid::Uuid;

use self::subject::Subject;
use super::ConcurrencyPermits;
use super::deadline::{Deadline, DeadlineResult};
use super::endings::{
    class_of_bad, evaluated, failed, judge_failed, scored_session, session_id, too_large,
};
use super::wait::{ending_of_fallback_wait, ending_of_wait};
use crate::clock::Clock;
use crate::job::{Failure, FailureClass, Job, SessionPayload, Usage, Wait, WaitReason};
use crate::judge::{
    AskContext, AskEnd, CallUsage, Judge, JudgeAnswer, Judges, Nonce, Precomputed, Question,
};
use crate::memory::MemoryBudget;
use crate::score::{Criteria, Fault, Scorable, Scorecard, Unscorable, about};
use crate::store::{Ending, Fence, Record, Store, StoreError};

const STORAGE_RETRY_DELAY: TimeDelta = TimeDelta::seconds(1);
/// Maximum cached criteria definitions. Definitions are immutable.
const CRITERIA_KEPT: usize = 256;

pub struct Pipeline {
    store: Arc<Store>,
    judges: Arc<Judges>,
    clock: Arc<dyn Clock>,
    worker_id: Uuid,
    concurrency: Arc<ConcurrencyPermits>,
    criteria: Mutex<HashMap<String, Arc<Criteria>>>,
    reading_criteria: tokio::sync::Mutex<()>,
    memory: MemoryBudget,
    /// Overrides the deadlines of the kinds.
    deadline: Option<Duration>,
}

impl Pipeline {
    pub fn new(
        store: Arc<Store>,
        judges: Arc<Judges>,
        clock: Arc<dyn Clock>,
        worker_id: Uuid,
        concurrency: ConcurrencyPermits,
        memory: MemoryBudget,
    ) -> Self {
        Self {
            store,
            judges,
            clock,
            worker_id,
            concurrency: Arc::new(concurrency),
            criteria: Mutex::default(),
            reading_criteria: tokio::sync::Mutex::default(),
            memory,
            deadline: None,
        }
    }

    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Runs a claimed job once and returns its record. Errors become outcomes.
    pub async fn process(&self, job: &Job) -> Record {
        let mut spent = RunUsage::before(job);
        let ending = match self.score_job(job, &mut spent).await {
            Ok(ending) | Err(ending) => ending,
        };
        self.record(job, spent, ending)
    }

    /// Returns the record of an aborted run: the job returns to the queue.
    pub fn given_back(&self, job: &Job) -> Record {
        self.record(job, RunUsage::before(job), Ending::Requeued)
    }

    /// Returns the record of a run that panicked. A panic is a bug in Gavel, so it isn't retried.
    pub fn panicked(&self, job: &Job) -> Record {
        let failure = Failure {
            class: FailureClass::Internal,
            message: "the run panicked; the log has the location".to_owned(),
        };
        self.record(job, RunUsage::before(job), Ending::Failed(failure))
    }

    async fn score_job(&self, job: &Job, spent: &mut RunUsage) -> Result<Ending, Ending> {
        let criteria = self.criteria(&job.criteria_hash).await?;
        let subject = self.subject(job).await?;
        let judge = self.judge(job)?;
        let nonce = Nonce::from_bits(fastrand::u128(..));
        let mut answers: Vec<JudgeAnswer> = Vec::new();
        let questions = match &judge {
            Some(judge) => {
                let (criteria, limits) = (criteria.clone(), judge.limits());
                let asking =
                    move |scorable: &dyn Scorable| scorable.questions(&criteria, &limits, &nonce);
                match subject.with(&self.memory, asking).await? {
                    Ok(questions) => questions,
                    // The computed metrics of a case don't depend on its judge's context window.
                    Err(Unscorable::TooLarge(message)) if job.kind.is_case() => {
                        answers.push(Err(too_large(message)));
                        Vec::new()
                    }
                    Err(error) => return Err(failed(class_of_bad(&error), error.to_string())),
                }
            }
            // Enqueued without a judge because no metric needs one.
            None => Vec::new(),
        };

        let subject = subject.without_evidence();
        for question in &questions {
            let Some(judge) = &judge else { break };
            answers.push(self.ask(job, judge, question, spent).await?);
        }
        let trimmed = answers.iter().flatten().map(|a| a.trimmed_tokens).sum();
        let score = move |scorable: &dyn Scorable| scorable.score(&criteria, &answers);
        Ok(match subject.with(&self.memory, score).await? {
            Scorecard::Session(score) => scored_session(job, score, trimmed)?,
            Scorecard::Evaluated(evaluation) => evaluated(job, *evaluation, self.now()),
            Scorecard::Unscored(error) => judge_failed(&error),
        })
    }

    /// Asks one question, within the deadline of the job's kind if it has one.
    async fn ask(
        &self,
        job: &Job,
        judge: &Judge,
        question: &Question,
        spent: &mut RunUsage,
    ) -> Result<JudgeAnswer, Ending> {
        let deadline = about(job.kind).deadline;
        let deadline = deadline.map(|own| self.deadline.unwrap_or(own));
        let deadline = deadline.map(|after| Deadline::new(after, self.concurrency.clone()));
        let context = AskContext {
            asked_for: job.job_id.0,
            retries_spent: u32::try_from(spent.retries).unwrap_or(0),
            skip_cache: job.force_rescore,
            precomputed: precomputed(job),
            concurrency: match &deadline {
                Some(deadline) => deadline.concurrency(),
                None => self.concurrency.clone(),
            },
        };
        let answer = self.answer(judge, question, context, spent);
        let Some(deadline) = deadline else {
            return answer.await;
        };
        // Boxed, otherwise the future of every kind would reserve space for the answer two times.
        match deadline.of_answer(Box::pin(answer)).await {
            DeadlineResult::InTime(answered) => answered,
            DeadlineResult::Over(timeout, used) => {
                for usage in used {
                    spent.bill(usage);
                }
                Ok(Err(timeout))
            }
        }
    }

    /// Returns the answer without a deadline, or the outcome of a run that must wait.
    async fn answer(
        &self,
        judge: &Judge,
        question: &Question,
        context: AskContext,
        spent: &mut RunUsage,
    ) -> Result<JudgeAnswer, Ending> {
        let asked = judge.ask(question, context).await;
        spent.add(asked.retries_spent, asked.usage);
        match asked.end {
            AskEnd::Answered(answer) => Ok(answer),
            AskEnd::Wait {
                why,
                retry_in,
                fallback,
            } => {
                if let Some(fallback) = &fallback {
                    tracing::info!(
                        fallback,
                        ?why,
                        ?retry_in,
                        "a job waits for the fallback of its judge, which declined"
                    );
                }
                let now = self.clock.now();
                Err(match fallback {
                    Some(_) => ending_of_fallback_wait(retry_in.unwrap_or_default(), now),
                    None => ending_of_wait(why, retry_in, now),
                })
            }
        }
    }

    async fn criteria(&self, hash: &str) -> Result<Arc<Criteria>, Ending> {
        if let Some(known) = self.known(hash) {
            return Ok(known);
        }
        // Concurrent runs read the definition once.
        let _reading = self.reading_criteria.lock().await;
        if let Some(known) = self.known(hash) {
            return Ok(known);
        }
        let content = self
            .store
            .criteria()
            .content(hash)
            .await
            .map_err(|error| self.outcome_of_store_error(&error))?
            .ok_or_else(|| {
                failed(
                    FailureClass::BadInput,
                    format!("criteria {hash} are not stored"),
                )
            })?;
        let criteria = Criteria::from_value(&content)
            .map_err(|error| failed(FailureClass::BadInput, format!("criteria {hash}: {error}")))?;
        let criteria = Arc::new(criteria);
        cache_criteria(&mut self.criteria.lock(), hash, criteria.clone());
        Ok(criteria)
    }

    fn known(&self, hash: &str) -> Option<Arc<Criteria>> {
        self.criteria.lock().get(hash).cloned()
    }

    async fn subject(&self, job: &Job) -> Result<Subject, Ending> {
        match job.kind.is_case() {
            false => {
                let session_id = session_id(job)?;
                let session = self
                    .store
                    .sessions()
                    .get(session_id)
                    .await
                    .map_err(|error| self.outcome_of_store_error(&error))?
                    .ok_or_else(|| {
                        failed(
                            FailureClass::BadInput,
                            format!("session {session_id} is no longer stored"),
                        )
                    })?;
                Ok(Subject::Read(Arc::new(session.into_request())))
            }
            true => Subject::of_case(job),
        }
    }

    fn judge(&self, job: &Job) -> Result<Option<Arc<Judge>>, Ending> {
        let Some(name) = &job.judge else {
            return match job.kind.is_case() {
                true => Ok(None),
                false => Err(judge_needed()),
            };
        };
        self.judges
            .get(name)
            .map(Some)
            .map_err(|error| failed(FailureClass::Misconfigured, error.to_string()))
    }

    /// Returns the outcome of a store error: retry later, or failure if the row itself is invalid.
    fn outcome_of_store_error(&self, error: &StoreError) -> Ending {
        match error {
            StoreError::Unavailable { .. } | StoreError::Schema(_) | StoreError::SharedSessions => {
                tracing::warn!(%error, "run delayed: store unavailable");
                let until = self.clock.now() + STORAGE_RETRY_DELAY;
                Ending::Waiting {
                    wait: Wait {
                        reason: WaitReason::Storage,
                        until: Some(until),
                    },
                    due_at: until,
                }
            }
            StoreError::Unexpected { .. } | StoreError::BadCursor(_) => {
                failed(FailureClass::Internal, error.to_string())
            }
        }
    }

    fn record(&self, job: &Job, spent: RunUsage, ending: Ending) -> Record {
        Record {
            fence: Fence {
                job_id: job.job_id,
                claim_no: job.claim_no,
                worker_id: self.worker_id,
            },
            ending,
            retries: spent.retries,
            usage: spent.usage,
            at: self.now(),
        }
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }
}

/// Caches a definition. A full cache is cleared first.
fn cache_criteria(known: &mut HashMap<String, Arc<Criteria>>, hash: &str, criteria: Arc<Criteria>) {
    if known.len() >= CRITERIA_KEPT {
        known.clear();
    }
    known.insert(hash.to_owned(), criteria);
}

struct RunUsage {
    retries: i32,
    usage: Usage,
}

impl RunUsage {
    /// Returns a record without usage.
    fn before(job: &Job) -> Self {
        Self {
            retries: job.retries,
            usage: no_usage(),
        }
    }

    fn add(&mut self, retries_spent: u32, usage: CallUsage) {
        self.retries = i32::try_from(retries_spent).unwrap_or(i32::MAX);
        self.bill(usage);
    }

    fn bill(&mut self, usage: CallUsage) {
        self.usage.tokens_in += usage.tokens_in;
        self.usage.tokens_out += usage.tokens_out;
        self.usage.cost_usd = match (self.usage.cost_usd, usage.cost_usd) {
            (Some(before), Some(now)) => Some(before + now),
            (None, _) | (_, None) => None,
        };
    }
}

fn precomputed(job: &Job) -> Precomputed {
    match serde_json::from_str::<SessionPayload>(job.payload.text()) {
        Ok(payload) if !job.kind.is_case() && payload.may_be_precomputed => Precomputed::Collected,
        Ok(_) | Err(_) => Precomputed::None,
    }
}

fn judge_needed() -> Ending {
    failed(FailureClass::BadInput, "the job names no judge".to_owned())
}

fn no_usage() -> Usage {
    Usage {
        tokens_in: 0,
        tokens_out: 0,
        cost_usd: Some(0.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn criteria_cache_is_bounded() {
        let file = json!({
            "scoring": { "llm_provider": "openai-default" },
            "judge_prompt": "{{SESSION_CONVERSATION}} {{ALERT_DATA}} {{OUTPUT_SCHEMA}}",
        });
        let criteria = Arc::new(Criteria::from_value(&file).unwrap());
        let mut known = HashMap::new();
        for n in 0..CRITERIA_KEPT + 2 {
            cache_criteria(&mut known, &n.to_string(), criteria.clone());
            assert!(known.contains_key(&n.to_string()));
            assert!(known.len() <= CRITERIA_KEPT);
        }
        assert_eq!(known.len(), 2);
    }
}
