//! Deletes what is kept for a time that its row says, that is fixed, or that the caller names.

use chrono::{DateTime, TimeDelta, Utc};

use super::{SLICE, calls_statement};
use crate::store::database::sql::{Sql, sql};
use crate::store::{Retention, StoreError};

/// How long a worker that isn't heard any more is kept.
const WORKERS_KEPT: TimeDelta = TimeDelta::days(7);
const PRUNING: &str = "pruning replies and calls";

impl Retention<'_> {
    /// Deletes expired replies and idempotency keys, calls older than `calls_before`, workers that weren't heard for a week with what they
    /// knew of judges, what was written of erased sessions, and imports that ended 90 days ago; in slices. Answers how many rows went.
    ///
    /// # Errors
    /// `Unavailable` when the database is away; what was deleted before stays deleted.
    pub async fn prune(
        self,
        now: DateTime<Utc>,
        calls_before: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        // What a release before this one cached, which may still run beside it.
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
        rows += self.forget_erased(now).await?;
        Ok(rows + self.imports.prune(now).await?)
    }

    async fn delete_all(self, slice: &Sql) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let deleted = self.db.execute_long(PRUNING, slice).await?;
            gone += deleted;
            if deleted < SLICE.unsigned_abs() {
                return Ok(gone);
            }
        }
    }
}
