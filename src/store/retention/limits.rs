//! Decides whether a limit that retention computed from the clock may be used. Deletes nothing.
//!
//! An hourly run moves its limit by an hour. If a limit moved by more than [`MAX_ADVANCE`] since the last completed run and
//! more than half of the stored rows are older, it is rejected, because a clock that was set wrong or a mistyped setting
//! looks the same as a long stop. `gavel prune` deletes those rows if an operator wants that, and the next run continues.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Aged, Retention};
use crate::store::StoreError;
use crate::store::database::sql::{all, first, sql};

/// Maximum distance between the limits of two completed runs without a check; stopping workers for a day is usual.
const MAX_ADVANCE: TimeDelta = TimeDelta::days(1);
/// Number of rows that are deleted without a check.
const UNCHECKED_ROWS: u64 = 20;
const ALL: TimeDelta = TimeDelta::days(365_000);

/// Rows that a limit would delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    pub aged: Aged,
    /// Older rows are deleted.
    pub before: DateTime<Utc>,
    pub rows: u64,
    /// Number of rows that could be deleted at any age.
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
        const ATTEMPTED: &str = "checking a limit of retention";
        let known = sql!(
            "select completed_before from retention_limits where kind = $1",
            aged.as_str()
        );
        let rows = self.db.read(ATTEMPTED, &known).await?;
        let completed: Option<Option<DateTime<Utc>>> =
            first(ATTEMPTED, &rows, |row| row.get("completed_before"))?;
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
        let count = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
        let refuse = sql!(
            "insert into retention_limits (kind, refused_before, refused_rows, stored_rows) values ($1, $2, $3, $4)
             on conflict (kind) do update set refused_before = excluded.refused_before,
                refused_rows = excluded.refused_rows, stored_rows = excluded.stored_rows",
            aged.as_str(),
            before,
            count(expired.rows),
            count(expired.stored)
        );
        self.db.execute(ATTEMPTED, &refuse).await?;
        Ok(Some(expired))
    }

    /// Stores a completed run.
    pub async fn complete(self, aged: Aged, before: DateTime<Utc>) -> Result<(), StoreError> {
        let statement = sql!(
            "insert into retention_limits (kind, completed_before) values ($1, $2)
             on conflict (kind) do update set completed_before = excluded.completed_before, refused_before = null",
            aged.as_str(),
            before
        );
        self.db
            .execute("storing a limit of retention", &statement)
            .await
            .map(drop)
    }

    /// Ends a rejection after an operator has deleted the rows older than `before`.
    pub async fn approve(self, aged: Aged, before: DateTime<Utc>) -> Result<(), StoreError> {
        let statement = sql!(
            "update retention_limits set completed_before = refused_before, refused_before = null
             where kind = $1 and refused_before <= $2",
            aged.as_str(),
            before
        );
        self.db
            .execute("approving a limit of retention", &statement)
            .await
            .map(drop)
    }

    /// Deletes the limits of a kind without retention.
    pub async fn forget_limits(self, aged: Aged) -> Result<(), StoreError> {
        let statement = sql!(
            "delete from retention_limits where kind = $1",
            aged.as_str()
        );
        self.db
            .execute("forgetting a limit of retention", &statement)
            .await
            .map(drop)
    }

    /// Returns the limits that are rejected now.
    pub async fn refused(self) -> Result<Vec<Expired>, StoreError> {
        const ATTEMPTED: &str = "reading the rejected retention limits";
        let statement = sql!(
            "select kind, refused_before, refused_rows, stored_rows from retention_limits
             where refused_before is not null order by kind"
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| {
            let count = |column| Ok::<_, sqlx::Error>(row.get::<i64>(column)?.unsigned_abs());
            Ok(Expired {
                aged: row.text_enum("kind")?,
                before: row.get("refused_before")?,
                rows: count("refused_rows")?,
                stored: count("stored_rows")?,
            })
        })
    }
}
