//! Memory that a request reserves from the process's budget. Released with the response, or earlier while the request only waits.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::Mutex;

use super::problem::ApiError;
use crate::memory::{MemoryBudget, NoRoom, Taken};

/// Reservation of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyMemory {
    /// `None`: not limited.
    budget: Option<MemoryBudget>,
    taken: Arc<Mutex<Parcels>>,
}

#[derive(Debug, Default)]
struct Parcels {
    body: Option<Taken>,
    work: Option<Taken>,
}

impl From<NoRoom> for ApiError {
    fn from(why: NoRoom) -> Self {
        match why {
            NoRoom::Now => Self::MemoryBusy,
            NoRoom::Ever { weight, most } => Self::TooHeavy { weight, most },
        }
    }
}

impl BodyMemory {
    pub(crate) fn of(budget: &MemoryBudget) -> Self {
        Self {
            budget: Some(budget.clone()),
            taken: Arc::default(),
        }
    }

    pub(crate) fn from_parts(parts: &Parts) -> Self {
        parts.extensions.get().cloned().unwrap_or_default()
    }

    /// Reserves memory for a body, once: a layer may have read it already.
    pub(crate) async fn reserve_for_body(&self, bytes: usize) -> Result<(), ApiError> {
        let is_new = self.taken.lock().body.is_none();
        if let Some(budget) = self.budget.as_ref().filter(|_| is_new) {
            let taken = budget.take_for_reading(bytes as u64).await?;
            self.taken.lock().body = Some(taken);
        }
        Ok(())
    }

    pub(crate) async fn take(&self, weight: u64) -> Result<(), ApiError> {
        if let Some(budget) = &self.budget {
            let taken = budget.take(weight).await?;
            self.taken.lock().work = Some(taken);
        }
        Ok(())
    }

    /// Releases all memory, for requests that only wait from now on.
    pub(crate) fn release(&self) {
        *self.taken.lock() = Parcels::default();
    }
}

/// Adds a reservation to each request.
pub(crate) async fn hold(
    State(budget): State<MemoryBudget>,
    mut request: Request,
    next: Next,
) -> Response {
    let held = BodyMemory::of(&budget);
    request.extensions_mut().insert(held.clone());
    let response = next.run(request).await;
    held.release();
    response
}
