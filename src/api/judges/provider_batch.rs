//! Converts the state of a provider batch for clients.

use crate::store::{ChunkRow, ProviderBatchRow};
use crate::wire::{ProviderBatch, ProviderChunk};

impl From<ProviderBatchRow> for ProviderBatch {
    fn from(row: ProviderBatchRow) -> Self {
        Self {
            state: row.state,
            waits_for: row.note,
            replied: row.replied,
            failed: row.failed,
            parts: row.chunks.into_iter().map(ProviderChunk::from).collect(),
        }
    }
}

impl From<ChunkRow> for ProviderChunk {
    fn from(chunk: ChunkRow) -> Self {
        Self {
            state: chunk.state,
            provider_id: chunk.provider_id,
            submitted_at: chunk.submitted_at,
            requests: chunk.requests,
            done: chunk.done,
            error: chunk.error,
        }
    }
}
