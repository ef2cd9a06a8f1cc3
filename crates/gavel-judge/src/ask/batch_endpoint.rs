//! Batch endpoint of a judge's provider: cheaper, with answers within a day.
//!
//! A collected reply is stored in the call log, where a later `Judge::ask` for the same job finds it. Unanswered questions become regular
//! calls.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::call::{self, Failed};
use super::run::first_call;
use super::{Inner, Judge, usage};
use crate::call_log::{CallRecord, CallUsage};
use crate::provider::{
    Added, Answers, BatchForm, Chunk, ChunkLookup, ChunkSize, CollectedAnswer, Progress,
    ProviderReply, Uploaded,
};
use crate::{CacheKey, JudgeError, Question};

/// Judge with a provider that offers batches at reduced prices.
pub struct BatchEndpoint {
    inner: Arc<Inner>,
    form: BatchForm,
    factor: f64,
}

#[derive(Debug)]
pub struct Collected {
    /// Reason for a regular call. `None` if the call log has a good reply.
    pub error: Option<JudgeError>,
    /// Usage at the batch price. Unusable replies are billed as well.
    pub usage: CallUsage,
}

#[derive(Debug, Clone, Copy)]
pub struct HandedOver<'a> {
    /// Batch id of the provider.
    pub batch: &'a str,
    pub at: DateTime<Utc>,
}

impl Judge {
    /// Returns the batch endpoint, or `None` if the entry has no `batch_price_factor` or uses `custom_base_url`.
    pub fn batch_endpoint(&self) -> Option<BatchEndpoint> {
        Some(BatchEndpoint {
            inner: Arc::clone(&self.inner),
            form: self.inner.spec.entry().format.batches?,
            factor: self.inner.spec.batch_price_factor()?,
        })
    }
}

/// Methods make a single attempt. Errors have the same classes as in regular calls.
impl BatchEndpoint {
    /// Returns the price relative to a regular call.
    pub fn price_factor(&self) -> f64 {
        self.factor
    }

    /// Creates an empty chunk, limited by `most` and the provider. `tag` is the local id.
    pub fn chunk(&self, tag: Uuid, most: ChunkSize) -> Chunk {
        Chunk::new(self.form, tag, most)
    }

    /// Adds a question of `asked_for`. A full chunk is left unchanged.
    pub fn add(
        &self,
        chunk: &mut Chunk,
        asked_for: Uuid,
        question: &Question,
    ) -> Result<Added, JudgeError> {
        let call = first_call(&self.inner, question);
        self.inner.provider.add(chunk, asked_for, &call)
    }

    /// Uploads the calls of a chunk if the provider requires a separate upload. Submission starts the billing.
    pub async fn upload(&self, chunk: Chunk) -> Result<Uploaded, JudgeError> {
        self.inner.provider.upload(chunk).await
    }

    /// Submits a chunk and returns the batch id. After an error the batch may still exist: see [`Self::find`].
    pub async fn submit(&self, chunk: Uploaded) -> Result<String, JudgeError> {
        self.inner.provider.submit(chunk).await
    }

    pub async fn find(&self, tag: Uuid) -> Result<ChunkLookup, JudgeError> {
        self.inner.provider.find(tag).await
    }

    pub async fn look(&self, batch: &str) -> Result<Progress, JudgeError> {
        self.inner.provider.look(batch).await
    }

    /// Returns the answers of a finished batch. Read errors are returned by [`Answers::next`].
    pub async fn collect(&self, batch: &str) -> Result<Answers<'_>, JudgeError> {
        Answers::of_batch(&self.inner.provider, batch).await
    }

    /// Cancels a batch. Answers so far are billed and can be collected.
    pub async fn cancel(&self, batch: &str) -> Result<(), JudgeError> {
        self.inner.provider.cancel(batch).await
    }

    /// Returns the cache key of a reply collected for `asked_for`.
    pub fn key(&self, asked_for: Uuid, question: &Question) -> CacheKey {
        CacheKey::of_collected(&self.inner.spec, question, asked_for)
    }

    /// Logs the call of an answer that is no longer needed. Returns its usage.
    pub fn bill(&self, chunk: HandedOver<'_>, answer: CollectedAnswer) -> CallUsage {
        let mut record = self.record(chunk, &answer);
        if let Err(error) = &answer.ended {
            record.failed(error);
        }
        let usage = record.usage;
        self.inner.wiring.log.log(record);
        usage
    }

    /// Checks an answer like that of a regular call and logs the call. Idempotent if collected repeatedly.
    pub fn accept(
        &self,
        chunk: HandedOver<'_>,
        question: &Question,
        answer: CollectedAnswer,
    ) -> Collected {
        let judge = &*self.inner;
        let spec = &judge.spec;
        let mut record = self.record(chunk, &answer);
        let usage = record.usage;
        let read = answer.ended.map_err(Failed::from).and_then(|reply| {
            let cap = spec.limits().max_output_tokens;
            call::read(spec, question, cap, None, reply)
        });
        match &read {
            Ok(_) => record.cache_key = Some(self.key(answer.asked_for, question)),
            Err(Failed { error, .. }) => record.failed(error),
        }
        judge.wiring.log.log(record);
        Collected {
            error: read.err().map(|failed| failed.error),
            usage,
        }
    }

    fn record(&self, chunk: HandedOver<'_>, answer: &CollectedAnswer) -> CallRecord {
        let id = call_id(chunk.batch, answer.asked_for);
        // The latency is unknown.
        let (at, latency) = (chunk.at, Duration::ZERO);
        let mut record = CallRecord::new(&self.inner.spec, id, answer.asked_for, at, latency);
        if let Ok(reply) = &answer.ended {
            record.usage = self.usage(reply);
            record.replied(reply);
        }
        record
    }

    fn usage(&self, reply: &ProviderReply) -> CallUsage {
        let ordinary = usage::of_reply(&self.inner.spec, reply);
        CallUsage {
            cost_usd: ordinary.cost_usd.map(|cost| cost * self.factor),
            ..ordinary
        }
    }
}

/// Returns the same id for the same answer.
fn call_id(batch: &str, asked_for: Uuid) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(b"collected");
    hash.update(asked_for.as_bytes());
    hash.update(batch.as_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}
