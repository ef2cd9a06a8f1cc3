//! Scoring without a judge: what is computed is real, the rest is not run. Needs no service, no database and no network.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::{CaseToScore, Scorer, Stopped};
use crate::report::{Item, ItemError, Outcome};
use crate::score::{Case, Criteria, Fault, Scorecard};

/// Scores in this process by what can be computed.
#[derive(Debug, Clone)]
pub struct Computed {
    criteria: Arc<Criteria>,
    /// What an item without its judge's part says.
    error: ItemError,
}

impl Computed {
    /// Scores by these criteria; an item whose judge's part is missing says `error`.
    pub fn new(criteria: Arc<Criteria>, error: ItemError) -> Self {
        Self { criteria, error }
    }

    /// The same with another reason.
    pub fn because(&self, error: ItemError) -> Self {
        Self::new(self.criteria.clone(), error)
    }

    fn item(&self, case: CaseToScore) -> Item {
        let scored = Case::read(case.kind, &case.payload)
            .map(|read| read.into_request().score(&self.criteria, &[]));
        match scored {
            Ok(Scorecard::Evaluated(evaluation)) => Item {
                total: evaluation.total,
                passed: evaluation.passed,
                outcome: match evaluation.total {
                    Some(_) => Outcome::Scored,
                    None => Outcome::Incomplete,
                },
                error: evaluation.total.is_none().then(|| self.error.clone()),
                result: Some(evaluation.result).filter(|result| *result != Value::Null),
                ..case.unscored()
            },
            Ok(Scorecard::Unscored(_) | Scorecard::Session(_)) => Item {
                error: Some(self.error.clone()),
                ..case.unscored()
            },
            Err(faults) => case.failed("bad_input", Fault::in_words(&faults)),
        }
    }
}

#[async_trait(?Send)]
impl Scorer for Computed {
    async fn score(&self, case: CaseToScore) -> Result<Item, Stopped> {
        // Comparing two large results takes seconds.
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.item(case))
            .await
            .map_err(|error| Stopped::down(format!("scoring a case broke off: {error}")))
    }
}
