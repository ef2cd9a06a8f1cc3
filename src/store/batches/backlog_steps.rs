//! Expands a rescore: each step reads a page of sessions and inserts their jobs in one transaction, from the cursor of the
//! previous step.
//!
//! A step locks the batch's row, so that concurrent steps run in sequence. A failed step has no effect. Between
//! steps the batch may be paused, resumed and cancelled.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::columns;
use crate::job::{BatchPlace, Force, JobId, JobOptions, NewJob, SessionPayload};
use crate::store::database::conn::Tx;
use crate::store::database::db::transact;
use crate::store::database::row::{DbRow, column, decode, decoded};
use crate::store::database::sql::{Arg, Sql, long_sql, step};
use crate::store::jobs::row::insert_statement;
use crate::store::sessions::classify::{self, ClassifyQuery, SessionScope};
use crate::store::{
    BacklogPlan, BatchRow, Batches, Disposition, FoundPage, SessionPlace, StoreError,
};
use crate::wire::Skipped;

const JOBS_PER_INSERT: usize = 1_000;

#[derive(Debug, Clone, PartialEq)]
pub enum StepOutcome {
    /// This number of jobs was inserted; there may be more sessions.
    Part(u64),
    /// All items are inserted, and the batch runs.
    Whole(Box<BatchRow>),
    /// The batch isn't expanding: paused, cancelled, expanded or unknown.
    Stopped,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Progress {
    /// The last session that was read.
    after: Option<SessionPlace>,
    /// Number of the next item. Numbers of items that were skipped because of an active job are not reused.
    next_no: i64,
    /// Sessions that have items.
    sessions: u64,
}

struct Backlog {
    row: BatchRow,
    plan: BacklogPlan,
    progress: Progress,
    skipped: Skipped,
}

/// Result of classifying a page of sessions.
struct Slice {
    jobs: Vec<NewJob>,
    /// Sessions that are skipped because of an active job.
    busy: Vec<(Uuid, Option<JobId>)>,
    /// No more sessions.
    last: bool,
}

impl Batches<'_> {
    /// Returns the rescores that are expanding, at most 100.
    pub async fn expanding_backlogs(self) -> Result<Vec<Uuid>, StoreError> {
        let statement = long_sql!(
            "looking for rescores that expand",
            "select batch_id from scoring_batches
             where finished_at is null and state = 'expanding' and origin = 'rescore' order by batch_id limit 100"
        );
        self.db.read_column(&statement).await
    }

    /// Runs one step, which reads enough sessions for about `jobs` items. Several processes may run steps of one batch.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable. The next step continues from the stored cursor.
    pub async fn expand(
        self,
        id: Uuid,
        jobs: u32,
        now: DateTime<Utc>,
    ) -> Result<StepOutcome, StoreError> {
        let lock = step!(
            concat!(
                "update scoring_batches set touched_at = touched_at
                 where batch_id = $1 and state = 'expanding' and origin = 'rescore' returning cursor, ",
                columns!()
            ),
            id
        );
        transact!(self.db, "expanding a rescore", |tx| {
            let Some(row) = tx.fetch(&lock).await?.pop() else {
                return Ok(StepOutcome::Stopped);
            };
            let mut backlog = Backlog::read(&row)?;
            let slice = self.slice(&mut tx, &mut backlog, jobs, now).await?;
            let inserted = backlog.insert(&mut tx, &slice).await?;
            self.store_progress(&mut tx, &backlog, inserted, slice.last)
                .await?
        })
    }

    /// Reads the next sessions, makes their jobs and advances the progress.
    async fn slice(
        self,
        tx: &mut Tx<'_>,
        backlog: &mut Backlog,
        jobs: u32,
        now: DateTime<Utc>,
    ) -> sqlx::Result<Slice> {
        let (plan, row) = (&backlog.plan, &backlog.row);
        let each = u32::try_from(plan.jobs_each()).unwrap_or(u32::MAX).max(1);
        let limit = (jobs / each).max(1);
        let filter = row
            .filter
            .clone()
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| decode("filter", &error.to_string()))?
            .unwrap_or_default();
        let after = backlog.progress.after;
        let query = ClassifyQuery {
            filter: &filter,
            rules: &plan.rules,
            before: row.created_at,
            scope: match plan.picked() {
                true => SessionScope::Picks(row.batch_id, after),
                false => SessionScope::All(after),
            },
            unless_in: Some(row.batch_id),
            limit,
        };
        let statement = classify::statement(tx.dialect(), query);
        let page = classify::page(decoded(&tx.fetch(&statement).await?)?, limit);
        Ok(backlog.take_page(&page, now))
    }

    /// Stores the progress. After the last page the batch runs.
    async fn store_progress(
        self,
        tx: &mut Tx<'_>,
        backlog: &Backlog,
        inserted: u64,
        last: bool,
    ) -> sqlx::Result<StepOutcome> {
        let id = backlog.row.batch_id;
        let full = backlog
            .plan
            .max
            .is_some_and(|max| backlog.progress.sessions >= max);
        let whole = last || full;
        let mut statement = step!(
            "update scoring_batches set cursor = $2, total = total + $3, skipped = $4, expanded = $5, state = $6, touched_at = ",
            id,
            serde_json::to_string(&backlog.progress)
                .map_err(|e| decode("cursor", &e.to_string()))?,
            inserted,
            serde_json::to_value(backlog.skipped).ok(),
            whole,
            if whole { "running" } else { "expanding" }
        );
        statement
            .push(self.db.dialect().now())
            .push(concat!(" where batch_id = $1 returning ", columns!()));
        let rows = tx.fetch(&statement).await?;
        let Some(row) = rows.first().filter(|_| whole) else {
            return Ok(StepOutcome::Part(inserted));
        };
        let picks = step!("delete from scoring_batch_picks where batch_id = $1", id);
        tx.execute(&picks).await?;
        Ok(StepOutcome::Whole(Box::new(row.decode()?)))
    }
}

impl Backlog {
    fn read(row: &DbRow) -> sqlx::Result<Self> {
        let cursor: Option<String> = row.get("cursor")?;
        let progress = cursor
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(|error| decode("cursor", &error.to_string()))?
            .unwrap_or_default();
        let row: BatchRow = row.decode()?;
        let plan = row
            .plan
            .clone()
            .ok_or_else(|| decode("plan", "it is null"))?;
        Ok(Self {
            plan,
            progress,
            skipped: row.skipped.unwrap_or_default(),
            row,
        })
    }

    /// Makes jobs of a page of sessions, up to the batch's maximum.
    fn take_page(&mut self, page: &FoundPage, now: DateTime<Utc>) -> Slice {
        let room = self
            .plan
            .max
            .map_or(u64::MAX, |max| max.saturating_sub(self.progress.sessions));
        let mut slice = Slice {
            jobs: Vec::new(),
            busy: Vec::new(),
            last: !page.more,
        };
        let (mut behind, mut taken) = (self.progress.after, 0);
        self.progress.after = page.last.or(behind);
        for session in &page.found {
            if taken == room {
                // The next step reads the rest, unless these inserts reach the maximum.
                slice.last = false;
                self.progress.after = behind;
                break;
            }
            behind = Some((session.listed_at, session.session_id));
            session.disposition.count_in(&mut self.skipped);
            match session.disposition {
                Disposition::ToScore => {
                    taken += 1;
                    self.make_jobs(session.session_id, now, &mut slice.jobs);
                }
                Disposition::InProgress => slice.busy.push((session.session_id, session.active)),
                Disposition::AlreadyCurrent | Disposition::NotScorable => {}
            }
        }
        slice
    }

    fn make_jobs(&mut self, session_id: Uuid, now: DateTime<Utc>, jobs: &mut Vec<NewJob>) {
        let payload = serde_json::json!(SessionPayload {
            session_id,
            force_rescore: self.plan.force_rescore,
            may_be_precomputed: self.plan.economy,
        });
        let options = JobOptions {
            force: Force::from_flag(self.plan.force_rescore),
            ..JobOptions::new(self.row.created_by.clone(), self.plan.priority)
        };
        for judge in &self.plan.judges {
            for _ in 0..self.plan.repeats {
                jobs.push(NewJob {
                    purpose: self.plan.rules.purpose,
                    payload: payload.clone().into(),
                    criteria_hash: self.plan.rules.criteria_hash.clone(),
                    batch: Some(BatchPlace {
                        batch_id: self.row.batch_id,
                        item_no: self.progress.next_no,
                    }),
                    ..NewJob::of_session(session_id, judge.clone(), options.clone(), now)
                });
                self.progress.next_no += 1;
            }
        }
    }

    /// Inserts the jobs that don't conflict with an active job. The sessions of the others are counted as in progress.
    async fn insert(&mut self, tx: &mut Tx<'_>, slice: &Slice) -> sqlx::Result<u64> {
        let mut inserted: HashSet<Uuid> = HashSet::with_capacity(slice.jobs.len());
        for jobs in slice.jobs.chunks(JOBS_PER_INSERT) {
            let jobs: Vec<&NewJob> = jobs.iter().collect();
            let ids: Vec<Uuid> = column(&tx.fetch(&insert_statement(&jobs)).await?)?;
            inserted.extend(ids);
        }
        let (mut sessions, mut late) = (HashSet::new(), HashSet::new());
        for job in &slice.jobs {
            let group = if inserted.contains(&job.job_id.0) {
                &mut sessions
            } else {
                &mut late
            };
            group.extend(job.subject_id);
        }
        self.progress.sessions += sessions.len() as u64;
        self.skipped.in_progress += i64::try_from(late.len()).unwrap_or(0);
        let mut busy = slice.busy.clone();
        busy.extend(active_jobs(tx, &late).await?);
        keep_busy(tx, self.row.batch_id, &busy).await?;
        Ok(inserted.len() as u64)
    }
}

/// Returns the active jobs that caused conflicts, unless they have ended.
async fn active_jobs(
    tx: &mut Tx<'_>,
    sessions: &HashSet<Uuid>,
) -> sqlx::Result<Vec<(Uuid, Option<JobId>)>> {
    if sessions.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = step!(
        "select subject_id, job_id from scoring_jobs
         where kind = 'session' and finished_at is null and purpose = 'score' and subject_id in "
    );
    statement.push_list(sessions.iter().copied());
    let jobs: HashMap<Uuid, Uuid> = decoded(&tx.fetch(&statement).await?)?;
    Ok(sessions
        .iter()
        .map(|id| (*id, jobs.get(id).copied().map(JobId)))
        .collect())
}

async fn keep_busy(
    tx: &mut Tx<'_>,
    batch_id: Uuid,
    busy: &[(Uuid, Option<JobId>)],
) -> sqlx::Result<()> {
    for busy in busy.chunks(JOBS_PER_INSERT) {
        let rows = busy
            .iter()
            .map(|(session, job)| {
                vec![
                    Arg::from(batch_id),
                    Arg::from(*session),
                    Arg::from(job.map(|job| job.0)),
                ]
            })
            .collect();
        let mut statement = Sql::of_rows("v_batch_id, v_session_id, v_job_id", rows);
        statement.push(
            "insert into scoring_batch_skips (batch_id, session_id, job_id)
             select v_batch_id, v_session_id, v_job_id from v where v_batch_id is not null on conflict do nothing",
        );
        tx.execute(&statement).await?;
    }
    Ok(())
}
