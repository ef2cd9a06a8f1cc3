//! The criteria that are current: one definition for each kind.

use std::sync::Arc;

use crate::job::Kind;
use crate::score::Criteria;

/// The definitions of the files that a process loaded.
#[derive(Debug, Clone)]
pub struct CurrentCriteria {
    /// For sessions.
    pub session: Arc<Criteria>,
    /// For queries.
    pub query: Arc<Criteria>,
    /// For QAS cases.
    pub qas: Arc<Criteria>,
    /// For metric cases.
    pub sql_metrics: Arc<Criteria>,
}

impl CurrentCriteria {
    /// The definition of a kind.
    pub fn of(&self, kind: Kind) -> &Arc<Criteria> {
        match kind {
            Kind::Session => &self.session,
            Kind::Query => &self.query,
            Kind::Qas => &self.qas,
            Kind::SqlMetrics => &self.sql_metrics,
        }
    }

    pub(super) fn of_mut(&mut self, kind: Kind) -> &mut Arc<Criteria> {
        match kind {
            Kind::Session => &mut self.session,
            Kind::Query => &mut self.query,
            Kind::Qas => &mut self.qas,
            Kind::SqlMetrics => &mut self.sql_metrics,
        }
    }
}
