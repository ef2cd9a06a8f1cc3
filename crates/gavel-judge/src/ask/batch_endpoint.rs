//! The judge's slow and cheap way: questions go to its provider's batch endpoint, and come back within a day.
//!
//! A reply that is collected goes into the call log, and whoever then asks the question for the same asker finds it there in
//! the place of a call. What the batch left unanswered is asked as ever.

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
    Added, Answers, BatchForm, Batches, Chunk, ChunkLookup, ChunkSize, CollectedAnswer, Progress,
    ProviderReply, Uploaded,
};
use crate::{CacheKey, JudgeError, Question};

/// A judge whose provider answers batches at a fraction of the price.
pub struct BatchEndpoint {
    inner: Arc<Inner>,
    form: BatchForm,
    factor: f64,
}

/// What an answer came to.
#[derive(Debug)]
pub struct Collected {
    /// Why the question must be asked again, if there is no good reply in the call log.
    pub error: Option<JudgeError>,
    /// What it used, at the batch's price. What can't be used was paid for too.
    pub usage: CallUsage,
}

/// A chunk as the provider knows it.
#[derive(Debug, Clone, Copy)]
pub struct HandedOver<'a> {
    /// The provider's name for it.
    pub batch: &'a str,
    pub at: DateTime<Utc>,
}

impl Judge {
    /// Its batch endpoint; `None` where its entry names no `batch_price_factor`, or is asked at `custom_base_url`.
    pub fn batch_endpoint(&self) -> Option<BatchEndpoint> {
        Some(BatchEndpoint {
            inner: Arc::clone(&self.inner),
            form: self.inner.provider.batch_form()?,
            factor: self.inner.spec.batch_price_factor()?,
        })
    }
}

/// Errors are of one try, in the class that a call's error would have.
impl BatchEndpoint {
    /// What a call costs of an ordinary one.
    pub fn price_factor(&self) -> f64 {
        self.factor
    }

    /// An empty chunk, no larger than `most` and than the provider takes. `tag` is its name among ours.
    pub fn chunk(&self, tag: Uuid, most: ChunkSize) -> Chunk {
        Chunk::new(self.form, tag, most)
    }

    /// Adds a question of `asked_for`. A chunk that is full stays as it is.
    pub fn add(
        &self,
        chunk: &mut Chunk,
        asked_for: Uuid,
        question: &Question,
    ) -> Result<Added, JudgeError> {
        let call = first_call(&self.inner, question);
        self.batches().add(chunk, asked_for, &call)
    }

    /// Brings a chunk's calls to the provider, where it takes them beforehand. Nothing of it is answered or billed yet.
    pub async fn upload(&self, chunk: Chunk) -> Result<Uploaded, JudgeError> {
        self.batches().upload(chunk).await
    }

    /// Hands a chunk over; the provider's name for it. After an error it may have arrived all the same: [`Self::find`] tells.
    pub async fn submit(&self, chunk: Uploaded) -> Result<String, JudgeError> {
        self.batches().submit(chunk).await
    }

    /// Looks for a chunk that may have been handed over.
    pub async fn find(&self, tag: Uuid) -> Result<ChunkLookup, JudgeError> {
        self.batches().find(tag).await
    }

    /// How far a chunk is.
    pub async fn look(&self, batch: &str) -> Result<Progress, JudgeError> {
        self.batches().look(batch).await
    }

    /// The answers of a chunk that has ended; errors met while reading come from [`Answers::next`].
    pub async fn collect(&self, batch: &str) -> Result<Answers<'_>, JudgeError> {
        Answers::of_batch(self.batches(), batch).await
    }

    /// Asks the provider to answer no more of a chunk; what it did answer is billed, and can be collected.
    pub async fn cancel(&self, batch: &str) -> Result<(), JudgeError> {
        self.batches().cancel(batch).await
    }

    /// The key under which a reply to this question is kept for `asked_for`.
    pub fn key(&self, asked_for: Uuid, question: &Question) -> CacheKey {
        CacheKey::of_collected(&self.inner.spec, question, asked_for)
    }

    /// Logs the call of an answer that nobody has a use for any more, and says what it used.
    pub fn bill(&self, chunk: HandedOver<'_>, answer: CollectedAnswer) -> CallUsage {
        let mut record = self.record(chunk, &answer);
        if let Err(error) = &answer.ended {
            record.failed(error);
        }
        let usage = record.usage;
        self.inner.wiring.log.log(record);
        usage
    }

    /// Checks an answer against its question as that of a call is checked, and logs the call: once, however often it is
    /// collected.
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

    fn batches(&self) -> Batches<'_> {
        Batches {
            endpoint: &self.inner.provider,
            form: self.form,
        }
    }

    fn record(&self, chunk: HandedOver<'_>, answer: &CollectedAnswer) -> CallRecord {
        let id = call_id(chunk.batch, answer.asked_for);
        // Nobody waited for it, and nobody knows how long it took.
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

/// The same for the same answer.
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
