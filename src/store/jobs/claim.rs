//! Claims of jobs.
//!
//! Claims only rows that are queued, or waiting and due, and not items of halted batches. `claim_no` only grows.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::job::{Job, JobId, Lane, Priority};
use crate::store::batches::not_halted;
use crate::store::database::db::{Db, within};
use crate::store::database::row::{DbRow, decoded};
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Arg, Sql, Statement, long_sql, sql};
use crate::store::jobs::row::job_columns;
use crate::store::{Dialect, Jobs, StoreError};

/// A claim without an answer after this time isn't committed later, because its statement has ended. Longer than a ping (1 s),
/// a new connection (2 s) and the statement (6 s).
pub const CLAIM_GIVEN_UP: Duration = Duration::from_secs(10);

/// A claim without a response: its rows may be running without a worker.
struct UnconfirmedClaim {
    ids: Vec<JobId>,
    worker_id: Uuid,
    at: DateTime<Utc>,
}

/// Claims without a response. One statement claims at a time.
#[derive(Default)]
pub(in crate::store) struct Claimer(Mutex<Claiming>);

#[derive(Default)]
struct Claiming {
    unsure: Vec<UnconfirmedClaim>,
    /// Returned rows whose ids must be pushed again.
    given_back: Vec<DueJob>,
}

impl Claimer {
    /// Returns the rows of claims without a response. Until this succeeds, no other row is claimed.
    pub(super) async fn settle(&self, db: &Db) -> Result<(), StoreError> {
        self.0.lock().await.settle(db).await
    }
}

impl Jobs<'_> {
    /// Claims the claimable jobs of `ids` in one statement and skips the rest.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable. Rows that were claimed anyway are returned by the next claim.
    pub async fn claim(
        self,
        ids: &[JobId],
        worker_id: Uuid,
        now: DateTime<Utc>,
    ) -> Result<Vec<Job>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut claiming = self.claimer.0.lock().await;
        claiming.settle(self.db).await?;
        // Stored before the statement runs, for a caller that is cancelled during the statement.
        claiming.unsure.push(UnconfirmedClaim {
            ids: ids.to_vec(),
            worker_id,
            at: now,
        });
        let claim = statement(ids, worker_id, now, Locked::Wait);
        let rows = match run(self.db, &claim).await {
            Err(StoreError::Unavailable { .. }) => {
                claiming.settle(self.db).await?;
                claiming.unsure.push(UnconfirmedClaim {
                    ids: ids.to_vec(),
                    worker_id,
                    at: now,
                });
                // Locked rows are skipped; rescue pushes them again.
                let locked = match self.db.dialect() {
                    Dialect::Postgres => Locked::Skip,
                    Dialect::Sqlite => Locked::Wait,
                };
                let claim = statement(ids, worker_id, now, locked);
                run(self.db, &claim).await
            }
            other => other,
        };
        if !matches!(rows, Err(StoreError::Unavailable { .. })) {
            claiming.unsure.pop();
        }
        let (claimed, unreadable) = sorted(&rows?);
        if !unreadable.is_empty() {
            let unreadable = UnconfirmedClaim {
                ids: unreadable,
                worker_id,
                at: now,
            };
            claiming.defer_unreadable(self.db, unreadable).await?;
        }
        Ok(claimed)
    }

    /// Takes the rows that were returned after a lost claim. Their ids may be missing in the queue, because another worker may
    /// have popped them while the rows were running.
    pub async fn take_given_back(self) -> Vec<DueJob> {
        std::mem::take(&mut self.claimer.0.lock().await.given_back)
    }

    /// Returns the claims that this worker has been running since before `before`; at most 20,000.
    pub async fn running_of(
        self,
        worker_id: Uuid,
        before: DateTime<Utc>,
    ) -> Result<Vec<(JobId, i64)>, StoreError> {
        let statement = long_sql!(
            "reading the rows claimed by a worker",
            "select job_id, claim_no from scoring_jobs
             where finished_at is null and state = 'running' and worker_id = $1 and started_at < $2 limit 20000",
            worker_id,
            before
        );
        let claims: Vec<(Uuid, i64)> = self.db.read(&statement).await?;
        Ok(claims
            .into_iter()
            .map(|(id, claim_no)| (JobId(id), claim_no))
            .collect())
    }

    /// Returns claims that no task works on: the rows are queued and due now. Newer claims of the same jobs stay.
    pub async fn return_claims(
        self,
        worker_id: Uuid,
        claims: &[(JobId, i64)],
        now: DateTime<Utc>,
    ) -> Result<Vec<DueJob>, StoreError> {
        let mut returned = Vec::new();
        for slice in claims.chunks(RETURNED_AT_ONCE) {
            let rows = slice
                .iter()
                .map(|(id, claim_no)| vec![Arg::from(id.0), (*claim_no).into()])
                .collect();
            let mut statement = Statement::new(
                "releasing orphaned claims",
                Sql::of_rows("v_job_id, v_claim_no", rows),
            );
            statement
                .push("update scoring_jobs set state = 'queued', worker_id = null, due_at = ")
                .push_arg(now)
                .push(" from v where job_id = v_job_id and claim_no = v_claim_no and state = 'running' and worker_id = ")
                .push_arg(worker_id)
                .push(" returning job_id, lane, priority, due_at");
            returned.extend(self.db.write::<DueJob>(&statement).await?);
        }
        Ok(returned)
    }

    /// Returns the plan of a claim of `ids`, for `doctor` and tests. Doesn't claim.
    #[doc(hidden)]
    pub async fn explain_claim(
        self,
        ids: &[JobId],
        worker_id: Uuid,
        now: DateTime<Utc>,
    ) -> Result<Vec<String>, StoreError> {
        self.db
            .explain(statement(ids, worker_id, now, Locked::Wait))
            .await
    }
}

/// Maximum number of claims that a statement returns.
const RETURNED_AT_ONCE: usize = 500;

macro_rules! claiming {
    ($($part:expr),+ $(,)?) => {
        sql!("claiming jobs", $($part),+).on(Purpose::Claim)
    };
}

/// Delay of a row that this binary can't decode; another version may.
const UNREADABLE_REST: TimeDelta = TimeDelta::minutes(1);

/// Runs one try, without a repetition, because a failed one may be committed.
async fn run(db: &Db, statement: &Statement) -> Result<Vec<DbRow>, StoreError> {
    let claimed =
        within(async { db.writer(statement.purpose).await?.fetch(statement).await }).await;
    claimed.map_err(|error| statement.error(&error))
}

impl Claiming {
    /// Returns rows that were claimed and can't be decoded, due after a delay.
    async fn defer_unreadable(
        &mut self,
        db: &Db,
        unreadable: UnconfirmedClaim,
    ) -> Result<(), StoreError> {
        let mut statement = claiming!(
            "update scoring_jobs set state = 'queued', worker_id = null, due_at = $3
             where state = 'running' and worker_id = $1 and started_at = $2 and job_id in ",
            unreadable.worker_id,
            unreadable.at,
            unreadable.at + UNREADABLE_REST
        );
        statement.push_list(unreadable.ids.iter().map(|id| id.0));
        self.unsure.push(unreadable);
        run(db, &statement).await?;
        self.unsure.pop();
        Ok(())
    }

    async fn settle(&mut self, db: &Db) -> Result<(), StoreError> {
        while let Some(unsure) = self.unsure.last() {
            // `started_at` is the time of this claim, so that rows claimed by another call aren't changed.
            let mut statement = claiming!(
                "update scoring_jobs set state = 'queued', worker_id = null
                 where state = 'running' and worker_id = $1 and started_at = $2 and job_id in ",
                unsure.worker_id,
                unsure.at
            );
            statement.push_list(unsure.ids.iter().map(|id| id.0));
            statement.push(" returning job_id, lane, priority, due_at");
            let rows = run(db, &statement).await?;
            self.unsure.pop();
            if !rows.is_empty() {
                tracing::warn!(
                    given_back = rows.len(),
                    "lost a claim's response; requeuing its jobs"
                );
            }
            let given_back: Vec<DueJob> =
                decoded(&rows).map_err(|error| statement.error(&error))?;
            self.given_back.extend(given_back);
        }
        Ok(())
    }
}

/// Returns the jobs and the ids of rows that can't be decoded, so that one of them doesn't block the others.
fn sorted(rows: &[DbRow]) -> (Vec<Job>, Vec<JobId>) {
    let (mut claimed, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let id = row.get("job_id").map(JobId).ok();
        match claimed_job(row) {
            Ok(job) => claimed.push(job),
            Err(error) => {
                tracing::error!(job_id = ?id, %error, "failed to read a claimed row; it is released and delayed");
                unreadable.extend(id);
            }
        }
    }
    (claimed, unreadable)
}

fn claimed_job(row: &DbRow) -> sqlx::Result<Job> {
    let budgeted = row.get::<Option<bool>>("budgeted")?.unwrap_or_default();
    Ok(Job {
        budgeted,
        ..row.decode()?
    })
}

/// Treatment of locked rows in a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Locked {
    /// Waits up to 250 ms.
    Wait,
    /// Skips them.
    Skip,
}

fn statement(ids: &[JobId], worker_id: Uuid, now: DateTime<Utc>, locked: Locked) -> Statement {
    // Sorted, so that concurrent claims don't deadlock.
    let mut sorted: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    sorted.sort_unstable();
    let mut statement = claiming!(
        "update scoring_jobs set state = 'running', claim_no = claim_no + 1, worker_id = $1, started_at = $2,
            wait_reason = null, wait_until = null
         where (state = 'queued' or (state = 'waiting' and due_at <= $2)) and job_id in ",
        worker_id,
        now
    );
    match locked {
        Locked::Wait => {
            statement.push_list(sorted);
        }
        Locked::Skip => {
            statement.push("(select l.job_id from scoring_jobs l where l.job_id in ");
            statement.push_list(sorted);
            statement.push(" order by l.job_id for update skip locked)");
        }
    }
    statement.push(concat!(
        " and ",
        not_halted!(),
        " returning ",
        job_columns!(),
        ",
        (select b.budget_usd is not null from scoring_batches b where b.batch_id = scoring_jobs.batch_id) as budgeted"
    ));
    statement
}

// Due jobs and their lanes, for claims and refills.

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct DueJob {
    #[sqlx(try_from = "Uuid")]
    pub job_id: JobId,
    #[sqlx(try_from = "String")]
    pub lane: Lane,
    #[sqlx(try_from = "String")]
    pub priority: Priority,
    pub due_at: DateTime<Utc>,
}

impl Jobs<'_> {
    /// Returns jobs of one lane and priority that are queued or waiting and due before `before`, ordered by (due_at, job_id),
    /// after `after`. Excludes items of halted batches.
    pub async fn due(
        self,
        lane: &Lane,
        priority: Priority,
        before: DateTime<Utc>,
        after: Option<(DateTime<Utc>, JobId)>,
        limit: u32,
    ) -> Result<Vec<DueJob>, StoreError> {
        let mut statement = long_sql!(
            "listing due jobs",
            concat!(
                "select job_id, lane, priority, due_at from scoring_jobs
                 where finished_at is null and lane = $1 and priority = $2 and due_at < $3
                   and state in ('queued', 'waiting') and ",
                not_halted!()
            ),
            lane.as_str(),
            priority.as_str(),
            before
        );
        if let Some((due_at, job_id)) = after {
            statement.push(" and (due_at, job_id) > (");
            statement.push_arg(due_at).push(", ").push_arg(job_id.0);
            statement.push(")");
        }
        statement
            .push(" order by due_at, job_id limit ")
            .push_arg(limit);
        self.db.read(&statement).await
    }

    /// Returns those of `ids` that are due after `now`.
    pub async fn due_later(
        self,
        ids: &[JobId],
        now: DateTime<Utc>,
    ) -> Result<Vec<DueJob>, StoreError> {
        let mut statement = long_sql!(
            "reading the due times of jobs",
            "select job_id, lane, priority, due_at from scoring_jobs
             where state = 'waiting' and due_at > $1 and job_id in ",
            now
        );
        statement.push_list(ids.iter().map(|id| id.0));
        self.db.read(&statement).await
    }

    /// Returns the lanes that have unfinished jobs, by name.
    pub async fn lanes(self) -> Result<Vec<Lane>, StoreError> {
        // A loose index scan: one probe per lane, for any number of jobs.
        let statement = long_sql!(
            "listing lanes",
            "with recursive lanes (lane) as (
                select min(lane) from scoring_jobs where finished_at is null
                union all
                select (select min(j.lane) from scoring_jobs j where j.finished_at is null and j.lane > lanes.lane)
                from lanes where lanes.lane is not null
             )
             select lane from lanes where lane is not null order by lane"
        );
        let names: Vec<String> = self.db.read_column(&statement).await?;
        Ok(names.into_iter().map(Lane::from).collect())
    }
}
