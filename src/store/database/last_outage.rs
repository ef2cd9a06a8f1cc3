//! Outage that the errors of the last seconds show. No I/O.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::{Outage, remedy};

/// Duration for which an error counts. While records wait, the recorder retries each second. A process with connections rarely
/// tries to open another.
fn lifetime(outage: Outage) -> Duration {
    match outage {
        Outage::NoFreeConnection => Duration::from_secs(10),
        Outage::NoAnswer
        | Outage::Rejected
        | Outage::StorageFull
        | Outage::MissingPrivilege
        | Outage::MissingTable => Duration::from_secs(2),
    }
}

/// An outage that requires an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownOutage {
    pub outage: Outage,
    /// Cause and remedy, with role and tables, without hosts.
    pub remedy: String,
}

/// The last error that is more specific than a missing answer.
#[derive(Clone, Default)]
pub(in crate::store) struct LastOutage(Arc<Mutex<Option<(Instant, KnownOutage)>>>);

impl LastOutage {
    /// Stores the result of a statement or of a connection attempt.
    pub(in crate::store) fn record<T>(&self, result: &sqlx::Result<T>) {
        let Err(error) = result else { return };
        let Some(outage) = Outage::of(error).filter(|it| *it != Outage::NoAnswer) else {
            return;
        };
        let before = self.current();
        // A failed connection attempt must not resume claims.
        if !outage.stops_claims() && before.as_ref().is_some_and(|it| it.outage.stops_claims()) {
            return;
        }
        let known = KnownOutage {
            outage,
            remedy: remedy(outage, error),
        };
        if before.is_none_or(|before| before.outage != outage) {
            if outage == Outage::NoFreeConnection {
                tracing::warn!(%error, "{}", known.remedy);
            } else {
                tracing::error!(%error, "database can't be used: {}", known.remedy);
            }
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), known));
    }

    pub(in crate::store) fn current(&self) -> Option<KnownOutage> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref()
            .filter(|(at, known)| at.elapsed() < lifetime(known.outage))
            .map(|(_, known)| known.clone())
    }
}
