//! Accepts the first job of a session: on Postgres one statement reads the session and inserts the job, so that most requests
//! cost one round trip.

use std::collections::HashMap;

use uuid::Uuid;

use super::accept::{Accepting, Answer};
use super::row::push_insert;
use crate::job::NewJob;
use crate::store::database::db::Db;
use crate::store::database::row::DbRow;
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Sql, Statement};
use crate::store::sessions::facts::{facts, statement, statement_with};
use crate::store::{Dialect, Jobs, ScoringFacts, StoreError};
use crate::wire::SessionStatus;

const ACCEPTING: &str = "accepting a session's first job";

#[derive(Debug, Clone, PartialEq)]
pub enum FirstOutcome {
    /// The row is committed.
    New,
    /// No row was inserted; these are the session's facts. `None`: unknown session.
    Known(Option<Box<ScoringFacts>>),
}

/// A session's job that is accepted if it is the first one.
pub(in crate::store) struct FirstJob {
    job: NewJob,
    /// Statuses of sessions that may be scored.
    statuses: Vec<SessionStatus>,
    done: Answer<FirstOutcome>,
}

impl FirstJob {
    /// Whether its caller has been cancelled.
    pub(super) fn is_abandoned(&self) -> bool {
        self.done.is_closed()
    }
}

impl Jobs<'_> {
    /// Inserts the job of a session that has one of these statuses, a conversation, and neither a current score nor an active
    /// job. Returns the facts of any other session, and on SQLite of all. Grouped like [`Jobs::accept`].
    ///
    /// # Errors
    /// As [`Jobs::accept`].
    pub async fn accept_first(
        self,
        job: NewJob,
        statuses: Vec<SessionStatus>,
    ) -> Result<FirstOutcome, StoreError> {
        if self.db.dialect() == Dialect::Sqlite {
            // SQLite can't insert and read in one statement, and reads are cheap.
            let statement =
                Statement::new(ACCEPTING, statement(job.subject_id.into_iter().collect()));
            let rows = self.db.rows(&statement).await?;
            let known = facts(&rows).map_err(|error| statement.error(&error))?;
            return Ok(FirstOutcome::Known(known.map(Box::new)));
        }
        let first = |done| {
            Accepting::First(Box::new(FirstJob {
                job,
                statuses,
                done,
            }))
        };
        self.request_flush(ACCEPTING, first).await
    }
}

/// Reads the sessions of a group and inserts the jobs of those without score and job.
pub(super) async fn flush(db: &Db, mut firsts: Vec<FirstJob>) {
    while let Some(statuses) = firsts.first().map(|first| first.statuses.clone()) {
        let alike = |first: &FirstJob| first.statuses == statuses;
        let (group, others) = firsts.into_iter().partition(alike);
        firsts = others;
        flush_alike(db, group, &statuses).await;
    }
}

async fn flush_alike(db: &Db, group: Vec<FirstJob>, statuses: &[SessionStatus]) {
    let jobs: Vec<&NewJob> = group.iter().map(|first| &first.job).collect();
    let statement = Statement::new(ACCEPTING, insert_unscored(&jobs, statuses)).on(Purpose::Write);
    let rows = db.written(&statement).await;
    let found = rows.and_then(|rows| by_session(rows).map_err(|e| StoreError::of(ACCEPTING, &e)));
    match found {
        Ok(found) => {
            for first in group {
                let rows = first.job.subject_id.and_then(|id| found.get(&id));
                let outcome = outcome(&first.job, rows.map_or(&[], Vec::as_slice));
                // The caller may have been cancelled; the row is committed anyway.
                let _ = first
                    .done
                    .send(outcome.map_err(|e| StoreError::of(ACCEPTING, &e)));
            }
        }
        // One row is rejected: insert one by one, so that only that one fails.
        Err(StoreError::Unexpected { .. }) if group.len() > 1 => {
            for first in group {
                Box::pin(flush_alike(db, vec![first], statuses)).await;
            }
        }
        Err(error) => {
            for first in group {
                let _ = first.done.send(Err(error.clone()));
            }
        }
    }
}

fn insert_unscored(jobs: &[&NewJob], statuses: &[SessionStatus]) -> Sql {
    // Names of an enum, which need no escaping.
    let words: Vec<String> = statuses
        .iter()
        .map(|status| format!("'{}'", status.as_str()))
        .collect();
    let only = format!(
        " and exists (select 1 from known where viewed_id = subject_id and session_status in ({})
            and message_count > 0 and current_score_id is null and active_id is null)",
        words.join(", ")
    );
    let sessions = jobs.iter().filter_map(|job| job.subject_id).collect();
    statement_with(sessions, |statement| {
        statement.push(", inserted as (");
        push_insert(statement, jobs, &only);
        statement.push(
            ", subject_id) select (select i.job_id from inserted i where i.subject_id = viewed_id) as inserted_id, ",
        );
    })
}

/// Returns the outcome of a job by the rows of its session.
fn outcome(job: &NewJob, rows: &[DbRow]) -> sqlx::Result<FirstOutcome> {
    let Some(known) = facts(rows)? else {
        return Ok(FirstOutcome::Known(None));
    };
    let inserted = match rows.first() {
        Some(row) => row.get::<Option<Uuid>>("inserted_id")?,
        None => None,
    };
    // An earlier try may have been committed and its answer lost.
    let active = known.active_job.as_ref().map(|job| job.job_id.0);
    Ok(match [inserted, active].contains(&Some(job.job_id.0)) {
        true => FirstOutcome::New,
        false => FirstOutcome::Known(Some(Box::new(known))),
    })
}

fn by_session(rows: Vec<DbRow>) -> sqlx::Result<HashMap<Uuid, Vec<DbRow>>> {
    let mut found: HashMap<Uuid, Vec<DbRow>> = HashMap::with_capacity(rows.len());
    for row in rows {
        found.entry(row.get("viewed_id")?).or_default().push(row);
    }
    Ok(found)
}
