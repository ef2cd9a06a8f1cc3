//! Decodes and inserts rows of `scoring_jobs`.

use uuid::Uuid;

use crate::job::{BatchPlace, Failure, Job, JobId, JobState, NewJob, Requester, Usage, Wait};
use crate::store::database::row::{DbRow, Decoded, decode};
use crate::store::database::sql::{Arg, Sql};

macro_rules! job_columns {
    () => {
        "job_id, kind, subject_id, purpose, payload, judge, lane, priority, state, claim_no, attempts, losses, retries, \
         wait_reason, wait_until, waiting_since, due_at, worker_id, error_class, error, criteria_hash, force_rescore, \
         triggered_by, authenticated_as, batch_id, item_no, on_demand, result, simulated, tokens_in, tokens_out, cost_usd, created_at, started_at, finished_at"
    };
}
pub(in crate::store) use job_columns;

/// From a row with [`job_columns`].
impl Decoded for Job {
    fn decoded(row: &DbRow) -> sqlx::Result<Self> {
        let wait = row
            .optional_enum("wait_reason")?
            .map(|reason| {
                Ok::<_, sqlx::Error>(Wait {
                    reason,
                    until: row.get("wait_until")?,
                })
            })
            .transpose()?;
        let failure = row
            .optional_enum("error_class")?
            .map(|class| {
                Ok::<_, sqlx::Error>(Failure {
                    class,
                    message: row.get::<Option<String>>("error")?.unwrap_or_default(),
                })
            })
            .transpose()?;
        Ok(Job {
            job_id: JobId(row.get("job_id")?),
            kind: row.text_enum("kind")?,
            subject_id: row.get("subject_id")?,
            purpose: row.text_enum("purpose")?,
            payload: row
                .raw_json("payload")?
                .ok_or_else(|| decode("payload", "it is null"))?
                .into(),
            judge: row.get("judge")?,
            lane: row.get::<String>("lane")?.into(),
            priority: row.text_enum("priority")?,
            state: row.text_enum("state")?,
            claim_no: row.get("claim_no")?,
            attempts: row.int("attempts")?,
            losses: row.int("losses")?,
            retries: row.int("retries")?,
            wait,
            due_at: row.get("due_at")?,
            waiting_since: row.get("waiting_since")?,
            worker_id: row.get("worker_id")?,
            failure,
            criteria_hash: row.get("criteria_hash")?,
            force_rescore: row.get("force_rescore")?,
            triggered_by: Requester {
                user: row.get("triggered_by")?,
                authenticated_as: row.get("authenticated_as")?,
            },
            batch: row
                .get::<Option<Uuid>>("batch_id")?
                .map(|batch_id| {
                    Ok::<_, sqlx::Error>(BatchPlace {
                        batch_id,
                        item_no: row.get("item_no")?,
                    })
                })
                .transpose()?,
            budgeted: false,
            on_demand: row.get("on_demand")?,
            result: row.json("result")?,
            simulated: row.get("simulated")?,
            usage: Usage {
                tokens_in: row.get("tokens_in")?,
                tokens_out: row.get("tokens_out")?,
                cost_usd: row.get("cost_usd")?,
            },
            created_at: row.get("created_at")?,
            started_at: row.get("started_at")?,
            finished_at: row.get("finished_at")?,
        })
    }
}

/// Inserts jobs without a conflict; returns their ids.
pub(in crate::store) fn insert_statement(jobs: &[&NewJob]) -> Sql {
    let mut statement = Sql::new("");
    push_insert(&mut statement, jobs, "");
    statement
}

/// Appends the same; `only` is a condition on the rows, with the columns of the table.
pub(super) fn push_insert(statement: &mut Sql, jobs: &[&NewJob], only: &str) {
    const COLUMNS: &str = "job_id, kind, subject_id, purpose, payload, judge, lane, priority, state, due_at, \
                           criteria_hash, force_rescore, triggered_by, authenticated_as, batch_id, item_no, \
                           created_at";
    let rows = jobs
        .iter()
        .map(|job| {
            vec![
                Arg::from(job.job_id.0),
                job.kind.as_str().into(),
                job.subject_id.into(),
                job.purpose.as_str().into(),
                (&job.payload).into(),
                job.judge.as_deref().into(),
                job.lane().as_str().into(),
                job.priority.as_str().into(),
                JobState::Queued.as_str().into(),
                job.created_at.into(),
                (&job.criteria_hash).into(),
                job.force_rescore.into(),
                (&job.triggered_by.user).into(),
                job.triggered_by.authenticated_as.as_deref().into(),
                job.batch.map(|place| place.batch_id).into(),
                job.batch.map(|place| place.item_no).into(),
                job.created_at.into(),
            ]
        })
        .collect();
    statement
        .push_insert("scoring_jobs", COLUMNS, rows)
        .push(only)
        .push(" on conflict do nothing returning job_id");
}
