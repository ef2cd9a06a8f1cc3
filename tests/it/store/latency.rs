//! Judge latency: counted once, without failures, and equal before and after the rollup.

use std::time::Duration;

use chrono::{DateTime, NaiveDate, Utc};
use gavel::job::JobId;
use gavel::judge::{CallLog as _, CallRecord, ErrorClass};
use gavel::store::Store;
use gavel::wire::LatencyItem;

use crate::support::{self, call};

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn took(judge: &str, sent: &str, ms: u64) -> CallRecord {
    let at: DateTime<Utc> = sent.parse().unwrap();
    CallRecord {
        judge: judge.to_owned(),
        at,
        latency: Duration::from_millis(ms),
        ..call(JobId::new())
    }
}

async fn january(store: &Store) -> Vec<LatencyItem> {
    let (from, to) = (day("2026-01-01"), day("2026-01-31"));
    store.analytics().latencies(from, to).await.unwrap()
}

#[tokio::test]
async fn quantiles_cover_good_replies_and_survive_the_rollup() {
    for test in support::stores().await {
        let other = support::reopen(&test).await;
        let days = ["2026-01-02T08:00:00Z", "2026-01-03T08:00:00Z"];
        for (n, sent) in (0..50).flat_map(|n| days.map(|sent| (n, sent))) {
            // 90 of 100 within 128 ms, one beyond all buckets.
            let ms = match n {
                0..45 => 128,
                _ => 1_024,
            };
            let store = if n % 2 == 0 { &test.store } else { &other };
            store.log(took("a", sent, ms));
        }
        let mut failed = took("a", days[0], 500_000);
        failed.error = Some(ErrorClass::Transient);
        test.store.log(failed);
        test.store.log(took("b", days[0], 86_400_000));
        // Collected from a provider batch: no latency.
        test.store.log(took("a", days[0], 0));
        for outside in ["2025-12-31T23:59:59Z", "2026-02-01T00:00:00Z"] {
            test.store.log(took("a", outside, 1));
        }
        // A call written again counts once.
        let twice = took("c", days[0], 2);
        other.log(twice.clone());
        other.calls().of_job(JobId::new()).await.unwrap();
        other.log(twice);
        other.calls().of_job(JobId::new()).await.unwrap();

        let before = january(&test.store).await;
        let of = |judge: &str, calls, [p50_ms, p90_ms, p99_ms]: [u64; 3]| LatencyItem {
            judge: judge.to_owned(),
            calls,
            p50_ms,
            p90_ms,
            p99_ms,
        };
        let expected = [
            of("a", 100, [128, 128, 1_024]),
            of("b", 1, [1 << 21; 3]),
            of("c", 1, [2; 3]),
        ];
        assert_eq!(before, expected);

        test.store
            .budgets()
            .roll_up_usage(day("2026-01-05"))
            .await
            .unwrap();
        assert_eq!(january(&test.store).await, expected);
        other.log(took("c", days[0], 2));
        other.calls().of_job(JobId::new()).await.unwrap();
        other
            .budgets()
            .roll_up_usage(day("2026-01-05"))
            .await
            .unwrap();
        assert_eq!(january(&test.store).await[2].calls, 2, "what came late");
    }
}
