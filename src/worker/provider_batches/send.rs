//! Chunks as they are filled and handed over.

use uuid::Uuid;

use super::{ChunkLoop, Trouble};
use crate::job::Job;
use crate::judge::{Added, BatchEndpoint, Chunk, ChunkSize, ErrorClass, JudgeError};
use crate::store::{BatchRow, ChunkRow, Hold, HoldTarget, NewChunk, StoreError};
use crate::wire::ChunkState;

const PAGE: u32 = 100;
/// The most that one chunk may weigh, whatever its provider takes: it is held in memory while it is handed over.
const CHUNK_BYTES: usize = 50_000_000;

struct Filled {
    chunk: Chunk,
    new: NewChunk,
}

impl ChunkLoop {
    /// Hands over what is in no chunk yet, chunk by chunk; whether nothing is left. Once the provider had no room, chunks are smaller
    /// and go one after the other.
    pub(super) async fn hand_over(&self, batch: &BatchRow) -> Result<bool, Trouble> {
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

    /// Hands a chunk over that was noted; false: its batch was stopped, or is somebody else's, meanwhile.
    async fn send(&self, endpoint: &BatchEndpoint, filled: Filled) -> Result<bool, Trouble> {
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
            tracing::warn!(%chunk_id, "a chunk arrived after it was given up; it is cancelled");
            endpoint.cancel(&theirs).await?;
            return Ok(false);
        }
        tracing::info!(batch_id = %filled.new.batch_id, %chunk_id, calls, "handed a chunk over");
        Ok(true)
    }

    /// A chunk that met an error: its end, or another try later.
    async fn not_sent(
        &self,
        chunk_id: Uuid,
        error: JudgeError,
        arrived: Arrived,
    ) -> Result<bool, Trouble> {
        if is_final(&error) {
            let ended = self.store.provider_batches().end_chunk(
                chunk_id,
                ChunkState::Failed,
                Some(&error.message),
            );
            ended.await?;
            tracing::warn!(%chunk_id, %error, "a provider refused a chunk; its items are asked one by one, at the full price");
            return Ok(true);
        }
        // Else it may have arrived: the next look finds out.
        if arrived == Arrived::No || says_no(&error) {
            self.store
                .provider_batches()
                .forget_chunk(chunk_id, self.worker_id)
                .await?;
        }
        Err(error.into())
    }

    /// Nothing goes out while the queue or the judge is stopped, by whomever.
    async fn check_holds(&self, judge: &str) -> Result<(), Trouble> {
        let holds = self.store.holds().list(self.clock.now()).await?;
        let stops = |hold: &&Hold| match &hold.target {
            HoldTarget::Queue => true,
            HoldTarget::Judge(name) => name == judge,
        };
        match holds.iter().find(stops) {
            Some(hold) => Err(Trouble::Stopped(hold.in_words())),
            None => Ok(()),
        }
    }

    /// Gives up fetching what is in no chunk yet: it is asked the ordinary way.
    pub(super) async fn ask_the_rest(&self, batch_id: Uuid, why: &str) -> Result<(), StoreError> {
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

    /// Fills a chunk with what is in none yet, for the judge of the first such item; `None`: there is nothing.
    async fn fill(
        &self,
        batch_id: Uuid,
        size: usize,
    ) -> Result<Option<(BatchEndpoint, Filled)>, Trouble> {
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

    /// Puts an item into a chunk, or beside it where no question can be made of it.
    async fn put(
        &self,
        endpoint: &BatchEndpoint,
        chunk: &mut Chunk,
        new: &mut NewChunk,
        job: &Job,
    ) -> Result<Added, Trouble> {
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
            None => "no question can be made of it".to_owned(),
        };
        new.left_out.push((job.job_id, left_out));
        Ok(Added::In)
    }
}

/// Whether a chunk that met an error is at its provider all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrived {
    No,
    Perhaps,
}

/// Whether the provider has said that it didn't take a chunk: the key, the quota or its load, and nothing that got lost on the way.
fn says_no(error: &JudgeError) -> bool {
    matches!(error.status, Some(401 | 402 | 403 | 429 | 529))
}

/// Whether trying again would end the same: the provider has read the chunk, or has no place for one.
fn is_final(error: &JudgeError) -> bool {
    match error.class {
        ErrorClass::Rejected
        | ErrorClass::TooLarge
        | ErrorClass::Capability
        | ErrorClass::Refused
        | ErrorClass::Truncated
        | ErrorClass::Unparsable => true,
        // A key may be corrected; an address without batches won't be.
        ErrorClass::Misconfigured => error.status == Some(404),
        ErrorClass::Transient | ErrorClass::Throttled | ErrorClass::Exhausted => false,
    }
}
