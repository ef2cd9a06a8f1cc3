//! Daily sums of calls: counted once despite write errors, and preserved after the calls are pruned.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use gavel::job::JobId;
use gavel::judge::{CallLog as _, CallRecord, CallUsage, ErrorClass};
use gavel::store::{Aged, Store, UsageSum};
use gavel::wire::UsageBy;
use sqlx::Connection as _;

use super::fixtures::delete_older;
use super::judge_memory::reject_bad_calls;
use crate::support::{self, call};

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn call_of(judge: &str, sent: &str) -> CallRecord {
    CallRecord {
        judge: judge.to_owned(),
        at: at(sent),
        ..call(JobId::new())
    }
}

async fn january(store: &Store, by: UsageBy) -> Vec<UsageSum> {
    let (from, to) = (day("2026-01-01"), day("2026-01-31"));
    store.budgets().usage(from, to, by).await.unwrap()
}

#[tokio::test]
async fn calls_are_summed_by_day_by_judge_and_by_model() {
    for test in support::stores().await {
        let mut failed = call_of("a", "2026-01-02T23:59:59.999999Z");
        failed.error = Some(ErrorClass::Transient);
        failed.usage = CallUsage {
            cost_usd: Some(0.0),
            ..CallUsage::default()
        };
        let mut unpriced = call_of("b", "2026-01-03T00:00:00Z");
        unpriced.usage.cost_usd = None;
        let mut dated = call_of("a", "2026-01-03T12:00:00Z");
        dated.model = "model-1-2026-01-01".to_owned();
        let outside = ["2025-12-31T23:59:59Z", "2026-02-01T00:00:00Z"];
        let calls = [
            failed,
            unpriced,
            dated,
            call_of("a", "2026-01-02T08:00:00Z"),
        ];
        for call in calls
            .into_iter()
            .chain(outside.map(|sent| call_of("a", sent)))
        {
            test.store.log(call);
        }
        let sum = |calls: i64| UsageSum {
            calls,
            tokens_in: 10 * calls,
            tokens_in_cached: 4 * calls,
            tokens_out: 3 * calls,
            cost_usd: 0.01,
            ..UsageSum::default()
        };
        let by_day = january(&test.store, UsageBy::Day).await;
        let expected = [
            UsageSum {
                day: Some(day("2026-01-02")),
                calls: 2,
                failed_calls: 1,
                ..sum(1)
            },
            UsageSum {
                day: Some(day("2026-01-03")),
                unpriced_calls: 1,
                ..sum(2)
            },
        ];
        assert_eq!(by_day, expected);

        let by_judge = january(&test.store, UsageBy::Judge).await;
        let known: Vec<_> = by_judge
            .iter()
            .map(|sum| {
                (
                    sum.judge.as_deref().unwrap(),
                    sum.calls,
                    sum.known_cost_usd(),
                )
            })
            .collect();
        assert_eq!(known, [("a", 3, Some(0.02)), ("b", 1, None)]);

        let by_model = january(&test.store, UsageBy::Model).await;
        let models: Vec<_> = by_model
            .iter()
            .map(|sum| (sum.judge.as_deref().unwrap(), sum.model.as_deref().unwrap()))
            .collect();
        let expected = [
            ("a", "model-1"),
            ("a", "model-1-2026-01-01"),
            ("b", "model-1"),
        ];
        assert_eq!(models, expected);
    }
}

#[tokio::test]
async fn call_written_again_counts_once() {
    for test in support::stores().await {
        let once = call_of("a", "2026-01-02T08:00:00Z");
        // After a write with a lost response: the same call again, with others or separately.
        for again in [once.clone(), once.clone()] {
            test.store.log(again);
        }
        assert_eq!(january(&test.store, UsageBy::Day).await[0].calls, 1);
        test.store.log(once);
        test.store.log(call_of("a", "2026-01-02T09:00:00Z"));
        let sums = january(&test.store, UsageBy::Day).await;
        assert_eq!((sums[0].calls, sums[0].tokens_in), (2, 20));
    }
}

#[tokio::test]
async fn processes_count_concurrently() {
    for test in support::stores().await {
        let other = support::reopen(&test).await;
        for store in [&test.store, &other, &test.store] {
            store.log(call_of("a", "2026-01-02T08:00:00Z"));
            store.calls().of_job(JobId::new()).await.unwrap();
        }
        assert_eq!(january(&other, UsageBy::Judge).await[0].calls, 3);
        other.close().await;
    }
}

#[tokio::test]
async fn sums_outlive_the_calls() {
    for test in support::stores().await {
        let old = call_of("a", "2026-01-02T08:00:00Z");
        let now = old.at + TimeDelta::days(400);
        test.store.log(old);
        let before = january(&test.store, UsageBy::Day).await;
        assert_eq!(delete_older(&test.store, Aged::Calls, now).await, 1);
        assert_eq!(january(&test.store, UsageBy::Day).await, before);
    }
}

#[tokio::test]
async fn call_rejected_by_the_database_is_still_counted() {
    for test in support::stores().await {
        reject_bad_calls(&test.url).await;
        for judge in ["a", "bad", "a"] {
            test.store.log(call_of(judge, "2026-01-02T08:00:00Z"));
        }
        let sums = january(&test.store, UsageBy::Judge).await;
        let counted: Vec<_> = sums
            .iter()
            .map(|sum| (sum.judge.as_deref().unwrap(), sum.calls))
            .collect();
        assert_eq!(counted, [("a", 2), ("bad", 1)]);
    }
}

#[tokio::test]
async fn judge_cost_covers_today_and_the_current_month() {
    for test in support::stores().await {
        for sent in [
            "2026-01-31T23:59:59Z",
            "2026-02-01T00:00:00Z",
            "2026-02-10T12:00:00Z",
            "2026-02-11T00:00:00Z",
        ] {
            test.store.log(call_of("a", sent));
        }
        for sent in ["2026-02-03T00:00:00Z", "2026-02-10T00:00:00Z"] {
            let mut unpriced = call_of("b", sent);
            unpriced.usage.cost_usd = None;
            test.store.log(unpriced);
        }
        test.store.calls().of_job(JobId::new()).await.unwrap();
        let spent = test.store.budgets().spent(day("2026-02-10")).await.unwrap();
        let figures: Vec<_> = spent
            .iter()
            .map(|one| {
                (
                    one.judge.as_str(),
                    one.today_usd,
                    one.month_usd,
                    (one.today_unpriced_calls, one.unpriced_calls),
                )
            })
            .collect();
        let expected = [("a", 0.01, 0.02, (0, 0)), ("b", 0.0, 0.0, (1, 2))];
        assert_eq!(figures, expected);
        assert!(
            test.store
                .budgets()
                .spent(day("2026-03-01"))
                .await
                .unwrap()
                .is_empty()
        );
    }
}

async fn rows(url: &str) -> i64 {
    const COUNT: &str = "select count(*) from judge_usage_daily";
    if url.starts_with("postgres") {
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        sqlx::query_scalar(COUNT)
            .fetch_one(&mut conn)
            .await
            .unwrap()
    } else {
        let mut conn = sqlx::SqliteConnection::connect(url).await.unwrap();
        sqlx::query_scalar(COUNT)
            .fetch_one(&mut conn)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn finished_days_are_rolled_up_without_loss_or_duplicates() {
    for test in support::stores().await {
        let mut stores = vec![];
        for _ in 0..4 {
            let store = support::reopen(&test).await;
            for sent in [
                "2026-01-02T08:00:00Z",
                "2026-01-03T08:00:00Z",
                "2026-01-04T08:00:00Z",
            ] {
                store.log(call_of("a", sent));
                store.log(call_of("b", sent));
            }
            store.calls().of_job(JobId::new()).await.unwrap();
            stores.push(store);
        }
        assert_eq!(rows(&test.url).await, 4 * 3 * 2);
        let before = january(&test.store, UsageBy::Model).await;
        // Today is the 4th: the 3rd may still get late calls.
        let folds = stores
            .iter()
            .map(|store| store.budgets().roll_up_usage(day("2026-01-04")));
        for folded in futures::future::join_all(folds).await {
            folded.unwrap();
        }
        assert_eq!(rows(&test.url).await, 2 + 2 * 4 * 2);
        let calls = |sums: &[UsageSum]| -> Vec<(i64, i64)> {
            sums.iter().map(|sum| (sum.calls, sum.tokens_in)).collect()
        };
        let after = january(&test.store, UsageBy::Model).await;
        assert_eq!(calls(&after), calls(&before));
        let spent = test.store.budgets().spent(day("2026-01-04")).await.unwrap();
        assert!((spent[0].month_usd - 0.12).abs() < 1e-9, "{spent:?}");

        // A late call is added, and rolled up the next time.
        stores[0].log(call_of("a", "2026-01-02T23:00:00Z"));
        stores[0].calls().of_job(JobId::new()).await.unwrap();
        test.store
            .budgets()
            .roll_up_usage(day("2026-01-04"))
            .await
            .unwrap();
        assert_eq!(rows(&test.url).await, 2 + 2 * 4 * 2);
        assert_eq!(january(&test.store, UsageBy::Judge).await[0].calls, 13);
        for store in stores {
            store.close().await;
        }
    }
}
