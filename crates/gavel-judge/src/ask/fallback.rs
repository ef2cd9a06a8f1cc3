//! Fallback judge (`fallback:`) for questions that the first judge declined to answer.
//!
//! Other errors do not use it, because each has its own remedy that a second judge would hide. One level is followed: if the fallback
//! declines as well, the question fails. It has its own gate, retries, limits, cache key and prices. The first outcome is stored per job,
//! so that a run that waited for the fallback does not pay for it again. A simulated reply does not replace a real one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::kept::find;
use super::{AskContext, AskEnd, AskOutcome, Inner, usage};
use crate::cache::KEPT;
use crate::call_log::CallUsage;
use crate::error::ErrorClass;
use crate::gate::HeldBack;
use crate::{
    CacheKey, CallPermits, CallRecord, ConcurrencyPermit, JudgeAnswer, JudgeError, JudgeSpec,
    Limits, NotConfigured, Question, Reply,
};

/// Maximum retry delay for a closed fallback, because reopening it early wakes only jobs of that lane.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// The same if all its calls are in use.
const LOOK_AGAIN_SOON: Duration = Duration::from_secs(5);

pub(super) struct Fallback {
    pub(super) name: String,
    /// The fallback, or the reason why it is unavailable.
    pub(super) judge: Result<Arc<Inner>, NotConfigured>,
}

struct Declined {
    message: String,
    /// Retries used until then, over all runs. The fallback counts its own.
    retries_spent: u32,
    /// Zero if an earlier run made the call.
    usage: CallUsage,
}

/// Calls the first judge, unless it declined in an earlier run, then its fallback.
pub(super) async fn ask(
    first: &Arc<Inner>,
    fallback: &Fallback,
    question: &Question,
    context: &AskContext,
) -> AskOutcome {
    let key = CacheKey::of_declined(&first.spec, question, context.asked_for);
    let remembered = find(first, key, KEPT).await;
    let (declined, own) = match remembered.and_then(Declined::recalled) {
        Some(mut declined) => {
            // Retries of a job retried by hand start at 0.
            declined.retries_spent = declined.retries_spent.min(context.retries_spent);
            let own = AskContext {
                retries_spent: context.retries_spent - declined.retries_spent,
                ..context.clone()
            };
            (declined, own)
        }
        None => match first.ask(question, context).await {
            AskOutcome {
                end: AskEnd::Answered(Err(error)),
                retries_spent,
                usage,
            } if error.class == ErrorClass::Refused => {
                let declined = Declined {
                    message: error.message,
                    retries_spent,
                    usage,
                };
                // One call was already made, so the question waits for a permit rather than move to another lane.
                let own = AskContext {
                    retries_spent: 0,
                    concurrency: Arc::new(RetryPermits(Arc::clone(&context.concurrency))),
                    ..context.clone()
                };
                (declined, own)
            }
            ended => return ended,
        },
    };
    let second = match &fallback.judge {
        Ok(second) => second,
        Err(why) => return declined.ends(skipped_error(&declined, fallback, &why.to_string())),
    };
    let limits = second.spec.limits();
    let Some(fitting) = question.fit_into(&limits) else {
        return declined.ends(skipped_error(
            &declined,
            fallback,
            &too_large(question, &limits),
        ));
    };
    let asked = second.ask(&fitting, &own).await;
    declined.with(&first.spec, &second.spec, asked)
}

impl Declined {
    fn recalled(call: CallRecord) -> Option<Self> {
        Some(Self {
            message: call.message?,
            retries_spent: call.retries_spent,
            usage: usage::zero(),
        })
    }

    fn ends(&self, error: JudgeError) -> AskOutcome {
        AskOutcome {
            end: AskEnd::Answered(Err(error)),
            retries_spent: self.retries_spent,
            usage: self.usage,
        }
    }

    /// Combines the fallback's outcome with the usage and retries of both.
    fn with(&self, first: &JudgeSpec, second: &JudgeSpec, asked: AskOutcome) -> AskOutcome {
        let mut usage = self.usage;
        usage::add(&mut usage, asked.usage);
        AskOutcome {
            end: match asked.end {
                AskEnd::Answered(answer) => AskEnd::Answered(self.answer(first, second, answer)),
                AskEnd::Wait { why, retry_in, .. } => {
                    let longest = match why == HeldBack::Busy {
                        true => LOOK_AGAIN_SOON,
                        false => LOOK_AGAIN,
                    };
                    AskEnd::Wait {
                        why,
                        retry_in: Some(retry_in.unwrap_or(longest).min(longest)),
                        fallback: Some(second.name().to_owned()),
                    }
                }
            },
            retries_spent: self.retries_spent.saturating_add(asked.retries_spent),
            usage,
        }
    }

    fn answer(&self, first: &JudgeSpec, second: &JudgeSpec, answer: JudgeAnswer) -> JudgeAnswer {
        let name = second.name();
        match answer {
            Ok(reply) if reply.simulated && !first.simulated() => Err(declined_error(format!(
                "{}; its fallback {name:?} gave a simulated reply, which can't replace a real one",
                self.message
            ))),
            Ok(reply) => Ok(Reply {
                by_fallback: true,
                ..reply
            }),
            Err(error) => {
                let message = match error.class == ErrorClass::Refused {
                    true => format!("{}, and so did its fallback {name:?}", self.message),
                    false => format!(
                        "{}; it was called as the fallback, because {}",
                        error.message, self.message
                    ),
                };
                Err(JudgeError { message, ..error })
            }
        }
    }
}

fn skipped_error(declined: &Declined, fallback: &Fallback, why: &str) -> JudgeError {
    declined_error(format!(
        "{}; its fallback {:?} was not called: {why}",
        declined.message, fallback.name
    ))
}

fn too_large(question: &Question, limits: &Limits) -> String {
    format!(
        "the prompt is about {} tokens, and its context_window of {} leaves {} for it",
        question.tokens(limits.family),
        limits.context_window,
        limits.for_the_question()
    )
}

fn declined_error(message: String) -> JudgeError {
    JudgeError::new(ErrorClass::Refused, message)
}

/// Permits of a question with an earlier call. The next permit is awaited without limit.
#[derive(Debug)]
struct RetryPermits(Arc<dyn CallPermits>);

#[async_trait]
impl CallPermits for RetryPermits {
    async fn first(&self) -> Option<ConcurrencyPermit> {
        Some(self.another().await)
    }

    async fn another(&self) -> ConcurrencyPermit {
        self.0.another().await
    }
}
