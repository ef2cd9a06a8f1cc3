//! Scoring without a judge: what is computed is real, the rest is not run. Needs no service, no database and no network.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::{CaseToScore, Scorer, Stopped};
use crate::job::Usage;
use crate::report::{Item, ItemError, Outcome};
use crate::score::{Case, Criteria, Scorecard};

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
        let mut item = Item {
            item_no: case.item_no,
            kind: case.kind,
            id: case.id,
            payload: case.payload,
            outcome: Outcome::Failed,
            total: None,
            passed: None,
            result: None,
            error: None,
            simulated: false,
            usage: Usage::default(),
            job_id: None,
        };
        match scored {
            Ok(Scorecard::Evaluated(evaluation)) => {
                item.total = evaluation.total;
                item.passed = evaluation.passed;
                item.outcome = match evaluation.total {
                    Some(_) => Outcome::Scored,
                    None => Outcome::Incomplete,
                };
                item.error = evaluation.total.is_none().then(|| self.error.clone());
                item.result = Some(evaluation.result).filter(|result| *result != Value::Null);
            }
            Ok(Scorecard::Unscored(_) | Scorecard::Session(_)) => {
                item.error = Some(self.error.clone());
            }
            Err(faults) => {
                let faults: Vec<String> = faults
                    .iter()
                    .map(|fault| format!("{}: {}", fault.pointer, fault.message))
                    .collect();
                item.error = Some(ItemError {
                    class: "bad_input".to_owned(),
                    message: faults.join("; "),
                });
            }
        }
        item
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
