//! `judge_replies`: the cache across runs. A store that fails here is a miss, never an error.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::clock::{Clock as _, SystemClock};
use crate::judge::{CacheKey, CachedReply, ReplyCache};
use crate::store::database::db::retry_once;
use crate::store::database::dedicated::DedicatedConnection;
use crate::store::database::sql::{Arg, Row, Sql, decode, sql};
use crate::store::retention::calls_statement;
use crate::store::{Dialect, Store, StoreError};

/// How long a reply is kept.
const KEPT: TimeDelta = TimeDelta::hours(24);
/// How long a worker that isn't heard any more is kept.
const WORKERS_KEPT: TimeDelta = TimeDelta::days(7);
/// How many rows one delete takes.
const SLICE: i64 = 1000;

#[async_trait]
impl ReplyCache for Store {
    async fn get(&self, key: &CacheKey) -> Option<CachedReply> {
        if self.unwritten.holds(key) {
            // What this process put is got, however soon.
            self.call_log.flush().await;
        }
        match self.reply(key, SystemClock.now()).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::warn!(%error, "the reply cache can't be read: counted as a miss");
                None
            }
        }
    }

    async fn put(&self, key: CacheKey, reply: CachedReply, asked_for: Uuid) {
        self.unwritten.add(&key);
        let kept = KeptReply::new(key.clone(), reply, asked_for, (SystemClock.now(), KEPT));
        if !self.call_log.keep(kept) {
            self.unwritten.remove(&key);
            tracing::warn!("a reply couldn't be cached: the call log is full or closed");
        }
    }
}

/// A reply on its way into the cache.
pub(in crate::store) struct KeptReply {
    key: CacheKey,
    reply: CachedReply,
    asked_for: Uuid,
    at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
}

impl KeptReply {
    pub(in crate::store) fn new(
        key: CacheKey,
        reply: CachedReply,
        asked_for: Uuid,
        (at, kept): (DateTime<Utc>, TimeDelta),
    ) -> Self {
        Self {
            key,
            reply,
            asked_for,
            at,
            expires_at: at + kept,
        }
    }

    /// How long its text is.
    pub(super) fn bytes(&self) -> usize {
        self.reply.reply.to_string().len()
    }
}

/// Keys of replies that were put and aren't written yet, each with how often.
#[derive(Clone, Default)]
pub(in crate::store) struct Unwritten(Arc<Mutex<HashMap<String, usize>>>);

impl Unwritten {
    fn holds(&self, key: &CacheKey) -> bool {
        self.lock().contains_key(&key.0)
    }

    fn add(&self, key: &CacheKey) {
        *self.lock().entry(key.0.clone()).or_default() += 1;
    }

    fn remove(&self, key: &CacheKey) {
        let mut keys = self.lock();
        if let Some(times) = keys.get_mut(&key.0) {
            *times -= 1;
            if *times == 0 {
                keys.remove(&key.0);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a group of replies; of several under one key the last. What can't be written is a later miss.
pub(in crate::store) async fn write(
    connection: &mut DedicatedConnection,
    unwritten: &Unwritten,
    replies: Vec<KeptReply>,
) {
    let latest: HashMap<&str, &KeptReply> = replies
        .iter()
        .map(|one| (one.key.0.as_str(), one))
        .collect();
    if latest.is_empty() {
        return;
    }
    let statement = upsert_statement(latest.values().copied());
    let written: Result<u64, StoreError> = retry_once!("caching replies", async {
        let mut conn = connection.take().await?;
        let result = conn.execute(&statement).await;
        connection.give_back(conn);
        result
    });
    if let Err(error) = written {
        tracing::warn!(%error, replies = latest.len(), "replies couldn't be cached");
    }
    for one in &replies {
        unwritten.remove(&one.key);
    }
}

pub(in crate::store) fn upsert_statement<'a>(replies: impl Iterator<Item = &'a KeptReply>) -> Sql {
    const COLUMNS: &str =
        "cache_key, provider, model, reply, simulated, repaired, created_at, expires_at, job_id";
    let rows = replies
        .map(|one| {
            vec![
                Arg::from(&one.key.0),
                (&one.reply.provider).into(),
                (&one.reply.model).into(),
                (&one.reply.reply).into(),
                one.reply.simulated.into(),
                one.reply.repaired.into(),
                one.at.into(),
                one.expires_at.into(),
                one.asked_for.into(),
            ]
        })
        .collect();
    let mut statement = Sql::of_rows(COLUMNS, rows);
    statement
        .push("insert into judge_replies (")
        .push(COLUMNS)
        .push(") select ")
        .push(COLUMNS)
        .push(
            " from v where cache_key is not null
             on conflict (cache_key) do update set provider = excluded.provider, model = excluded.model,
                reply = excluded.reply, simulated = excluded.simulated, repaired = excluded.repaired,
                created_at = excluded.created_at, expires_at = excluded.expires_at,
                job_id = excluded.job_id",
        );
    statement
}

impl Store {
    /// Deletes expired replies and idempotency keys, calls older than `calls_before`, workers that weren't heard for a week with what they
    /// knew of judges, what was written of erased sessions, and imports that ended 90 days ago; in slices. Answers how many rows went.
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
        let calls = calls_statement(calls_before);
        let gone = now - WORKERS_KEPT;
        let judges = sql!(
            "delete from judges where (name, worker_id) in (
                select name, worker_id from judges where updated_at < $1 limit $2)",
            gone,
            SLICE
        );
        let workers = sql!(
            "delete from workers where worker_id in (
                select worker_id from workers where heartbeat_at < $1 limit $2)",
            gone,
            SLICE
        );
        let keys = sql!(
            "delete from idempotency_keys where key_hash in (
                select key_hash from idempotency_keys where expires_at <= $1 order by expires_at limit $2)",
            now,
            SLICE
        );
        let sign_ins = sql!(
            "delete from sign_ins where id_hash in (
                select id_hash from sign_ins where expires_at <= $1 order by expires_at limit $2)",
            now,
            SLICE
        );
        let mut rows = 0;
        for slice in [&replies, &calls, &judges, &workers, &keys, &sign_ins] {
            rows += self.delete_all(slice).await?;
        }
        rows += self.retention().forget_erased(now).await?;
        Ok(rows + self.imports().prune(now).await?)
    }

    async fn delete_all(&self, slice: &Sql) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let deleted = self
                .db
                .execute_long("pruning replies and calls", slice)
                .await?;
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
        let row = match self.dialect() {
            Dialect::Postgres => self.reader.reply(&key.0).await?,
            Dialect::Sqlite => {
                let statement = sql!(
                    "select provider, model, reply, simulated, repaired, expires_at from judge_replies
                     where cache_key = $1",
                    &key.0
                );
                self.db
                    .read_long(ATTEMPTED, &statement)
                    .await?
                    .into_iter()
                    .next()
            }
        };
        row.as_ref()
            .map(|row| unexpired(row, now))
            .transpose()
            .map(Option::flatten)
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }
}

fn unexpired(row: &Row, now: DateTime<Utc>) -> sqlx::Result<Option<CachedReply>> {
    let expires_at: DateTime<Utc> = row.get("expires_at")?;
    if expires_at > now {
        cached(row).map(Some)
    } else {
        Ok(None)
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
