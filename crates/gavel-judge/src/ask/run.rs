//! Run of one question: calls until there is an answer or a wait too long for a slot.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::call::Failed;
use super::kept::cached;
use super::{AskContext, AskEnd, AskOutcome, Inner, usage};
use crate::cache::KEPT;
use crate::call_log::CallUsage;
use crate::error::ErrorClass;
use crate::gate::{Denial, HeldBack, Load, Permit};
use crate::provider::CallRequest;
use crate::retry::{self, Decision, RetryCost, RetryState};
use crate::{
    CacheKey, ConcurrencyPermit, Fault, JudgeAnswer, JudgeError, ModelFamily, Question, Reply,
    reply,
};

/// Maximum retries without a rejected field, above the number of optional fields.
const MAX_DROPPED_FIELDS: u32 = 8;

pub(super) async fn run(
    judge: &Inner,
    question: &Question,
    context: &AskContext,
    key: CacheKey,
) -> AskOutcome {
    let mut run = Run::new(judge, question, context, key);
    if let Some(reply) = run.look_up(context).await {
        return run.with_answer(Ok(reply));
    }
    loop {
        if !run.has_concurrency_permit(context).await {
            return run.waits(HeldBack::Busy, None);
        }
        let permit = match run.enter().await {
            Ok(permit) => permit,
            Err(refusal) => {
                let options = &judge.wiring.retry;
                match retry::in_slot(options, run.waited, refusal.retry_in) {
                    Some(after) => run.sleep_in_slot(after, RetryCost::Free).await,
                    None => return run.waits(refusal.why, refusal.retry_in),
                }
                continue;
            }
        };
        let failed = match run.call(permit).await {
            Ok(reply) => {
                let faults = run.weaknesses_to_improve(&reply);
                if faults.is_empty() {
                    return run.with_answer(Ok(reply));
                }
                let said = reply.value.to_string();
                run.weak = Some(reply);
                run.add_repair_turn(said, &faults);
                continue;
            }
            Err(failed) => run.actual_cause(failed),
        };
        match run.decide(&failed.error) {
            Decision::Retry { after, cost } => run.sleep_in_slot(after, cost).await,
            Decision::Wait {
                why,
                retry_in,
                cost,
            } => {
                run.use_retry(cost);
                return run.waits(why, retry_in);
            }
            Decision::RepairTurn => {
                let said = failed.error.raw_reply.unwrap_or_default();
                run.first_object = failed.unusable.object;
                run.add_repair_turn(said, &failed.unusable.faults);
            }
            Decision::LargerCap => run.raise_cap(failed.error),
            Decision::DropField => run.dropped_fields += 1,
            Decision::Shrink => {
                if !run.shrink() {
                    return run.fails(failed.error);
                }
                // The smaller question has its own key and may be cached.
                run.key = CacheKey::new(&judge.spec, &run.question);
                if let Some(reply) = run.look_up(context).await {
                    return run.with_answer(Ok(reply));
                }
            }
            Decision::Fail => return run.fails(failed.error),
        }
    }
}

pub(super) struct Run<'a> {
    pub(super) judge: &'a Inner,
    pub(super) asked: &'a Question,
    /// Current question, possibly shortened.
    pub(super) question: Question,
    pub(super) key: CacheKey,
    pub(super) asked_for: Uuid,
    pub(super) request: CallRequest,
    pub(super) retries_spent: u32,
    pub(super) usage: CallUsage,
    waited: Duration,
    cap_raised: bool,
    /// Truncated reply, until the call with a larger cap ends.
    cut_off: Option<JudgeError>,
    pub(super) repaired: bool,
    /// Acceptable reply with weaknesses, from before the repair turn. It counts if no better one follows.
    pub(super) weak: Option<Reply>,
    /// Object of the unusable reply that used the repair turn.
    pub(super) first_object: Option<Value>,
    dropped_fields: u32,
    shrunk: bool,
    pub(super) calls: u32,
    pub(super) concurrency_permit: Option<ConcurrencyPermit>,
}

impl<'a> Run<'a> {
    fn new(judge: &'a Inner, question: &'a Question, context: &AskContext, key: CacheKey) -> Self {
        Self {
            judge,
            asked: question,
            question: question.clone(),
            key,
            asked_for: context.asked_for,
            request: first_call(judge, question),
            retries_spent: context.retries_spent,
            usage: usage::zero(),
            waited: Duration::ZERO,
            cap_raised: false,
            cut_off: None,
            repaired: false,
            weak: None,
            first_object: None,
            dropped_fields: 0,
            shrunk: false,
            calls: 0,
            concurrency_permit: None,
        }
    }

    // Needs `&mut`, because a permit is not `Sync`.
    async fn look_up(&mut self, context: &AskContext) -> Option<Reply> {
        match context.skip_cache {
            true => None,
            false => cached(self.judge, &self.question, self.key, KEPT).await,
        }
    }

    /// Acquires a concurrency permit. Returns false before the first call if a permit isn't near, so that the job can run elsewhere.
    async fn has_concurrency_permit(&mut self, context: &AskContext) -> bool {
        if self.concurrency_permit.is_none() {
            self.concurrency_permit = if self.calls == 0 {
                context.concurrency.first().await
            } else {
                Some(context.concurrency.another().await)
            };
        }
        self.concurrency_permit.is_some()
    }

    async fn enter(&mut self) -> Result<Permit, Denial> {
        let wiring = &self.judge.wiring;
        let timeout = wiring.retry.longest_in_slot.saturating_sub(self.waited);
        let asked = Instant::now();
        let (request, family) = (&self.request, self.judge.spec.limits().family);
        let load = || load_of(request, family);
        let entered = wiring
            .gate
            .enter(self.judge.spec.name(), timeout, &load)
            .await;
        self.waited += asked.elapsed();
        entered
    }

    fn decide(&self, error: &JudgeError) -> Decision {
        let wiring = &self.judge.wiring;
        // The gate counts consecutive 429s.
        let paused = || {
            let closed = wiring.gate.closed(self.judge.spec.name())?;
            closed.retry_in.filter(|_| {
                error.class == ErrorClass::Throttled && closed.why == HeldBack::Throttled
            })
        };
        let retry_after = error.retry_after.or_else(paused);
        let retry_state = RetryState {
            cap_can_grow: error.class == ErrorClass::Truncated && self.larger_cap().is_some(),
            ..self.retry_state()
        };
        retry::after_error(&wiring.retry, error.class, retry_state, retry_after)
    }

    /// Returns the doubled output cap, limited by the free context window. `None` if that is no larger than the current cap.
    fn larger_cap(&self) -> Option<u32> {
        if self.cap_raised {
            return None;
        }
        let limits = self.judge.spec.limits();
        let asked = load_of(&self.request, limits.family).prompt_tokens
            + limits.family.tokens(self.request.schema.json().get());
        let left = u64::from(limits.context_window)
            .saturating_sub(limits.margin())
            .saturating_sub(asked);
        let cap = self.request.max_output_tokens;
        let larger = u64::from(cap.saturating_mul(2)).min(left);
        u32::try_from(larger).ok().filter(|larger| *larger > cap)
    }

    /// Returns the actual cause of a failure. If a server accepted the question with the smaller cap and rejects it now, the larger cap is
    /// the cause. As `TooLarge` it would lose half of its evidence.
    fn actual_cause(&mut self, failed: Failed) -> Failed {
        let of_request = match failed.error.class {
            ErrorClass::TooLarge => true,
            ErrorClass::Rejected => failed.error.status.is_some_and(|status| status >= 400),
            ErrorClass::Truncated | ErrorClass::Refused | ErrorClass::Unparsable => false,
            ErrorClass::Transient
            | ErrorClass::Throttled
            | ErrorClass::Exhausted
            | ErrorClass::Misconfigured
            | ErrorClass::Capability => return failed,
        };
        match self.cut_off.take() {
            Some(cut_off) if of_request => Failed {
                error: JudgeError {
                    message: format!(
                        "{}, and a cap of {} was rejected: {}",
                        cut_off.message, self.request.max_output_tokens, failed.error.message
                    ),
                    ..cut_off
                },
                unusable: Box::default(),
            },
            Some(_) | None => failed,
        }
    }

    fn retry_state(&self) -> RetryState {
        RetryState {
            retries_spent: self.retries_spent,
            waited: self.waited,
            // Computed only for truncated replies, because the estimate is expensive.
            cap_can_grow: false,
            repair_left: !self.repaired,
            fields_left: self.dropped_fields < MAX_DROPPED_FIELDS,
            can_shrink: !self.shrunk && self.question.shrink.is_some(),
        }
    }

    /// Sleeps in the slot.
    async fn sleep_in_slot(&mut self, after: Duration, cost: RetryCost) {
        self.use_retry(cost);
        if cost == RetryCost::Free {
            self.waited += after;
        }
        tokio::time::sleep(after).await;
    }

    fn raise_cap(&mut self, cut_off: JudgeError) {
        if let Some(cap) = self.larger_cap() {
            self.request.max_output_tokens = cap;
        }
        self.cap_raised = true;
        self.cut_off = Some(cut_off);
    }

    fn use_retry(&mut self, cost: RetryCost) {
        match cost {
            RetryCost::OneRetry => self.retries_spent = self.retries_spent.saturating_add(1),
            RetryCost::Free => {}
        }
    }

    /// Replaces a question that was too large by a smaller one and keeps a repair turn. Returns false if it can't get smaller.
    fn shrink(&mut self) -> bool {
        self.shrunk = true;
        let Some(smaller) = self.question.shrink() else {
            return false;
        };
        if let Some(first) = self.request.messages.first_mut() {
            *first = smaller.prompt.clone();
        }
        self.question = smaller;
        true
    }

    /// Adds the repair turn: the model's own reply and its errors.
    fn add_repair_turn(&mut self, said: String, faults: &[Fault]) {
        self.repaired = true;
        // Some servers reject an empty message.
        let messages = [non_empty(said).into(), reply::repair_prompt(faults).into()];
        self.request.messages.extend(messages);
    }

    /// Returns the weaknesses to improve, if a repair turn is left.
    pub(super) fn weaknesses_to_improve(&self, reply: &Reply) -> Vec<Fault> {
        let weaknesses = reply.weaknesses.iter().filter(|_| !self.repaired);
        weaknesses.map(|weakness| weakness.fault.clone()).collect()
    }

    fn fails(&self, error: JudgeError) -> AskOutcome {
        match &self.weak {
            Some(reply) => self.with_answer(Ok(reply.clone())),
            None => self.with_answer(Err(self.add_details(error))),
        }
    }

    fn with_answer(&self, answer: JudgeAnswer) -> AskOutcome {
        self.ended(AskEnd::Answered(answer))
    }

    fn waits(&self, why: HeldBack, retry_in: Option<Duration>) -> AskOutcome {
        if let Some(reply) = &self.weak {
            return self.with_answer(Ok(reply.clone()));
        }
        self.ended(AskEnd::Wait {
            why,
            retry_in,
            fallback: None,
        })
    }

    fn ended(&self, end: AskEnd) -> AskOutcome {
        AskOutcome {
            end,
            retries_spent: self.retries_spent,
            usage: self.usage,
        }
    }
}

pub(super) fn first_call(judge: &Inner, question: &Question) -> CallRequest {
    CallRequest {
        messages: vec![question.prompt.clone()],
        schema_name: question.schema_name,
        schema: Arc::clone(&question.schema),
        max_output_tokens: judge.spec.limits().max_output_tokens,
        timeout: judge.spec.timeout(question.kind),
    }
}

fn load_of(request: &CallRequest, family: ModelFamily) -> Load {
    let messages = request.messages.iter();
    Load {
        prompt_tokens: messages.map(|message| message.tokens(family)).sum(),
        most_answer_tokens: request.max_output_tokens.into(),
    }
}

fn non_empty(reply: String) -> String {
    if reply.trim().is_empty() {
        "(an empty reply)".to_owned()
    } else {
        reply
    }
}
