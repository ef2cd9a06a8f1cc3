//! Selection and order of claimed ids.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use gavel::job::{JobId, Priority};
use gavel::queue::{ClaimRequest, Claimed, Depth, LaneShare};

use crate::support::wait::eventually;

use super::{bulk, claimed, from, ids, interactive, lane, on_each, push, take, take_in_time};

const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn ids_are_claimed_in_the_order_of_pushes() {
    on_each(async |test| {
        let queue = &test.queue;
        let pushes = bulk(20, "a");
        queue.push(&pushes[..15]).await.unwrap();
        queue.push(&pushes[15..]).await.unwrap();
        let first = take(queue, &from(&["a"], 7)).await;
        let rest = take(queue, &from(&["a"], 100)).await;
        assert_eq!([first, rest].concat(), ids(&pushes));
    })
    .await;
}

#[tokio::test]
async fn claim_reports_the_state_of_the_id() {
    on_each(async |test| {
        let pushes = [interactive(1, "a:b {c}"), bulk(1, "a:b {c}")].concat();
        test.queue.push(&pushes).await.unwrap();
        let got = test.queue.claim(&from(&["a:b {c}"], 2)).await;
        let expected: Vec<Claimed> = pushes.iter().map(claimed).collect();
        assert_eq!(got.unwrap(), expected);
    })
    .await;
}

#[tokio::test]
async fn repeated_push_changes_no_state() {
    on_each(async |test| {
        let queue = &test.queue;
        let mut pushes = bulk(3, "a");
        pushes[2].due_at = Some(Utc::now() + TimeDelta::hours(1));
        for _ in 0..3 {
            queue.push(&pushes).await.unwrap();
        }
        let expected = Depth {
            interactive: 0,
            bulk: 2,
            delayed: 1,
        };
        assert_eq!(queue.depth(&lane("a")).await.unwrap(), expected);
        assert_eq!(take(queue, &from(&["a"], 9)).await, ids(&pushes[..2]));
    })
    .await;
}

#[tokio::test]
async fn push_first_precedes_waiting_ids_in_its_given_order() {
    on_each(async |test| {
        let queue = &test.queue;
        let (waits, mut rescued) = (bulk(2, "a"), bulk(2, "a"));
        queue.push(&waits).await.unwrap();
        queue.push_first(&rescued).await.unwrap();
        // Ready ids stay in place.
        queue.push_first(&waits).await.unwrap();
        rescued.extend(waits);
        let expected: Vec<JobId> = rescued.iter().map(|push| push.id).collect();
        assert_eq!(take(queue, &from(&["a"], 4)).await, expected);
    })
    .await;
}

#[tokio::test]
async fn interactive_push_raises_a_ready_bulk_id() {
    on_each(async |test| {
        let queue = &test.queue;
        let pushes = bulk(3, "a");
        queue.push(&pushes).await.unwrap();
        let raised = push(pushes[2].id, "a", Priority::Interactive);
        queue.push(std::slice::from_ref(&raised)).await.unwrap();
        // Once raised, a bulk push doesn't lower it.
        queue.push(&pushes).await.unwrap();
        let expected = Depth {
            interactive: 1,
            bulk: 2,
            delayed: 0,
        };
        assert_eq!(queue.depth(&lane("a")).await.unwrap(), expected);
        let got = queue.claim(&from(&["a"], 1)).await.unwrap();
        assert_eq!(got, [claimed(&raised)]);
    })
    .await;
}

#[tokio::test]
async fn delayed_id_that_is_due_early_is_ready_at_once() {
    on_each(async |test| {
        let queue = &test.queue;
        let mut raised = push(JobId::new(), "a", Priority::Interactive);
        raised.due_at = Some(Utc::now() + TimeDelta::hours(1));
        queue.push(std::slice::from_ref(&raised)).await.unwrap();
        // Pushed for another lane and as bulk: the lane changes, but the set isn't lowered.
        let due = push(raised.id, "b", Priority::Bulk);
        queue.push(std::slice::from_ref(&due)).await.unwrap();
        assert_eq!(queue.depth(&lane("a")).await.unwrap(), Depth::default());
        let got = queue.claim(&from(&["a", "b"], 9)).await;
        let expected = push(raised.id, "b", Priority::Interactive);
        assert_eq!(got.unwrap(), [claimed(&expected)]);
    })
    .await;
}

#[tokio::test]
async fn ids_with_expired_waits_precede_ids_without_waits() {
    on_each(async |test| {
        let queue = &test.queue;
        let mut waiting = bulk(2, "a");
        let due = Utc::now() + TimeDelta::milliseconds(40);
        waiting[0].due_at = Some(due);
        waiting[1].due_at = Some(due - TimeDelta::milliseconds(20));
        queue.push(&waiting).await.unwrap();
        let new = bulk(3, "a");
        queue.push(&new).await.unwrap();
        eventually(LONG, "both are due", || async {
            queue.woken(Duration::from_millis(5)).await;
            (Utc::now() > due + TimeDelta::milliseconds(300)).then_some(())
        })
        .await;
        let got = take(queue, &from(&["a"], 9)).await;
        let waited = [waiting[1].id, waiting[0].id];
        assert_eq!(got, [waited.to_vec(), ids(&new)].concat());
    })
    .await;
}

#[tokio::test]
async fn ready_id_with_a_changed_lane_moves_there() {
    on_each(async |test| {
        let queue = &test.queue;
        let pushes = interactive(2, "a");
        queue.push(&pushes).await.unwrap();
        let moved = push(pushes[0].id, "suspect", Priority::Bulk);
        queue.push(&[moved]).await.unwrap();
        // It stays in its set.
        let got = queue.claim(&from(&["suspect"], 9)).await.unwrap();
        assert_eq!(
            got,
            [claimed(&push(
                pushes[0].id,
                "suspect",
                Priority::Interactive
            ))]
        );
        assert_eq!(take(queue, &from(&["a"], 9)).await, [pushes[1].id]);
    })
    .await;
}

#[tokio::test]
async fn every_tenth_claimed_id_is_bulk() {
    on_each(async |test| {
        let queue = &test.queue;
        queue.push(&interactive(40, "a")).await.unwrap();
        queue.push(&bulk(40, "a")).await.unwrap();
        let mut sets = Vec::new();
        for _ in 0..20 {
            let got = queue.claim(&from(&["a"], 1)).await.unwrap();
            sets.push(got[0].priority);
        }
        let bulk_turns: Vec<usize> = (0..20).filter(|at| sets[*at] == Priority::Bulk).collect();
        assert_eq!(bulk_turns, [9, 19]);
        let got = queue.claim(&from(&["a"], 20)).await.unwrap();
        let bulk = got.iter().filter(|id| id.priority == Priority::Bulk);
        assert_eq!((got.len(), bulk.count()), (20, 2));
    })
    .await;
}

#[tokio::test]
async fn claim_stays_within_its_bulk_limit() {
    on_each(async |test| {
        let queue = &test.queue;
        queue.push(&bulk(10, "a")).await.unwrap();
        queue.push(&bulk(10, "b")).await.unwrap();
        queue.push(&interactive(2, "b")).await.unwrap();
        let claim = ClaimRequest {
            max_bulk: 3,
            ..from(&["a", "b"], 10)
        };
        let got = queue.claim(&claim).await.unwrap();
        let bulk = got.iter().filter(|id| id.priority == Priority::Bulk);
        assert_eq!((got.len(), bulk.count()), (5, 3));
        let none = ClaimRequest {
            max_bulk: 0,
            ..claim
        };
        assert!(take(queue, &none).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn claim_and_its_shares_stay_within_their_limits() {
    on_each(async |test| {
        let queue = &test.queue;
        for name in ["tight", "a", "b"] {
            queue.push(&bulk(600, name)).await.unwrap();
        }
        queue.push(&bulk(3, "kept")).await.unwrap();
        queue.push(&interactive(1, "b")).await.unwrap();
        let share = |lanes: &[&str], max: usize, takes_kept: bool| LaneShare {
            lanes: lanes.iter().map(|name| lane(name)).collect(),
            max,
            takes_kept,
        };
        let got = async |shares: Vec<LaneShare>, max: usize, max_bulk: usize| {
            let claim = ClaimRequest {
                shares,
                max,
                max_bulk,
            };
            let got = queue.claim(&claim).await.unwrap();
            let count = |names: &[&str]| {
                let is_of_them = |id: &&Claimed| names.contains(&id.lane.as_str());
                got.iter().filter(is_of_them).count()
            };
            [count(&["tight"]), count(&["kept"]), count(&["a", "b"])]
        };
        let shares = || {
            vec![
                share(&["tight"], 3, false),
                share(&["kept"], 1, true),
                share(&["a", "b"], 1_000, false),
            ]
        };
        // No bulk id is left except for the share that may use the reserve, and the interactive ids.
        assert_eq!(got(shares(), 10, 0).await, [0, 1, 1]);
        // Bulk limits belong to the claim, lane limits to the shares.
        assert_eq!(got(shares(), 10, 4).await, [3, 1, 1]);
        assert_eq!(got(shares(), 2, 2).await, [2, 0, 0]);
        assert_eq!(got(shares(), 900, 900).await, [3, 1, 896]);
        assert_eq!(got(Vec::new(), 10, 10).await, [0; 3]);
    })
    .await;
}

#[tokio::test]
async fn lanes_are_served_round_robin() {
    on_each(async |test| {
        let queue = &test.queue;
        for name in ["a", "b", "c"] {
            queue.push(&bulk(30, name)).await.unwrap();
        }
        let lanes = ["a", "b", "c"];
        let mut served = Vec::new();
        for _ in 0..3 {
            let got = queue.claim(&from(&lanes, 1)).await.unwrap();
            served.push(got[0].lane.clone());
        }
        served.sort();
        assert_eq!(served, lanes.map(lane));
        let got = queue.claim(&from(&lanes, 9)).await.unwrap();
        for name in lanes {
            assert_eq!(got.iter().filter(|id| id.lane == lane(name)).count(), 3);
        }
        // Capacity unused by one lane goes to the others.
        let got = take(queue, &from(&["none", "a"], 10)).await;
        assert_eq!(got.len(), 10);
    })
    .await;
}

#[tokio::test]
async fn closed_lane_is_not_claimed() {
    on_each(async |test| {
        let queue = &test.queue;
        let (open, closed) = (bulk(2, "open"), bulk(2, "closed"));
        queue.push(&closed).await.unwrap();
        queue.push(&open).await.unwrap();
        let got = take(queue, &from(&["open"], 10)).await;
        assert_eq!(got, ids(&open));
        assert!(take(queue, &from(&[], 10)).await.is_empty());
        assert_eq!(queue.depth(&lane("closed")).await.unwrap().bulk, 2);
        let got = take(queue, &from(&["closed"], 10)).await;
        assert_eq!(got, ids(&closed));
    })
    .await;
}

#[tokio::test]
async fn ids_that_left_leave_no_keys() {
    on_each(async |test| {
        let queue = &test.queue;
        let mut pushes = [interactive(20, "a"), bulk(20, "b"), bulk(1, "b")].concat();
        pushes[40].due_at = Some(Utc::now() + TimeDelta::milliseconds(20));
        queue.push(&pushes).await.unwrap();
        take_in_time(queue, &from(&["a", "b"], 100), 41).await;
        // Two counters stay; their size is constant.
        let keys = test.keys().await;
        assert!(keys.iter().all(|key| key.ends_with(":order")), "{keys:?}");
    })
    .await;
}

#[tokio::test]
async fn claim_may_be_larger_than_a_slice() {
    on_each(async |test| {
        let queue = &test.queue;
        let pushes = bulk(1_700, "a");
        queue.push(&pushes).await.unwrap();
        let claim = ClaimRequest {
            max_bulk: 1_600,
            ..from(&["a"], 2_000)
        };
        let got = take(queue, &claim).await;
        assert_eq!(got, ids(&pushes[..1_600]));
    })
    .await;
}

#[tokio::test]
async fn concurrent_claims_return_disjoint_ids() {
    on_each(async |test| {
        let queue = &test.queue;
        let pushes = bulk(1_000, "a");
        queue.push(&pushes).await.unwrap();
        let claimers = (0..4).map(|_| {
            let queue = Arc::clone(queue);
            tokio::spawn(async move {
                let mut got = Vec::new();
                loop {
                    let more = take(&queue, &from(&["a"], 7)).await;
                    if more.is_empty() {
                        return got;
                    }
                    got.extend(more);
                }
            })
        });
        let mut all = Vec::new();
        for claimer in claimers.collect::<Vec<_>>() {
            all.extend(claimer.await.unwrap());
        }
        let distinct: BTreeSet<JobId> = all.iter().copied().collect();
        assert_eq!((all.len(), distinct.len()), (1_000, 1_000));
    })
    .await;
}
