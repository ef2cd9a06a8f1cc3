//! Decides whether a limit that retention computed from the clock may be used. Deletes nothing.
//!
//! An hourly run moves its limit by an hour. If a limit moved by more than [`MAX_ADVANCE`] since the last completed run and
//! more than half of the stored rows are older, it is rejected, because a clock that was set wrong or a mistyped setting
//! looks the same as a long stop. `gavel prune` deletes those rows if an operator wants that, and the next run continues.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Aged, Retention};
use crate::store::StoreError;
use crate::store::database::row::Int;
use crate::store::database::sql::sql;

/// Maximum distance between the limits of two completed runs without a check; stopping workers for a day is usual.
const MAX_ADVANCE: TimeDelta = TimeDelta::days(1);
/// Number of rows that are deleted without a check.
const UNCHECKED_ROWS: u64 = 20;
const ALL: TimeDelta = TimeDelta::days(365_000);

/// Rows that a limit would delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Expired {
    #[sqlx(rename = "kind", try_from = "String")]
    pub aged: Aged,
    /// Older rows are deleted.
    #[sqlx(rename = "refused_before")]
    pub before: DateTime<Utc>,
    #[sqlx(rename = "refused_rows", try_from = "Int")]
    pub rows: u64,
    /// Number of rows that could be deleted at any age.
    #[sqlx(rename = "stored_rows", try_from = "Int")]
    pub stored: u64,
}

impl Expired {
    /// Whether an operator must confirm the deletion.
    pub fn is_implausible(&self) -> bool {
        self.rows > UNCHECKED_ROWS && self.rows > self.stored / 2
    }
}

impl std::fmt::Display for Expired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            aged,
            before,
            rows,
            stored,
        } = self;
        let before = before.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        write!(
            f,
            "{rows} of {stored} {} are older than {before}, which is more than half",
            aged.in_words()
        )
    }
}

impl Retention<'_> {
    pub async fn expired(self, aged: Aged, before: DateTime<Utc>) -> Result<Expired, StoreError> {
        let rows = self.count(aged, before).await?;
        let stored = match rows > UNCHECKED_ROWS {
            true => self.count(aged, before + ALL).await?,
            false => rows,
        };
        Ok(Expired {
            aged,
            before,
            rows,
            stored,
        })
    }

    /// Checks a limit; stores and returns the reason if it must not be used.
    pub async fn refusal(
        self,
        aged: Aged,
        before: DateTime<Utc>,
    ) -> Result<Option<Expired>, StoreError> {
        let known = sql!(
            "checking a limit of retention",
            "select completed_before from retention_limits where kind = $1",
            aged.as_str()
        );
        let completed: Option<Option<DateTime<Utc>>> =
            self.db.read_one(&known).await?.map(|(at,)| at);
        if completed
            .flatten()
            .is_some_and(|at| before - at <= MAX_ADVANCE)
        {
            return Ok(None);
        }
        let expired = self.expired(aged, before).await?;
        if !expired.is_implausible() {
            return Ok(None);
        }
        let refuse = sql!(
            "checking a limit of retention",
            "insert into retention_limits (kind, refused_before, refused_rows, stored_rows) values ($1, $2, $3, $4)
             on conflict (kind) do update set refused_before = excluded.refused_before,
                refused_rows = excluded.refused_rows, stored_rows = excluded.stored_rows",
            aged.as_str(),
            before,
            expired.rows,
            expired.stored
        );
        self.db.execute(&refuse).await?;
        Ok(Some(expired))
    }

    /// Stores a completed run.
    pub async fn complete(self, aged: Aged, before: DateTime<Utc>) -> Result<(), StoreError> {
        let statement = sql!(
            "storing a limit of retention",
            "insert into retention_limits (kind, completed_before) values ($1, $2)
             on conflict (kind) do update set completed_before = excluded.completed_before, refused_before = null",
            aged.as_str(),
            before
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Ends a rejection after an operator has deleted the rows older than `before`.
    pub async fn approve(self, aged: Aged, before: DateTime<Utc>) -> Result<(), StoreError> {
        let statement = sql!(
            "approving a limit of retention",
            "update retention_limits set completed_before = refused_before, refused_before = null
             where kind = $1 and refused_before <= $2",
            aged.as_str(),
            before
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Deletes the limits of a kind without retention.
    pub async fn forget_limits(self, aged: Aged) -> Result<(), StoreError> {
        let statement = sql!(
            "forgetting a limit of retention",
            "delete from retention_limits where kind = $1",
            aged.as_str()
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Returns the limits that are rejected now.
    pub async fn refused(self) -> Result<Vec<Expired>, StoreError> {
        let statement = sql!(
            "reading the rejected retention limits",
            "select kind, refused_before, refused_rows, stored_rows from retention_limits
             where refused_before is not null order by kind"
        );
        self.db.read(&statement).await
    }
}
