//! `judge_usage_daily`: what judge calls came to, by day of UTC, judge and model. Counted as calls are logged, and never
//! pruned: a row for each process that counts, and one for all of them when the day is over.
//!
//! A call whose row the log couldn't keep is in the sums all the same.

use std::collections::BTreeMap;

use chrono::{Datelike as _, NaiveDate};
use uuid::Uuid;

use crate::judge::CallRecord;
use crate::store::analytics::latency;
use crate::store::database::db::retry_once;
use crate::store::database::sql::{Arg, DbRow, Sql, all, decode, sql, without_nul};
use crate::store::{Budgets, StoreError};
use crate::wire::UsageBy;

fn columns(by: UsageBy) -> &'static str {
    match by {
        UsageBy::Day => "day",
        UsageBy::Judge => "judge",
        UsageBy::Model => "judge, model",
    }
}

/// What some calls came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageSum {
    /// The day, if summed by it.
    pub day: Option<NaiveDate>,
    /// The judge, unless summed by day.
    pub judge: Option<String>,
    /// The model, if summed by it.
    pub model: Option<String>,
    pub calls: i64,
    /// Those without a good reply.
    pub failed_calls: i64,
    /// Prompt tokens, cached ones included.
    pub tokens_in: i64,
    /// Those of them that a provider read from its prompt cache.
    pub tokens_in_cached: i64,
    /// Reply tokens.
    pub tokens_out: i64,
    /// USD of the calls whose price is known.
    pub cost_usd: f64,
    /// Calls whose price is not.
    pub unpriced_calls: i64,
}

/// What a judge cost.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct JudgeSpent {
    pub judge: String,
    /// USD of today's calls, as far as their price is known.
    pub today_usd: f64,
    /// USD of this month's calls, today's included, as far as their price is known.
    pub month_usd: f64,
    /// Today's calls whose price is unknown.
    pub today_unpriced_calls: i64,
    /// This month's calls whose price is unknown, today's included.
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

    /// Adds what other calls came to.
    pub fn add(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.failed_calls = self.failed_calls.saturating_add(other.failed_calls);
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_in_cached = self.tokens_in_cached.saturating_add(other.tokens_in_cached);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.cost_usd += other.cost_usd;
        self.unpriced_calls = self.unpriced_calls.saturating_add(other.unpriced_calls);
    }

    /// USD, as far as it is known; `None` where calls are unpriced and nothing else cost anything: unknown is never 0.
    pub fn known_cost_usd(&self) -> Option<f64> {
        known_usd(self.cost_usd, self.unpriced_calls)
    }
}

/// USD of calls, as far as it is known; `None` where some have no price and the others cost nothing.
pub fn known_usd(usd: f64, unpriced_calls: i64) -> Option<f64> {
    (unpriced_calls == 0 || usd > 0.0).then_some(usd)
}

impl Budgets<'_> {
    /// What the calls of these days came to, both days included; at most 10,000 sums, in the order of what they are summed
    /// by. Waits for what this process's call log still holds.
    pub async fn usage(
        self,
        from: NaiveDate,
        to: NaiveDate,
        by: UsageBy,
    ) -> Result<Vec<UsageSum>, StoreError> {
        const ATTEMPTED: &str = "summing up judge calls";
        self.call_log.flush().await;
        let mut statement = sql!("select ");
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
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| sum(row, by))
    }
}

impl Budgets<'_> {
    /// What each judge cost on `today` and in its month up to then, by name; at most 10,000. Doesn't wait for the call log.
    pub async fn spent(self, today: NaiveDate) -> Result<Vec<JudgeSpent>, StoreError> {
        const ATTEMPTED: &str = "summing up what judges cost";
        let statement = sql!(
            "select judge, sum(case when day = $1 then cost_usd else 0.0 end) as today_usd, sum(cost_usd) as month_usd,
                cast(sum(case when day = $1 then unpriced_calls else 0 end) as bigint) as today_unpriced_calls,
                cast(sum(unpriced_calls) as bigint) as unpriced_calls
             from judge_usage_daily where day >= $2 and day <= $1
             group by judge order by judge limit 10000",
            today.to_string(),
            today.with_day(1).unwrap_or(today).to_string()
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, DbRow::decode)
    }
}

/// Whose sums they are: those of a finished day, which no process adds to.
const NOBODY: Uuid = Uuid::nil();
/// Finished days that are rolled up at once.
const DAYS: u32 = 100;
/// What a row holds.
const COLUMNS: &str = "day, judge, model, worker_id, calls, failed_calls, tokens_in, tokens_in_cached, tokens_out, \
                       cost_usd, unpriced_calls";

/// Sums by day, judge and model.
pub(in crate::store) type Sums = BTreeMap<(String, String, String), UsageSum>;

impl Budgets<'_> {
    /// Rolls up what each process counted into one row for each judge and model, of the days before yesterday: every start of a
    /// process would be a row for ever. Any number of processes may do so at once; what is counted late is rolled up the next time.
    ///
    /// # Errors
    /// `Unavailable` when the database is away; a day is rolled up whole or not at all.
    pub async fn roll_up_usage(self, today: NaiveDate) -> Result<(), StoreError> {
        const ATTEMPTED: &str = "folding the sums of judge calls";
        let Some(yesterday) = today.pred_opt() else {
            return Ok(());
        };
        let days = sql!(
            "select distinct day from judge_usage_daily where day < $1 and worker_id <> $2 order by day limit $3",
            yesterday.to_string(),
            NOBODY,
            DAYS
        );
        for row in &self.db.read_long(ATTEMPTED, &days).await? {
            let day: String = row.get("day").map_err(|e| StoreError::of(ATTEMPTED, &e))?;
            retry_once!(ATTEMPTED, self.roll_up_day(&day))?;
        }
        Ok(())
    }

    /// Takes a day's rows out and puts their sums in, in one transaction: whoever adds up sees the ones or the others.
    async fn roll_up_day(self, day: &str) -> sqlx::Result<()> {
        let mut conn = self.db.long_writer().await?;
        let mut tx = conn.begin().await?;
        let mut taken = sql!(
            "delete from judge_usage_daily where day = $1 and worker_id <> $2 returning ",
            day,
            NOBODY
        );
        taken.push(COLUMNS);
        let mut sums = Sums::new();
        for row in &tx.fetch(&taken).await? {
            let key = (row.get("day")?, row.get("judge")?, row.get("model")?);
            sums.entry(key).or_default().add(&figures(row)?);
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

/// Adds calls to the sums of their days, as the process `counter`; `None` for no calls.
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

/// Adds sums to the rows of `counter`; `None` for none.
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
    let mut statement = Sql::of_rows(COLUMNS, rows);
    statement
        .push("insert into judge_usage_daily (")
        .push(COLUMNS)
        .push(") select ")
        .push(COLUMNS)
        .push(
            " from v where day is not null
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

fn sum(row: &DbRow, by: UsageBy) -> sqlx::Result<UsageSum> {
    let (mut day, mut judge, mut model) = (None, None, None);
    match by {
        UsageBy::Day => {
            let text: String = row.get("day")?;
            let read = text.parse().map_err(|_| decode("day", "it is no day"))?;
            day = Some(read);
        }
        UsageBy::Judge => judge = Some(row.get("judge")?),
        UsageBy::Model => {
            judge = Some(row.get("judge")?);
            model = Some(row.get("model")?);
        }
    }
    Ok(UsageSum {
        day,
        judge,
        model,
        ..figures(row)?
    })
}

/// What calls came to, whatever they are summed by.
fn figures(row: &DbRow) -> sqlx::Result<UsageSum> {
    Ok(UsageSum {
        calls: row.get("calls")?,
        failed_calls: row.get("failed_calls")?,
        tokens_in: row.get("tokens_in")?,
        tokens_in_cached: row.get("tokens_in_cached")?,
        tokens_out: row.get("tokens_out")?,
        cost_usd: row.get("cost_usd")?,
        unpriced_calls: row.get("unpriced_calls")?,
        ..UsageSum::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_cost_is_never_0_and_a_known_part_is_told_beside_it() {
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
