//! Why the database can't be used, as the errors of the last seconds show. Does no I/O.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::{Outage, remedy};

/// How long an error counts. While results wait, the recorder retries each second. A process that has connections tries
/// seldom to open another.
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

/// An outage that needs an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownOutage {
    pub outage: Outage,
    /// Cause and remedy; names the role and tables, and no host.
    pub remedy: String,
}

/// The last error that says more than that the database didn't answer.
#[derive(Clone, Default)]
pub(in crate::store) struct LastOutage(Arc<Mutex<Option<(Instant, KnownOutage)>>>);

impl LastOutage {
    /// Notes the result of a statement or of opening a connection.
    pub(in crate::store) fn heard<T>(&self, result: &sqlx::Result<T>) {
        let Err(error) = result else { return };
        let Some(outage) = Outage::of(error).filter(|it| *it != Outage::NoAnswer) else {
            return;
        };
        let before = self.current();
        // A connection that isn't to be had must not reopen claims.
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

    /// Returns the outage of the last seconds.
    pub(in crate::store) fn current(&self) -> Option<KnownOutage> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref()
            .filter(|(at, known)| at.elapsed() < lifetime(known.outage))
            .map(|(_, known)| known.clone())
    }
}
