//! Statements for kinds of rows with a single time column: judge calls, deliveries, imports.

use chrono::{DateTime, TimeDelta, Utc};

use crate::store::database::sql::{Sql, Statement, long_sql, step};
use crate::store::retention::SLICE;
use crate::store::{Retention, StoreError};

/// Statements for a table whose rows are deleted by one time column. Rows that refer to them go with them.
pub(super) struct Rows {
    count: &'static str,
    slice: &'static str,
    /// Maximum number of rows that one step deletes.
    most: i64,
}

macro_rules! rows {
    ($table:literal, $key:literal, $time:literal, $most:expr) => {
        Rows {
            count: concat!(
                "select count(*) as n from ",
                $table,
                " where ",
                $time,
                " < $1"
            ),
            slice: concat!(
                "delete from ",
                $table,
                " where ",
                $key,
                " in (select ",
                $key,
                " from ",
                $table,
                " where ",
                $time,
                " < $1 order by ",
                $time,
                " limit $2)"
            ),
            most: $most,
        }
    };
}

pub(super) const CALLS: Rows = rows!("judge_calls", "call_id", "called_at", SLICE);
pub(super) const DELIVERIES: Rows =
    rows!("webhook_deliveries", "delivery_id", "happened_at", SLICE);
/// Each has up to 1,000 reasons.
pub(super) const IMPORTS: Rows = rows!("session_imports", "import_id", "finished_at", 10);

impl Rows {
    pub(super) fn count(&self, before: DateTime<Utc>) -> Sql {
        step!(self.count, before)
    }

    pub(super) fn slice(&self, before: DateTime<Utc>) -> Sql {
        step!(self.slice, before, self.most)
    }
}

// Deletes rows with a fixed lifetime or an expiry.

/// Lifetime of workers without a heartbeat.
const WORKERS_KEPT: TimeDelta = TimeDelta::days(7);

macro_rules! pruning {
    ($($part:expr),+ $(,)?) => {
        long_sql!("pruning expired rows", $($part),+)
    };
}

impl Retention<'_> {
    /// Deletes, in slices: expired sign-ins and idempotency keys, workers without a heartbeat for a week with their snapshots,
    /// deliveries of deleted webhooks, and late rows of erased sessions. Returns the number of rows.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; earlier slices stay deleted.
    pub async fn prune(self, now: DateTime<Utc>) -> Result<u64, StoreError> {
        let gone = now - WORKERS_KEPT;
        let judges = pruning!(
            "delete from judges where (name, worker_id) in (
                select name, worker_id from judges where updated_at < $1 limit $2)",
            gone,
            SLICE
        );
        let workers = pruning!(
            "delete from workers where worker_id in (
                select worker_id from workers where heartbeat_at < $1 limit $2)",
            gone,
            SLICE
        );
        let keys = pruning!(
            "delete from idempotency_keys where key_hash in (
                select key_hash from idempotency_keys where expires_at <= $1 order by expires_at limit $2)",
            now,
            SLICE
        );
        let sign_ins = pruning!(
            "delete from sign_ins where id_hash in (
                select id_hash from sign_ins where expires_at <= $1 order by expires_at limit $2)",
            now,
            SLICE
        );
        let orphaned = pruning!(
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

    async fn delete_all(self, slice: &Statement) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let deleted = self.db.execute(slice).await?;
            gone += deleted;
            if deleted < SLICE.unsigned_abs() {
                return Ok(gone);
            }
        }
    }
}
