//! Workers: who is alive.

use std::time::Duration;

use chrono::TimeDelta;
use gavel::judge::gate::{BreakerState, GateSnapshot};
use gavel::store::WorkerState;
use uuid::Uuid;

use crate::support;

#[tokio::test]
async fn a_worker_is_alive_while_it_is_heard() {
    for test in support::stores().await {
        let store = &test.store;
        let [first, second] = [1, 2].map(|_| Uuid::now_v7());
        store.register_worker(first, "host-1", "0.1").await.unwrap();
        // A heartbeat of a worker whose row is gone registers it again.
        store
            .heartbeat(second, "host-2", "0.1", 3, WorkerState::Draining)
            .await
            .unwrap();
        let workers = store.workers(Duration::from_secs(60)).await.unwrap();
        assert_eq!(workers.len(), 2);
        let of = |id| workers.iter().find(|w| w.worker_id == id).unwrap();
        assert_eq!(of(first).state, WorkerState::Running);
        assert_eq!(
            (of(first).name.as_str(), of(first).version.as_str()),
            ("host-1", "0.1")
        );
        assert_eq!(
            (of(second).in_hand, of(second).state),
            (3, WorkerState::Draining)
        );
        assert!(
            workers
                .iter()
                .all(|w| w.alive && w.heartbeat_at >= w.started_at)
        );
        let workers = store.workers(Duration::ZERO).await.unwrap();
        assert!(workers.iter().all(|w| !w.alive));
    }
}

#[tokio::test]
async fn a_heartbeat_keeps_the_start_and_a_stopped_worker_is_not_alive() {
    for test in support::stores().await {
        let store = &test.store;
        let id = Uuid::now_v7();
        store.register_worker(id, "host", "1").await.unwrap();
        let minute = Duration::from_secs(60);
        let started_at = store.workers(minute).await.unwrap()[0].started_at;
        store
            .heartbeat(id, "host", "1", 2, WorkerState::Running)
            .await
            .unwrap();
        let worker = store.workers(minute).await.unwrap().remove(0);
        assert_eq!(
            (worker.started_at, worker.in_hand, worker.alive),
            (started_at, 2, true)
        );
        store
            .heartbeat(id, "host", "1", 0, WorkerState::Stopped)
            .await
            .unwrap();
        assert!(!store.workers(minute).await.unwrap()[0].alive);
    }
}

#[tokio::test]
async fn forgotten_workers_are_stopped() {
    for test in support::stores().await {
        let store = &test.store;
        store
            .register_worker(Uuid::now_v7(), "host", "1")
            .await
            .unwrap();
        store.forget_workers().await.unwrap();
        let workers = store.workers(Duration::from_secs(60)).await.unwrap();
        assert_eq!(
            (workers[0].state, workers[0].alive),
            (WorkerState::Stopped, false)
        );
    }
}

#[tokio::test]
async fn a_worker_that_is_silent_for_a_week_is_forgotten_with_what_it_knew() {
    for test in support::stores().await {
        let store = &test.store;
        let now = chrono::Utc::now();
        let [old, new] = [1, 2].map(|_| Uuid::now_v7());
        store.register_worker(old, "old", "0.1").await.unwrap();
        store.register_worker(new, "new", "0.1").await.unwrap();
        let known = GateSnapshot {
            judge: "j".to_owned(),
            breaker: BreakerState::Closed,
            failures_in_row: 0,
            closed: None,
            in_flight: 0,
            pace: gavel::judge::gate::PaceSnapshot::default(),
            last_error: None,
        };
        store
            .put_judges(old, std::slice::from_ref(&known), now - TimeDelta::days(8))
            .await
            .unwrap();
        store.put_judges(new, &[known], now).await.unwrap();
        let aged = "update workers set heartbeat_at = '2020-01-01T00:00:00.000000+00:00' where name = 'old'";
        support::execute(&test.url, aged).await.unwrap();

        assert_eq!(store.prune(now, now).await.unwrap(), 2);
        let left = store.workers(Duration::from_secs(60)).await.unwrap();
        assert_eq!(
            left.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(),
            ["new"]
        );
        let judges = store.judges(now - TimeDelta::days(30)).await.unwrap();
        assert_eq!(
            judges.iter().map(|j| j.worker_id).collect::<Vec<_>>(),
            [new]
        );
    }
}
