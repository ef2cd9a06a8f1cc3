//! Statements that record the outcome of runs, in one transaction. A run without its claim has no effect.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::record::{Ending, Record, Recorded};
use crate::job::JobState;
use crate::store::database::conn::Conn;
use crate::store::database::row::column;
use crate::store::database::sql::{Arg, Sql, step};
use crate::store::database::writes::Writes;
use crate::store::scores::rows;
use crate::store::{Dialect, NewEvaluation, NewSessionScore};

/// Writes records in one transaction; returns one outcome per record, in order. `retried`: an earlier try may be committed.
pub(super) async fn commit_on(
    conn: &mut Conn,
    records: &[Record],
    retried: bool,
) -> sqlx::Result<Vec<Recorded>> {
    let mut applied = match conn.dialect() {
        Dialect::Postgres => commit_in_one(conn, records).await?,
        Dialect::Sqlite => commit_separately(conn, records).await?,
    };
    if retried && applied.len() < records.len() {
        applied.extend(committed_before(conn, records).await?);
    }
    Ok(records
        .iter()
        .map(|record| {
            if applied.contains(&record.fence.job_id.0) {
                Recorded::Applied
            } else {
                Recorded::Stale
            }
        })
        .collect())
}

/// A single statement is its own transaction.
async fn commit_in_one(conn: &mut Conn, records: &[Record]) -> sqlx::Result<HashSet<Uuid>> {
    let rows = conn.fetch(&in_one(records)?).await?;
    column(&rows)
}

pub(super) fn in_one(records: &[Record]) -> sqlx::Result<Sql> {
    let mut writes = Writes::new(Dialect::Postgres, records.len());
    writes.add("applied", |statement| push_update(statement, records));
    add_scores(&mut writes, records.iter())?;
    let mut statement = writes.into_statements().pop().unwrap_or(Sql::new(""));
    statement.push(" select job_id from applied");
    Ok(statement)
}

async fn commit_separately(conn: &mut Conn, records: &[Record]) -> sqlx::Result<HashSet<Uuid>> {
    let mut tx = conn.begin().await?;
    let mut update = Sql::new("");
    push_update(&mut update, records);
    let applied: HashSet<Uuid> = column(&tx.fetch(&update).await?)?;
    let mut writes = Writes::new(Dialect::Sqlite, records.len());
    let is_applied = |record: &&Record| applied.contains(&record.fence.job_id.0);
    add_scores(&mut writes, records.iter().filter(is_applied))?;
    for statement in writes.into_statements() {
        tx.execute(&statement).await?;
    }
    tx.commit().await?;
    Ok(applied)
}

fn add_scores<'a>(
    writes: &mut Writes,
    records: impl Iterator<Item = &'a Record> + Clone,
) -> sqlx::Result<()> {
    let scored: Vec<(&Record, &NewSessionScore)> = records
        .clone()
        .filter_map(|record| Some((record, record.ending.score()?)))
        .collect();
    rows::add(writes, &scored)?;
    let evaluated: Vec<(&Record, &NewEvaluation)> = records
        .filter_map(|record| Some((record, record.ending.evaluation()?)))
        .collect();
    rows::add_evaluations(writes, &evaluated);
    Ok(())
}

/// A row of a job that an earlier try may have changed.
#[derive(sqlx::FromRow)]
struct KnownRecord {
    job_id: Uuid,
    claim_no: i64,
    #[sqlx(try_from = "String")]
    state: JobState,
    finished_at: Option<DateTime<Utc>>,
    score_id: Option<Uuid>,
}

/// Returns the jobs whose row already has the record's content, because an earlier try was committed and its answer lost.
async fn committed_before(conn: &mut Conn, records: &[Record]) -> sqlx::Result<Vec<Uuid>> {
    let mut statement = step!(
        "select j.job_id, j.claim_no, j.state, j.finished_at, s.score_id
         from scoring_jobs j left join session_scores s on s.job_id = j.job_id
         where j.job_id in "
    );
    statement.push_list(records.iter().map(|record| record.fence.job_id.0));
    let mut found = Vec::new();
    for row in conn.fetch(&statement).await? {
        let known: KnownRecord = row.decode()?;
        let same = |record: &&Record| {
            record.fence.job_id.0 == known.job_id
                && record.fence.claim_no == known.claim_no
                && record.ending.state() == known.state
                && match &record.ending {
                    Ending::Scored { score, .. } => Some(score.score_id) == known.score_id,
                    Ending::Failed(_) | Ending::Evaluated { .. } => {
                        known.finished_at == Some(chrono::SubsecRound::trunc_subsecs(record.at, 6))
                    }
                    Ending::Waiting { .. } | Ending::Requeued | Ending::NotStarted => true,
                }
        };
        if records.iter().any(|record| same(&record)) {
            found.push(known.job_id);
        }
    }
    Ok(found)
}

fn push_update(statement: &mut Sql, records: &[Record]) {
    let rows = records.iter().map(values).collect();
    statement.push_rows(
        "v_job_id, v_claim_no, v_worker_id, v_state, v_result, v_simulated, v_retries, v_tokens_in, v_tokens_out, \
         v_cost_usd, v_at, v_finished_at, v_due_at, v_wait_reason, v_wait_until, v_error_class, v_error, v_started",
        rows,
    );
    statement.push(
        "update scoring_jobs set
            state = v_state,
            result = coalesce(v_result, result),
            simulated = coalesce(v_simulated, simulated),
            retries = v_retries,
            tokens_in = tokens_in + v_tokens_in,
            tokens_out = tokens_out + v_tokens_out,
            cost_usd = cost_usd + v_cost_usd,
            finished_at = v_finished_at,
            due_at = coalesce(v_due_at, due_at),
            worker_id = case when v_finished_at is not null then worker_id end,
            lane = case when v_finished_at is null and v_started then coalesce(judge, 'none') else lane end,
            losses = case when v_started then 0 else losses end,
            wait_reason = v_wait_reason,
            wait_until = v_wait_until,
            waiting_since = case when v_state = 'waiting' then coalesce(waiting_since, v_at) end,
            error_class = v_error_class,
            error = v_error
         from v
         where job_id = v_job_id and claim_no = v_claim_no and worker_id = v_worker_id and state = 'running'
         returning job_id",
    );
}

fn values(record: &Record) -> Vec<Arg> {
    let state = record.ending.state();
    let finished_at = state.is_terminal().then_some(record.at);
    let (result, simulated) = match &record.ending {
        Ending::Scored { score, result } => (Some(result), Some(score.score.simulated)),
        Ending::Evaluated { score, result, .. } => (Some(result), Some(score.simulated)),
        Ending::Failed(_) | Ending::Waiting { .. } | Ending::Requeued | Ending::NotStarted => {
            (None, None)
        }
    };
    let due_at = match &record.ending {
        Ending::Waiting { due_at, .. } => Some(*due_at),
        Ending::Requeued | Ending::NotStarted => Some(record.at),
        Ending::Scored { .. } | Ending::Evaluated { .. } | Ending::Failed(_) => None,
    };
    let wait = match &record.ending {
        Ending::Waiting { wait, .. } => Some(wait),
        Ending::Scored { .. }
        | Ending::Evaluated { .. }
        | Ending::Failed(_)
        | Ending::Requeued
        | Ending::NotStarted => None,
    };
    let failure = record.ending.failure();
    vec![
        record.fence.job_id.0.into(),
        record.fence.claim_no.into(),
        record.fence.worker_id.into(),
        state.as_str().into(),
        result.into(),
        simulated.into(),
        record.retries.into(),
        record.usage.tokens_in.into(),
        record.usage.tokens_out.into(),
        record.usage.cost_usd.into(),
        record.at.into(),
        finished_at.into(),
        due_at.into(),
        wait.map(|wait| wait.reason.as_str()).into(),
        wait.and_then(|wait| wait.until).into(),
        failure.map(|failure| failure.class.as_str()).into(),
        failure.map(|failure| failure.message.as_str()).into(),
        (record.ending != Ending::NotStarted).into(),
    ]
}
