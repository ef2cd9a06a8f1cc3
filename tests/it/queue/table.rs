//! Queue of due rows: order, limits and wake-ups, on both databases.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use gavel::clock::SystemClock;
use gavel::job::{JobId, JobOptions, Kind, NewJob, Priority};
use gavel::queue::{ClaimRequest, Claimed, Push, Queue};
use gavel::store::Store;
use gavel::worker::table_queue::{Readers, TableQueue};
use serde_json::json;
use uuid::Uuid;

use super::{LONG, from, lane};
use crate::support;

fn queue(store: &Arc<Store>, readers: Readers) -> Arc<dyn Queue> {
    Arc::new(TableQueue::new(
        Arc::clone(store),
        Arc::new(SystemClock),
        readers,
    ))
}

/// Stores due jobs, the oldest first.
async fn store_jobs(store: &Store, count: i64, judge: &str, priority: Priority) -> Vec<JobId> {
    let mut ids = Vec::new();
    for place in 0..count {
        let options = JobOptions::new("tester".to_owned(), priority);
        let at = Utc::now() - TimeDelta::minutes(60) + TimeDelta::seconds(place);
        let new = NewJob {
            judge: Some(judge.to_owned()),
            ..NewJob::new(Kind::Session, json!({}), options, at)
        };
        ids.push(new.job_id);
        store.jobs().accept(new).await.unwrap();
    }
    ids
}

/// Claims ids and their rows, as a worker does.
async fn run(store: &Store, queue: &Arc<dyn Queue>, claim: &ClaimRequest) -> Vec<Claimed> {
    let claimed = queue.claim(claim).await.unwrap();
    let ids: Vec<JobId> = claimed.iter().map(|claimed| claimed.id).collect();
    let jobs = store.jobs().claim(&ids, Uuid::now_v7(), Utc::now()).await;
    let running: BTreeSet<JobId> = jobs.unwrap().iter().map(|job| job.job_id).collect();
    let claimed = claimed.into_iter();
    claimed
        .filter(|claimed| running.contains(&claimed.id))
        .collect()
}

fn ids(claimed: &[Claimed]) -> Vec<JobId> {
    claimed.iter().map(|claimed| claimed.id).collect()
}

#[tokio::test]
async fn due_rows_are_claimed_in_order_and_every_tenth_is_bulk() {
    for test in support::stores().await {
        let (store, queue) = (&test.store, queue(&test.store, Readers::One));
        let interactive = store_jobs(store, 12, "a", Priority::Interactive).await;
        let bulk = store_jobs(store, 8, "a", Priority::Bulk).await;
        let first = run(store, &queue, &from(&["a"], 9)).await;
        assert_eq!(ids(&first), interactive[..9]);
        let next = run(store, &queue, &from(&["a"], 3)).await;
        assert_eq!(ids(&next), [bulk[0], interactive[9], interactive[10]]);
        let claim = ClaimRequest {
            max_bulk: 2,
            ..from(&["a"], 9)
        };
        let rest = run(store, &queue, &claim).await;
        assert_eq!(ids(&rest), [interactive[11], bulk[1], bulk[2]]);
        assert!(run(store, &queue, &from(&["b"], 9)).await.is_empty());
    }
}

#[tokio::test]
async fn lanes_are_served_round_robin() {
    for test in support::stores().await {
        let (store, queue) = (&test.store, queue(&test.store, Readers::One));
        for name in ["a", "b", "c"] {
            store_jobs(store, 6, name, Priority::Bulk).await;
        }
        let names = ["a", "b", "c"];
        let mut served = BTreeSet::new();
        for _ in 0..3 {
            let got = run(store, &queue, &from(&names, 1)).await;
            served.insert(got[0].lane.clone());
        }
        assert_eq!(served, names.map(lane).into_iter().collect());
        let got = run(store, &queue, &from(&names, 9)).await;
        for name in names {
            assert_eq!(got.iter().filter(|id| id.lane == lane(name)).count(), 3);
        }
        // Capacity unused by one lane goes to the others.
        assert_eq!(run(store, &queue, &from(&["none", "a"], 2)).await.len(), 2);
    }
}

#[tokio::test]
async fn several_readers_claim_each_row_once() {
    for test in support::stores().await {
        let store = &test.store;
        let all = store_jobs(store, 300, "a", Priority::Bulk).await;
        let queues = [(); 3].map(|()| queue(store, Readers::Several));
        let mut got = Vec::new();
        let claim_all = async {
            while got.len() < all.len() {
                for queue in &queues {
                    let claimed = run(store, queue, &from(&["a"], 20)).await;
                    // A page may hold only rows that another reader has claimed.
                    if claimed.is_empty() {
                        queue.woken(Duration::from_millis(20)).await;
                    }
                    got.extend(ids(&claimed));
                }
            }
        };
        tokio::time::timeout(LONG * 10, claim_all).await.unwrap();
        let distinct: BTreeSet<JobId> = got.iter().copied().collect();
        assert_eq!((got.len(), distinct.len()), (all.len(), all.len()));
        for queue in &queues {
            assert!(run(store, queue, &from(&["a"], 20)).await.is_empty());
        }
    }
}

#[tokio::test]
async fn discarded_ids_hide_no_newer_rows() {
    for test in support::stores().await {
        let (store, queue) = (&test.store, queue(&test.store, Readers::One));
        let old = store_jobs(store, 300, "a", Priority::Bulk).await;
        assert_eq!(run(store, &queue, &from(&["a"], 2)).await.len(), 2);
        let others = store.jobs().claim(&old, Uuid::now_v7(), Utc::now()).await;
        assert_eq!(others.unwrap().len(), 298);
        let new = store_jobs(store, 1, "a", Priority::Bulk).await;
        assert!(run(store, &queue, &from(&["a"], 2)).await.is_empty());
        queue.discard().await;
        assert_eq!(ids(&run(store, &queue, &from(&["a"], 2)).await), new);
    }
}

#[tokio::test]
async fn push_or_due_time_wakes_and_makes_new_rows_claimable() {
    for test in support::stores().await {
        let (store, queue) = (&test.store, queue(&test.store, Readers::One));
        assert!(run(store, &queue, &from(&["a"], 9)).await.is_empty());
        let added = store_jobs(store, 1, "a", Priority::Interactive).await;
        let mut push = Push {
            id: added[0],
            lane: lane("a"),
            priority: Priority::Interactive,
            due_at: None,
        };
        queue.push(std::slice::from_ref(&push)).await.unwrap();
        let start = Instant::now();
        queue.woken(LONG).await;
        assert_eq!(ids(&run(store, &queue, &from(&["a"], 9)).await), added);
        push.due_at = Some(Utc::now() + TimeDelta::milliseconds(100));
        queue.push(&[push]).await.unwrap();
        queue.woken(Duration::ZERO).await;
        queue.woken(LONG).await;
        assert!(start.elapsed() < LONG / 2);
    }
}
