//! Reads jobs, and changes them for users: raise, cancel, retry.
//!
//! Legal transitions are enforced by the `where` clause of each update, not by an earlier read.

pub(super) mod accept;
pub(super) mod claim;
mod commit;
pub(super) mod figures;
pub(super) mod first;
pub(super) mod record;
pub(super) mod recorder;
pub(super) mod rescue;
pub(super) mod row;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::job::{Force, Job, JobId, JobState, Kind, Priority};
use crate::store::batches::reopen_statement;
use crate::store::database::db::{Db, within};
use crate::store::database::error::{is_transient, is_unique_violation};
use crate::store::database::page::bounded;
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Sql, Statement, long_sql, sql, step};
use crate::store::{Accepted, Cursor, Page, StoreError};
use accept::Accepting;
use claim::Claimer;
use record::{Record, Recording};
use rescue::LastScan;
use row::job_columns;

/// Filter of the list; set fields are combined by AND.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    pub state: Option<JobState>,
    pub kind: Option<Kind>,
    pub subject_id: Option<Uuid>,
    pub judge: Option<String>,
    pub batch_id: Option<Uuid>,
}

/// Number of jobs by state; ended ones of the last 24 h. Counts stop at 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, sqlx::FromRow)]
pub struct JobCounts {
    /// Due or not yet due.
    pub queued: i64,
    pub running: i64,
    pub waiting: i64,
    /// In the last 24 h.
    pub succeeded: i64,
    /// In the last 24 h.
    pub failed: i64,
    /// In the last 24 h.
    pub cancelled: i64,
}

const MAX_COUNT: i64 = 10_000;
/// Prefix of the list's cursors.
const LIST: char = 'j';

#[derive(Clone, Copy)]
pub struct Jobs<'a> {
    pub(super) db: &'a Db,
    pub(super) accepter: &'a mpsc::Sender<Accepting>,
    pub(super) recorder: &'a mpsc::Sender<Recording>,
    pub(super) claimer: &'a Claimer,
    pub(super) last_scan: &'a LastScan,
}

impl Jobs<'_> {
    pub async fn get(self, id: JobId) -> Result<Option<Job>, StoreError> {
        let statement = sql!(
            "reading a job",
            concat!(
                "select ",
                job_columns!(),
                " from scoring_jobs where job_id = $1"
            ),
            id.0
        );
        self.db.read_one(&statement).await
    }

    /// Lists jobs, newest first. `limit` 1-500.
    ///
    /// # Errors
    /// `BadCursor` for a cursor of another list.
    pub async fn list(
        self,
        filter: &JobFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Job>, StoreError> {
        let limit = bounded(limit);
        let items = self.db.read(&list(filter, after, limit)?).await?;
        Ok(Page::of(items, limit, |job| {
            Cursor::of_id(LIST, job.job_id.0)
        }))
    }

    /// Returns Postgres's plan of a record, for tests.
    pub async fn explain_record(self, record: Record) -> Result<Vec<String>, StoreError> {
        let record = commit::in_one(&[record]);
        let record = record.map_err(|error| StoreError::of("explaining a record", &error))?;
        self.db
            .explain(Statement::new("explaining a record", record))
            .await
    }

    /// Returns the plan of the first page of jobs, for tests.
    #[doc(hidden)]
    pub async fn explain_list(self, filter: &JobFilter) -> Result<Vec<String>, StoreError> {
        self.db.explain(list(filter, None, 50)?).await
    }

    pub async fn counts(self, now: DateTime<Utc>) -> Result<JobCounts, StoreError> {
        let statement = long_sql!(
            "counting jobs",
            "select
               (select count(*) from (select 1 from scoring_jobs where finished_at is null and state = 'queued' limit $1) a) as queued,
               (select count(*) from (select 1 from scoring_jobs where finished_at is null and state = 'running' limit $1) b) as running,
               (select count(*) from (select 1 from scoring_jobs where waiting_since is not null and finished_at is null
                                      and state = 'waiting' limit $1) c) as waiting,
               (select count(*) from (select 1 from scoring_jobs where finished_at >= $2 and state = 'succeeded' limit $1) d) as succeeded,
               (select count(*) from (select 1 from scoring_jobs where finished_at >= $2 and state = 'failed' limit $1) e) as failed,
               (select count(*) from (select 1 from scoring_jobs where finished_at >= $2 and state = 'cancelled' limit $1) f) as cancelled",
            MAX_COUNT,
            now - TimeDelta::hours(24)
        );
        Ok(self.db.read_one(&statement).await?.unwrap_or_default())
    }

    /// Returns the position of a queued job in its lane, 1 = next; stops at 10,000; `None` if it isn't queued. Interactive jobs
    /// come before bulk ones.
    pub async fn position(self, job: &Job) -> Result<Option<i64>, StoreError> {
        if job.state != JobState::Queued {
            return Ok(None);
        }
        // In the order of the index, so that Postgres reads the index instead of the table.
        let mut statement = long_sql!(
            "finding a job's place in its lane",
            "select count(*) as ahead from (
                select 1 from (
                    select job_id from scoring_jobs
                    where finished_at is null and lane = $1 and state = 'queued'
                      and priority = $2 and (due_at, job_id) < ($3, $4)
                    order by due_at, job_id limit $5) before_it",
            job.lane.as_str(),
            job.priority.as_str(),
            job.due_at,
            job.job_id.0,
            MAX_COUNT - 1
        );
        match job.priority {
            Priority::Interactive => {}
            // Two ranges of the index instead of `or`.
            Priority::Bulk => {
                statement.push(
                    " union all select 1 from (
                        select job_id from scoring_jobs
                        where finished_at is null and lane = $1 and state = 'queued' and priority = 'interactive'
                        order by due_at, job_id limit $5) above_it",
                );
            }
        }
        statement.push(" limit $5) ahead_of_it");
        let ahead: Option<i64> = self.db.read_value(&statement).await?;
        Ok(Some(ahead.unwrap_or_default() + 1))
    }

    /// Makes a queued or waiting job interactive, lets it run although its batch is paused, and sets `force_rescore` if
    /// `force`. `None`: it is in another state.
    pub async fn raise(self, id: JobId, force: Force) -> Result<Option<Job>, StoreError> {
        let force = match force {
            Force::Yes => true,
            Force::AsIs => false,
        };
        let statement = sql!(
            "raising a job",
            concat!(
                "update scoring_jobs set priority = 'interactive', on_demand = true, force_rescore = (force_rescore or $2)
                 where job_id = $1 and state in ('queued', 'waiting') returning ",
                job_columns!()
            ),
            id.0,
            force
        );
        self.db.write_one(&statement).await
    }

    /// Cancels an active job and returns it; an ended job is returned unchanged. `None`: unknown job.
    ///
    /// A running job ends at once; its worker's record is stale then.
    pub async fn cancel(self, id: JobId, now: DateTime<Utc>) -> Result<Option<Job>, StoreError> {
        let statement = sql!(
            "cancelling a job",
            concat!(
                "update scoring_jobs set state = 'cancelled', finished_at = $2, wait_reason = null, wait_until = null,
                    waiting_since = null
                 where job_id = $1 and state in ('queued', 'waiting', 'running') returning ",
                job_columns!()
            ),
            id.0,
            now
        );
        match self.db.write_one(&statement).await? {
            Some(job) => Ok(Some(job)),
            None => self.get(id).await,
        }
    }

    /// Queues a failed job again with reset counters; a completed batch runs again. `Active`: another job is active for its
    /// subject. Outer `None`: unknown job, or not `failed`.
    ///
    /// The job becomes interactive and returns to its judge's lane. Its usage and `claim_no` stay.
    pub async fn retry(
        self,
        id: JobId,
        now: DateTime<Utc>,
    ) -> Result<Option<Accepted>, StoreError> {
        const ROUNDS: usize = 5;
        for _ in 0..ROUNDS {
            match self.requeue_failed(id, now).await? {
                Retried::Queued => return Ok(Some(Accepted::New)),
                Retried::NotFailed => return Ok(None),
                Retried::Refused => {}
            }
            if let Some(active) = self.other_active_job(id).await? {
                return Ok(Some(Accepted::Active(active)));
            }
        }
        Err(StoreError::no_answer(
            RETRYING,
            "other jobs for the same subject were created and ended concurrently",
        ))
    }

    async fn requeue_failed(self, id: JobId, now: DateTime<Utc>) -> Result<Retried, StoreError> {
        let statement = step!(
            "update scoring_jobs set state = 'queued', finished_at = null, lane = coalesce(judge, 'none'),
                priority = 'interactive', on_demand = true, attempts = 0, losses = 0, retries = 0, due_at = $2, worker_id = null,
                wait_reason = null, wait_until = null, waiting_since = null, error_class = null, error = null, result = null
             where job_id = $1 and state = 'failed'
               and not exists (select 1 from scoring_batches b where b.batch_id = scoring_jobs.batch_id and b.abandoned)
             returning job_id",
            id.0,
            now
        );
        let reopen = reopen_statement(id);
        let mut first = true;
        loop {
            let result = within(async {
                let mut conn = self.db.writer(Purpose::Any).await?;
                let mut tx = conn.begin().await?;
                tx.execute(&reopen).await?;
                let rows = tx.fetch(&statement).await?;
                if !rows.is_empty() {
                    tx.commit().await?;
                }
                Ok(rows)
            })
            .await;
            match result {
                Ok(rows) if !rows.is_empty() => return Ok(Retried::Queued),
                // After a lost answer our first try may have queued the row.
                Ok(_) if !first && self.is_queued_since(id, now).await? => {
                    return Ok(Retried::Queued);
                }
                Ok(_) => return Ok(Retried::NotFailed),
                Err(error) if is_unique_violation(&error) => return Ok(Retried::Refused),
                Err(error) if first && is_transient(&error) => first = false,
                Err(error) => return Err(StoreError::of(RETRYING, &error)),
            }
        }
    }

    async fn is_queued_since(self, id: JobId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let statement = sql!(
            RETRYING,
            "select job_id from scoring_jobs where job_id = $1 and state = 'queued' and due_at = $2",
            id.0,
            now
        );
        Ok(!self.db.rows(&statement).await?.is_empty())
    }

    /// Returns the active job of the same subject.
    async fn other_active_job(self, id: JobId) -> Result<Option<JobId>, StoreError> {
        let statement = sql!(
            RETRYING,
            "select a.job_id from scoring_jobs j
             join scoring_jobs a on a.kind = j.kind and a.subject_id = j.subject_id
             where j.job_id = $1 and a.finished_at is null and a.purpose = 'score'",
            id.0
        );
        Ok(self.db.read_value(&statement).await?.map(JobId))
    }
}

const RETRYING: &str = "retrying a job";

enum Retried {
    Queued,
    NotFailed,
    /// By the unique index of active jobs.
    Refused,
}

/// Query for a page of jobs, newest first, plus one row to detect a next page.
fn list(filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Statement, StoreError> {
    let mut statement = long_sql!(
        "listing jobs",
        concat!("select ", job_columns!(), " from scoring_jobs where 1 = 1")
    );
    filter.push_conditions(&mut statement);
    if let Some(cursor) = after {
        statement.push(" and job_id < ").push_arg(cursor.id(LIST)?);
    }
    statement
        .push(" order by job_id desc limit ")
        .push_arg(limit + 1);
    Ok(statement)
}

impl JobFilter {
    fn push_conditions(&self, statement: &mut Sql) {
        if let Some(state) = self.state {
            statement.push(" and state = ").push_arg(state.as_str());
            // Implied by the state and required for the partial indexes, which don't contain the state.
            statement.push(match state {
                JobState::Queued | JobState::Running => " and finished_at is null",
                JobState::Waiting => " and finished_at is null and waiting_since is not null",
                JobState::Failed => " and finished_at is not null and error_class is not null",
                JobState::Succeeded | JobState::Cancelled => " and finished_at is not null",
            });
        }
        statement.and("kind = ", self.kind.map(|kind| kind.as_str()));
        statement.and("subject_id = ", self.subject_id);
        statement.and("judge = ", self.judge.as_ref());
        statement.and("batch_id = ", self.batch_id);
    }
}
