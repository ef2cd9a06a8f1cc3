//! `judge_replies`: the cache across runs. A store that fails here is a miss, never an error.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::clock::{Clock as _, SystemClock};
use crate::judge::{CacheKey, CachedReply};
use crate::store::database::db::retry_once;
use crate::store::database::dedicated::DedicatedConnection;
use crate::store::database::sql::{Arg, DbRow, Sql, decode, sql};
use crate::store::{Calls, Dialect, StoreError};

/// How long a reply is kept.
const KEPT: TimeDelta = TimeDelta::hours(24);

impl Calls<'_> {
    /// A reply that isn't past its time; none if the cache can't be read.
    pub(in crate::store) async fn cached_reply(self, key: &CacheKey) -> Option<CachedReply> {
        if self.unwritten.holds(key) {
            // What this process put is got, however soon.
            self.call_log.flush().await;
        }
        match self.read_reply(key, SystemClock.now()).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::warn!(%error, "the reply cache can't be read: counted as a miss");
                None
            }
        }
    }

    /// Has a reply written behind the caller's back.
    pub(in crate::store) fn cache_reply(self, key: CacheKey, reply: CachedReply, asked_for: Uuid) {
        self.unwritten.add(&key);
        let kept = KeptReply::new(key.clone(), reply, asked_for, (SystemClock.now(), KEPT));
        if !self.call_log.keep(kept) {
            self.unwritten.remove(&key);
            tracing::warn!("a reply couldn't be cached: the call log is full or closed");
        }
    }

    async fn read_reply(
        self,
        key: &CacheKey,
        now: DateTime<Utc>,
    ) -> Result<Option<CachedReply>, StoreError> {
        const ATTEMPTED: &str = "looking up a cached reply";
        let row = match self.db.dialect() {
            Dialect::Postgres => self.reader.reply(&key.0).await?,
            Dialect::Sqlite => {
                let statement = statement(vec![key.0.clone()]);
                let read = self.db.read_long(ATTEMPTED, &statement).await?;
                read.into_iter().next()
            }
        };
        row.as_ref()
            .map(|row| unexpired(row, now))
            .transpose()
            .map(Option::flatten)
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
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

pub(in crate::store) fn statement(keys: Vec<String>) -> Sql {
    let mut statement = sql!(
        "select cache_key, provider, model, reply, simulated, repaired, expires_at from judge_replies
         where cache_key in "
    );
    statement.push_list(keys);
    statement
}

fn unexpired(row: &DbRow, now: DateTime<Utc>) -> sqlx::Result<Option<CachedReply>> {
    let expires_at: DateTime<Utc> = row.get("expires_at")?;
    if expires_at > now {
        cached(row).map(Some)
    } else {
        Ok(None)
    }
}

fn cached(row: &DbRow) -> sqlx::Result<CachedReply> {
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
