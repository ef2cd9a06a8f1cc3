//! How fast a judge's jobs ended: between the ends, whenever it is asked.

use chrono::TimeDelta;
use gavel::job::Usage;
use gavel::store::Recorded;
use uuid::Uuid;

use super::fixtures::{claim, minutes, now, record_of, recorded, scored, session_with_job};
use crate::support;

#[tokio::test]
async fn a_pace_is_that_of_the_ends_and_knows_of_no_rest_behind_them() {
    for test in support::stores().await {
        let store = &test.store;
        let start = now() + minutes(1);
        for n in 0..6 {
            let (session, job) = session_with_job(store).await;
            let run = claim(store, job, Uuid::now_v7()).await;
            let mut end = record_of(&run, scored(session, 70));
            end.usage = Usage {
                tokens_in: 100,
                tokens_out: 10,
                cost_usd: Some(0.1),
            };
            end.at = start + TimeDelta::seconds(10 * n);
            assert_eq!(recorded(store, end).await, Recorded::Applied);
            let later = start + TimeDelta::seconds(50) + minutes(5);
            let pace = store.recent_pace("main", later).await.unwrap();
            assert_eq!(pace.jobs, n + 1);
            let expected = (n > 0).then_some(0.1);
            assert_eq!(pace.per_s, expected, "after {n}");
        }
        let none = store.recent_pace("other", start).await.unwrap();
        assert_eq!((none.jobs, none.per_s), (0, None));
    }
}
