//! `scoring_criteria_definitions`: every criteria version that was ever used or added. (Skeleton.)

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{Store, StoreError};
use crate::job::Kind;
use crate::score::Criteria;

/// One stored definition.
#[derive(Debug, Clone, PartialEq)]
pub struct CriteriaDefinition {
    /// Its identity.
    pub criteria_hash: String,
    /// What it is for.
    pub kind: Kind,
    /// The resolved content.
    pub content: Value,
    /// When it was first stored.
    pub created_at: DateTime<Utc>,
    /// How many scores were made with it (purpose `score`, superseded ones included).
    pub scores: i64,
    /// Mean total of its real (not simulated) scores.
    pub mean_total: Option<f64>,
}

impl Store {
    /// Stores a definition; one that is there stays as it is. Answers whether it was new.
    pub async fn put_criteria(
        &self,
        _kind: Kind,
        _criteria: &Criteria,
        _now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        unimplemented!()
    }
    /// Reads one definition.
    pub async fn criteria(&self, _hash: &str) -> Result<Option<CriteriaDefinition>, StoreError> {
        unimplemented!()
    }
    /// Lists definitions, newest first; at most 1,000.
    pub async fn criteria_list(&self) -> Result<Vec<CriteriaDefinition>, StoreError> {
        unimplemented!()
    }
}
