//! Job gauges of the installation for `/metrics`: jobs by lane, priority and state.
//!
//! Counts by index: only the first 10,000 jobs of a lane are read from the table.

use chrono::{DateTime, Utc};

use crate::job::{JobState, Priority};
use crate::store::database::sql::sql;
use crate::store::{Jobs, StoreError};

/// Number of jobs per lane and priority that are read in due order; running ones are among them.
const MAX_JOBS_PER_LANE: i64 = 10_000;
/// Maximum number of waiting jobs that are counted.
const MAX_WAITING: i64 = 100_000;
/// Number of lanes that are read; of others only the size is known.
const MAX_LANES: usize = 100;

/// Number of unfinished jobs of a lane, priority and state.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct JobsFigure {
    /// A judge's name, `none` or `suspect`.
    pub lane: String,
    #[sqlx(try_from = "String")]
    pub priority: Priority,
    /// `Queued`, `Running` or `Waiting`.
    #[sqlx(try_from = "String")]
    pub state: JobState,
    pub jobs: i64,
    /// Time since which the oldest is due (`Queued`), running (`Running`) or waiting (`Waiting`); `None` if unknown.
    pub oldest: Option<DateTime<Utc>>,
}

/// Number of jobs of a lane and priority by the index.
#[derive(sqlx::FromRow)]
struct Depth {
    lane: String,
    #[sqlx(try_from = "String")]
    priority: Priority,
    jobs: i64,
}

impl Jobs<'_> {
    /// Counts unfinished jobs, largest lanes first. All jobs of lanes after the first 100 count as queued.
    pub async fn figures(self) -> Result<Vec<JobsFigure>, StoreError> {
        let mut depths = self.depths().await?;
        depths.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.lane.cmp(&b.lane)));
        let mut figures = self.waiting().await?;
        for (n, depth) in depths.into_iter().enumerate() {
            let of_depth = |figure: &&JobsFigure| {
                figure.lane == depth.lane && figure.priority == depth.priority
            };
            let waiting = figures.iter().find(of_depth).map_or(0, |found| found.jobs);
            let first_due = match n < MAX_LANES {
                true => self.first_due(&depth).await?,
                false => Vec::new(),
            };
            let of_state = |state| {
                first_due
                    .iter()
                    .find(|figure: &&JobsFigure| figure.state == state)
            };
            let running = of_state(JobState::Running).map_or(0, |found| found.jobs);
            let queued = JobsFigure {
                state: JobState::Queued,
                jobs: (depth.jobs - waiting - running).max(0),
                oldest: of_state(JobState::Queued).and_then(|found| found.oldest),
                lane: depth.lane,
                priority: depth.priority,
            };
            figures.extend(of_state(JobState::Running).cloned());
            figures.push(queued);
        }
        Ok(figures)
    }

    /// Reads one index entry per job.
    async fn depths(self) -> Result<Vec<Depth>, StoreError> {
        let statement = sql!(
            "counting the jobs of lanes",
            "select lane, priority, count(*) as jobs from scoring_jobs where finished_at is null group by lane, priority"
        );
        self.db.read(&statement).await
    }

    async fn waiting(self) -> Result<Vec<JobsFigure>, StoreError> {
        let statement = sql!(
            "counting waiting jobs",
            "select lane, priority, state, count(*) as jobs, min(waiting_since) as oldest from (
                select lane, priority, state, waiting_since from scoring_jobs
                where waiting_since is not null and finished_at is null and state = 'waiting' limit $1) w
             group by lane, priority, state",
            MAX_WAITING
        );
        self.db.read(&statement).await
    }

    /// Counts the first jobs of a lane in due order, by state.
    async fn first_due(self, depth: &Depth) -> Result<Vec<JobsFigure>, StoreError> {
        let statement = sql!(
            "reading the first jobs of a lane",
            "select lane, priority, state, count(*) as jobs,
                min(case when state = 'running' then started_at else due_at end) as oldest
             from (select lane, priority, state, due_at, started_at from scoring_jobs
                where finished_at is null and lane = $1 and priority = $2
                order by due_at, job_id limit $3) f
             group by lane, priority, state",
            depth.lane.as_str(),
            depth.priority.as_str(),
            MAX_JOBS_PER_LANE
        );
        self.db.read(&statement).await
    }
}
