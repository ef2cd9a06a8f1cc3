//! Figures of the whole installation, and which judges workers can ask.

use gavel::job::{JobState, Priority, WaitReason};
use gavel::store::Heartbeat;
use uuid::Uuid;

use super::fixtures::{accept, claim, failed, minutes, new_job, now, record, waiting};
use crate::support;

#[tokio::test]
async fn jobs_are_counted_by_lane_priority_and_state() {
    for test in support::stores().await {
        let store = &test.store;
        assert_eq!(store.jobs().figures().await.unwrap(), []);
        let mut ids = Vec::new();
        for _ in 0..6 {
            ids.push(accept(store, new_job(None)).await);
        }
        let worker = Uuid::now_v7();
        claim(store, ids[0], worker).await;
        let held = claim(store, ids[1], worker).await;
        let until = now() + minutes(9);
        record(store, &held, waiting(WaitReason::Throttled, until)).await;
        let ended = claim(store, ids[2], worker).await;
        record(store, &ended, failed()).await;

        let figures = store.jobs().figures().await.unwrap();
        let mut found: Vec<(JobState, i64)> =
            figures.iter().map(|it| (it.state, it.jobs)).collect();
        found.sort_by_key(|(state, _)| state.as_str());
        assert_eq!(
            found,
            [
                (JobState::Queued, 3),
                (JobState::Running, 1),
                (JobState::Waiting, 1)
            ]
        );
        assert!(
            figures
                .iter()
                .all(|it| it.oldest.is_some() && it.lane == figures[0].lane),
            "{figures:?}"
        );
        let priorities: Vec<Priority> = figures.iter().map(|it| it.priority).collect();
        assert!(priorities.iter().all(|it| *it == priorities[0]));
    }
}

#[tokio::test]
async fn judges_of_a_worker_are_read_back_and_null_when_not_reported() {
    for test in support::stores().await {
        let store = &test.store;
        let workers = store.workers();
        let [one, other] = [1, 2].map(|_| Uuid::now_v7());
        for id in [one, other] {
            support::heartbeat(store, &support::beat(id, "host")).await;
        }
        let judges = vec!["a".to_owned(), "b:*".to_owned()];
        let says = Heartbeat {
            judges: Some(judges.clone()),
            ..support::beat(one, "host")
        };
        // A heartbeat without judges leaves them unchanged.
        for beat in [says, support::beat(one, "host")] {
            support::heartbeat(store, &beat).await;
        }
        for worker in workers.list().await.unwrap() {
            let expected = (worker.worker_id == one).then(|| judges.clone());
            assert_eq!(worker.judges, expected);
        }
    }
}
