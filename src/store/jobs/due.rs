//! Due jobs and their lanes, for claims and refills.

use chrono::{DateTime, Utc};

use crate::job::{JobId, Lane, Priority};
use crate::store::batches::not_halted;
use crate::store::database::sql::{DbRow, all, sql};
use crate::store::{Jobs, StoreError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueJob {
    pub job_id: JobId,
    pub lane: Lane,
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
        const ATTEMPTED: &str = "listing due jobs";
        let mut statement = sql!(
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
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, due_job)
    }

    /// Returns the lanes that have unfinished jobs, by name.
    pub async fn lanes(self) -> Result<Vec<Lane>, StoreError> {
        const ATTEMPTED: &str = "listing lanes";
        // A loose index scan: one probe per lane, for any number of jobs.
        let statement = sql!(
            "with recursive lanes (lane) as (
                select min(lane) from scoring_jobs where finished_at is null
                union all
                select (select min(j.lane) from scoring_jobs j where j.finished_at is null and j.lane > lanes.lane)
                from lanes where lanes.lane is not null
             )
             select lane from lanes where lane is not null order by lane"
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| {
            Ok(Lane::from_stored(row.get::<String>("lane")?))
        })
    }
}

pub(in crate::store) fn due_job(row: &DbRow) -> sqlx::Result<DueJob> {
    Ok(DueJob {
        job_id: JobId(row.get("job_id")?),
        lane: Lane::from_stored(row.get::<String>("lane")?),
        priority: row.text_enum("priority")?,
        due_at: row.get("due_at")?,
    })
}
