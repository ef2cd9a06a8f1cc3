//! `judge_usage_daily`: usage of judge calls by UTC day, judge and model. Counted when calls are logged, and never pruned. A
//! day has a row for each process that counts, which are merged when the day is over.
//!
//! Calls whose row couldn't be stored are included.

use std::collections::BTreeMap;

use chrono::{Datelike as _, NaiveDate};
use uuid::Uuid;

use crate::judge::CallRecord;
use crate::store::analytics::latency;
use crate::store::database::db::retry_once;
use crate::store::database::row::{Day, Nullable};
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Arg, Sql, long_sql, step, without_nul};
use crate::store::{Budgets, StoreError};
use crate::wire::UsageBy;

fn columns(by: UsageBy) -> &'static str {
    match by {
        UsageBy::Day => "day",
        UsageBy::Judge => "judge",
        UsageBy::Model => "judge, model",
    }
}

#[derive(Debug, Clone, PartialEq, Default, sqlx::FromRow)]
pub struct UsageSum {
    /// Set if grouped by day.
    #[sqlx(default, try_from = "Nullable<Day>")]
    pub day: Option<NaiveDate>,
    /// `None` if grouped by day.
    #[sqlx(default)]
    pub judge: Option<String>,
    /// Set if grouped by model.
    #[sqlx(default)]
    pub model: Option<String>,
    pub calls: i64,
    /// Calls without a usable reply.
    pub failed_calls: i64,
    /// Prompt tokens, including cached ones.
    pub tokens_in: i64,
    /// Prompt tokens that a provider read from its cache.
    pub tokens_in_cached: i64,
    pub tokens_out: i64,
    /// USD of the calls with a known price.
    pub cost_usd: f64,
    /// Calls without a known price.
    pub unpriced_calls: i64,
}

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct JudgeSpent {
    pub judge: String,
    /// USD of today's calls with a known price.
    pub today_usd: f64,
    /// USD of this month's calls with a known price, including today's.
    pub month_usd: f64,
    /// Today's calls without a known price.
    pub today_unpriced_calls: i64,
    /// This month's calls without a known price, including today's.
    pub unpriced_calls: i64,
}

impl UsageSum {
    fn add_call(&mut self, call: &CallRecord) {
        self.add(&Self {
            calls: 1,
            failed_calls: i64::from(call.error.is_some()),
            tokens_in: call.usage.tokens_in,
            tokens_in_cached: call.usage.tokens_in_cached,
            tokens_out: call.usage.tokens_out,
            cost_usd: call.usage.cost_usd.unwrap_or(0.0),
            unpriced_calls: i64::from(call.usage.cost_usd.is_none()),
            ..Self::default()
        });
    }

    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failed_calls = self.failed_calls.saturating_add(other.failed_calls);
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_in_cached = self.tokens_in_cached.saturating_add(other.tokens_in_cached);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.cost_usd += other.cost_usd;
        self.unpriced_calls = self.unpriced_calls.saturating_add(other.unpriced_calls);
    }

    /// Returns the known cost in USD; `None` if it is 0 and there are calls without a known price.
    pub fn known_cost_usd(&self) -> Option<f64> {
        known_usd(self.cost_usd, self.unpriced_calls)
    }
}

/// Returns the known cost in USD; `None` if it is 0 and there are calls without a known price.
pub fn known_usd(usd: f64, unpriced_calls: i64) -> Option<f64> {
    (unpriced_calls == 0 || usd > 0.0).then_some(usd)
}

impl Budgets<'_> {
    /// Returns the usage of these days, both inclusive, at most 10,000 groups in order. Waits for this process's call log.
    pub async fn usage(
        self,
        from: NaiveDate,
        to: NaiveDate,
        by: UsageBy,
    ) -> Result<Vec<UsageSum>, StoreError> {
        self.call_log.flush().await;
        let mut statement = long_sql!("summing up judge calls", "select ");
        statement
            .push(columns(by))
            .push(
                ", cast(sum(calls) as bigint) as calls, cast(sum(failed_calls) as bigint) as failed_calls,
                    cast(sum(tokens_in) as bigint) as tokens_in, cast(sum(tokens_in_cached) as bigint) as tokens_in_cached,
                    cast(sum(tokens_out) as bigint) as tokens_out, sum(cost_usd) as cost_usd,
                    cast(sum(unpriced_calls) as bigint) as unpriced_calls
                 from judge_usage_daily where day >= ",
            )
            .push_arg(from.to_string())
            .push(" and day <= ")
            .push_arg(to.to_string());
        statement.push(" group by ").push(columns(by));
        statement.push(" order by ").push(columns(by));
        statement.push(" limit 10000");
        self.db.read(&statement).await
    }
}

impl Budgets<'_> {
    /// Returns the cost of each judge on `today` and in its month so far, by name, at most 10,000. Doesn't wait for the call
    /// log.
    pub async fn spent(self, today: NaiveDate) -> Result<Vec<JudgeSpent>, StoreError> {
        let statement = long_sql!(
            "summing up what judges cost",
            "select judge, sum(case when day = $1 then cost_usd else 0.0 end) as today_usd, sum(cost_usd) as month_usd,
                cast(sum(case when day = $1 then unpriced_calls else 0 end) as bigint) as today_unpriced_calls,
                cast(sum(unpriced_calls) as bigint) as unpriced_calls
             from judge_usage_daily where day >= $2 and day <= $1
             group by judge order by judge limit 10000",
            today.to_string(),
            today.with_day(1).unwrap_or(today).to_string()
        );
        self.db.read(&statement).await
    }
}

/// Worker id of the merged rows of finished days.
const NOBODY: Uuid = Uuid::nil();
const DAYS: u32 = 100;
const COLUMNS: &str = "day, judge, model, worker_id, calls, failed_calls, tokens_in, tokens_in_cached, tokens_out, \
                       cost_usd, unpriced_calls";

pub(in crate::store) type Sums = BTreeMap<(String, String, String), UsageSum>;

impl Budgets<'_> {
    /// Merges the rows of all processes into one row for each judge and model, for the days before yesterday, because each
    /// process start would add rows forever. Any number of processes may run it. Late counts are merged by the next run.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; each day is one transaction.
    pub async fn roll_up_usage(self, today: NaiveDate) -> Result<(), StoreError> {
        let Some(yesterday) = today.pred_opt() else {
            return Ok(());
        };
        let days = long_sql!(
            "folding the sums of judge calls",
            "select distinct day from judge_usage_daily where day < $1 and worker_id <> $2 order by day limit $3",
            yesterday.to_string(),
            NOBODY,
            DAYS
        );
        for (day,) in self.db.read::<(String,)>(&days).await? {
            retry_once!("folding the sums of judge calls", self.roll_up_day(&day))?;
        }
        Ok(())
    }

    /// Replaces a day's rows by their sums in one transaction, so that readers see one or the other.
    async fn roll_up_day(self, day: &str) -> sqlx::Result<()> {
        let mut conn = self.db.writer(Purpose::Many).await?;
        let mut tx = conn.begin().await?;
        let mut taken = step!(
            "delete from judge_usage_daily where day = $1 and worker_id <> $2 returning ",
            day,
            NOBODY
        );
        taken.push(COLUMNS);
        let mut sums = Sums::new();
        for row in &tx.fetch(&taken).await? {
            let key = (row.get("day")?, row.get("judge")?, row.get("model")?);
            sums.entry(key).or_default().add(&row.decode()?);
        }
        if let Some(add) = add_statement(sums, NOBODY) {
            tx.execute(&add).await?;
        }
        let taken = tx.fetch(&latency::take_statement(day, NOBODY)).await?;
        if let Some(add) = latency::roll_up_statement(&taken, NOBODY)? {
            tx.execute(&add).await?;
        }
        tx.commit().await
    }
}

/// Adds calls to the sums of their days, in the rows of process `counter`; `None` if there are no calls.
pub(in crate::store) fn count_statement<'a>(
    calls: impl Iterator<Item = &'a CallRecord>,
    counter: Uuid,
) -> Option<Sql> {
    let mut sums = Sums::new();
    for call in calls {
        add_call(&mut sums, call);
    }
    add_statement(sums, counter)
}

/// Adds a call to the sum of its day, judge and model.
pub(in crate::store) fn add_call(sums: &mut Sums, call: &CallRecord) {
    let key = (
        call.at.date_naive().to_string(),
        without_nul(&call.judge).into_owned(),
        without_nul(&call.model).into_owned(),
    );
    sums.entry(key).or_default().add_call(call);
}

/// Adds sums to the rows of `counter`; `None` if there are none.
pub(in crate::store) fn add_statement(sums: Sums, counter: Uuid) -> Option<Sql> {
    if sums.is_empty() {
        return None;
    }
    let rows = sums
        .into_iter()
        .map(|((day, judge, model), sum)| {
            vec![
                Arg::from(day),
                judge.into(),
                model.into(),
                counter.into(),
                sum.calls.into(),
                sum.failed_calls.into(),
                sum.tokens_in.into(),
                sum.tokens_in_cached.into(),
                sum.tokens_out.into(),
                sum.cost_usd.into(),
                sum.unpriced_calls.into(),
            ]
        })
        .collect();
    let mut statement = Sql::insert("judge_usage_daily", COLUMNS, rows);
    statement.push(
        "
             on conflict (day, judge, model, worker_id) do update set
                calls = judge_usage_daily.calls + excluded.calls,
                failed_calls = judge_usage_daily.failed_calls + excluded.failed_calls,
                tokens_in = judge_usage_daily.tokens_in + excluded.tokens_in,
                tokens_in_cached = judge_usage_daily.tokens_in_cached + excluded.tokens_in_cached,
                tokens_out = judge_usage_daily.tokens_out + excluded.tokens_out,
                cost_usd = judge_usage_daily.cost_usd + excluded.cost_usd,
                unpriced_calls = judge_usage_daily.unpriced_calls + excluded.unpriced_calls",
    );
    Some(statement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_cost_is_none_unless_some_cost_is_known() {
        let of = |cost_usd: f64, unpriced_calls: i64| {
            let sum = UsageSum {
                cost_usd,
                unpriced_calls,
                ..UsageSum::default()
            };
            sum.known_cost_usd()
        };
        assert_eq!(of(0.0, 0), Some(0.0));
        assert_eq!(of(0.0, 1), None);
        assert_eq!(of(0.5, 1), Some(0.5));
        assert_eq!(of(0.5, 0), Some(0.5));
    }
}
