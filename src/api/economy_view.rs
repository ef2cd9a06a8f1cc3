//! How a batch's replies are fetched ahead, as clients see it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::store::{EconomyRow, EconomyState, PartState, ProviderPart};

/// How the replies of a batch are fetched by its judge's batch endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct EconomyView {
    /// `asked`: they are being fetched, and none of its items runs; `collected`: they are here, and its items run.
    pub(super) state: EconomyState,
    /// What it waits for, in words; null: for the provider to answer.
    pub(super) waits_for: Option<String>,
    /// Items whose replies were fetched.
    pub(super) replied: i64,
    /// Items that are asked one by one, at the full price: the provider left them unanswered, or the answer can't be used.
    pub(super) failed: i64,
    /// The provider's batches, in the order in which they were made.
    pub(super) parts: Vec<EconomyPartView>,
}

/// One of the provider's batches.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct EconomyPartView {
    /// Where it stands.
    pub(super) state: PartState,
    /// The provider's name for it; null: it isn't known to have arrived.
    pub(super) provider_id: Option<String>,
    /// When it was handed over.
    pub(super) submitted_at: Option<DateTime<Utc>>,
    /// How many items it holds.
    pub(super) requests: i64,
    /// How many of them have ended, as the provider says.
    pub(super) done: i64,
    /// Why nothing came of it.
    pub(super) error: Option<String>,
}

impl From<EconomyRow> for EconomyView {
    fn from(row: EconomyRow) -> Self {
        Self {
            state: row.state,
            waits_for: row.note,
            replied: row.replied,
            failed: row.failed,
            parts: row.parts.into_iter().map(EconomyPartView::from).collect(),
        }
    }
}

impl From<ProviderPart> for EconomyPartView {
    fn from(part: ProviderPart) -> Self {
        Self {
            state: part.state,
            provider_id: part.provider_id,
            submitted_at: part.submitted_at,
            requests: part.requests,
            done: part.done,
            error: part.error,
        }
    }
}
