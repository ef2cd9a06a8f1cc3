//! How a batch's replies are fetched ahead, as clients see it.

use crate::store::{EconomyRow, ProviderPart};
use crate::wire::{Economy, EconomyPart};

impl From<EconomyRow> for Economy {
    fn from(row: EconomyRow) -> Self {
        Self {
            state: row.state,
            waits_for: row.note,
            replied: row.replied,
            failed: row.failed,
            parts: row.parts.into_iter().map(EconomyPart::from).collect(),
        }
    }
}

impl From<ProviderPart> for EconomyPart {
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
