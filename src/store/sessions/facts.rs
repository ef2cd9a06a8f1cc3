//! Reads the facts of a session that enqueueing needs, in one statement.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::job::Job;
use crate::store::database::row::DbRow;
use crate::store::database::sql::{Sql, Statement, step};
use crate::store::jobs::row::job_columns;
use crate::store::{Dialect, Sessions, StoreError};
use crate::wire::SessionStatus;

/// Facts of a session that enqueueing needs.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoringFacts {
    pub status: SessionStatus,
    /// Whether the conversation has a message.
    pub has_conversation: bool,
    /// The active job with purpose `score`.
    pub active_job: Option<Job>,
    /// The newest job that failed after the current score was made (for GET's `not-scored`).
    pub last_failed_job: Option<Job>,
    pub current_score: Option<KnownScore>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct KnownScore {
    pub score_id: Uuid,
    pub criteria_hash: String,
    pub simulated: bool,
}

const READING: &str = "reading the state of a session's score";

impl Sessions<'_> {
    /// Reads the facts of several sessions in one statement; unknown sessions are omitted.
    pub async fn scoring_facts_of(
        self,
        ids: &[Uuid],
    ) -> Result<HashMap<Uuid, ScoringFacts>, StoreError> {
        let statement = Statement::new(READING, statement(ids.to_vec())).long();
        let rows = self.db.rows(&statement).await?;
        let failed = |error: sqlx::Error| statement.error(&error);
        let mut found: HashMap<Uuid, Vec<DbRow>> = HashMap::with_capacity(ids.len());
        for row in rows {
            let id = row.get("viewed_id").map_err(failed)?;
            found.entry(id).or_default().push(row);
        }
        let mut all = HashMap::with_capacity(found.len());
        for (id, rows) in found {
            if let Some(facts) = facts(&rows).map_err(failed)? {
                all.insert(id, facts);
            }
        }
        Ok(all)
    }

    /// Reads the facts of a session. `None`: unknown session.
    pub async fn scoring_facts(self, id: Uuid) -> Result<Option<ScoringFacts>, StoreError> {
        let rows = match self.db.dialect() {
            Dialect::Postgres => self.reader.scoring_facts(id).await?,
            Dialect::Sqlite => {
                let statement = Statement::new(READING, statement(vec![id]));
                self.db.rows(&statement).await?
            }
        };
        facts(&rows).map_err(|error| StoreError::of(READING, &error))
    }
}

macro_rules! current_score {
    () => {
        "from session_scores c where c.session_id = s.session_id and c.superseded_at is null and c.purpose = 'score'"
    };
}

/// Subqueries instead of joins, because a plan made while the tables were empty would read a whole index. Materialized, because
/// otherwise Postgres would compute both ids for every job.
const KNOWN: &str = concat!(
    "with known as materialized (
        select s.session_id as viewed_id, s.status as session_status, s.message_count,
            (select score_id ",
    current_score!(),
    ") as current_score_id, (select criteria_hash ",
    current_score!(),
    ") as current_criteria_hash, (select simulated ",
    current_score!(),
    ") as current_simulated,
            (select job_id from scoring_jobs
             where kind = 'session' and subject_id = s.session_id and finished_at is null
               and purpose = 'score') as active_id,
            (select job_id from scoring_jobs
             where kind = 'session' and subject_id = s.session_id and purpose = 'score' and state = 'failed'
               and finished_at > coalesce((select scored_at ",
    current_score!(),
    "), $1)
             order by finished_at desc, job_id desc limit 1) as failed_id
        from alert_sessions s where s.session_id in "
);
const WITH_JOBS: &str = concat!(
    "viewed_id, session_status, message_count, current_score_id, current_criteria_hash, current_simulated, ",
    job_columns!(),
    " from known left join scoring_jobs on job_id in (active_id, failed_id)"
);

/// The sessions with their current score and relevant jobs: the active one, and the newest that failed after the current score.
/// One row per job; a session without such jobs has one row.
pub(in crate::store) fn statement(ids: Vec<Uuid>) -> Sql {
    statement_with(ids, |statement| {
        statement.push(" select ");
    })
}

/// Adds further parts to the WITH clause, which can read `known`, and the start of their `select`.
pub(in crate::store) fn statement_with(ids: Vec<Uuid>, push_parts: impl FnOnce(&mut Sql)) -> Sql {
    let mut statement = step!(KNOWN, DateTime::<Utc>::UNIX_EPOCH);
    statement.push_list(ids).push(")");
    push_parts(&mut statement);
    statement.push(WITH_JOBS);
    statement
}

/// Reads the rows of one session; `None`: no rows.
pub(in crate::store) fn facts(rows: &[DbRow]) -> sqlx::Result<Option<ScoringFacts>> {
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let current_score = match first.get::<Option<Uuid>>("current_score_id")? {
        Some(score_id) => Some(KnownScore {
            score_id,
            criteria_hash: first.get("current_criteria_hash")?,
            simulated: first.get("current_simulated")?,
        }),
        None => None,
    };
    let mut facts = ScoringFacts {
        status: first.text_enum("session_status")?,
        has_conversation: first.get::<i64>("message_count")? > 0,
        active_job: None,
        last_failed_job: None,
        current_score,
    };
    for row in rows {
        if row.get::<Option<Uuid>>("job_id")?.is_none() {
            continue;
        }
        let job: Job = row.decode()?;
        if job.state.is_terminal() {
            facts.last_failed_job = Some(job);
        } else {
            facts.active_job = Some(job);
        }
    }
    Ok(Some(facts))
}
