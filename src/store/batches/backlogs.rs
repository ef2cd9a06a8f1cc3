//! Batches whose items are found by a filter: what is stored of such a request, and how one begins.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::NewBatch;
use crate::job::Priority;
use crate::store::database::db::{Conn, Tx, retry_once};
use crate::store::database::sql::{Arg, Sql, sql};
use crate::store::sessions::classify::{ClassifyRules, Disposition};
use crate::store::{Batches, SessionFilter, StoreError};
use crate::wire::{ProviderBatchState, Sample, Skipped};

/// How the items of a batch are made of the sessions that its filter finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BacklogPlan {
    /// Each session is judged by each of them.
    pub judges: Vec<String>,
    /// So often.
    pub repeats: u32,
    /// What is skipped.
    pub rules: ClassifyRules,
    /// Whether cached replies are skipped.
    pub force_rescore: bool,
    pub priority: Priority,
    /// Sessions at most.
    pub max: Option<u64>,
    /// How many ids were named; `None`: the filter names none.
    pub ids: Option<u64>,
    /// Which sessions were drawn; `None`: all of them.
    pub sample: Option<Sample>,
    /// Whether replies are collected by the judge's batch endpoint.
    #[serde(default)]
    pub economy: bool,
}

impl BacklogPlan {
    /// How many jobs a session makes.
    pub fn jobs_each(&self) -> u64 {
        self.judges.len() as u64 * u64::from(self.repeats)
    }

    /// Whether the sessions were picked beforehand.
    pub(in crate::store) fn picked(&self) -> bool {
        self.ids.is_some() || self.sample.is_some()
    }
}

impl Disposition {
    /// Counts one session; one that is to be scored isn't skipped.
    pub fn count_in(self, skipped: &mut Skipped) {
        match self {
            Self::ToScore => {}
            Self::AlreadyCurrent => skipped.already_current += 1,
            Self::InProgress => skipped.in_progress += 1,
            Self::NotScorable => skipped.not_scorable += 1,
        }
    }
}

/// A batch to begin, whose items are found by a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBacklog {
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

impl Batches<'_> {
    /// Begins a batch that expands by itself, a step at a time, whoever takes the steps. Idempotent.
    ///
    /// # Errors
    /// `Unavailable` when the database is away; nothing of it is stored then.
    pub async fn begin_backlog(self, new: &NewBacklog) -> Result<(), StoreError> {
        const ATTEMPTED: &str = "beginning a rescore";
        retry_once!(ATTEMPTED, async {
            let mut conn: Conn = self.db.long_writer().await?;
            let mut tx = conn.begin().await?;
            store_picks(&mut tx, new).await?;
            let mut begin = begin_statement(new);
            begin
                .push(self.db.dialect().now())
                .push(") on conflict (batch_id) do nothing returning batch_id");
            if tx.fetch(&begin).await?.is_empty() {
                // An earlier try was committed: its picks may be used up by now, and these mustn't stay.
                return Ok(());
            }
            tx.commit().await
        })
    }
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
        "insert into scoring_batches (batch_id, name, kind, origin, state, threshold, created_by, authenticated_as, created_at,
            criteria_hash, budget_usd, purpose, filter, plan, skipped, economy, expanded, halted, touched_at)
         values ($1, $2, $3, $4, 'expanding', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, false, false, ",
        batch.batch_id,
        batch.name.as_deref(),
        batch.kind.as_str(),
        batch.origin.as_str(),
        batch.threshold,
        &batch.created_by.user,
        batch.created_by.authenticated_as.as_deref(),
        batch.created_at,
        &batch.criteria_hash,
        batch.budget_usd,
        new.plan.rules.purpose.as_str(),
        serde_json::to_value(&new.filter).ok(),
        serde_json::to_value(&new.plan).ok(),
        serde_json::to_value(skipped).ok(),
        new.plan.economy.then(|| ProviderBatchState::Asked.as_str())
    )
}
