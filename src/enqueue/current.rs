//! The criteria that are current: one definition for each kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::job::Kind;
use crate::score::Criteria;

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

    pub(super) fn set(&mut self, kind: Kind, criteria: Arc<Criteria>) {
        self.0.insert(kind, criteria);
    }
}
