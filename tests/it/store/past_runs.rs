//! Completion rate of a judge's jobs, over the time in which any of them ran.

use chrono::{DateTime, TimeDelta, Utc};
use gavel::job::Usage;
use gavel::store::{Recorded, Store};
use uuid::Uuid;

use super::fixtures::{minutes, now, record_of, recorded, scored, session_with_job};
use crate::support;

/// Scores a session from this time on, for two seconds.
async fn run(store: &Store, began: DateTime<Utc>) {
    let (session, job) = session_with_job(store).await;
    let claimed = store.jobs().claim(&[job], Uuid::now_v7(), began).await;
    let mut end = record_of(&claimed.unwrap()[0], scored(session, 70));
    end.usage = Usage {
        tokens_in: 100,
        tokens_out: 10,
        cost_usd: Some(0.1),
    };
    end.at = began + TimeDelta::seconds(2);
    assert_eq!(recorded(store, end).await, Recorded::Applied);
}

#[tokio::test]
async fn pace_covers_only_the_time_in_which_jobs_ran() {
    for test in support::stores().await {
        let store = &test.store;
        let start = now() + minutes(1);
        // Two seconds each: three separate runs with idle time in between, then three overlapping ones.
        let begins = [0, 10, 20, 30, 30, 31];
        let busy = [2.0, 4.0, 6.0, 8.0, 8.0, 9.0];
        for (n, (begin, busy)) in begins.into_iter().zip(busy).enumerate() {
            run(store, start + TimeDelta::seconds(begin)).await;
            let later = start + TimeDelta::seconds(50) + minutes(5);
            let pace = store.judges().recent_pace("main", later).await.unwrap();
            let jobs = f64::from(u32::try_from(n).unwrap() + 1);
            assert_eq!(pace.jobs, n as i64 + 1);
            assert_eq!(pace.per_s, Some(jobs / busy), "after {n}");
        }
        let none = store.judges().recent_pace("other", start).await.unwrap();
        assert_eq!((none.jobs, none.per_s), (0, None));
    }
}

#[tokio::test]
async fn judge_usage_is_found_behind_jobs_that_ended_without_calls() {
    for test in support::stores().await {
        let store = &test.store;
        run(store, now()).await;
        let cancelled = if test.url.starts_with("postgres") {
            "insert into scoring_jobs (job_id, kind, subject_id, purpose, payload, judge, lane, priority, state, due_at, criteria_hash,
                force_rescore, triggered_by, created_at, finished_at)
             select gen_random_uuid(), kind, subject_id, purpose, payload, judge, lane, priority, 'cancelled', due_at, criteria_hash,
                force_rescore, triggered_by, created_at, finished_at + interval '1 hour'
             from scoring_jobs, generate_series(1, 20001)"
        } else {
            "insert into scoring_jobs (job_id, kind, subject_id, purpose, payload, judge, lane, priority, state, due_at, criteria_hash,
                force_rescore, triggered_by, created_at, finished_at)
             with recursive n(n) as (select 1 union all select n + 1 from n where n < 20001)
             select randomblob(16), kind, subject_id, purpose, payload, judge, lane, priority, 'cancelled', due_at, criteria_hash,
                force_rescore, triggered_by, created_at, finished_at + 3600000000
             from scoring_jobs, n"
        };
        support::execute(&test.url, cancelled).await.unwrap();
        let replies = store.judges().past_replies("main").await.unwrap();
        assert_eq!((replies.jobs, replies.mean_tokens), (1, Some(10.0)));
        let none = store.judges().past_replies("other").await.unwrap();
        assert_eq!((none.jobs, none.mean_tokens), (0, None));
    }
}
