//! Batches whose items are found by a filter: what is stored of such a request, and how sessions are sorted for it.
//!
//! Sessions are read a page at a time, newest first, by whoever expands the batch and by whoever asks what it would come to:
//! both sort by the same statement.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::batches::NewBatch;
use super::db::{Conn, Tx, twice};
use super::sql::{Arg, Row, Sql, sql};
use super::{EconomyState, SessionFilter, Store, StoreError};
use crate::job::{JobId, Priority, Purpose, text_enum};

/// How the items of a batch are made of the sessions that its filter finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BacklogPlan {
    /// Each session is judged by each of them.
    pub judges: Vec<String>,
    /// So often.
    pub repeats: u32,
    /// What is passed over.
    pub rules: SortRules,
    /// Whether cached replies are passed over.
    pub force_rescore: bool,
    /// Who waits.
    pub priority: Priority,
    /// Sessions at most.
    pub max: Option<u64>,
    /// How many ids were named; `None`: the filter names none.
    pub ids: Option<u64>,
    /// Which sessions were drawn; `None`: all of them.
    pub sample: Option<Sample>,
    /// Whether replies are fetched ahead by the judge's batch endpoint.
    #[serde(default)]
    pub economy: bool,
}

impl BacklogPlan {
    /// How many jobs a session makes.
    pub fn jobs_each(&self) -> u64 {
        self.judges.len() as u64 * u64::from(self.repeats)
    }

    /// Whether the sessions were picked beforehand.
    fn picked(&self) -> bool {
        self.ids.is_some() || self.sample.is_some()
    }
}

/// So many of the sessions, the same ones whenever they are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// How many, 1-100,000.
    pub size: u64,
    /// What they are drawn with; left out: 0.
    #[serde(default)]
    pub seed: u64,
}

/// What makes a session one to score, or one to pass over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SortRules {
    /// Only for `score` are sessions passed over that have their score, or are being scored.
    pub purpose: Purpose,
    /// What they are to be judged by.
    pub criteria_hash: String,
    /// Whether those that have their score are scored all the same.
    pub force: bool,
    /// Whether a simulated score is as good as any: the judge to be asked is simulated too.
    pub simulated: bool,
    /// Whether only sessions that ended `completed` are scored.
    pub completed_only: bool,
}

text_enum! {
    /// What a session is to a request to score many.
    pub enum Standing {
        /// To be scored.
        ToScore = "to_score",
        /// Its current score is by these criteria.
        AlreadyCurrent = "already_current",
        /// A job is active for it.
        InProgress = "in_progress",
        /// It hasn't ended, or there is nothing to judge.
        NotScorable = "not_scorable",
    }
}

/// How many sessions were found and passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Skipped {
    /// Their current score is by these criteria already.
    pub already_current: i64,
    /// A job was active for them.
    pub in_progress: i64,
    /// They haven't ended, or have an empty conversation.
    pub not_scorable: i64,
    /// Ids that were named and aren't stored.
    pub unknown: i64,
}

impl Skipped {
    /// Counts one session; one that is to be scored isn't passed over.
    pub fn count(&mut self, standing: Standing) {
        match standing {
            Standing::ToScore => {}
            Standing::AlreadyCurrent => self.already_current += 1,
            Standing::InProgress => self.in_progress += 1,
            Standing::NotScorable => self.not_scorable += 1,
        }
    }
}

/// A session that a filter found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its place: lists go newest first.
    pub listed_at: DateTime<Utc>,
    /// The session.
    pub session_id: Uuid,
    /// What it is to the request.
    pub standing: Standing,
    /// The job that is active for it.
    pub active: Option<JobId>,
}

/// A batch to begin, whose items are found by a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBacklog {
    /// What any batch has.
    pub batch: NewBatch,
    /// Which sessions, but for `ids`; of those stored by then.
    pub filter: SessionFilter,
    /// How its items are made.
    pub plan: BacklogPlan,
    /// Only these sessions, if the plan names ids or a sample.
    pub picks: Vec<Uuid>,
    /// How many of the ids that were named aren't stored.
    pub unknown: i64,
}

/// How many picks one statement stores.
const PICKS: usize = 1_000;
/// The most sessions that are sorted at once.
const LONGEST: u32 = 10_000;

impl Store {
    /// Begins a batch that expands by itself, a step at a time, whoever takes the steps. Beginning the same one twice is well.
    ///
    /// # Errors
    /// `Unavailable` when the database is away; nothing of it is stored then.
    pub async fn begin_backlog(&self, new: &NewBacklog) -> Result<(), StoreError> {
        const ATTEMPTED: &str = "beginning a rescore";
        twice!(ATTEMPTED, async {
            let mut conn: Conn = self.db.writer().await?;
            let mut tx = conn.begin().await?;
            store_picks(&mut tx, new).await?;
            let mut begin = begin_statement(new);
            begin
                .push(self.database_now())
                .push(") on conflict (batch_id) do nothing returning batch_id");
            if tx.fetch(&begin).await?.is_empty() {
                // An earlier try was committed: its picks may be used up by now, and these mustn't stay.
                return Ok(());
            }
            tx.commit().await
        })
    }

    /// Sorts sessions that were stored up to `before`, newest first, behind the place `after`. At most 10,000 at once, and 10,000
    /// `ids` in the filter.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn sort_sessions(
        &self,
        filter: &SessionFilter,
        rules: &SortRules,
        before: DateTime<Utc>,
        after: Option<(DateTime<Utc>, Uuid)>,
        limit: u32,
    ) -> Result<Vec<Found>, StoreError> {
        const ATTEMPTED: &str = "sorting sessions to score";
        let mut statement = self.sort_statement(filter, rules, before);
        push_page(&mut statement, after, limit.clamp(1, LONGEST));
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        found(&rows).map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// How many of these sessions were stored up to `before`. Each counts once.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn count_stored(
        &self,
        ids: &[Uuid],
        before: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        const ATTEMPTED: &str = "counting stored sessions";
        let mut stored = 0;
        for ids in ids.chunks(PICKS) {
            let mut statement = sql!(
                "select count(*) as stored from alert_sessions where created_at <= $1 and session_id in ",
                before
            );
            statement.push_list(ids.iter().copied());
            let rows = self.db.read(ATTEMPTED, &statement).await?;
            let count = rows.first().map_or(Ok(0_u64), |row| row.int("stored"));
            stored += count.map_err(|e| StoreError::of(ATTEMPTED, &e))?;
        }
        Ok(stored)
    }

    /// The sessions of a filter with what they are to a request, without their order.
    pub(super) fn sort_statement(
        &self,
        filter: &SessionFilter,
        rules: &SortRules,
        before: DateTime<Utc>,
    ) -> Sql {
        let mut statement =
            sql!("select s.session_id, s.listed_at, a.job_id as active_id, case when ");
        statement.push(if rules.completed_only {
            "s.status <> 'completed'"
        } else {
            "s.status not in ('completed', 'failed', 'cancelled', 'timed_out')"
        });
        statement.push(" or s.message_count = 0 then 'not_scorable'");
        if rules.purpose == Purpose::Score {
            if !rules.force {
                statement
                    .push(" when c.criteria_hash = ")
                    .push_arg(&rules.criteria_hash);
                if !rules.simulated {
                    statement.push(" and not c.simulated");
                }
                statement.push(" then 'already_current'");
            }
            statement.push(" when a.job_id is not null then 'in_progress'");
        }
        statement.push(
            " else 'to_score' end as standing
             from alert_sessions s
             left join session_scores c
                on c.session_id = s.session_id and c.superseded_at is null and c.purpose = 'score'
             left join scoring_jobs a
                on a.kind = 'session' and a.subject_id = s.session_id and a.finished_at is null and a.purpose = 'score'
             where s.created_at <= ",
        );
        statement.push_arg(before);
        filter.narrow(&mut statement, self.dialect());
        statement
    }
}

/// Which of the sessions of a batch come next: those that it hasn't got, in their order, behind a place.
pub(super) fn push_rest(
    statement: &mut Sql,
    batch_id: Uuid,
    plan: &BacklogPlan,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: u32,
) {
    if plan.picked() {
        statement
            .push(" and s.session_id in (select p.session_id from scoring_batch_picks p where p.batch_id = ")
            .push_arg(batch_id)
            .push(")");
    }
    // A session that was put again meanwhile may have moved behind the place.
    statement
        .push(" and not exists (select 1 from scoring_jobs o where o.subject_id = s.session_id and o.batch_id = ")
        .push_arg(batch_id)
        .push(")");
    push_page(statement, after, limit);
}

fn push_page(statement: &mut Sql, after: Option<(DateTime<Utc>, Uuid)>, limit: u32) {
    if let Some((at, id)) = after {
        statement.push(" and (s.listed_at, s.session_id) < (");
        statement.push_arg(at).push(", ").push_arg(id).push(")");
    }
    statement
        .push(" order by s.listed_at desc, s.session_id desc limit ")
        .push_arg(limit);
}

pub(super) fn found(rows: &[Row]) -> sqlx::Result<Vec<Found>> {
    rows.iter()
        .map(|row| {
            Ok(Found {
                listed_at: row.get("listed_at")?,
                session_id: row.get("session_id")?,
                standing: row.text_enum("standing")?,
                active: row.get::<Option<Uuid>>("active_id")?.map(JobId),
            })
        })
        .collect()
}

async fn store_picks(tx: &mut Tx<'_>, new: &NewBacklog) -> sqlx::Result<()> {
    for picks in new.picks.chunks(PICKS) {
        let rows = picks
            .iter()
            .map(|id| vec![Arg::from(new.batch.batch_id), Arg::from(*id)])
            .collect();
        let mut statement = Sql::of_rows("v_batch_id, v_session_id", rows);
        statement.push(
            "insert into scoring_batch_picks (batch_id, session_id)
             select v_batch_id, v_session_id from v where v_batch_id is not null on conflict do nothing",
        );
        tx.execute(&statement).await?;
    }
    Ok(())
}

/// Up to the database's time and the closing bracket.
fn begin_statement(new: &NewBacklog) -> Sql {
    let batch = &new.batch;
    let skipped = Skipped {
        unknown: new.unknown,
        ..Skipped::default()
    };
    sql!(
        "insert into scoring_batches (batch_id, name, kind, origin, state, threshold, created_by, created_at, criteria_hash,
            budget_usd, purpose, filter, plan, skipped, economy, expanded, halted, touched_at)
         values ($1, $2, $3, $4, 'expanding', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, false, false, ",
        batch.batch_id,
        batch.name.as_deref(),
        batch.kind.as_str(),
        batch.origin.as_str(),
        batch.threshold,
        &batch.created_by,
        batch.created_at,
        &batch.criteria_hash,
        batch.budget_usd,
        new.plan.rules.purpose.as_str(),
        serde_json::to_value(&new.filter).ok(),
        serde_json::to_value(&new.plan).ok(),
        serde_json::to_value(skipped).ok(),
        new.plan.economy.then(|| EconomyState::Asked.as_str())
    )
}
