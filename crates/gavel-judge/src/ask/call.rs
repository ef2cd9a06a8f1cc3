//! One call of a run: sends it, reports to the gate, parses, checks and logs.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::Inner;
use super::run::Run;
use super::usage;
use crate::error::ErrorClass;
use crate::gate::{CallEnd, CallOutcome, Permit, RateReport, TokensUsed};
use crate::provider::{Called, ProviderReply, Stop};
use crate::reply::{self, Unusable};
use crate::{CacheKey, CallRecord, CallUsage, JudgeError, JudgeSpec, Question, Reply};

/// Message of a call with a complete answer despite an unusual finish reason.
const ODD_FINISH: &str = "the answer is complete, and was used despite its finish reason";
/// Bytes of a stored reply.
const MAX_REPLY_BYTES: usize = 64 * 1024;

pub(super) struct Failed {
    pub(super) error: JudgeError,
    pub(super) unusable: Box<Unusable>,
}

impl From<JudgeError> for Failed {
    fn from(error: JudgeError) -> Self {
        // A server that validates output returns an error instead of the reply.
        let unusable = match error.class == ErrorClass::Unparsable {
            true => Unusable::from("is not JSON that matches the schema".to_owned()),
            false => Unusable::default(),
        };
        Self {
            error,
            unusable: Box::new(unusable),
        }
    }
}

impl CallRecord {
    pub(super) fn new(
        spec: &JudgeSpec,
        call_id: Uuid,
        asked_for: Uuid,
        at: DateTime<Utc>,
        latency: Duration,
    ) -> Self {
        Self {
            call_id,
            asked_for,
            judge: spec.name().to_owned(),
            model: spec.model().to_owned(),
            at,
            latency,
            error: None,
            message: None,
            status: None,
            usage: usage::zero(),
            reply: None,
            simulated: spec.simulated(),
            repaired: false,
            retries_spent: 0,
            cache_key: None,
        }
    }

    pub(super) fn replied(&mut self, reply: &ProviderReply) {
        self.model.clone_from(&reply.model);
        self.status = Some(reply.status);
        self.simulated = reply.simulated;
        self.reply = Some(cut(&reply.text));
    }

    pub(super) fn failed(&mut self, error: &JudgeError) {
        self.error = Some(error.class);
        self.message = Some(error.message.clone());
        self.status = error.status;
        // The text of a declined answer, because the reply is empty.
        self.reply = error.raw_reply.as_deref().map(cut).or(self.reply.take());
        if error.class == ErrorClass::Unparsable {
            tracing::warn!(call_id = %self.call_id, asked_for = %self.asked_for, judge = self.judge, "unusable reply; it is stored with its call");
        }
    }
}

/// Call in flight. If its run is dropped, it is still logged, because it may be billed.
struct InFlightCall<'a> {
    judge: &'a Inner,
    asked_for: Uuid,
    at: DateTime<Utc>,
    sent: Instant,
    is_finished: bool,
}

impl<'a> InFlightCall<'a> {
    fn new(judge: &'a Inner, asked_for: Uuid) -> Self {
        Self {
            judge,
            asked_for,
            at: judge.wiring.clock.now(),
            sent: Instant::now(),
            is_finished: false,
        }
    }

    fn finish(&mut self) -> CallRecord {
        self.is_finished = true;
        self.record()
    }

    fn record(&self) -> CallRecord {
        let (id, latency) = (Uuid::now_v7(), self.sent.elapsed());
        CallRecord::new(&self.judge.spec, id, self.asked_for, self.at, latency)
    }
}

impl Drop for InFlightCall<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            let mut record = self.record();
            let what = "the run ended before the reply arrived";
            record.failed(&JudgeError::new(ErrorClass::Transient, what));
            record.usage = CallUsage::default();
            self.judge.wiring.log.log(record);
        }
    }
}

impl Run<'_> {
    pub(super) async fn call(&mut self, permit: Permit) -> Result<Reply, Failed> {
        let judge = self.judge;
        let wiring = &judge.wiring;
        self.calls += 1;
        let mut out = InFlightCall::new(judge, self.asked_for);
        if let Some(concurrency_permit) = &mut self.concurrency_permit {
            concurrency_permit.calls();
        }
        let Called {
            ended: called,
            rates,
            late,
        } = judge.provider.call(&self.request).await;
        let mut record = out.finish();
        let used = match &called {
            Ok(reply) => Some(usage::of_reply(&self.judge.spec, reply)),
            // The model may have generated tokens.
            Err(error) => {
                let wrote = matches!(error.class, ErrorClass::Unparsable | ErrorClass::Truncated);
                (late || wrote).then(CallUsage::default)
            }
        };
        if let (Ok(_), Some(used)) = (&called, used) {
            // Released before parsing. A failed call keeps its permit for the retry, so that a failing judge gets no more calls.
            if let Some(mut concurrency_permit) = self.concurrency_permit.take() {
                concurrency_permit.used(used);
            }
        }
        let mut end = end_of(&called, late, rates);
        record.usage = used.unwrap_or(record.usage);
        if let Ok(reply) = &called {
            record.replied(reply);
        }
        usage::add(&mut self.usage, record.usage);
        let read = match called {
            Ok(reply) => self.read(reply),
            Err(error) => Err(Failed::from(error)),
        };
        if read.is_ok() {
            // A complete answer counts as success even with an error next to it.
            end.outcome = CallOutcome::Alive;
        }
        wiring.gate.report(judge.spec.name(), permit, &end);
        match &read {
            Ok(reply) if reply.odd_finish => record.message = Some(ODD_FINISH.to_owned()),
            Ok(_) => {}
            Err(Failed { error, .. }) => record.failed(error),
        }
        record.repaired = self.repaired;
        record.retries_spent = self.retries_spent;
        record.cache_key = self.cache_key(&read);
        wiring.log.log(record);
        read
    }

    /// Returns the key for reuse of this call, if any.
    fn cache_key(&self, read: &Result<Reply, Failed>) -> Option<CacheKey> {
        match read {
            // A reply that still needs a repair turn is not reused.
            Ok(reply) => self
                .weaknesses_to_improve(reply)
                .is_empty()
                .then_some(self.key),
            // Only if the first call was rejected. Otherwise the first reply counts.
            Err(failed) => {
                let declined = failed.error.class == ErrorClass::Refused && self.weak.is_none();
                declined
                    .then(|| CacheKey::of_declined(&self.judge.spec, self.asked, self.asked_for))
            }
        }
    }

    /// Parses and checks the provider's reply. A repair turn with a worse reply is a failed call.
    fn read(&self, reply: ProviderReply) -> Result<Reply, Failed> {
        let cap = self.request.max_output_tokens;
        let (spec, raw) = (&self.judge.spec, reply.text.clone());
        let first = self.weak.as_ref().map(|reply| &reply.value);
        let first = first.or(self.first_object.as_ref());
        let reply = read(spec, &self.question, cap, first, reply)?;
        let worse = match &self.weak {
            _ if !self.repaired => None,
            Some(first) if first.weaknesses.len() <= reply.weaknesses.len() => Some("is no better"),
            Some(first) if !self.question.keeps_judgement(&first.value, &reply.value) => {
                Some("changes the judgement")
            }
            Some(_) => self.missing_fields(&reply),
            None if self.is_first_complete() => self.missing_fields(&reply),
            None => None,
        };
        match worse {
            None => Ok(Reply {
                repaired: self.repaired,
                ..reply
            }),
            Some(what) => {
                let message = format!("judge {:?} gave a second reply that {what}", spec.name());
                Err(Failed::from(JudgeError {
                    raw_reply: Some(cut(&raw)),
                    ..JudgeError::new(ErrorClass::Unparsable, message)
                }))
            }
        }
    }

    fn is_first_complete(&self) -> bool {
        let first = self.first_object.as_ref();
        first.is_some_and(|first| self.question.schema.lacks(first).is_none())
    }

    fn missing_fields(&self, reply: &Reply) -> Option<&'static str> {
        let lacked = self.question.schema.lacks(&reply.value);
        lacked.map(|_| "is missing fields of the first")
    }

    pub(super) fn add_details(&self, mut error: JudgeError) -> JudgeError {
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
                let prompt = self.question.prompt.tokens(limits.family);
                let trimmed = match self.question.trimmed_tokens {
                    0 => "untrimmed".to_owned(),
                    tokens => format!("after about {tokens} tokens were omitted"),
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
}

/// Parses and checks a provider's reply. `cap`: its output limit in tokens. `first`: the object of the model's previous reply.
pub(super) fn read(
    spec: &JudgeSpec,
    question: &Question,
    cap: u32,
    first: Option<&Value>,
    reply: ProviderReply,
) -> Result<Reply, Failed> {
    let failed = |class, what: String, unusable, raw: &str| Failed {
        error: JudgeError {
            status: Some(reply.status),
            raw_reply: Some(cut(raw)),
            ..JudgeError::new(class, format!("judge {:?} {what}", spec.name()))
        },
        unusable: Box::new(unusable),
    };
    let odd_finish = reply.stop != Stop::Complete || reply.error.is_some();
    let parsed = reply::parse(&reply.text, question, first);
    // A complete answer was paid for, so the finish reason doesn't matter.
    let is_complete = parsed.as_ref().is_ok_and(|answer| answer.is_complete);
    match (&reply.error, &reply.stop) {
        _ if is_complete => {}
        (Some(error), _) => {
            let raw_reply = Some(cut(&reply.text));
            let error = error.clone();
            return Err(JudgeError { raw_reply, ..error }.into());
        }
        (None, Stop::Truncated) => {
            let what = format!("was cut off by the output cap of {cap} tokens");
            let nothing = Unusable::default();
            return Err(failed(ErrorClass::Truncated, what, nothing, &reply.text));
        }
        (None, Stop::Refused(words)) => {
            let what = "declined to answer".to_owned();
            return Err(failed(
                ErrorClass::Refused,
                what,
                Unusable::default(),
                words,
            ));
        }
        // `Stop::Failed` always has an error.
        (None, Stop::Complete | Stop::Other(_) | Stop::Failed(_)) => {}
    }
    match parsed {
        Ok(answer) => Ok(Reply {
            weaknesses: question.weaknesses(&answer.value),
            value: answer.value,
            provider: spec.entry_name().to_owned(),
            model: reply.model,
            simulated: reply.simulated,
            repaired: false,
            cached: false,
            by_fallback: false,
            odd_finish,
            trimmed_tokens: question.trimmed_tokens,
        }),
        Err(unusable) => {
            let unusable = match reply.text_in.filter(|_| reply.text.trim().is_empty()) {
                Some(field) => Unusable::from(format!(
                    "the reply has no content, only {field}; expected one JSON object as the content"
                )),
                None => unusable,
            };
            let faults = reply::summary(&unusable.faults);
            let what = match &reply.stop {
                Stop::Other(reason) => format!(
                    "gave a reply that can't be used, with the finish reason {reason:?}: {faults}"
                ),
                Stop::Complete | Stop::Truncated | Stop::Refused(_) | Stop::Failed(_) => {
                    format!("gave a reply that can't be used: {faults}")
                }
            };
            Err(failed(ErrorClass::Unparsable, what, unusable, &reply.text))
        }
    }
}

fn end_of(called: &Result<ProviderReply, JudgeError>, late: bool, rates: RateReport) -> CallEnd {
    let non_negative = |tokens: i64| u64::try_from(tokens).unwrap_or(0);
    let failed = |error: &JudgeError| CallOutcome::Failed {
        class: error.class,
        retry_after: error.retry_after,
        message: error.message.clone(),
    };
    let (outcome, used) = match called {
        Ok(ProviderReply {
            error: Some(error),
            usage,
            ..
        }) => (failed(error), *usage),
        Ok(reply) => (CallOutcome::Alive, reply.usage),
        Err(error) if late => (CallOutcome::Late(error.message.clone()), None),
        Err(error) => (failed(error), None),
    };
    CallEnd {
        outcome,
        used: used.map(|used| TokensUsed {
            input: non_negative(used.input),
            output: non_negative(used.output),
        }),
        rates,
    }
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_REPLY_BYTES))
        .unwrap_or_default()
        .to_owned()
}
