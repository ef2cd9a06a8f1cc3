//! Finds lost jobs: jobs of dead workers, and jobs that waited too long.
//!
//! Does not decide which worker is dead: see `Workers::declare_dead`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::claim::DueJob;
use crate::job::{JobId, JobState, Lane};
use crate::store::batches::not_halted;
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Sql, Statement, long_sql, sql};
use crate::store::{Jobs, StoreError};

const SLICE: usize = 500;
/// Maximum number of slices per call; the next call continues.
const SLICES: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rescued {
    /// Queued again; to be pushed.
    pub requeued: Vec<DueJob>,
    pub poisoned: Vec<JobId>,
}

/// A job of a dead worker, after the update.
#[derive(sqlx::FromRow)]
struct Lost {
    #[sqlx(flatten)]
    due: DueJob,
    #[sqlx(try_from = "String")]
    state: JobState,
}

impl Rescued {
    fn add(&mut self, lost: Lost) {
        match lost.state {
            JobState::Failed => self.poisoned.push(lost.due.job_id),
            JobState::Queued
            | JobState::Running
            | JobState::Waiting
            | JobState::Succeeded
            | JobState::Cancelled => self.requeued.push(lost.due),
        }
    }
}

/// Whether a worker was declared dead since the last scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Died {
    Nobody,
    /// A worker died, or it is unknown.
    Somebody,
}

const LOOKING: &str = "looking for lost jobs";
/// Up to this number of unfinished jobs, each call scans them all.
const SHORT_BACKLOG: i64 = 10_000;
/// Maximum interval between scans of a longer backlog.
const SCAN_INTERVAL: Duration = Duration::from_secs(60);

/// Time of the last scan for lost jobs.
pub(in crate::store) type LastScan = Mutex<Option<Instant>>;

impl Jobs<'_> {
    /// Takes running jobs of dead or unregistered workers, in slices of 500: losses + 1. From the second loss in a row the job
    /// moves to the lane `suspect`. A job lost in that lane gets attempts + 1, and fails as `poison` at `max_attempts`. At most
    /// 20,000 jobs per call.
    ///
    /// A worker with an active suspect is assumed to have died of it, so its other jobs are queued without a loss.
    ///
    /// The scan covers all unfinished jobs, because an index of running ones would slow down each claim. With more than 10,000
    /// unfinished jobs it runs only if `died` says that a worker was declared dead, and once a minute.
    pub async fn rescue_lost(
        self,
        died: Died,
        max_attempts: i32,
        now: DateTime<Utc>,
    ) -> Result<Rescued, StoreError> {
        let mut last_scan = self.last_scan.lock().await;
        self.claimer.settle(self.db).await?;
        let scanned_recently = last_scan.is_some_and(|at| at.elapsed() < SCAN_INTERVAL);
        if died == Died::Nobody && scanned_recently && self.many_unfinished().await? {
            return Ok(Rescued::default());
        }
        let mut rescued = Rescued::default();
        for _ in 0..SLICES {
            let rows: Vec<Lost> = self.db.write(&lost_statement(max_attempts, now)).await?;
            let found = rows.len();
            for lost in rows {
                rescued.add(lost);
            }
            if found < SLICE {
                *last_scan = Some(Instant::now());
                break;
            }
        }
        Ok(rescued)
    }

    /// Whether there are too many unfinished jobs for a scan on each call.
    pub async fn many_unfinished(self) -> Result<bool, StoreError> {
        // In the order of the index, so that the database reads the index instead of the table.
        let statement = sql!(
            LOOKING,
            "select count(*) as jobs from (
                select 1 from scoring_jobs where finished_at is null
                order by lane, priority, due_at, job_id limit $1) unfinished",
            SHORT_BACKLOG + 1
        )
        .on(Purpose::Rescue);
        let jobs: Option<i64> = self.db.read_value(&statement).await?;
        Ok(jobs.is_some_and(|jobs| jobs > SHORT_BACKLOG))
    }

    /// Corrects times of a clock that was ahead and was set back: queued jobs that are due later than now, and waits that start
    /// later than now.
    pub async fn make_due_what_lies_ahead(self, now: DateTime<Utc>) -> Result<u64, StoreError> {
        let statement = long_sql!(
            "resetting due times that a fast clock set",
            "update scoring_jobs set due_at = $1, waiting_since = case when waiting_since is not null then $1 end
             where finished_at is null and due_at > $1
               and (state = 'queued' or (state = 'waiting' and waiting_since > $1))",
            now
        );
        self.db.execute(&statement).await
    }

    /// Fails jobs that are `waiting` since before `since` as `wait_expired`, except in lanes `except` and items of halted
    /// batches. At most 20,000 per call.
    pub async fn expire_waits(
        self,
        since: DateTime<Utc>,
        except: &[Lane],
        now: DateTime<Utc>,
    ) -> Result<Vec<JobId>, StoreError> {
        let mut expired = Vec::new();
        for _ in 0..SLICES {
            let ids: Vec<(Uuid,)> = self.db.write(&expire_statement(since, except, now)).await?;
            expired.extend(ids.iter().map(|(id,)| JobId(*id)));
            if ids.len() < SLICE {
                break;
            }
        }
        Ok(expired)
    }
}

/// Updates suspects last: the other rows look up the dead worker's suspect to decide whether they count a loss.
fn lost_statement(max_attempts: i32, now: DateTime<Utc>) -> Statement {
    let mut statement = sql!(
        LOOKING,
        "with lost (l_job_id, l_claim_no, l_loss) as (
            select j.job_id, j.claim_no, case when j.lane = 'suspect' or not exists (
                select 1 from scoring_jobs s where s.finished_at is null and s.lane = 'suspect' and s.state = 'running'
                  and s.worker_id = j.worker_id) then 1 else 0 end
            from scoring_jobs j left join workers w on w.worker_id = j.worker_id
            where j.finished_at is null and j.state = 'running' and (w.worker_id is null or w.declared_dead)
            order by case when j.lane = 'suspect' then 1 else 0 end limit $1)
         update scoring_jobs set state = case when ",
        SLICE as i64
    )
    .on(Purpose::Rescue);
    push_poison_filter(&mut statement, max_attempts);
    statement.push(" then 'failed' else 'queued' end, finished_at = case when ");
    push_poison_filter(&mut statement, max_attempts);
    statement.push(" then ").push_arg(now);
    statement.push(" end, error_class = case when ");
    push_poison_filter(&mut statement, max_attempts);
    statement.push(" then 'poison' end, error = case when ");
    push_poison_filter(&mut statement, max_attempts);
    statement.push(
        " then 'the last ' || cast(losses + 1 as text) || ' workers that ran this job died with it in hand' end,
        attempts = case when lane = 'suspect' then attempts + 1 else attempts end,
        lane = case when losses + l_loss >= 2 then 'suspect' else lane end,
        losses = losses + l_loss,
        worker_id = null,
        due_at = ",
    );
    statement.push_arg(now).push(
        " from lost where job_id = l_job_id and claim_no = l_claim_no and state = 'running'
         returning job_id, lane, priority, due_at, state",
    );
    statement
}

/// Condition for jobs with the maximum number of losses in the lane `suspect`.
fn push_poison_filter(statement: &mut Sql, max_attempts: i32) {
    statement
        .push("lane = 'suspect' and attempts + 1 >= ")
        .push_arg(max_attempts);
}

fn expire_statement(since: DateTime<Utc>, except: &[Lane], now: DateTime<Utc>) -> Statement {
    let mut statement = long_sql!(
        "ending waits that took too long",
        "update scoring_jobs set state = 'failed', finished_at = $1, error_class = 'wait_expired',
            error = 'waited too long; the last reason was ' || wait_reason || coalesce(
                (select ': ' || j.last_error from judges j
                 where j.name = scoring_jobs.judge and j.last_error is not null
                   and scoring_jobs.wait_reason in ('breaker_open', 'throttled', 'exhausted', 'misconfigured')
                 order by j.updated_at desc limit 1), ''),
            wait_reason = null, wait_until = null, waiting_since = null
         where state = 'waiting' and waiting_since < $2 and job_id in (
            select job_id from scoring_jobs
            where waiting_since is not null and waiting_since < $2 and finished_at is null and state = 'waiting'
              and ",
        now,
        since
    );
    statement.push(not_halted!());
    if !except.is_empty() {
        statement.push(" and lane not in ");
        statement.push_list(except.iter().map(Lane::as_str));
    }
    statement.push(" limit ").push_arg(SLICE as i64);
    statement.push(") returning job_id");
    statement
}
