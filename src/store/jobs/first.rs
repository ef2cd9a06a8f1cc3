//! Accepting the first job of a session: on Postgres one statement looks at the session and inserts the job, so that most
//! requests cost one round trip.

use std::collections::HashMap;

use uuid::Uuid;

use super::accept::{Accepting, Answer};
use super::row::push_insert;
use crate::job::NewJob;
use crate::store::database::db::{Db, retry_once};
use crate::store::database::session::Purpose;
use crate::store::database::sql::{DbRow, Sql};
use crate::store::sessions::facts::{facts, statement, statement_with};
use crate::store::{Dialect, Jobs, ScoringFacts, StoreError};
use crate::wire::SessionStatus;

const ATTEMPTED: &str = "accepting a session's first job";

/// What came of a first job.
#[derive(Debug, Clone, PartialEq)]
pub enum FirstOutcome {
    /// The row is committed.
    New,
    /// Nothing was inserted: this is known of the session. `None`: it isn't stored.
    Known(Option<Box<ScoringFacts>>),
}

/// A session's job that is accepted if it is the first one.
pub(in crate::store) struct First {
    job: NewJob,
    /// The statuses in which sessions are scored.
    statuses: Vec<SessionStatus>,
    done: Answer<FirstOutcome>,
}

impl First {
    /// Whether nobody waits for it any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.done.is_closed()
    }
}

impl Jobs<'_> {
    /// Inserts the job of a session that is in one of these statuses, has a conversation, and has neither a current score
    /// nor an active job. Of any other session it answers what is known, on SQLite of each. Grouped, as [`Jobs::accept`] is.
    ///
    /// # Errors
    /// As those of [`Jobs::accept`].
    pub async fn accept_first(
        self,
        job: NewJob,
        statuses: Vec<SessionStatus>,
    ) -> Result<FirstOutcome, StoreError> {
        if self.db.dialect() == Dialect::Sqlite {
            // It inserts in no statement that reads, and a look in this process costs nothing.
            let statement = statement(job.subject_id.into_iter().collect());
            let rows = self.db.read(ATTEMPTED, &statement).await?;
            let known = facts(&rows).map_err(|error| StoreError::of(ATTEMPTED, &error))?;
            return Ok(FirstOutcome::Known(known.map(Box::new)));
        }
        let first = |done| {
            Accepting::First(Box::new(First {
                job,
                statuses,
                done,
            }))
        };
        self.ask_flusher(ATTEMPTED, first).await
    }
}

/// Looks at the sessions of a group and inserts the jobs of those that nothing is known of.
pub(super) async fn flush(db: &Db, mut firsts: Vec<First>) {
    while let Some(statuses) = firsts.first().map(|first| first.statuses.clone()) {
        let alike = |first: &First| first.statuses == statuses;
        let (group, others) = firsts.into_iter().partition(alike);
        firsts = others;
        flush_alike(db, group, &statuses).await;
    }
}

async fn flush_alike(db: &Db, group: Vec<First>, statuses: &[SessionStatus]) {
    let jobs: Vec<&NewJob> = group.iter().map(|first| &first.job).collect();
    let statement = insert_unscored(&jobs, statuses);
    let rows = retry_once!(ATTEMPTED, async {
        let mut conn = db.writer_for(Purpose::Write).await?;
        conn.fetch(&statement).await
    });
    let found = rows.and_then(|rows| by_session(rows).map_err(|e| StoreError::of(ATTEMPTED, &e)));
    match found {
        Ok(found) => {
            for first in group {
                let rows = first.job.subject_id.and_then(|id| found.get(&id));
                let outcome = outcome(&first.job, rows.map_or(&[], Vec::as_slice));
                // Whoever asked may be gone; the row is committed all the same.
                let _ = first
                    .done
                    .send(outcome.map_err(|e| StoreError::of(ATTEMPTED, &e)));
            }
        }
        // One of them is refused: each for itself, so that only that one fails.
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
    // Words of a closed enum, which need no escaping.
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

/// What the rows of its session say of a job.
fn outcome(job: &NewJob, rows: &[DbRow]) -> sqlx::Result<FirstOutcome> {
    let Some(known) = facts(rows)? else {
        return Ok(FirstOutcome::Known(None));
    };
    let inserted = match rows.first() {
        Some(row) => row.get::<Option<Uuid>>("inserted_id")?,
        None => None,
    };
    // An earlier try whose answer was lost may have been committed.
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
