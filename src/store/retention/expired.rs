//! Deletes rows with a fixed lifetime or an expiry.

use chrono::{DateTime, TimeDelta, Utc};

use super::SLICE;
use crate::store::database::sql::{Sql, sql};
use crate::store::{Retention, StoreError};

/// Lifetime of workers without a heartbeat.
const WORKERS_KEPT: TimeDelta = TimeDelta::days(7);
const PRUNING: &str = "pruning expired rows";

impl Retention<'_> {
    /// Deletes, in slices: expired sign-ins and idempotency keys, workers without a heartbeat for a week with their snapshots,
    /// deliveries of deleted webhooks, and late rows of erased sessions. Returns the number of rows.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; earlier slices stay deleted.
    pub async fn prune(self, now: DateTime<Utc>) -> Result<u64, StoreError> {
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
        let orphaned = sql!(
            "delete from webhook_deliveries where delivery_id in (
                select d.delivery_id from webhook_deliveries d
                where not exists (select 1 from webhook_endpoints e where e.endpoint_id = d.endpoint_id) limit $1)",
            SLICE
        );
        let mut rows = 0;
        for slice in [&judges, &workers, &keys, &sign_ins, &orphaned] {
            rows += self.delete_all(slice).await?;
        }
        rows += self.delete_erased_markers(now).await?;
        Ok(rows + self.imports.prune().await?)
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
