//! `judge_latency_daily`: latency histogram of judge calls, counted, merged and stored like `judge_usage_daily`.
//!
//! Four buckets per doubling, so that a quantile is exact to 20 %.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::NaiveDate;
use uuid::Uuid;

use crate::judge::CallRecord;
use crate::store::database::row::{DbRow, Int};
use crate::store::database::sql::{Arg, Sql, long_sql, step, without_nul};
use crate::store::{Analytics, StoreError};
use crate::wire::LatencyItem;

/// Bucket of 35 minutes and more.
const LAST_BUCKET: u32 = 84;
const COLUMNS: &str = "day, judge, worker_id, bucket, calls";

impl Analytics<'_> {
    /// Returns latency quantiles of these days, both inclusive, by judge. Waits for this process's call log.
    pub async fn latencies(
        self,
        from: NaiveDate,
        to: NaiveDate,
    ) -> Result<Vec<LatencyItem>, StoreError> {
        self.call_log.flush().await;
        let statement = long_sql!(
            "reading response times of judges",
            "select judge, bucket, cast(sum(calls) as bigint) as calls from judge_latency_daily
             where day >= $1 and day <= $2 group by judge, bucket order by judge, bucket",
            from.to_string(),
            to.to_string()
        );
        Ok(judges(self.db.read(&statement).await?))
    }
}

#[derive(sqlx::FromRow)]
struct Counted {
    judge: String,
    #[sqlx(try_from = "Int")]
    bucket: u32,
    calls: i64,
}

/// Reads rows in the order of judge and bucket.
fn judges(rows: Vec<Counted>) -> Vec<LatencyItem> {
    let mut found: BTreeMap<String, Vec<(u32, i64)>> = BTreeMap::new();
    for row in rows {
        found
            .entry(row.judge)
            .or_default()
            .push((row.bucket, row.calls));
    }
    let of = |(judge, counted): (String, Vec<(u32, i64)>)| LatencyItem {
        judge,
        calls: counted.iter().map(|(_, calls)| calls).sum(),
        p50_ms: millis(quantile(&counted, 50)),
        p90_ms: millis(quantile(&counted, 90)),
        p99_ms: millis(quantile(&counted, 99)),
    };
    found.into_iter().map(of).collect()
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the upper bound of a quantile, in percent, from buckets in ascending order.
fn quantile(counted: &[(u32, i64)], of_100: i64) -> Duration {
    let all: i64 = counted.iter().map(|(_, calls)| calls).sum();
    let mut seen = 0_i64;
    let reached = counted.iter().find(|(_, calls)| {
        seen = seen.saturating_add(*calls);
        seen.saturating_mul(100) >= all.saturating_mul(of_100)
    });
    reached.map_or(Duration::ZERO, |(bucket, _)| upper(*bucket))
}

fn upper(bucket: u32) -> Duration {
    Duration::from_secs_f64((f64::from(bucket.min(LAST_BUCKET)) / 4.0).exp2() / 1_000.0)
}

fn bucket(latency: Duration) -> u32 {
    (0..LAST_BUCKET)
        .find(|bucket| latency <= upper(*bucket))
        .unwrap_or(LAST_BUCKET)
}

type Counts = BTreeMap<(String, String, i64), i64>;

/// Adds calls with a usable reply to the counts of their days, in the rows of process `counter`; `None` if there are none.
pub(in crate::store) fn count_statement<'a>(
    calls: impl Iterator<Item = &'a CallRecord>,
    counter: Uuid,
) -> Option<Sql> {
    let mut counts = Counts::new();
    for call in calls.filter(|call| call.error.is_none() && !call.latency.is_zero()) {
        let key = (
            call.at.date_naive().to_string(),
            without_nul(&call.judge).into_owned(),
            i64::from(bucket(call.latency)),
        );
        *counts.entry(key).or_default() += 1;
    }
    add_statement(counts, counter)
}

/// Deletes and returns the counts of a day of all processes except `by`.
pub(in crate::store) fn take_statement(day: &str, by: Uuid) -> Sql {
    let mut statement = step!(
        "delete from judge_latency_daily where day = $1 and worker_id <> $2 returning ",
        day,
        by
    );
    statement.push(COLUMNS);
    statement
}

/// Inserts the sum of deleted counts; `None` if there are none.
pub(in crate::store) fn roll_up_statement(taken: &[DbRow], by: Uuid) -> sqlx::Result<Option<Sql>> {
    let mut counts = Counts::new();
    for row in taken {
        let (day, judge, _, bucket, calls): (String, String, Uuid, i64, i64) = row.decode()?;
        *counts.entry((day, judge, bucket)).or_default() += calls;
    }
    Ok(add_statement(counts, by))
}

fn add_statement(counts: Counts, counter: Uuid) -> Option<Sql> {
    if counts.is_empty() {
        return None;
    }
    let row = |((day, judge, bucket), calls): ((String, String, i64), i64)| {
        vec![
            Arg::from(day),
            judge.into(),
            counter.into(),
            bucket.into(),
            calls.into(),
        ]
    };
    let mut statement = Sql::insert(
        "judge_latency_daily",
        COLUMNS,
        counts.into_iter().map(row).collect(),
    );
    statement.push(
        "
             on conflict (day, judge, worker_id, bucket) do update set
                calls = judge_latency_daily.calls + excluded.calls",
    );
    Some(statement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_is_exact_to_20_percent() {
        for ms in [1_u64, 2, 3, 7, 90, 1_000, 1_001, 12_345, 600_000, 2_000_000] {
            let took = Duration::from_millis(ms);
            let said = upper(bucket(took));
            assert!(said >= took, "{ms}: {said:?}");
            assert!(said.as_secs_f64() <= took.as_secs_f64() * 1.19, "{ms}");
        }
        assert_eq!(bucket(Duration::ZERO), 0);
        assert_eq!(bucket(Duration::from_micros(1_000)), 0);
        assert_eq!(bucket(Duration::from_secs(86_400)), LAST_BUCKET);
    }

    #[test]
    fn quantile_is_the_bucket_that_reaches_its_count() {
        let counted = [(0, 5), (4, 4), (8, 1)];
        assert_eq!(quantile(&counted, 50), Duration::from_millis(1));
        assert_eq!(quantile(&counted, 51), Duration::from_millis(2));
        assert_eq!(quantile(&counted, 90), Duration::from_millis(2));
        assert_eq!(quantile(&counted, 91), Duration::from_millis(4));
        assert_eq!(quantile(&counted, 99), Duration::from_millis(4));
        assert_eq!(quantile(&[], 50), Duration::ZERO);
    }
}
