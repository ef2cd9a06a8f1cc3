//! Erases sessions with their jobs, calls, replies, scores and ratings.
//!
//! A score that is recorded concurrently is deleted too, or rejected by its foreign key.

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::deleted_jobs;
use crate::job::{JobId, Kind};
use crate::store::analytics::days::push_dirty;
use crate::store::database::conn::Tx;
use crate::store::database::db::transact;
use crate::store::database::row::first;
use crate::store::database::sql::{Sql, long_sql, sql, step};
use crate::store::{Dialect, Retention, StoreError};

/// Time for which erased jobs are remembered; calls in flight have ended by then.
const KNOWN: TimeDelta = TimeDelta::days(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Erased {
    pub sessions: u64,
    pub jobs: u64,
    pub scores: u64,
    pub ratings: u64,
    pub calls: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erasure {
    Done(Erased),
    /// No row was deleted, because this job is active.
    Active(JobId),
    Unknown,
}

impl Retention<'_> {
    /// Erases a session with all dependent rows and marks its day as dirty. Ended batches keep their statistics.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; all or nothing is deleted.
    pub async fn erase(self, session_id: Uuid, now: DateTime<Utc>) -> Result<Erasure, StoreError> {
        self.batches.keep_ended_figures(Some(session_id)).await?;
        // Writes this process's calls; later ones of other processes are found by `erased_jobs`.
        self.call_log.flush().await;
        let mut tries = 0;
        let erased = transact!(self.db, "erasing a session", |tx| {
            tries += 1;
            if let Some(active) = active(&mut tx, session_id).await? {
                return Ok(Erasure::Active(active));
            }
            let mut dirty = Sql::new("");
            push_dirty(&mut dirty, tx.dialect(), [session_id].into_iter());
            tx.execute(&dirty).await?;
            tx.execute(&step!(
                "insert into erased_jobs (job_id, erased_at)
                 select job_id, $2 from scoring_jobs where subject_id = $1 on conflict (job_id) do nothing",
                session_id,
                now
            ))
            .await?;
            Erasure::Done(delete_sessions(&mut tx, &[session_id]).await?)
        })?;
        self.empty_log().await;
        Ok(match erased {
            // After a lost answer our own first try may have erased it.
            Erasure::Done(erased) if erased == Erased::default() && tries < 2 => Erasure::Unknown,
            Erasure::Done(_) | Erasure::Active(_) | Erasure::Unknown => erased,
        })
    }

    /// Deletes rows that were written after their session was erased.
    pub(in crate::store) async fn delete_erased_markers(
        self,
        now: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        // A request concurrent with the erasure may have inserted a job.
        let late = long_sql!(
            "deleting data of erased sessions",
            "insert into erased_jobs (job_id, erased_at)
             select j.job_id, $1 from scoring_jobs j
             where j.finished_at >= $2 and j.state in ('failed', 'cancelled') and j.kind = $3
               and not exists (select 1 from alert_sessions a where a.session_id = j.subject_id)
             on conflict (job_id) do nothing",
            now,
            now - KNOWN,
            Kind::Session.as_str()
        );
        self.db.execute(&late).await?;
        let statement = long_sql!(
            "deleting data of erased sessions",
            "select job_id from erased_jobs limit 1"
        );
        if self.db.rows(&statement).await?.is_empty() {
            return Ok(0);
        }
        let mut gone = 0;
        for written in [
            "delete from judge_calls where job_id in (select job_id from erased_jobs)",
            "delete from idempotency_keys where subject_id is not null
               and not exists (select 1 from alert_sessions a where a.session_id = idempotency_keys.subject_id)",
        ] {
            gone += self.db.execute(&long_sql!("deleting data of erased sessions", written)).await?;
        }
        self.empty_log().await;
        let known = long_sql!(
            "deleting data of erased sessions",
            "delete from erased_jobs where erased_at < $1",
            now - KNOWN
        );
        self.db.execute(&known).await?;
        Ok(gone)
    }

    /// Empties SQLite's write-ahead log, after deleted data was overwritten in the file. A concurrent reader delays this by an
    /// hour.
    async fn empty_log(self) {
        if self.db.dialect() == Dialect::Sqlite {
            let checkpoint = sql!("emptying the log", "pragma wal_checkpoint(truncate)");
            let done = self.db.execute(&checkpoint).await;
            if let Err(error) = done {
                tracing::warn!(%error, "erased data may remain in the files of the database");
            }
        }
    }
}

/// Returns the active job of a session, locked until the transaction ends.
async fn active(tx: &mut Tx<'_>, session_id: Uuid) -> sqlx::Result<Option<JobId>> {
    match tx.dialect() {
        Dialect::Postgres => {
            let hold = "select session_id from alert_sessions where session_id = $1 for update";
            tx.fetch(&step!(hold, session_id)).await?;
        }
        Dialect::Sqlite => {}
    }
    let statement = step!(
        "select job_id from scoring_jobs where subject_id = $1 and finished_at is null limit 1",
        session_id
    );
    let job: Option<(Uuid,)> = first(&tx.fetch(&statement).await?)?;
    Ok(job.map(|(id,)| JobId(id)))
}

/// Deletes sessions without active jobs, with all dependent rows.
pub(super) async fn delete_sessions(tx: &mut Tx<'_>, sessions: &[Uuid]) -> sqlx::Result<Erased> {
    if sessions.is_empty() {
        return Ok(Erased::default());
    }
    let [jobs, answers, ratings, scores, rows] = session_statements(sessions);
    let jobs = deleted_jobs(tx, &jobs).await?;
    tx.execute(&answers).await?;
    Ok(Erased {
        jobs: jobs.len() as u64,
        calls: delete_made_by(tx, &jobs).await?,
        ratings: tx.execute(&ratings).await?,
        scores: tx.execute(&scores).await?,
        sessions: tx.execute(&rows).await?,
    })
}

/// Deletes rows that jobs made, except scores of sessions; returns the number of calls.
pub(super) async fn delete_made_by(tx: &mut Tx<'_>, jobs: &[Uuid]) -> sqlx::Result<u64> {
    if jobs.is_empty() {
        return Ok(0);
    }
    let [calls, evaluations, chunks] = job_statements(jobs);
    tx.execute(&evaluations).await?;
    tx.execute(&chunks).await?;
    tx.execute(&calls).await
}

fn session_statements(sessions: &[Uuid]) -> [Sql; 5] {
    let mut jobs = of(
        "delete from scoring_jobs where finished_at is not null and subject_id in ",
        sessions,
    );
    jobs.push(" returning job_id");
    [
        jobs,
        of(
            "delete from idempotency_keys where subject_id in ",
            sessions,
        ),
        of("delete from human_ratings where session_id in ", sessions),
        of("delete from session_scores where session_id in ", sessions),
        of("delete from alert_sessions where session_id in ", sessions),
    ]
}

fn job_statements(jobs: &[Uuid]) -> [Sql; 3] {
    [
        of("delete from judge_calls where job_id in ", jobs),
        of("delete from evaluation_scores where job_id in ", jobs),
        of("delete from provider_chunk_items where job_id in ", jobs),
    ]
}

/// All statements, for `explain`.
pub(super) fn statements(ids: &[Uuid]) -> impl Iterator<Item = Sql> {
    session_statements(ids)
        .into_iter()
        .chain(job_statements(ids))
}

fn of(text: &'static str, ids: &[Uuid]) -> Sql {
    let mut statement = Sql::new(text);
    statement.push_list(ids.iter().copied());
    statement
}
