//! Accepts jobs: grouped inserts, with one active job per subject.
//!
//! Callers are answered after the commit. A rejected row doesn't fail the others of its group.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::first::{self, FirstJob};
use super::row::insert_statement;
use crate::job::{JobId, Kind, NewJob};
use crate::store::database::conn::Conn;
use crate::store::database::db::{Db, retry_once};
use crate::store::database::group;
use crate::store::database::row::{column, decoded};
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Sql, step};
use crate::store::{Jobs, StoreError};

/// Timeout of a request for its insert.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of tries if the conflicting active job ends in between.
const ROUNDS: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// The row is committed.
    New,
    /// Another job is active for this subject; no row was inserted.
    Active(JobId),
}

pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

pub(in crate::store) enum Accepting {
    Any(Box<NewJob>, Answer<Accepted>),
    First(Box<FirstJob>),
}

impl Jobs<'_> {
    /// Inserts a job; returns after the commit. Grouped: jobs that arrive during a commit go into the next one.
    ///
    /// Idempotent by `job_id`: a repetition returns `New` as well.
    ///
    /// # Errors
    /// `Unavailable` if the row may not be committed; `Unexpected` if the database rejects the row.
    pub async fn accept(self, job: NewJob) -> Result<Accepted, StoreError> {
        let accepting = |done| Accepting::Any(Box::new(job), done);
        self.request_flush("accepting a job", accepting).await
    }

    /// Sends a job to the flusher and waits for its answer. The timeout covers waiting and insert; a job that isn't reached in
    /// time isn't inserted.
    pub(super) async fn request_flush<T>(
        self,
        attempted: &'static str,
        accepting: impl FnOnce(Answer<T>) -> Accepting,
    ) -> Result<T, StoreError> {
        let (done, answer) = oneshot::channel();
        let asked = async {
            self.accepter.send(accepting(done)).await.ok()?;
            answer.await.ok()
        };
        match timeout(ACCEPT_TIMEOUT, asked).await {
            Ok(Some(answered)) => answered,
            Ok(None) => Err(StoreError::closed(attempted)),
            Err(_) => Err(StoreError::no_answer(
                attempted,
                "the database took too long; a table may be locked",
            )),
        }
    }
}

/// Runs the flusher, a single task.
pub(in crate::store) async fn run(
    mut receiver: mpsc::Receiver<Accepting>,
    closing: CancellationToken,
    db: Db,
) {
    loop {
        let group = group::next(&mut receiver, &closing).await;
        if group.is_empty() {
            return;
        }
        flush(&db, group).await;
    }
}

async fn flush(db: &Db, group: Vec<Accepting>) {
    let (mut firsts, mut jobs, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    for accepting in group {
        match accepting {
            Accepting::First(one) if !one.is_abandoned() => firsts.push(*one),
            Accepting::Any(job, answer) if !answer.is_closed() => {
                jobs.push(*job);
                answers.push(answer);
            }
            Accepting::First(_) | Accepting::Any(..) => {}
        }
    }
    first::flush(db, firsts).await;
    if jobs.is_empty() {
        return;
    }
    let outcomes = match insert(db, &jobs).await {
        Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
        Err(StoreError::Unexpected { .. }) if jobs.len() > 1 => one_by_one(db, &jobs).await,
        Err(error) => vec![Err(error); jobs.len()],
    };
    for (answer, outcome) in answers.into_iter().zip(outcomes) {
        // The caller may have been cancelled; the row is committed anyway.
        let _ = answer.send(outcome);
    }
}

/// Inserts the jobs of a failed group separately, so that only the rejected one fails.
async fn one_by_one(db: &Db, jobs: &[NewJob]) -> Vec<Result<Accepted, StoreError>> {
    let mut outcomes = Vec::with_capacity(jobs.len());
    for job in jobs {
        let outcome = insert(db, std::slice::from_ref(job)).await;
        outcomes.push(outcome.map(|mut one| one.pop().unwrap_or(Accepted::New)));
    }
    outcomes
}

/// Inserts jobs; returns one outcome per job, in order.
async fn insert(db: &Db, jobs: &[NewJob]) -> Result<Vec<Accepted>, StoreError> {
    let mut outcomes: Vec<Option<Accepted>> = vec![None; jobs.len()];
    for _ in 0..ROUNDS {
        let open: Vec<usize> = (0..jobs.len())
            .filter(|n| outcomes.get(*n).is_some_and(Option::is_none))
            .collect();
        if open.is_empty() {
            break;
        }
        let batch: Vec<&NewJob> = open.iter().filter_map(|n| jobs.get(*n)).collect();
        let found = insert_once(db, &batch).await?;
        for (n, outcome) in open.into_iter().zip(found) {
            if let Some(place) = outcomes.get_mut(n) {
                *place = outcome;
            }
        }
    }
    outcomes
        .into_iter()
        .map(|outcome| {
            outcome.ok_or_else(|| {
                StoreError::no_answer(
                    "accepting a job",
                    "other jobs for the same subject were created and ended concurrently"
                        .to_owned(),
                )
            })
        })
        .collect()
}

/// Tries once. `None`: the conflicting active job has ended.
async fn insert_once(db: &Db, jobs: &[&NewJob]) -> Result<Vec<Option<Accepted>>, StoreError> {
    let statement = insert_statement(jobs);
    retry_once!("accepting jobs", async {
        let mut conn = db.writer(Purpose::Write).await?;
        insert_on(&mut conn, &statement, jobs).await
    })
}

async fn insert_on(
    conn: &mut Conn,
    statement: &Sql,
    jobs: &[&NewJob],
) -> sqlx::Result<Vec<Option<Accepted>>> {
    let mut there = ids(conn, statement).await?;
    if there.len() == jobs.len() {
        return Ok(vec![Some(Accepted::New); jobs.len()]);
    }
    let missing: Vec<&NewJob> = jobs
        .iter()
        .copied()
        .filter(|job| !there.contains(&job.job_id.0))
        .collect();
    // Finds own rows that were committed before the connection was lost.
    let mut ours = step!("select job_id from scoring_jobs where job_id in ");
    ours.push_list(missing.iter().map(|job| job.job_id.0));
    there.extend(ids(conn, &ours).await?);
    let active = active_jobs(conn, &missing).await?;
    Ok(jobs
        .iter()
        .map(|job| {
            if there.contains(&job.job_id.0) {
                return Some(Accepted::New);
            }
            active
                .iter()
                .find(|active| active.kind == job.kind && Some(active.subject_id) == job.subject_id)
                .map(|active| Accepted::Active(active.job_id))
        })
        .collect())
}

#[derive(sqlx::FromRow)]
struct ActiveJob {
    #[sqlx(try_from = "Uuid")]
    job_id: JobId,
    #[sqlx(try_from = "String")]
    kind: Kind,
    subject_id: Uuid,
}

async fn ids(conn: &mut Conn, statement: &Sql) -> sqlx::Result<Vec<Uuid>> {
    column(&conn.fetch(statement).await?)
}

async fn active_jobs(conn: &mut Conn, jobs: &[&NewJob]) -> sqlx::Result<Vec<ActiveJob>> {
    let mut statement = step!(
        "select job_id, kind, subject_id from scoring_jobs
         where finished_at is null and purpose = 'score' and subject_id in "
    );
    statement.push_list(jobs.iter().filter_map(|job| job.subject_id));
    decoded(&conn.fetch(&statement).await?)
}
