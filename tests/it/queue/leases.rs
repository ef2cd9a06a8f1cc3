//! Leases, delays and wake-ups: rules of every queue.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use gavel::job::{JobId, Priority};
use gavel::queue::Depth;
use uuid::Uuid;

use super::{LONG, bulk, claimed, from, ids, interactive, lane, on_each, push, take, take_in_time};

const LEASE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn push_ignores_an_expired_lease() {
    on_each(SHORT, async |test| {
        let queue = &test.queue;
        let stale = Uuid::now_v7();
        let pushes = bulk(1, "a");
        queue.push(&pushes).await.unwrap();
        take(queue, stale, &from(&["a"], 1)).await;
        let moved = push(pushes[0].id, "suspect", Priority::Bulk);
        let expires = async {
            while queue.depth(&lane("suspect")).await.unwrap().bulk == 0 {
                queue.push(std::slice::from_ref(&moved)).await.unwrap();
            }
        };
        tokio::time::timeout(LONG, expires).await.unwrap();
        assert_eq!(
            queue.renew(stale, &ids(&pushes)).await.unwrap(),
            ids(&pushes)
        );
        let got = take(queue, stale, &from(&["a", "suspect"], 9)).await;
        assert_eq!(got, ids(&pushes));
    })
    .await;
}

#[tokio::test]
async fn delayed_id_is_claimable_only_when_it_is_due() {
    on_each(LEASE, async |test| {
        let queue = &test.queue;
        let due = Utc::now() + TimeDelta::milliseconds(150);
        let mut pushes = bulk(3, "a");
        pushes[0].due_at = Some(due);
        pushes[1].due_at = Some(Utc::now() + TimeDelta::hours(1));
        pushes[2].due_at = Some(Utc::now() - TimeDelta::hours(1));
        queue.push(&pushes).await.unwrap();
        let owner = Uuid::now_v7();
        assert_eq!(take(queue, owner, &from(&["a"], 9)).await, [pushes[2].id]);
        let got = take_in_time(queue, owner, &from(&["a"], 9), 1).await;
        assert!(Utc::now() >= due);
        assert_eq!(got, [claimed(&pushes[0])]);
        assert_eq!(queue.depth(&lane("a")).await.unwrap().delayed, 1);
    })
    .await;
}

#[tokio::test]
async fn later_moves_an_id_to_another_time_lane_and_set() {
    on_each(LEASE, async |test| {
        let queue = &test.queue;
        let owner = Uuid::now_v7();
        let pushes = bulk(1, "a");
        queue.push(&pushes).await.unwrap();
        take(queue, owner, &from(&["a"], 1)).await;
        let moved = push(pushes[0].id, "b", Priority::Interactive);
        let due = Utc::now() + TimeDelta::milliseconds(100);
        queue.later(owner, &moved, due).await.unwrap();
        assert_eq!(queue.depth(&lane("b")).await.unwrap().delayed, 1);
        assert!(take(queue, owner, &from(&["a", "b"], 1)).await.is_empty());
        let got = take_in_time(queue, owner, &from(&["a", "b"], 1), 1).await;
        assert!(Utc::now() >= due);
        assert_eq!(got, [claimed(&moved)]);
    })
    .await;
}

#[tokio::test]
async fn only_the_holder_ends_or_renews_a_lease() {
    on_each(LEASE, async |test| {
        let queue = &test.queue;
        let (holder, stranger) = (Uuid::now_v7(), Uuid::now_v7());
        let pushes = bulk(1, "a");
        queue.push(&pushes).await.unwrap();
        take(queue, holder, &from(&["a"], 1)).await;

        queue.ack(stranger, &ids(&pushes)).await.unwrap();
        queue
            .release(stranger, &[claimed(&pushes[0])])
            .await
            .unwrap();
        queue.later(stranger, &pushes[0], Utc::now()).await.unwrap();
        assert_eq!(queue.depth(&lane("a")).await.unwrap(), Depth::default());
        let lost = queue.renew(stranger, &ids(&pushes)).await.unwrap();
        assert_eq!(lost, ids(&pushes));

        assert!(queue.renew(holder, &ids(&pushes)).await.unwrap().is_empty());
        queue.ack(holder, &ids(&pushes)).await.unwrap();
        assert_eq!(
            queue.renew(holder, &ids(&pushes)).await.unwrap(),
            ids(&pushes)
        );
        // Removed: a push adds it as new.
        queue.push(&pushes).await.unwrap();
        assert_eq!(take(queue, stranger, &from(&["a"], 1)).await, ids(&pushes));
    })
    .await;
}

#[tokio::test]
async fn expired_lease_hands_the_id_to_another_owner() {
    on_each(SHORT, async |test| {
        let queue = &test.queue;
        let (stale, next) = (Uuid::now_v7(), Uuid::now_v7());
        let pushes = bulk(2, "a");
        queue.push(&pushes).await.unwrap();
        assert_eq!(take(queue, stale, &from(&["a"], 1)).await, [pushes[0].id]);
        // In front again, and only once.
        let got = take_in_time(queue, next, &from(&["a"], 1), 2).await;
        let handed: BTreeSet<JobId> = got.iter().map(|claimed| claimed.id).collect();
        assert_eq!(handed, ids(&pushes).into_iter().collect());
        let lost = queue.renew(stale, &[pushes[0].id]).await.unwrap();
        assert_eq!(lost, [pushes[0].id]);
        queue.ack(stale, &[pushes[0].id]).await.unwrap();
        assert!(queue.renew(next, &[pushes[0].id]).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn renewed_lease_does_not_expire() {
    on_each(SHORT, async |test| {
        let queue = &test.queue;
        let (holder, other) = (Uuid::now_v7(), Uuid::now_v7());
        queue.push(&bulk(1, "a")).await.unwrap();
        let held = take(queue, holder, &from(&["a"], 1)).await;
        let start = Instant::now();
        while start.elapsed() < SHORT * 3 {
            assert!(queue.renew(holder, &held).await.unwrap().is_empty());
            assert!(take(queue, other, &from(&["a"], 1)).await.is_empty());
            queue.woken(SHORT / 10).await;
        }
        let got = take_in_time(queue, other, &from(&["a"], 1), 1).await;
        assert_eq!(got[0].id, held[0]);
    })
    .await;
}

#[tokio::test]
async fn released_id_is_in_front() {
    on_each(LEASE, async |test| {
        let queue = &test.queue;
        let owner = Uuid::now_v7();
        let pushes = bulk(5, "a");
        queue.push(&pushes).await.unwrap();
        let got = queue.claim(owner, &from(&["a"], 3)).await.unwrap();
        queue.release(owner, &got).await.unwrap();
        assert_eq!(take(queue, owner, &from(&["a"], 5)).await, ids(&pushes));
    })
    .await;
}

#[tokio::test]
async fn removed_id_is_deleted_in_every_state() {
    on_each(SHORT, async |test| {
        let queue = &test.queue;
        let owner = Uuid::now_v7();
        let mut pushes = [interactive(1, "a"), bulk(2, "a")].concat();
        pushes[2].due_at = Some(Utc::now() + TimeDelta::milliseconds(20));
        queue.push(&pushes).await.unwrap();
        let leased = take(queue, owner, &from(&["a"], 1)).await;
        assert_eq!(leased, [pushes[0].id]);
        queue.remove(&ids(&pushes)).await.unwrap();
        queue.remove(&[JobId::new()]).await.unwrap();
        assert_eq!(queue.depth(&lane("a")).await.unwrap(), Depth::default());
        assert_eq!(queue.renew(owner, &leased).await.unwrap(), leased);
        // A due time or an expired lease doesn't restore a removed id: only a later push is claimed.
        let mut after = bulk(1, "a");
        after[0].due_at = Some(Utc::now() + TimeDelta::milliseconds(300));
        queue.push(&after).await.unwrap();
        let got = take_in_time(queue, owner, &from(&["a"], 9), 1).await;
        assert_eq!(got, [claimed(&after[0])]);
    })
    .await;
}

#[tokio::test]
async fn backlog_that_is_due_at_once_is_promoted_in_slices() {
    on_each(LEASE, async |test| {
        let queue = &test.queue;
        let mut pushes = bulk(12_000, "a");
        let due = Utc::now() + TimeDelta::milliseconds(1_500);
        for push in &mut pushes {
            push.due_at = Some(due);
        }
        queue.push(&pushes).await.unwrap();
        assert_eq!(queue.depth(&lane("a")).await.unwrap().delayed, 12_000);
        let owner = Uuid::now_v7();
        // One claim promotes at most a slice. `woken` isn't called, because it promotes a slice in process.
        let mut got = Vec::new();
        while got.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            got = queue.claim(owner, &from(&["a"], 1)).await.unwrap();
        }
        assert!(queue.depth(&lane("a")).await.unwrap().delayed >= 11_500);
        got.extend(take_in_time(queue, owner, &from(&["a"], 400), 11_999).await);
        let distinct: HashSet<JobId> = got.iter().map(|claimed| claimed.id).collect();
        assert_eq!(distinct, ids(&pushes).into_iter().collect());
        assert_eq!(queue.depth(&lane("a")).await.unwrap(), Depth::default());
        let all: Vec<JobId> = distinct.into_iter().collect();
        queue.ack(owner, &all).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn push_wakes_waiting_callers() {
    on_each(LEASE, async |test| {
        let queue = &test.queue;
        // The first wait may end early, because of a push from before it subscribed.
        queue.woken(Duration::from_millis(500)).await;
        queue.woken(Duration::from_millis(500)).await;
        let start = Instant::now();
        let wait = queue.woken(LONG);
        let pushes = bulk(1, "a");
        let push = queue.push(&pushes);
        let ((), pushed) = futures::join!(wait, push);
        pushed.unwrap();
        assert!(start.elapsed() < LONG / 2);
    })
    .await;
}

#[tokio::test]
async fn push_between_a_claim_and_the_wait_is_not_missed() {
    on_each(LEASE, async |test| {
        let queue = &test.queue;
        queue.woken(Duration::from_millis(500)).await;
        queue.woken(Duration::from_millis(500)).await;
        assert!(
            take(queue, Uuid::now_v7(), &from(&["a"], 1))
                .await
                .is_empty()
        );
        queue.push(&bulk(1, "a")).await.unwrap();
        let start = Instant::now();
        queue.woken(LONG).await;
        assert!(start.elapsed() < LONG / 2);
    })
    .await;
}

#[tokio::test]
async fn wait_ends_without_a_push() {
    on_each(LEASE, async |test| {
        let wait = test.queue.woken(Duration::from_millis(20));
        tokio::time::timeout(LONG, wait).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn queue_resumes_after_it_restarts_empty() {
    on_each(LEASE, async |test| {
        let queue = &test.queue;
        let owner = Uuid::now_v7();
        let mut pushes = bulk(4, "a");
        pushes[3].due_at = Some(Utc::now() + TimeDelta::hours(1));
        queue.push(&pushes).await.unwrap();
        let held = queue.claim(owner, &from(&["a"], 2)).await.unwrap();
        test.forget_everything().await;

        let held_ids: Vec<JobId> = held.iter().map(|claimed| claimed.id).collect();
        assert_eq!(queue.renew(owner, &held_ids).await.unwrap(), held_ids);
        queue.ack(owner, &held_ids[..1]).await.unwrap();
        queue.release(owner, &held[1..]).await.unwrap();
        queue.later(owner, &pushes[0], Utc::now()).await.unwrap();
        assert_eq!(queue.depth(&lane("a")).await.unwrap(), Depth::default());
        assert!(take(queue, owner, &from(&["a"], 9)).await.is_empty());

        pushes[3].due_at = None;
        queue.push(&pushes).await.unwrap();
        assert_eq!(take(queue, owner, &from(&["a"], 9)).await, ids(&pushes));
    })
    .await;
}
