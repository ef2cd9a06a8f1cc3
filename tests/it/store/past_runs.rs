//! How fast a judge's jobs ended while any of them ran.

use chrono::TimeDelta;
use gavel::job::Usage;
use gavel::store::Recorded;
use uuid::Uuid;

use super::fixtures::{minutes, now, record_of, recorded, scored, session_with_job};
use crate::support;

#[tokio::test]
async fn a_pace_is_of_the_time_in_which_anything_ran() {
    for test in support::stores().await {
        let store = &test.store;
        let start = now() + minutes(1);
        // Two seconds each: three by themselves with nothing to do between them, then three beside each other.
        let begins = [0, 10, 20, 30, 30, 31];
        let busy = [2.0, 4.0, 6.0, 8.0, 8.0, 9.0];
        for (n, (begin, busy)) in begins.into_iter().zip(busy).enumerate() {
            let (session, job) = session_with_job(store).await;
            let began = start + TimeDelta::seconds(begin);
            let run = store.claim(&[job], Uuid::now_v7(), began).await.unwrap();
            let mut end = record_of(&run[0], scored(session, 70));
            end.usage = Usage {
                tokens_in: 100,
                tokens_out: 10,
                cost_usd: Some(0.1),
            };
            end.at = began + TimeDelta::seconds(2);
            assert_eq!(recorded(store, end).await, Recorded::Applied);
            let later = start + TimeDelta::seconds(50) + minutes(5);
            let pace = store.recent_pace("main", later).await.unwrap();
            let jobs = f64::from(u32::try_from(n).unwrap() + 1);
            assert_eq!(pace.jobs, n as i64 + 1);
            assert_eq!(pace.per_s, Some(jobs / busy), "after {n}");
        }
        let none = store.recent_pace("other", start).await.unwrap();
        assert_eq!((none.jobs, none.per_s), (0, None));
    }
}
