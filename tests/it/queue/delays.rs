//! Delays and wake-ups.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use gavel::job::JobId;
use gavel::queue::Depth;

use super::{LONG, bulk, claimed, from, ids, lane, on_each, take, take_in_time};

#[tokio::test]
async fn delayed_id_is_claimable_only_when_it_is_due() {
    on_each(async |test| {
        let queue = &test.queue;
        let due = Utc::now() + TimeDelta::milliseconds(150);
        let mut pushes = bulk(3, "a");
        pushes[0].due_at = Some(due);
        pushes[1].due_at = Some(Utc::now() + TimeDelta::hours(1));
        pushes[2].due_at = Some(Utc::now() - TimeDelta::hours(1));
        queue.push(&pushes).await.unwrap();
        assert_eq!(take(queue, &from(&["a"], 9)).await, [pushes[2].id]);
        let got = take_in_time(queue, &from(&["a"], 9), 1).await;
        assert!(Utc::now() >= due);
        assert_eq!(got, [claimed(&pushes[0])]);
        assert_eq!(queue.depth(&lane("a")).await.unwrap().delayed, 1);
    })
    .await;
}

#[tokio::test]
async fn backlog_that_is_due_at_once_is_promoted_in_slices() {
    on_each(async |test| {
        let queue = &test.queue;
        let mut pushes = bulk(12_000, "a");
        let due = Utc::now() + TimeDelta::milliseconds(1_500);
        for push in &mut pushes {
            push.due_at = Some(due);
        }
        queue.push(&pushes).await.unwrap();
        assert_eq!(queue.depth(&lane("a")).await.unwrap().delayed, 12_000);
        // One claim promotes at most a slice.
        let mut got = Vec::new();
        while got.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            got = queue.claim(&from(&["a"], 1)).await.unwrap();
        }
        assert!(queue.depth(&lane("a")).await.unwrap().delayed >= 11_500);
        got.extend(take_in_time(queue, &from(&["a"], 400), 11_999).await);
        let distinct: HashSet<JobId> = got.iter().map(|claimed| claimed.id).collect();
        assert_eq!(distinct, ids(&pushes).into_iter().collect());
        assert_eq!(queue.depth(&lane("a")).await.unwrap(), Depth::default());
    })
    .await;
}

#[tokio::test]
async fn push_wakes_waiting_callers() {
    on_each(async |test| {
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
    on_each(async |test| {
        let queue = &test.queue;
        queue.woken(Duration::from_millis(500)).await;
        queue.woken(Duration::from_millis(500)).await;
        assert!(take(queue, &from(&["a"], 1)).await.is_empty());
        queue.push(&bulk(1, "a")).await.unwrap();
        let start = Instant::now();
        queue.woken(LONG).await;
        assert!(start.elapsed() < LONG / 2);
    })
    .await;
}

#[tokio::test]
async fn wait_ends_without_a_push() {
    on_each(async |test| {
        let wait = test.queue.woken(Duration::from_millis(20));
        tokio::time::timeout(LONG, wait).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn queue_resumes_after_it_restarts_empty() {
    on_each(async |test| {
        let queue = &test.queue;
        let mut pushes = bulk(4, "a");
        pushes[3].due_at = Some(Utc::now() + TimeDelta::hours(1));
        queue.push(&pushes).await.unwrap();
        assert_eq!(take(queue, &from(&["a"], 2)).await.len(), 2);
        test.forget_everything().await;
        assert_eq!(queue.depth(&lane("a")).await.unwrap(), Depth::default());
        assert!(take(queue, &from(&["a"], 9)).await.is_empty());

        pushes[3].due_at = None;
        queue.push(&pushes).await.unwrap();
        assert_eq!(take(queue, &from(&["a"], 9)).await, ids(&pushes));
    })
    .await;
}
