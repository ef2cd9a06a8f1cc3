//! `judge_replies` (the cache across runs) and `judge_calls` (the audit): the judge's two memories. (Skeleton.)

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{Store, StoreError};
use crate::job::JobId;
use crate::judge::{CacheKey, CachedReply, CallLog, CallRecord, ReplyCache};

/// One call as the job's page shows it.
pub type JudgeCallRow = CallRecord;

#[async_trait]
impl ReplyCache for Store {
    async fn get(&self, _key: &CacheKey) -> Option<CachedReply> {
        unimplemented!()
    }
    async fn put(&self, _key: CacheKey, _reply: CachedReply) {
        unimplemented!()
    }
}

impl CallLog for Store {
    fn log(&self, _call: CallRecord) {
        unimplemented!()
    }
}

impl Store {
    /// The calls made for a job, oldest first; at most 1,000. Waits for what the call log still holds.
    pub async fn calls_of(&self, _job_id: JobId) -> Result<Vec<JudgeCallRow>, StoreError> {
        unimplemented!()
    }
    /// Deletes expired replies, and calls older than `calls_before`, in slices; answers how many rows went.
    pub async fn prune(
        &self,
        _now: DateTime<Utc>,
        _calls_before: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        unimplemented!()
    }
}
