//! The criteria that are current, one definition for each kind, and those that requests name.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{Enqueue, EnqueueError};
use crate::job::Kind;
use crate::score::Criteria;
use crate::store::StoreError;

/// The definitions of the files that a process loaded.
#[derive(Debug, Clone)]
pub struct CurrentCriteria(BTreeMap<Kind, Arc<Criteria>>);

impl CurrentCriteria {
    /// Takes a definition for each kind.
    ///
    /// # Errors
    /// That of `read`.
    pub fn read<E>(read: impl Fn(Kind) -> Result<Arc<Criteria>, E>) -> Result<Self, E> {
        let each = Kind::ALL.iter().map(|kind| Ok((*kind, read(*kind)?)));
        each.collect::<Result<_, E>>().map(Self)
    }

    /// The definition of a kind.
    pub fn of(&self, kind: Kind) -> &Arc<Criteria> {
        &self.0[&kind]
    }
}

/// The current definitions, and what is known of stored ones.
pub(super) struct Definitions {
    current: RwLock<CurrentCriteria>,
    /// The kind and the judge of each stored definition that was asked for; definitions never change.
    stored: RwLock<BTreeMap<String, (Kind, String)>>,
}

impl Definitions {
    pub(super) fn new(current: CurrentCriteria) -> Self {
        Self {
            current: RwLock::new(current),
            stored: RwLock::default(),
        }
    }
}

impl Enqueue {
    /// The criteria that new requests to score a session get.
    pub fn current_criteria(&self) -> Arc<Criteria> {
        self.current_criteria_of(Kind::Session)
    }

    /// The criteria that new requests of a kind get.
    pub fn current_criteria_of(&self, kind: Kind) -> Arc<Criteria> {
        let current = self.definitions.current.read();
        current.of(kind).clone()
    }

    /// Replaces the current criteria of all kinds (a reload).
    pub fn set_current(&self, criteria: CurrentCriteria) {
        *self.definitions.current.write() = criteria;
    }

    /// Replaces the current criteria of the kind that they are for.
    pub fn set_current_criteria(&self, criteria: Arc<Criteria>) {
        let mut current = self.definitions.current.write();
        current.0.insert(criteria.kind, criteria);
    }

    /// The kinds whose current criteria name this judge.
    pub fn kinds_of(&self, judge: &str) -> Vec<Kind> {
        let kinds = Kind::ALL.iter().copied();
        kinds
            .filter(|kind| self.current_criteria_of(*kind).judge == judge)
            .collect()
    }

    /// The judge that a stored definition names, if it is of the current one's kind. The current one is stored on its first use.
    pub(super) async fn judge_of(
        &self,
        hash: &str,
        current: &Arc<Criteria>,
    ) -> Result<String, EnqueueError> {
        let known = self.definitions.stored.read().get(hash).cloned();
        let (kind, judge) = match known {
            Some(known) => known,
            None => self.look_up(hash, current).await?,
        };
        if kind != current.kind {
            return Err(EnqueueError::CriteriaOfOtherKind {
                hash: hash.to_owned(),
                kind,
                asked: current.kind,
            });
        }
        Ok(judge)
    }

    async fn look_up(
        &self,
        hash: &str,
        current: &Arc<Criteria>,
    ) -> Result<(Kind, String), EnqueueError> {
        let found = if hash == current.hash.0 {
            self.store.criteria().put(current, self.clock.now()).await?;
            (current.kind, current.judge.clone())
        } else {
            let content = self
                .store
                .criteria()
                .content(hash)
                .await?
                .ok_or_else(|| EnqueueError::UnknownCriteria(hash.to_owned()))?;
            let stored =
                Criteria::from_value(&content).map_err(|error| StoreError::Unexpected {
                    attempted: "reading a stored criteria definition",
                    reason: error.to_string(),
                })?;
            (stored.kind, stored.judge)
        };
        let mut stored = self.definitions.stored.write();
        stored.insert(hash.to_owned(), found.clone());
        Ok(found)
    }
}
