//! One question's run: calls until there is an answer, or a wait too long for a slot.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::{AskContext, Asked, Inner, usage};
use crate::judge::call_log::CallUsage;
use crate::judge::error::ErrorClass;
use crate::judge::gate::{CallOutcome, Closed, Permit, Refusal};
use crate::judge::provider::{CallRequest, Message, ProviderReply, Role, Stop};
use crate::judge::retry::{self, Attempt, Decision, Spends};
use crate::judge::{
    Answer, CacheKey, CachedReply, CallRecord, Fault, JudgeError, Question, Reply, Turn, reply,
};

/// A reply's text is kept up to this.
const LONGEST_REPLY: usize = 64 * 1024;
/// A server that refuses field after field is asked so often; there are fewer fields than that.
const MOST_DROPPED_FIELDS: u32 = 8;

/// Asks the cache, then the judge.
pub(super) async fn run(
    judge: &Inner,
    question: &Question,
    context: &AskContext,
    key: &CacheKey,
) -> Asked {
    let mut run = Run::new(judge, question, context);
    let mut key = key.clone();
    if !context.skip_cache
        && let Some(reply) = cached(judge, question, &key).await
    {
        return run.answered(Ok(reply));
    }
    loop {
        if !run.has_turn(context).await {
            return run.waits(Closed::Busy, None);
        }
        let permit = match run.enter().await {
            Ok(permit) => permit,
            Err(refusal) => {
                let decision = retry::after_refusal(&judge.wiring.retry, run.attempt(), &refusal);
                match run.follow(decision).await {
                    Next::Again => continue,
                    Next::Wait { why, retry_in } => return run.waits(why, retry_in),
                    Next::Fail => return run.waits(refusal.why, refusal.retry_in),
                }
            }
        };
        let failed = match run.call(permit).await {
            Ok(reply) => {
                judge.wiring.cache.put(key.clone(), kept(&reply)).await;
                return run.answered(Ok(reply));
            }
            Err(failed) => failed,
        };
        let decision = run.decide(&failed.error);
        if decision == Decision::RepairTurn {
            run.show_faults(&failed);
        }
        if decision == Decision::Shrink {
            if !run.shrink() {
                let error = run.last_words(failed.error);
                return run.answered(Err(error));
            }
            // Another question: it may have been answered before, and is kept under a key of its own.
            key = CacheKey::of(&judge.spec, &run.question);
            if !context.skip_cache
                && let Some(reply) = cached(judge, &run.question, &key).await
            {
                return run.answered(Ok(reply));
            }
        }
        match run.follow(decision).await {
            Next::Again => {}
            Next::Wait { why, retry_in } => return run.waits(why, retry_in),
            Next::Fail => {
                let error = run.last_words(failed.error);
                return run.answered(Err(error));
            }
        }
    }
}

/// A run's state between calls.
struct Run<'a> {
    judge: &'a Inner,
    question: Question,
    asked_for: Uuid,
    request: CallRequest,
    retries_spent: u32,
    usage: CallUsage,
    waited: Duration,
    cap_raised: bool,
    repaired: bool,
    dropped_fields: u32,
    shrunk: bool,
    calls: u32,
    turn: Option<Turn>,
}

/// A call that gave no good reply.
struct Failed {
    error: JudgeError,
    faults: Vec<Fault>,
}

enum Next {
    Again,
    Wait {
        why: Closed,
        retry_in: Option<Duration>,
    },
    Fail,
}

impl<'a> Run<'a> {
    fn new(judge: &'a Inner, question: &'a Question, context: &AskContext) -> Self {
        Self {
            judge,
            question: question.clone(),
            asked_for: context.asked_for,
            request: CallRequest {
                messages: vec![Message {
                    role: Role::User,
                    content: Arc::clone(&question.prompt),
                }],
                schema_name: question.schema_name,
                schema: Arc::clone(&question.schema),
                max_output_tokens: judge.spec.limits().max_output_tokens,
                timeout: judge.spec.timeout(question.kind),
            },
            retries_spent: context.retries_spent,
            usage: usage::nothing(),
            waited: Duration::ZERO,
            cap_raised: false,
            repaired: false,
            dropped_fields: 0,
            shrunk: false,
            calls: 0,
            turn: None,
        }
    }

    /// Whether a call may go out; if not, nothing was asked yet, and nothing is lost by asking elsewhere.
    async fn has_turn(&mut self, context: &AskContext) -> bool {
        if self.turn.is_none() {
            self.turn = if self.calls == 0 {
                context.turns.first().await
            } else {
                Some(context.turns.another().await)
            };
        }
        self.turn.is_some()
    }

    async fn enter(&mut self) -> Result<Permit, Refusal> {
        let wiring = &self.judge.wiring;
        let patience = wiring.retry.longest_in_slot.saturating_sub(self.waited);
        let asked = Instant::now();
        let entered = wiring.gate.enter(self.judge.spec.name(), patience).await;
        self.waited += asked.elapsed();
        entered
    }

    async fn call(&mut self, permit: Permit) -> Result<Reply, Failed> {
        let wiring = &self.judge.wiring;
        self.calls += 1;
        let at = wiring.clock.now();
        let sent = Instant::now();
        let called = self.judge.provider.call(&self.request).await;
        let latency = sent.elapsed();
        if called.is_ok() {
            // The next call goes out before this one's reply is read. A failed call keeps the turn for its retry: a judge
            // in trouble isn't asked more meanwhile.
            self.turn = None;
        }
        let outcome = match &called {
            Ok(_) => CallOutcome::Alive,
            Err(error) => CallOutcome::Failed {
                class: error.class,
                retry_after: error.retry_after,
                message: error.message.clone(),
            },
        };
        let name = self.judge.spec.name();
        wiring.gate.report(name, permit, &outcome);

        let mut record = CallRecord {
            call_id: Uuid::now_v7(),
            asked_for: self.asked_for,
            judge: name.to_owned(),
            model: self.judge.spec.model().to_owned(),
            at,
            latency,
            error: None,
            message: None,
            status: None,
            usage: usage::nothing(),
            reply: None,
        };
        if let Ok(reply) = &called {
            record.model.clone_from(&reply.model);
            record.status = Some(reply.status);
            record.usage = usage::of_reply(&self.judge.spec, reply);
            record.reply = Some(cut(&reply.text));
            usage::add(&mut self.usage, record.usage);
        }
        let read = match called {
            Ok(reply) => self.read(reply),
            Err(error) => Err(Failed {
                error,
                faults: Vec::new(),
            }),
        };
        if let Err(Failed { error, .. }) = &read {
            record.error = Some(error.class);
            record.message = Some(error.message.clone());
            record.status = error.status;
            // A refusal's words stand beside the reply's text, which is empty then.
            record.reply = error.raw_reply.as_deref().map(cut).or(record.reply);
            if error.class == ErrorClass::Unparsable {
                tracing::warn!(call_id = %record.call_id, asked_for = %record.asked_for, judge = name, "a reply can't be used; it is kept with its call");
            }
        }
        wiring.log.log(record);
        read
    }

    /// From what the provider gave to a checked reply.
    fn read(&self, reply: ProviderReply) -> Result<Reply, Failed> {
        let failed = |class, what: String, faults, raw: &str| Failed {
            error: JudgeError {
                class,
                message: format!("judge {:?} {what}", self.judge.spec.name()),
                status: Some(reply.status),
                retry_after: None,
                raw_reply: Some(cut(raw)),
            },
            faults,
        };
        match &reply.stop {
            Stop::Complete => {}
            Stop::Truncated => {
                let cap = self.request.max_output_tokens;
                let what = format!("was cut off by the output cap of {cap} tokens");
                return Err(failed(ErrorClass::Truncated, what, Vec::new(), &reply.text));
            }
            Stop::Refused(words) => {
                let what = "declined to answer".to_owned();
                return Err(failed(ErrorClass::Refused, what, Vec::new(), words));
            }
            Stop::Unknown(reason) => {
                let reason: String = reason.chars().take(64).collect();
                let what = format!("stopped for an unknown reason, {reason:?}");
                return Err(failed(ErrorClass::Rejected, what, Vec::new(), &reply.text));
            }
        }
        match reply::parse(&reply.text, &self.question.check) {
            Ok(value) => Ok(Reply {
                value,
                provider: self.judge.spec.provider().to_owned(),
                model: reply.model,
                simulated: reply.simulated,
                repaired: self.repaired,
                cached: false,
                by_fallback: false,
                trimmed_tokens: self.question.trimmed_tokens,
            }),
            Err(faults) => {
                let what = format!(
                    "gave a reply that can't be used: {}",
                    reply::summary(&faults)
                );
                Err(failed(ErrorClass::Unparsable, what, faults, &reply.text))
            }
        }
    }

    fn decide(&self, error: &JudgeError) -> Decision {
        let wiring = &self.judge.wiring;
        let retry_after = match error.class {
            // The gate knows how often the judge has throttled in a row.
            ErrorClass::Throttled => error.retry_after.or_else(|| {
                let closed = wiring.gate.closed(self.judge.spec.name())?;
                (closed.why == Closed::Throttled)
                    .then_some(closed.retry_in)
                    .flatten()
            }),
            ErrorClass::Transient
            | ErrorClass::Exhausted
            | ErrorClass::Misconfigured
            | ErrorClass::Capability
            | ErrorClass::TooLarge
            | ErrorClass::Truncated
            | ErrorClass::Refused
            | ErrorClass::Rejected
            | ErrorClass::Unparsable => error.retry_after,
        };
        retry::after_error(&wiring.retry, error.class, self.attempt(), retry_after)
    }

    fn attempt(&self) -> Attempt {
        let window = self.judge.spec.limits().context_window;
        Attempt {
            retries_spent: self.retries_spent,
            waited: self.waited,
            cap_can_grow: !self.cap_raised && self.request.max_output_tokens < window,
            repair_left: !self.repaired,
            fields_left: self.dropped_fields < MOST_DROPPED_FIELDS,
            can_shrink: !self.shrunk && self.question.shrink.is_some(),
        }
    }

    async fn follow(&mut self, decision: Decision) -> Next {
        match decision {
            Decision::Retry { after, spends } => {
                self.spend(spends);
                if spends == Spends::Nothing {
                    self.waited += after;
                }
                tokio::time::sleep(after).await;
                Next::Again
            }
            Decision::Wait {
                why,
                retry_in,
                spends,
            } => {
                self.spend(spends);
                Next::Wait { why, retry_in }
            }
            Decision::RepairTurn => {
                self.repaired = true;
                Next::Again
            }
            Decision::LargerCap => {
                self.cap_raised = true;
                let window = self.judge.spec.limits().context_window;
                self.request.max_output_tokens =
                    self.request.max_output_tokens.saturating_mul(2).min(window);
                Next::Again
            }
            Decision::DropField => {
                self.dropped_fields += 1;
                Next::Again
            }
            Decision::Shrink => Next::Again,
            Decision::Fail => Next::Fail,
        }
    }

    fn spend(&mut self, spends: Spends) {
        match spends {
            Spends::ARetry => self.retries_spent = self.retries_spent.saturating_add(1),
            Spends::Nothing => {}
        }
    }

    /// Puts a smaller question in the place of the one that didn't fit; false if there is none. A repair turn under way stays.
    fn shrink(&mut self) -> bool {
        self.shrunk = true;
        let Some(smaller) = self.question.shrink() else {
            return false;
        };
        if let Some(first) = self.request.messages.first_mut() {
            first.content = Arc::clone(&smaller.prompt);
        }
        self.question = smaller;
        true
    }

    /// The repair turn: the model sees its own reply and what is wrong with it.
    fn show_faults(&mut self, failed: &Failed) {
        let reply = failed.error.raw_reply.clone().unwrap_or_default();
        let turns = [
            // Some servers refuse a message without content.
            (Role::Assistant, non_empty(reply).into()),
            (Role::User, reply::repair_prompt(&failed.faults).into()),
        ];
        let turns = turns.map(|(role, content)| Message { role, content });
        self.request.messages.extend(turns);
    }

    fn last_words(&self, mut error: JudgeError) -> JudgeError {
        match error.class {
            ErrorClass::Transient => {
                let calls = self.retries_spent.saturating_add(1);
                error.message = format!("{}; gave up after {calls} calls", error.message);
            }
            ErrorClass::Unparsable => {
                error.message = format!("{}, also after a repair turn", error.message);
            }
            ErrorClass::TooLarge => {
                let limits = self.judge.spec.limits();
                let prompt = limits.family.tokens(&self.question.prompt);
                let trimmed = match self.question.trimmed_tokens {
                    0 => "untrimmed".to_owned(),
                    tokens => format!("after about {tokens} tokens were left out"),
                };
                error.message = format!(
                    "{}; the prompt is about {prompt} tokens, {trimmed}, for a context_window of {} as configured; set it to the model's own in llm_providers.yaml",
                    error.message, limits.context_window
                );
            }
            ErrorClass::Throttled
            | ErrorClass::Exhausted
            | ErrorClass::Misconfigured
            | ErrorClass::Capability
            | ErrorClass::Truncated
            | ErrorClass::Refused
            | ErrorClass::Rejected => {}
        }
        error
    }

    fn answered(&self, answer: Answer) -> Asked {
        Asked::Answered {
            answer,
            retries_spent: self.retries_spent,
            usage: self.usage,
        }
    }

    fn waits(&self, why: Closed, retry_in: Option<Duration>) -> Asked {
        Asked::Wait {
            why,
            retry_in,
            retries_spent: self.retries_spent,
            usage: self.usage,
        }
    }
}

/// A reply from the cache, unless it no longer passes the question's check.
async fn cached(judge: &Inner, question: &Question, key: &CacheKey) -> Option<Reply> {
    let kept = judge.wiring.cache.get(key).await?;
    (question.check)(&kept.reply).ok()?;
    Some(Reply {
        value: kept.reply,
        provider: kept.provider,
        model: kept.model,
        simulated: kept.simulated || judge.spec.simulated(),
        repaired: kept.repaired,
        cached: true,
        by_fallback: false,
        trimmed_tokens: question.trimmed_tokens,
    })
}

fn kept(reply: &Reply) -> CachedReply {
    CachedReply {
        provider: reply.provider.clone(),
        model: reply.model.clone(),
        reply: reply.value.clone(),
        simulated: reply.simulated,
        repaired: reply.repaired,
    }
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST_REPLY))
        .unwrap_or_default()
        .to_owned()
}

fn non_empty(reply: String) -> String {
    if reply.trim().is_empty() {
        "(an empty reply)".to_owned()
    } else {
        reply
    }
}
