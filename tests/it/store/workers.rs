//! Workers: who is alive.

use chrono::TimeDelta;
use gavel::store::Heartbeat;
use gavel::wire::WorkerState;
use uuid::Uuid;

use crate::support;

#[tokio::test]
async fn a_worker_is_alive_while_it_is_heard() {
    for test in support::stores().await {
        let store = &test.store;
        let [first, second] = [1, 2].map(|_| Uuid::now_v7());
        support::heartbeat(store, &support::beat(first, "host-1")).await;
        // A heartbeat of a worker whose row is gone registers it again.
        let drains = Heartbeat {
            in_hand: 3,
            state: WorkerState::Draining,
            ..support::beat(second, "host-2")
        };
        support::heartbeat(store, &drains).await;
        let workers = store.workers().list().await.unwrap();
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
        // Each by its own lease.
        let shorter = "update workers set lease_s = 0 where name = 'host-1'";
        support::execute(&test.url, shorter).await.unwrap();
        let workers = store.workers().list().await.unwrap();
        assert!(workers.iter().all(|w| w.alive == (w.name == "host-2")));
    }
}

#[tokio::test]
async fn a_heartbeat_keeps_the_start_and_a_stopped_worker_is_not_alive() {
    for test in support::stores().await {
        let store = &test.store;
        let workers = store.workers();
        let id = Uuid::now_v7();
        support::heartbeat(store, &support::beat(id, "host")).await;
        let started_at = workers.list().await.unwrap()[0].started_at;
        let busy = Heartbeat {
            in_hand: 2,
            ..support::beat(id, "host")
        };
        support::heartbeat(store, &busy).await;
        let worker = workers.list().await.unwrap().remove(0);
        assert_eq!(
            (worker.started_at, worker.in_hand, worker.alive),
            (started_at, 2, true)
        );
        let stopped = Heartbeat {
            state: WorkerState::Stopped,
            ..support::beat(id, "host")
        };
        support::heartbeat(store, &stopped).await;
        assert!(!workers.list().await.unwrap()[0].alive);
    }
}

#[tokio::test]
async fn forgotten_workers_are_stopped() {
    for test in support::stores().await {
        let store = &test.store;
        support::heartbeat(store, &support::beat(Uuid::now_v7(), "host")).await;
        store.workers().forget().await.unwrap();
        let workers = store.workers().list().await.unwrap();
        assert_eq!(
            (workers[0].state, workers[0].alive),
            (WorkerState::Stopped, false)
        );
    }
}

#[tokio::test]
async fn a_worker_whose_heartbeat_is_in_the_future_is_not_alive() {
    for test in support::stores().await {
        let store = &test.store;
        let id = Uuid::now_v7();
        let is_alive = async || {
            let listed = store.workers().list().await;
            listed.unwrap()[0].alive
        };
        support::heartbeat(store, &support::beat(id, "a")).await;
        assert!(is_alive().await);
        let ahead = "update workers set heartbeat_at = '2999-01-01T00:00:00.000000+00:00'";
        support::execute(&test.url, ahead).await.unwrap();
        assert!(!is_alive().await);
        support::heartbeat(store, &support::beat(id, "a")).await;
        assert!(is_alive().await, "the next heartbeat counts");
    }
}

#[tokio::test]
async fn a_worker_that_is_silent_for_a_week_is_forgotten_with_what_it_knew() {
    for test in support::stores().await {
        let store = &test.store;
        let now = chrono::Utc::now();
        let [old, new] = [1, 2].map(|_| Uuid::now_v7());
        support::heartbeat(store, &support::beat(old, "old")).await;
        support::heartbeat(store, &support::beat(new, "new")).await;
        let known = support::gate("j");
        store
            .judges()
            .put(old, std::slice::from_ref(&known), now - TimeDelta::days(8))
            .await
            .unwrap();
        store.judges().put(new, &[known], now).await.unwrap();
        let aged = "update workers set heartbeat_at = '2020-01-01T00:00:00.000000+00:00' where name = 'old'";
        support::execute(&test.url, aged).await.unwrap();

        assert_eq!(store.retention().prune(now).await.unwrap(), 2);
        let left = store.workers().list().await.unwrap();
        assert_eq!(
            left.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(),
            ["new"]
        );
        let judges = store.judges().list().await.unwrap();
        assert_eq!(
            judges.iter().map(|j| j.worker_id).collect::<Vec<_>>(),
            [new]
        );
    }
}
