//! `Judge::ask`: equal questions share a flight of cache -> permit -> gate -> provider -> parse -> repair, with retries. If the judge
//! declines to answer, its fallback is called in the same way.

mod batch_endpoint;
mod call;
mod fallback;
mod flights;
mod kept;
mod run;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use uuid::Uuid;

use super::cache::COLLECTED_KEPT;
use super::call_log::CallUsage;
use super::error::ErrorClass;
use super::gate::{Gate, HeldBack};
use super::provider::{Endpoint, ProviderMaker};
use super::question::{JudgeAnswer, Limits, Question};
use super::retry::RetryOptions;
use super::{CacheKey, CallLog, CallPermits, JudgeSpec, NotConfigured, Providers, Reply};
pub use batch_endpoint::{BatchEndpoint, Collected, HandedOver};
use fallback::Fallback;
use flights::{FlightRole, Flights, JoinedFlight};
use gavel_clock::{Clock, SystemClock};

#[derive(Debug, Clone)]
pub struct AskContext {
    /// Job id for the call log. The judge doesn't interpret it.
    pub asked_for: Uuid,
    /// Retries used so far over all runs.
    pub retries_spent: u32,
    /// Whether to skip the cache (force_rescore). The reply is cached anyway.
    pub skip_cache: bool,
    /// Whether a reply may have been collected for `asked_for`. It is used regardless of `skip_cache`.
    pub precomputed: Precomputed,
    pub concurrency: Arc<dyn CallPermits>,
}

/// Whether a question may have a reply from a provider's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precomputed {
    None,
    Collected,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AskOutcome {
    pub end: AskEnd,
    /// Retries over all runs including this one, by both judges if there is a fallback.
    pub retries_spent: u32,
    pub usage: CallUsage,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AskEnd {
    /// Reply, or an error that retries can't fix.
    Answered(JudgeAnswer),
    /// Wait that is too long for a slot. No state is lost: repeat the question later with the same `retries_spent`.
    Wait {
        why: HeldBack,
        /// Retry delay. `None` if an operator must act first.
        retry_in: Option<Duration>,
        /// Name of the awaited judge if it is the fallback. The outcome of the first judge is stored for 24 h per `asked_for`, so that its
        /// call isn't repeated. `retry_in` is then always set, because the open lane of the first judge would not delay the job.
        fallback: Option<String>,
    },
}

/// Judge: a provider entry, a model and an optional fallback.
pub struct Judge {
    inner: Arc<Inner>,
    fallback: Option<Fallback>,
}

struct Inner {
    spec: JudgeSpec,
    provider: Endpoint,
    wiring: JudgeWiring,
    flights: Arc<Flights>,
}

/// Dependencies of judges.
#[derive(Clone)]
pub struct JudgeWiring {
    pub gate: Arc<Gate>,
    pub log: Arc<dyn CallLog>,
    pub clock: Arc<dyn Clock>,
    pub retry: RetryOptions,
}

impl Judge {
    /// Returns the name: `entry` or `entry:model`.
    pub fn name(&self) -> &str {
        self.inner.spec.name()
    }

    pub fn limits(&self) -> Limits {
        self.inner.spec.limits()
    }

    /// Makes calls with retries. Cancel-safe: dropping the future frees the permit.
    ///
    /// A question equal to one in flight shares its calls: the caller gets the same answer, marked as cached and without usage.
    /// With `skip_cache` it always makes a call. If the judge declines to answer, the fallback is called.
    pub async fn ask(&self, question: &Question, context: AskContext) -> AskOutcome {
        match &self.fallback {
            Some(second) => fallback::ask(&self.inner, second, question, &context).await,
            None => self.inner.ask(question, &context).await,
        }
    }
}

impl Inner {
    /// Ignores the fallback.
    async fn ask(self: &Arc<Self>, question: &Question, context: &AskContext) -> AskOutcome {
        if context.precomputed == Precomputed::Collected {
            let key = CacheKey::of_collected(&self.spec, question, context.asked_for);
            if let Some(reply) = kept::cached(self, question, key, COLLECTED_KEPT).await {
                return AskOutcome {
                    // Not `cached`, because its collection was paid by this job.
                    end: AskEnd::Answered(Ok(Reply {
                        cached: false,
                        ..reply
                    })),
                    retries_spent: context.retries_spent,
                    usage: usage::zero(),
                };
            }
        }
        let key = CacheKey::new(&self.spec, question);
        if context.skip_cache {
            // Boxed, because callers that join a flight would otherwise reserve the size of a run.
            return run::run(self, question, context, key).boxed().await;
        }
        loop {
            let joined = self.join_or_start(question, context, key);
            let asked = joined.flight.await;
            match joined.role {
                FlightRole::Leader => return asked,
                FlightRole::Joined { leader_retries } => {
                    if let Some(shared) = shared(asked, context, leader_retries) {
                        return shared;
                    }
                }
            }
        }
    }

    fn join_or_start(
        self: &Arc<Self>,
        question: &Question,
        context: &AskContext,
        key: CacheKey,
    ) -> JoinedFlight {
        // The judge's name is part of the key, because two entries may share a cache but must not wait for each other's lane.
        let flight = (self.spec.name().to_owned(), key);
        self.flights
            .join_or_start(flight, context.retries_spent, || {
                let inner = Arc::clone(self);
                let (question, context) = (question.clone(), context.clone());
                async move { run::run(&inner, &question, &context, key).await }.boxed()
            })
    }
}

/// Returns the outcome for a caller that joined a flight. `None` if it must start another, because the leader had fewer retries left.
fn shared(mut asked: AskOutcome, context: &AskContext, leader_retries: u32) -> Option<AskOutcome> {
    match &mut asked.end {
        AskEnd::Answered(Ok(reply)) => reply.cached = true,
        AskEnd::Answered(Err(error)) => {
            if error.class == ErrorClass::Transient && leader_retries > context.retries_spent {
                return None;
            }
        }
        AskEnd::Wait { .. } => {}
    }
    Some(AskOutcome {
        retries_spent: context.retries_spent,
        usage: usage::zero(),
        ..asked
    })
}

/// Maximum number of warnings about models without a price.
const MAX_WARNED: usize = 256;

/// Judges of all entries in `llm_providers.yaml` by name.
pub struct Judges {
    by_name: BTreeMap<String, Arc<Judge>>,
    providers: Providers,
    wiring: JudgeWiring,
    flights: Arc<Flights>,
    maker: Mutex<ProviderMaker>,
    /// Judges without a price that were already logged.
    warned: Mutex<BTreeSet<String>>,
}

impl Judges {
    /// Builds all configured judges with the system clock and default retries.
    pub fn new(providers: &Providers, gate: Arc<Gate>, log: Arc<dyn CallLog>) -> Self {
        Self::wired(
            providers,
            JudgeWiring {
                gate,
                log,
                clock: Arc::new(SystemClock),
                retry: RetryOptions::default(),
            },
        )
    }

    pub fn wired(providers: &Providers, wiring: JudgeWiring) -> Self {
        let mut judges = Self {
            by_name: BTreeMap::new(),
            providers: providers.clone(),
            wiring,
            flights: Arc::default(),
            maker: Mutex::default(),
            warned: Mutex::default(),
        };
        for name in providers.names() {
            if let Ok(spec) = providers.spec(&name) {
                let judge = judges.build(spec);
                judges.by_name.insert(name, judge);
            }
        }
        judges
    }

    /// Returns the judge `entry` or `entry:model`, or the reason why it is unavailable.
    pub fn get(&self, name: &str) -> Result<Arc<Judge>, NotConfigured> {
        let judge = match self.by_name.get(name) {
            Some(judge) => Arc::clone(judge),
            // Unlisted models are not cached, because callers choose their names.
            None => self.build(self.providers.spec(name)?),
        };
        self.warn_if_unpriced(&judge.inner.spec);
        Ok(judge)
    }

    /// Logs a warning once per model without a price.
    fn warn_if_unpriced(&self, spec: &JudgeSpec) {
        if !spec.misses_price() {
            return;
        }
        let mut warned = self.warned.lock();
        if warned.len() < MAX_WARNED && warned.insert(spec.name().to_owned()) {
            tracing::warn!(
                judge = spec.name(),
                model = spec.model(),
                "no price for this model in llm_providers.yaml: the judge is called at unknown cost"
            );
        }
    }

    fn build(&self, spec: JudgeSpec) -> Arc<Judge> {
        let fallback = self.providers.fallback_of(&spec).map(|name| Fallback {
            judge: self.providers.spec(&name).map(|spec| self.inner(spec)),
            name,
        });
        Arc::new(Judge {
            inner: self.inner(spec),
            fallback,
        })
    }

    fn inner(&self, spec: JudgeSpec) -> Arc<Inner> {
        let mut maker = self.maker.lock();
        Arc::new(Inner {
            provider: maker.make(&spec, &self.wiring.clock),
            spec,
            wiring: self.wiring.clone(),
            flights: Arc::clone(&self.flights),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::JudgeError;
    use super::*;

    fn failed(class: ErrorClass) -> AskOutcome {
        AskOutcome {
            end: AskEnd::Answered(Err(JudgeError::new(class, "it said no"))),
            retries_spent: 3,
            usage: CallUsage::default(),
        }
    }

    fn joined_with(retries_spent: u32) -> AskContext {
        AskContext {
            asked_for: Uuid::nil(),
            retries_spent,
            skip_cache: false,
            precomputed: Precomputed::None,
            concurrency: Arc::new(crate::Unbounded),
        }
    }

    #[test]
    fn joined_caller_shares_outcome_without_usage() {
        for class in [ErrorClass::Refused, ErrorClass::Transient] {
            let shared = shared(failed(class), &joined_with(1), 1);
            let Some(AskOutcome {
                end: AskEnd::Answered(Err(error)),
                retries_spent,
                usage,
            }) = shared
            else {
                panic!("expected the error, got {shared:?}");
            };
            assert_eq!((error.class, retries_spent), (class, 1));
            assert_eq!(usage, usage::zero());
        }
    }

    #[test]
    fn caller_with_more_retries_left_starts_another_flight() {
        let transient = failed(ErrorClass::Transient);
        assert_eq!(shared(transient, &joined_with(0), 2), None);
        let refused = failed(ErrorClass::Refused);
        assert!(shared(refused, &joined_with(0), 2).is_some());
    }
}
