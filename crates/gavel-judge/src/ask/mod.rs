//! `Judge::ask`: one flight for equal questions, and in it cache -> permit -> gate -> provider -> parse -> repair, with retries.
//! Where the judge declines, its fallback is asked in the same way.

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

/// What a question needs from the run it belongs to.
#[derive(Debug, Clone)]
pub struct AskContext {
    /// Goes into the call log; the judge doesn't interpret it.
    pub asked_for: Uuid,
    /// Retries spent so far over all runs.
    pub retries_spent: u32,
    /// Whether the cache is skipped (force_rescore). What comes back is cached all the same.
    pub skip_cache: bool,
    /// Whether a reply may lie ready that was collected for `asked_for`; it is taken whatever `skip_cache` says.
    pub precomputed: Precomputed,
    /// What bounds the asker's calls at once.
    pub concurrency: Arc<dyn CallPermits>,
}

/// Whether a question may have been answered by a provider's batch before it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precomputed {
    /// It wasn't: nobody looks.
    None,
    /// It may have been.
    Collected,
}

/// How asking ended.
#[derive(Debug, Clone, PartialEq)]
pub struct AskOutcome {
    /// With an answer, or a wait.
    pub end: AskEnd,
    /// Retries spent over all runs, these included, of both judges where there is a fallback.
    pub retries_spent: u32,
    /// What this run's calls used.
    pub usage: CallUsage,
}

/// An answer, or a wait.
#[derive(Debug, Clone, PartialEq)]
pub enum AskEnd {
    /// The reply, or an error that no retry helps.
    Answered(JudgeAnswer),
    /// A wait too long to spend in a slot. Nothing was lost: ask again later with the same `retries_spent`.
    Wait {
        why: HeldBack,
        /// When to come again; `None` where somebody must act first.
        retry_in: Option<Duration>,
        /// The judge that is waited for, if it is the fallback: the first one declined, which is remembered, and isn't asked
        /// again by whoever asks with the same `asked_for` within 24 h. `retry_in` is known then, as the lane of the question is
        /// the first judge's, which is open.
        fallback: Option<String>,
    },
}

/// One judge: a provider entry and a model, and the judge that stands in for it, if any.
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

/// What judges stand on.
#[derive(Clone)]
pub struct JudgeWiring {
    /// Lets calls pass.
    pub gate: Arc<Gate>,
    /// Takes every call, and finds it again.
    pub log: Arc<dyn CallLog>,
    /// Stamps calls.
    pub clock: Arc<dyn Clock>,
    /// How often and how long they retry.
    pub retry: RetryOptions,
}

impl Judge {
    /// The judge's name: the entry's, or `entry:model`.
    pub fn name(&self) -> &str {
        self.inner.spec.name()
    }

    /// What it can take.
    pub fn limits(&self) -> Limits {
        self.inner.spec.limits()
    }

    /// Asks, with retries. Cancel-safe: dropping the future frees the permit.
    ///
    /// A question that is already in flight isn't asked again: its asker gets the same answer, marked as cached, for
    /// which it spent nothing. A question that skips the cache is always asked. A judge that declines is asked once; its
    /// fallback, if it has one, is asked instead.
    pub async fn ask(&self, question: &Question, context: AskContext) -> AskOutcome {
        match &self.fallback {
            Some(second) => fallback::ask(&self.inner, second, question, &context).await,
            None => self.inner.ask(question, &context).await,
        }
    }
}

impl Inner {
    /// Asks this judge, and no other.
    async fn ask(self: &Arc<Self>, question: &Question, context: &AskContext) -> AskOutcome {
        if context.precomputed == Precomputed::Collected {
            let key = CacheKey::of_collected(&self.spec, question, context.asked_for);
            if let Some(reply) = kept::cached(self, question, key, COLLECTED_KEPT).await {
                return AskOutcome {
                    // It was paid for, by this asker, when it was collected.
                    end: AskEnd::Answered(Ok(Reply {
                        cached: false,
                        ..reply
                    })),
                    retries_spent: context.retries_spent,
                    usage: usage::nothing(),
                };
            }
        }
        let key = CacheKey::new(&self.spec, question);
        if context.skip_cache {
            // Boxed, or whoever joins a flight would hold the room for a run of its own.
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
        // Two entries may share a cache; each has a lane of its own, so that neither waits for the other's.
        let flight = (self.spec.name().to_owned(), key);
        self.flights
            .join_or_start(flight, context.retries_spent, || {
                let inner = Arc::clone(self);
                let (question, context) = (question.clone(), context.clone());
                async move { run::run(&inner, &question, &context, key).await }.boxed()
            })
    }
}

/// What an asker that joined makes of the answer; `None`: it asks for itself, since whoever asked had fewer retries left.
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
        usage: usage::nothing(),
        ..asked
    })
}

/// How many models without a price are warned of.
const WARNED: usize = 256;

/// Every judge that `llm_providers.yaml` names, by name.
pub struct Judges {
    by_name: BTreeMap<String, Arc<Judge>>,
    providers: Providers,
    wiring: JudgeWiring,
    flights: Arc<Flights>,
    maker: Mutex<ProviderMaker>,
    /// Judges of models without a price, each warned of once.
    warned: Mutex<BTreeSet<String>>,
}

impl Judges {
    /// Builds the judges of all configured entries, by the machine's clock and with the documented retries.
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

    /// Builds the judges of all configured entries.
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

    /// The judge of a name (`entry` or `entry:model`), or why there is none.
    pub fn get(&self, name: &str) -> Result<Arc<Judge>, NotConfigured> {
        let judge = match self.by_name.get(name) {
            Some(judge) => Arc::clone(judge),
            // Models that no entry lists are built when asked for, and not kept: their names come from outside.
            None => self.build(self.providers.spec(name)?),
        };
        self.warn_of_unpriced(&judge.inner.spec);
        Ok(judge)
    }

    /// Says once of a model that it has no price.
    fn warn_of_unpriced(&self, spec: &JudgeSpec) {
        if !spec.misses_price() {
            return;
        }
        let mut warned = self.warned.lock();
        if warned.len() < WARNED && warned.insert(spec.name().to_owned()) {
            tracing::warn!(
                judge = spec.name(),
                model = spec.model(),
                "llm_providers.yaml has no price for this model: it is asked, and what it costs is unknown"
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
    fn who_joins_shares_the_end_and_spends_nothing() {
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
            assert_eq!(usage, usage::nothing());
        }
    }

    #[test]
    fn who_has_more_retries_left_than_the_flight_had_asks_anew() {
        let transient = failed(ErrorClass::Transient);
        assert_eq!(shared(transient, &joined_with(0), 2), None);
        let refused = failed(ErrorClass::Refused);
        assert!(shared(refused, &joined_with(0), 2).is_some());
    }
}
