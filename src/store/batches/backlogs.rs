//! Batches with items selected by a filter: the stored request, and their creation.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::NewBatch;
use crate::job::Priority;
use crate::store::database::conn::Tx;
use crate::store::database::db::transact;
use crate::store::database::sql::{Arg, Sql, step};
use crate::store::sessions::classify::{ClassifyRules, Disposition};
use crate::store::{Batches, SessionFilter, StoreError};
use crate::wire::{ProviderBatchState, Sample, Skipped};

/// Conversion of the matching sessions to items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BacklogPlan {
    /// Each session is scored by each of these judges.
    pub judges: Vec<String>,
    /// Items per session and judge.
    pub repeats: u32,
    pub rules: ClassifyRules,
    /// Whether cached replies are ignored.
    pub force_rescore: bool,
    pub priority: Priority,
    pub max: Option<u64>,
    /// Number of ids in the request; `None`: the filter has no ids.
    pub ids: Option<u64>,
    /// The sample; `None`: all sessions.
    pub sample: Option<Sample>,
    /// Whether replies are collected through the judge's batch API.
    pub economy: bool,
}

impl BacklogPlan {
    /// Returns the number of jobs per session.
    pub fn jobs_each(&self) -> u64 {
        self.judges.len() as u64 * u64::from(self.repeats)
    }

    /// Whether the sessions are listed in `scoring_batch_picks`.
    pub(in crate::store) fn picked(&self) -> bool {
        self.ids.is_some() || self.sample.is_some()
    }
}

impl Disposition {
    /// Counts one session by its reason to be skipped; `ToScore` isn't counted.
    pub fn count_in(self, skipped: &mut Skipped) {
        match self {
            Self::ToScore => {}
            Self::AlreadyCurrent => skipped.already_current += 1,
            Self::InProgress => skipped.in_progress += 1,
            Self::NotScorable => skipped.not_scorable += 1,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewBacklog {
    pub batch: NewBatch,
    /// Filter without `ids`. Finds only sessions that were stored before the batch.
    pub filter: SessionFilter,
    pub plan: BacklogPlan,
    /// The sessions to score, if the plan has ids or a sample.
    pub picks: Vec<Uuid>,
    /// Number of requested ids that aren't stored.
    pub unknown: i64,
}

const PICKS_PER_INSERT: usize = 1_000;

impl Batches<'_> {
    /// Creates a batch that is expanded step by step by the leader. Idempotent.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; no rows are stored then.
    pub async fn begin_backlog(self, new: &NewBacklog) -> Result<(), StoreError> {
        transact!(self.db, "beginning a rescore", |tx| {
            store_picks(&mut tx, new).await?;
            let mut begin = creation_statement(new);
            begin
                .push(self.db.dialect().now())
                .push(") on conflict (batch_id) do nothing returning batch_id");
            if tx.fetch(&begin).await?.is_empty() {
                // An earlier try was committed. Its picks may be used and deleted already, so these must not be inserted.
                return Ok(());
            }
        })
    }
}

async fn store_picks(tx: &mut Tx<'_>, new: &NewBacklog) -> sqlx::Result<()> {
    for picks in new.picks.chunks(PICKS_PER_INSERT) {
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

/// The statement up to the database's time and the closing parenthesis.
fn creation_statement(new: &NewBacklog) -> Sql {
    let batch = &new.batch;
    let skipped = Skipped {
        unknown: new.unknown,
        ..Skipped::default()
    };
    step!(
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
