//! `judge_replies`: the cache across runs. A store that fails here is a miss, never an error.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use super::sql::{Row, Sql, decode, sql};
use super::{Store, StoreError};
use crate::clock::{Clock as _, SystemClock};
use crate::judge::{CacheKey, CachedReply, ReplyCache};

/// How long a reply is kept.
const KEPT: TimeDelta = TimeDelta::hours(24);
/// How many rows one delete takes.
const SLICE: i64 = 1000;

#[async_trait]
impl ReplyCache for Store {
    async fn get(&self, key: &CacheKey) -> Option<CachedReply> {
        match self.reply(key, SystemClock.now()).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::warn!(%error, "the reply cache can't be read: counted as a miss");
                None
            }
        }
    }

    async fn put(&self, key: CacheKey, reply: CachedReply) {
        if let Err(error) = self.put_reply(&key, &reply, SystemClock.now()).await {
            tracing::warn!(%error, "a reply couldn't be cached");
        }
    }
}

impl Store {
    /// Deletes expired replies, and calls older than `calls_before`, in slices; answers how many rows went.
    ///
    /// # Errors
    /// `Unavailable` when the database is away; what was deleted before stays deleted.
    pub async fn prune(
        &self,
        now: DateTime<Utc>,
        calls_before: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let replies = sql!(
            "delete from judge_replies where cache_key in (
                select cache_key from judge_replies where expires_at <= $1 order by expires_at limit $2)",
            now,
            SLICE
        );
        let calls = sql!(
            "delete from judge_calls where call_id in (
                select call_id from judge_calls where called_at < $1 order by called_at limit $2)",
            calls_before,
            SLICE
        );
        Ok(self.delete_all(&replies).await? + self.delete_all(&calls).await?)
    }

    async fn delete_all(&self, slice: &Sql) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let deleted = self.db.execute("pruning replies and calls", slice).await?;
            gone += deleted;
            if deleted < SLICE.unsigned_abs() {
                return Ok(gone);
            }
        }
    }

    async fn reply(
        &self,
        key: &CacheKey,
        now: DateTime<Utc>,
    ) -> Result<Option<CachedReply>, StoreError> {
        const ATTEMPTED: &str = "looking up a cached reply";
        let statement = sql!(
            "select provider, model, reply, simulated, repaired from judge_replies
             where cache_key = $1 and expires_at > $2",
            &key.0,
            now
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        rows.first()
            .map(cached)
            .transpose()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    async fn put_reply(
        &self,
        key: &CacheKey,
        reply: &CachedReply,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let statement = sql!(
            "insert into judge_replies (cache_key, provider, model, reply, simulated, repaired, created_at, expires_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8)
             on conflict (cache_key) do update set provider = excluded.provider, model = excluded.model,
                reply = excluded.reply, simulated = excluded.simulated, repaired = excluded.repaired,
                created_at = excluded.created_at, expires_at = excluded.expires_at",
            &key.0,
            &reply.provider,
            &reply.model,
            &reply.reply,
            reply.simulated,
            reply.repaired,
            now,
            now + KEPT
        );
        self.db
            .execute("caching a reply", &statement)
            .await
            .map(drop)
    }
}

fn cached(row: &Row) -> sqlx::Result<CachedReply> {
    Ok(CachedReply {
        provider: row.get("provider")?,
        model: row.get("model")?,
        reply: row
            .json("reply")?
            .ok_or_else(|| decode("reply", "it is null"))?,
        simulated: row.get("simulated")?,
        repaired: row.get("repaired")?,
    })
}
