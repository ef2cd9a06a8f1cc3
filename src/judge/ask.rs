//! `Judge::ask`: the patience. (Skeleton: bodies to be written.)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::call_log::CallUsage;
use super::gate::{Closed, Gate};
use super::question::{Answer, Limits, Question};
use super::{CallLog, NotConfigured, Providers, ReplyCache};

/// What a question needs from the run it belongs to.
#[derive(Debug, Clone)]
pub struct AskContext {
    /// Goes into the call log; the judge doesn't interpret it.
    pub asked_for: Uuid,
    /// Retries spent so far over all runs.
    pub retries_spent: u32,
    /// Whether the cache is passed over (force_rescore). What comes back is cached all the same.
    pub skip_cache: bool,
}

/// How asking ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// With an answer, good or bad.
    Answered {
        /// The reply, or the error that no patience helps.
        answer: Answer,
        /// Retries spent over all runs, these included.
        retries_spent: u32,
        /// What this run's calls used.
        usage: CallUsage,
    },
    /// With a wait too long to spend in a slot. Nothing was lost: ask again later with the same `retries_spent`.
    Wait {
        /// Why.
        why: Closed,
        /// When to come again; `None` where somebody must act first.
        retry_in: Option<Duration>,
        /// Retries spent over all runs, these included.
        retries_spent: u32,
        /// What this run's calls used.
        usage: CallUsage,
    },
}

/// One judge: a provider entry and a model.
pub struct Judge {
    _todo: (),
}

impl Judge {
    /// The judge's name: the entry's, or `entry:model`.
    pub fn name(&self) -> &str {
        unimplemented!()
    }

    /// What it can take.
    pub fn limits(&self) -> Limits {
        unimplemented!()
    }

    /// Asks, patiently. Cancel-safe: dropping the future frees the permit.
    pub async fn ask(&self, _question: &Question, _context: AskContext) -> Asked {
        unimplemented!()
    }
}

/// Every judge that `llm_providers.yaml` names, by name.
pub struct Judges {
    _by_name: BTreeMap<String, Arc<Judge>>,
}

impl Judges {
    /// Builds the judges of all configured entries.
    pub fn new(
        _providers: &Providers,
        _gate: Arc<dyn Gate>,
        _cache: Arc<dyn ReplyCache>,
        _log: Arc<dyn CallLog>,
    ) -> Self {
        unimplemented!()
    }

    /// The judge of a name (`entry` or `entry:model`), or why there is none.
    pub fn get(&self, _name: &str) -> Result<Arc<Judge>, NotConfigured> {
        unimplemented!()
    }
}
