//! Figures of the whole installation for `/metrics`: jobs by lane, priority and state.
//!
//! Only reads, and never counts rows of the table where an index will do: of a million queued jobs, those behind the first
//! 10,000 of their lane are counted in the index, and not looked at.

use chrono::{DateTime, Utc};

use crate::job::{JobState, Priority};
use crate::store::database::sql::{DbRow, sql};
use crate::store::{Jobs, StoreError};

/// So many jobs of a lane and priority are looked at, in the order in which they become due: those that run lie among them.
const FRONT: i64 = 10_000;
/// So many waiting jobs are counted.
const WAITING: i64 = 100_000;
/// So many lanes are looked into; of the others the sizes are known.
const LANES: usize = 100;

/// Jobs of one lane, priority and state that have not ended.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct JobsFigure {
    /// The lane: a judge's name, `none` or `suspect`.
    pub lane: String,
    /// Who waits for them.
    #[sqlx(try_from = "String")]
    pub priority: Priority,
    /// `Queued`, `Running` or `Waiting`.
    #[sqlx(try_from = "String")]
    pub state: JobState,
    /// How many.
    pub jobs: i64,
    /// Since when the oldest is due (`Queued`), in hand (`Running`) or waiting (`Waiting`); `None` where it isn't known.
    pub oldest: Option<DateTime<Utc>>,
}

/// What a lane and priority holds, as its index says.
struct Depth {
    lane: String,
    priority: Priority,
    jobs: i64,
}

impl Jobs<'_> {
    /// Counts jobs that have not ended, the largest lanes first. Of lanes behind the first 100 all count as queued.
    pub async fn figures(self) -> Result<Vec<JobsFigure>, StoreError> {
        let mut depths = self.depths().await?;
        depths.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.lane.cmp(&b.lane)));
        let mut figures = self.waiting().await?;
        for (n, depth) in depths.into_iter().enumerate() {
            let of_depth = |figure: &&JobsFigure| {
                figure.lane == depth.lane && figure.priority == depth.priority
            };
            let waiting = figures.iter().find(of_depth).map_or(0, |found| found.jobs);
            let front = match n < LANES {
                true => self.front(&depth).await?,
                false => Vec::new(),
            };
            let of_state = |state| {
                front
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

    /// One entry of the index for each job.
    async fn depths(self) -> Result<Vec<Depth>, StoreError> {
        let statement = sql!(
            "select lane, priority, count(*) as jobs from scoring_jobs where finished_at is null group by lane, priority"
        );
        self.db
            .read_all("counting the jobs of lanes", &statement, |row| {
                Ok(Depth {
                    lane: row.get("lane")?,
                    priority: row.text_enum("priority")?,
                    jobs: row.get("jobs")?,
                })
            })
            .await
    }

    async fn waiting(self) -> Result<Vec<JobsFigure>, StoreError> {
        let statement = sql!(
            "select lane, priority, state, count(*) as jobs, min(waiting_since) as oldest from (
                select lane, priority, state, waiting_since from scoring_jobs
                where waiting_since is not null and finished_at is null and state = 'waiting' limit $1) w
             group by lane, priority, state",
            WAITING
        );
        self.db
            .read_all("counting waiting jobs", &statement, DbRow::decode)
            .await
    }

    /// The first jobs of a lane in the order in which they become due, by state.
    async fn front(self, depth: &Depth) -> Result<Vec<JobsFigure>, StoreError> {
        let statement = sql!(
            "select lane, priority, state, count(*) as jobs,
                min(case when state = 'running' then started_at else due_at end) as oldest
             from (select lane, priority, state, due_at, started_at from scoring_jobs
                where finished_at is null and lane = $1 and priority = $2
                order by due_at, job_id limit $3) f
             group by lane, priority, state",
            depth.lane.as_str(),
            depth.priority.as_str(),
            FRONT
        );
        self.db
            .read_all(
                "looking at the first jobs of a lane",
                &statement,
                DbRow::decode,
            )
            .await
    }
}
