//! Statistics of a batch: items by state, cost and verdict. Computed on request, and stored once all items have ended.
//!
//! Simulated scores are excluded if any score is real.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::job::JobState;
use crate::store::batches::columns;
use crate::store::budgets::usage::known_usd;
use crate::store::database::row::DbRow;
use crate::store::database::sql::long_sql;
use crate::store::{BatchRow, Batches, StoreError};
use crate::wire::{BatchCostItem, BatchVerdict};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BatchFigures {
    /// Items by state; states without items are omitted.
    pub counts: BTreeMap<JobState, i64>,
    /// USD of all calls; `None`: the price of some call is unknown.
    pub cost_usd: Option<f64>,
    /// Verdict over its cases; `None`: no case is evaluated.
    pub verdict: Option<BatchVerdict>,
    /// Judges of the unfinished items, `None` for items that need no judge. Empty in stored statistics.
    #[serde(skip)]
    pub lanes: BTreeSet<Option<String>>,
}

/// Items of a batch that are alike; numbers as in the statement.
#[derive(sqlx::FromRow)]
struct Items {
    #[sqlx(try_from = "String")]
    state: JobState,
    items: i64,
    cost: Option<f64>,
    unpriced: i64,
    evaluated: i64,
    made: i64,
    passed: i64,
    whole: i64,
    total: Option<f64>,
    judge: Option<String>,
}

/// Origin of a group of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Computed,
    Simulated,
    Judged,
}

struct Group {
    made: Made,
    passed: Option<bool>,
    whole: bool,
    cases: i64,
    sum: f64,
}

impl Batches<'_> {
    /// Returns the statistics of a batch as of its row or later. Once all items have ended they are computed a last time.
    pub async fn figures(self, batch: &BatchRow) -> Result<BatchFigures, StoreError> {
        if let Some(kept) = &batch.figures {
            return Ok(kept.clone());
        }
        let figures = self.count_items(batch.batch_id).await?;
        if batch.finished_at.is_some() && figures.unfinished() == 0 {
            self.keep_figures(batch, &figures).await?;
        }
        Ok(figures)
    }

    /// Stores statistics that were computed after the batch's row was read, unless the batch has been reopened since.
    pub async fn keep_figures(
        self,
        batch: &BatchRow,
        figures: &BatchFigures,
    ) -> Result<(), StoreError> {
        let keep = long_sql!(
            "storing a batch's totals",
            "update scoring_batches set figures = $3
             where batch_id = $1 and reopened = $2 and finished_at is not null",
            batch.batch_id,
            batch.reopened,
            serde_json::to_value(figures).ok()
        );
        self.db.execute(&keep).await.map(drop)
    }

    /// Stores the statistics of ended batches before their items are deleted: of all batches, or of those with items of a
    /// session.
    pub(in crate::store) async fn keep_ended_figures(
        self,
        session: Option<Uuid>,
    ) -> Result<(), StoreError> {
        let mut statement = long_sql!(
            "storing totals of batches",
            concat!(
                "select ",
                columns!(),
                " from scoring_batches where finished_at is not null and figures is null and not abandoned"
            )
        );
        if let Some(session) = session {
            statement.push(" and batch_id in (select batch_id from scoring_jobs where batch_id is not null and subject_id = ");
            statement.push_arg(session).push(")");
        }
        for row in self.db.read::<BatchRow>(&statement).await? {
            self.figures(&row).await?;
        }
        Ok(())
    }

    async fn count_items(self, id: Uuid) -> Result<BatchFigures, StoreError> {
        // One statement, so that counts and verdict are consistent. Only ended jobs count, because a job that was queued again
        // keeps its last score until the next one.
        let groups = long_sql!(
            "counting a batch's items",
            "select j.state, count(*) as items, sum(j.cost_usd) as cost,
                cast(sum(case when j.cost_usd is null then 1 else 0 end) as bigint) as unpriced,
                cast(case when e.job_id is null then 0 else 1 end as bigint) as evaluated,
                cast(case when e.simulated then 1 when j.judge is null then 0 else 2 end as bigint) as made,
                cast(case when e.passed is null then -1 when e.passed then 1 else 0 end as bigint) as passed,
                cast(case when e.total is null then 0 else 1 end as bigint) as whole,
                sum(e.total) as total, case when j.finished_at is null then j.judge end as judge
             from scoring_jobs j
             left join evaluation_scores e on e.job_id = j.job_id and j.state in ('succeeded', 'failed')
             where j.batch_id = $1
             group by 1, 5, 6, 7, 8, 10",
            id
        );
        let mut figures = BatchFigures {
            cost_usd: Some(0.0),
            ..BatchFigures::default()
        };
        let mut scored = Vec::new();
        for items in self.db.read::<Items>(&groups).await? {
            scored.extend(Group::of(&items));
            figures.add(items);
        }
        let total = figures.total();
        figures.verdict = (!scored.is_empty()).then(|| verdict(&scored, total));
        Ok(figures)
    }
}

impl BatchFigures {
    fn add(&mut self, items: Items) {
        *self.counts.entry(items.state).or_default() += items.items;
        if !items.state.is_terminal() {
            self.lanes.insert(items.judge);
        }
        self.cost_usd = self
            .cost_usd
            .filter(|_| items.unpriced == 0)
            .map(|sum| sum + items.cost.unwrap_or(0.0));
    }

    pub fn unfinished(&self) -> i64 {
        let open = [JobState::Queued, JobState::Running, JobState::Waiting];
        open.iter().map(|state| self.count(*state)).sum()
    }

    pub fn total(&self) -> i64 {
        self.counts.values().sum()
    }

    pub fn count(&self, state: JobState) -> i64 {
        self.counts.get(&state).copied().unwrap_or(0)
    }
}

impl Group {
    /// `None`: items without scores.
    fn of(items: &Items) -> Option<Self> {
        (items.evaluated == 1).then(|| Self {
            made: match items.made {
                0 => Made::Computed,
                1 => Made::Simulated,
                _ => Made::Judged,
            },
            passed: (items.passed >= 0).then_some(items.passed == 1),
            whole: items.whole == 1,
            cases: items.items,
            sum: items.total.unwrap_or(0.0),
        })
    }
}

fn verdict(groups: &[Group], total: i64) -> BatchVerdict {
    let real = groups
        .iter()
        .any(|group| group.made == Made::Judged && group.whole);
    let counted: Vec<&Group> = groups
        .iter()
        .filter(|group| !real || group.made != Made::Simulated)
        .collect();
    let cases = |of: &dyn Fn(&Group) -> bool| -> i64 {
        let of = counted.iter().filter(|group| of(group));
        of.map(|group| group.cases).sum()
    };
    let passed = cases(&|group| group.whole && group.passed == Some(true));
    let failed = cases(&|group| group.whole && group.passed == Some(false));
    let (whole, incomplete) = (cases(&|group| group.whole), cases(&|group| !group.whole));
    let sum: f64 = counted.iter().map(|group| group.sum).sum();
    BatchVerdict {
        passed,
        failed,
        incomplete,
        unscored: (total - whole - incomplete).max(0),
        pass_rate: share(passed, passed + failed),
        mean: (whole > 0).then(|| sum / float(whole)),
        coverage: share(whole, total).unwrap_or(0.0),
        simulated: counted.iter().any(|group| group.made == Made::Simulated),
    }
}

fn share(part: i64, of: i64) -> Option<f64> {
    (of > 0).then(|| float(part) / float(of))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a batch has at most a million items"
)]
fn float(count: i64) -> f64 {
    count as f64
}

// Costs of batches by name, so that a nightly suite is one row. Sums of the call log's totals by batch.

impl Batches<'_> {
    /// Counts the batches that were created in `from..to`, up to `most`.
    pub async fn count_between(
        self,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        most: u32,
    ) -> Result<i64, StoreError> {
        let statement = long_sql!(
            "counting batches",
            "select count(*) as batches from (select batch_id from scoring_batches
                where not abandoned and created_at >= $1 and created_at < $2 limit $3) b",
            from,
            to,
            most
        );
        Ok(self.db.read_value(&statement).await?.unwrap_or_default())
    }

    /// Costs of the batches that were created in `from..to`, by name and kind, highest first. Reads the newest `most` batches
    /// and returns at most `limit` rows. Waits for this process's call log.
    pub async fn costs(
        self,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        most: u32,
        limit: u32,
    ) -> Result<Vec<BatchCostItem>, StoreError> {
        self.call_log.flush().await;
        let statement = long_sql!(
            "summing up what batches cost",
            "select b.name, b.kind, count(distinct b.batch_id) as batches, coalesce(sum(u.cost_usd), 0.0) as cost_usd,
                cast(coalesce(sum(u.unpriced), 0) as bigint) as unpriced,
                cast(coalesce(sum(u.tokens_in), 0) as bigint) as tokens_in,
                cast(coalesce(sum(u.tokens_out), 0) as bigint) as tokens_out
             from (select batch_id, name, kind from scoring_batches
                where not abandoned and created_at >= $1 and created_at < $2
                order by created_at desc, batch_id desc limit $3) b
             left join scoring_batch_usage u on u.batch_id = b.batch_id
             group by b.name, b.kind order by 4 desc, 5 desc, coalesce(b.name, ''), b.kind limit $4",
            from,
            to,
            most,
            limit
        );
        self.db.read_with(&statement, cost).await
    }
}

fn cost(row: &DbRow) -> sqlx::Result<BatchCostItem> {
    let unpriced_calls = row.get("unpriced")?;
    Ok(BatchCostItem {
        name: row.get("name")?,
        kind: row.text_enum("kind")?,
        batches: row.get("batches")?,
        tokens_in: row.get("tokens_in")?,
        tokens_out: row.get("tokens_out")?,
        cost_usd: known_usd(row.get("cost_usd")?, unpriced_calls),
        unpriced_calls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(made: Made, passed: Option<bool>, cases: i64, each: f64) -> Group {
        Group {
            made,
            passed,
            whole: each >= 0.0,
            cases,
            sum: if each >= 0.0 {
                each * float(cases)
            } else {
                0.0
            },
        }
    }

    #[test]
    fn real_scores_exclude_simulated_ones() {
        let computed = || group(Made::Computed, Some(true), 2, 1.0);
        let simulated = || group(Made::Simulated, Some(false), 2, 0.5);
        let judged = || group(Made::Judged, Some(false), 2, 0.25);
        let only = verdict(&[computed(), simulated()], 10);
        assert_eq!(
            (only.passed, only.failed, only.unscored, only.simulated),
            (2, 2, 6, true)
        );
        assert_eq!(
            (only.mean, only.pass_rate, only.coverage),
            (Some(0.75), Some(0.5), 0.4)
        );
        let mixed = verdict(&[computed(), simulated(), judged()], 10);
        assert_eq!(
            (mixed.passed, mixed.failed, mixed.unscored, mixed.simulated),
            (2, 2, 6, false)
        );
        assert_eq!(mixed.mean, Some(0.625));
    }

    #[test]
    fn incomplete_items_are_in_no_mean_or_rate() {
        let groups = [
            group(Made::Judged, Some(true), 1, 1.0),
            group(Made::Judged, None, 3, -1.0),
        ];
        let verdict = verdict(&groups, 4);
        assert_eq!((verdict.incomplete, verdict.unscored), (3, 0));
        assert_eq!(
            (verdict.mean, verdict.pass_rate, verdict.coverage),
            (Some(1.0), Some(1.0), 0.25)
        );
        let none = super::verdict(&[group(Made::Computed, None, 3, -1.0)], 3);
        assert_eq!(
            (none.mean, none.pass_rate, none.coverage),
            (None, None, 0.0)
        );
    }
}
