//! Fills and sends chunks.

use uuid::Uuid;

use super::{ChunkError, ChunkLoop};
use crate::job::Job;
use crate::judge::{Added, BatchEndpoint, Chunk, ChunkSize, ErrorClass, JudgeError};
use crate::store::{BatchRow, ChunkRow, Hold, HoldTarget, NewChunk, StoreError};
use crate::wire::ChunkState;

const PAGE: u32 = 100;
/// Maximum bytes of a chunk, independent of its provider's limit, because it stays in memory while it is sent.
const CHUNK_BYTES: usize = 50_000_000;

struct Filled {
    chunk: Chunk,
    new: NewChunk,
}

impl ChunkLoop {
    /// Sends the items that are in no chunk yet. Returns whether all were sent. Once the provider had no room, chunks are smaller and sent
    /// one at a time.
    pub(super) async fn hand_over(&self, batch: &BatchRow) -> Result<bool, ChunkError> {
        loop {
            let chunks = self.store.provider_batches().chunks(batch.batch_id).await?;
            let away = chunks.iter().filter(|chunk| chunk.was_turned_away());
            let away = u32::try_from(away.count()).unwrap_or(u32::MAX);
            if away > 0 && chunks.iter().any(ChunkRow::is_open) {
                return Ok(false);
            }
            let size = self.options.chunk.checked_shr(away).unwrap_or(0).max(1);
            let Some((endpoint, filled)) = self.fill(batch.batch_id, size).await? else {
                return Ok(true);
            };
            let _sending = self.sending.lock().await;
            if !self
                .store
                .provider_batches()
                .make_chunk(&filled.new)
                .await?
            {
                return Ok(false);
            }
            if !filled.new.items.is_empty() && !self.send(&endpoint, filled).await? {
                return Ok(false);
            }
        }
    }

    /// Sends a chunk that is recorded in the store. Returns false if its batch was stopped or taken over before.
    async fn send(&self, endpoint: &BatchEndpoint, filled: Filled) -> Result<bool, ChunkError> {
        let (chunk_id, calls) = (filled.new.chunk_id, filled.chunk.calls());
        let uploaded = match endpoint.upload(filled.chunk).await {
            Ok(uploaded) => uploaded,
            Err(error) => return self.not_sent(chunk_id, error, Arrived::No).await,
        };
        if !self
            .store
            .provider_batches()
            .may_hand_over(chunk_id, self.worker_id)
            .await?
        {
            self.store
                .provider_batches()
                .forget_chunk(chunk_id, self.worker_id)
                .await?;
            return Ok(false);
        }
        let theirs = match endpoint.submit(uploaded).await {
            Ok(theirs) => theirs,
            Err(error) => return self.not_sent(chunk_id, error, Arrived::Perhaps).await,
        };
        let now = self.clock.now();
        if !self
            .store
            .provider_batches()
            .chunk_submitted(chunk_id, &theirs, now)
            .await?
        {
            tracing::warn!(%chunk_id, "chunk arrived after it was abandoned; cancelling it");
            endpoint.cancel(&theirs).await?;
            return Ok(false);
        }
        tracing::info!(batch_id = %filled.new.batch_id, %chunk_id, calls, "submitted a chunk");
        Ok(true)
    }

    /// Handles a chunk that failed to be sent: it ends, or is retried later.
    async fn not_sent(
        &self,
        chunk_id: Uuid,
        error: JudgeError,
        arrived: Arrived,
    ) -> Result<bool, ChunkError> {
        if is_final(&error) {
            let ended = self.store.provider_batches().end_chunk(
                chunk_id,
                ChunkState::Failed,
                Some(&error.message),
            );
            ended.await?;
            tracing::warn!(%chunk_id, %error, "provider rejected a chunk; its items are sent as single calls, at the full price");
            return Ok(true);
        }
        // Otherwise it may have arrived; the next check finds out.
        if arrived == Arrived::No || is_rejected(&error) {
            self.store
                .provider_batches()
                .forget_chunk(chunk_id, self.worker_id)
                .await?;
        }
        Err(error.into())
    }

    async fn check_holds(&self, judge: &str) -> Result<(), ChunkError> {
        let holds = self.store.holds().list(self.clock.now()).await?;
        let stops = |hold: &&Hold| match &hold.target {
            HoldTarget::Queue => true,
            HoldTarget::Judge(name) => name == judge,
        };
        match holds.iter().find(stops) {
            Some(hold) => Err(ChunkError::Stopped(hold.in_words())),
            None => Ok(()),
        }
    }

    /// Stops collecting for items that are in no chunk yet. They are scored with ordinary calls.
    pub(super) async fn fall_back_to_calls(
        &self,
        batch_id: Uuid,
        why: &str,
    ) -> Result<(), StoreError> {
        loop {
            let page = self
                .store
                .provider_batches()
                .items_in_no_chunk(batch_id, -1, PAGE)
                .await?;
            let Some(first) = page.first() else {
                return Ok(());
            };
            let judge = first.judge.clone().unwrap_or_default();
            let mut new = self.new_chunk(batch_id, judge);
            new.left_out = page
                .iter()
                .map(|job| (job.job_id, why.to_owned()))
                .collect();
            if !self.store.provider_batches().make_chunk(&new).await? {
                return Ok(());
            }
        }
    }

    fn new_chunk(&self, batch_id: Uuid, judge: String) -> NewChunk {
        NewChunk {
            chunk_id: Uuid::now_v7(),
            batch_id,
            judge,
            owner: self.worker_id,
            items: Vec::new(),
            left_out: Vec::new(),
            at: self.clock.now(),
        }
    }

    /// Fills a chunk with unassigned items for the judge of the first one. Returns `None` if there are none.
    async fn fill(
        &self,
        batch_id: Uuid,
        size: usize,
    ) -> Result<Option<(BatchEndpoint, Filled)>, ChunkError> {
        let mut page = self
            .store
            .provider_batches()
            .items_in_no_chunk(batch_id, -1, PAGE)
            .await?;
        let Some(first) = page.first() else {
            return Ok(None);
        };
        let judge = first.judge.clone().unwrap_or_default();
        self.check_holds(&judge).await?;
        let endpoint = self.endpoint(&judge)?;
        let mut new = self.new_chunk(batch_id, judge.clone());
        let most = ChunkSize {
            calls: size,
            bytes: CHUNK_BYTES,
        };
        let mut chunk = endpoint.chunk(new.chunk_id, most);
        while !page.is_empty() {
            let mut after = -1;
            for job in &page {
                after = job.batch.map_or(after, |place| place.item_no);
                if job.judge.as_deref() != Some(judge.as_str()) {
                    continue;
                }
                if self.put(&endpoint, &mut chunk, &mut new, job).await? == Added::Full {
                    return Ok(Some((endpoint, Filled { chunk, new })));
                }
            }
            page = self
                .store
                .provider_batches()
                .items_in_no_chunk(batch_id, after, PAGE)
                .await?;
        }
        Ok(Some((endpoint, Filled { chunk, new })))
    }

    /// Puts an item into a chunk, or marks it for an ordinary call if no question can be built.
    async fn put(
        &self,
        endpoint: &BatchEndpoint,
        chunk: &mut Chunk,
        new: &mut NewChunk,
        job: &Job,
    ) -> Result<Added, ChunkError> {
        let left_out = match self.question(job).await? {
            Some(question) => match endpoint.add(chunk, job.job_id.0, &question) {
                Ok(Added::In) => {
                    let key = endpoint.key(job.job_id.0, &question);
                    new.items.push((job.job_id, key));
                    return Ok(Added::In);
                }
                Ok(Added::Full) => return Ok(Added::Full),
                Err(error) => error.message,
            },
            None => "its question can't be built".to_owned(),
        };
        new.left_out.push((job.job_id, left_out));
        Ok(Added::In)
    }
}

/// Whether a chunk that failed to be sent may have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrived {
    No,
    Perhaps,
}

/// Returns whether the provider rejected the chunk because of the key, the quota or its load. A lost response doesn't count.
fn is_rejected(error: &JudgeError) -> bool {
    matches!(error.status, Some(401 | 402 | 403 | 429 | 529))
}

/// Returns whether a retry would fail as well: the provider has read the chunk, or has no batch endpoint.
fn is_final(error: &JudgeError) -> bool {
    match error.class {
        ErrorClass::Rejected
        | ErrorClass::TooLarge
        | ErrorClass::Capability
        | ErrorClass::Refused
        | ErrorClass::Truncated
        | ErrorClass::Unparsable => true,
        // A key may be corrected; an address without a batch endpoint stays wrong.
        ErrorClass::Misconfigured => error.status == Some(404),
        ErrorClass::Transient | ErrorClass::Throttled | ErrorClass::Exhausted => false,
    }
}
