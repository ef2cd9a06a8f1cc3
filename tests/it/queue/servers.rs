//! Full, evicting or demoted servers: the queue reports itself as unavailable, and recovers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use gavel::clock::SystemClock;
use gavel::queue::redis::{RedisOptions, RedisQueue};
use gavel::queue::{Queue, QueueError};
use gavel::redis_client::RedisClient;

use super::{LONG, bulk, from, ids, interactive, take};
use crate::support::process::PrivateRedis;
use crate::support::wait::eventually;

/// Timeout for sentinels: a failover needs about 2 s, and detecting a returned primary 10 s.
const FAILOVER: Duration = Duration::from_secs(60);

fn queue_at(url: &str) -> Arc<dyn Queue> {
    let options = RedisOptions::new(RedisClient::new(url).unwrap());
    Arc::new(RedisQueue::new(options, Arc::new(SystemClock)).unwrap())
}

#[tokio::test]
async fn full_or_read_only_server_is_unavailable_until_writable() {
    let Some(redis) = PrivateRedis::start().await else {
        return;
    };
    let queue = queue_at(&redis.url());
    let (early, late) = (bulk(20, "a"), interactive(5, "a"));
    queue.push(&early).await.unwrap();
    let held = take(&queue, &from(&["a"], 4)).await;
    for (stop, go) in [
        (
            &["CONFIG", "SET", "maxmemory", "1"][..],
            &["CONFIG", "SET", "maxmemory", "0"][..],
        ),
        (
            &["REPLICAOF", "127.0.0.1", "1"][..],
            &["REPLICAOF", "NO", "ONE"][..],
        ),
    ] {
        redis.tell(stop).await;
        let refused = queue.push(&late).await;
        assert!(
            matches!(refused, Err(QueueError::Unreachable { .. })),
            "{stop:?}: {refused:?}"
        );
        let refused = queue.ping().await;
        assert!(
            matches!(refused, Err(QueueError::Unreachable { .. })),
            "{stop:?}: {refused:?}"
        );
        redis.tell(go).await;
        queue.ping().await.unwrap();
    }
    redis.tell(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let refused = queue.claim(&from(&["a"], 9)).await;
    assert!(
        matches!(refused, Err(QueueError::Unreachable { .. })),
        "{refused:?}"
    );
    redis.tell(&["REPLICAOF", "NO", "ONE"]).await;
    // As in rescue: all due ids are pushed again.
    let due: Vec<_> = early
        .into_iter()
        .filter(|push| !held.contains(&push.id))
        .chain(late)
        .collect();
    queue.push(&due).await.unwrap();
    let got: BTreeSet<_> = take(&queue, &from(&["a"], 99)).await.into_iter().collect();
    assert_eq!(got, ids(&due).into_iter().collect());
    assert_eq!(take(&queue, &from(&["a"], 99)).await, []);
}

#[tokio::test]
async fn pushed_ids_are_claimable_after_any_key_was_evicted() {
    let Some(redis) = PrivateRedis::start().await else {
        return;
    };
    let queue = queue_at(&redis.url());
    for key in [
        "ids",
        "delayed",
        "waits",
        "order",
        "turns",
        "ready:a:b",
        "ready:a:i",
    ] {
        let (mut later, ready) = (bulk(3, "a"), [bulk(15, "a"), interactive(15, "a")].concat());
        for push in &mut later {
            push.due_at = Some(Utc::now() + TimeDelta::hours(1));
        }
        queue
            .push(&[later.clone(), ready.clone()].concat())
            .await
            .unwrap();
        let held = take(&queue, &from(&["a"], 6)).await;
        assert_eq!(held.len(), 6);
        redis
            .tell(&["DEL", &format!("{{gavel:gavel}}:{key}")])
            .await;

        let done: BTreeSet<_> = held.iter().copied().collect();
        for push in &mut later {
            push.due_at = None;
        }
        let due: Vec<_> = [later, ready]
            .concat()
            .into_iter()
            .filter(|push| !done.contains(&push.id))
            .collect();
        let mut missing: BTreeSet<_> = ids(&due).into_iter().collect();
        let comes_out = async {
            while !missing.is_empty() {
                queue.push(&due).await.unwrap();
                for id in take(&queue, &from(&["a"], 9)).await {
                    missing.remove(&id);
                }
            }
        };
        tokio::time::timeout(LONG, comes_out)
            .await
            .unwrap_or_else(|_| panic!("{key}: {missing:?}"));
        while !take(&queue, &from(&["a"], 99)).await.is_empty() {}
    }
}

#[tokio::test]
async fn queue_follows_the_primary_promoted_by_sentinels() {
    let Some(mut primary) = PrivateRedis::start().await else {
        return;
    };
    let port = primary.port().to_string();
    let replica = PrivateRedis::start_with(&["--replicaof", "127.0.0.1", &port])
        .await
        .unwrap();
    eventually(FAILOVER, "the replica follows", || async {
        let info = primary.tell(&["INFO", "replication"]).await;
        info.contains("state=online").then_some(())
    })
    .await;
    let (sentinel, _process) = primary.sentinel().await;
    let queue = queue_at(&format!("redis+sentinel://{sentinel}/mymaster"));
    let pushes = bulk(3, "a");
    eventually(FAILOVER, "the sentinel names the primary", || async {
        queue.push(&pushes).await.ok()
    })
    .await;
    assert!(primary.tell(&["KEYS", "*"]).await.contains("gavel"));

    primary.kill().await;
    let killed = std::time::Instant::now();
    let refused = queue.ping().await;
    assert!(
        matches!(refused, Err(QueueError::Unreachable { .. })),
        "{refused:?}"
    );
    eventually(FAILOVER, "the promoted replica is followed", || async {
        queue.push(&pushes).await.ok()
    })
    .await;
    eprintln!(
        "from the primary's death to the first push: {:?}",
        killed.elapsed()
    );
    let got = take(&queue, &from(&["a"], 9)).await;
    assert_eq!(got, ids(&pushes));

    drop(replica);
}

#[tokio::test]
async fn service_unknown_to_the_sentinel_is_named() {
    let Some(redis) = PrivateRedis::start().await else {
        return;
    };
    let (sentinel, _process) = redis.sentinel().await;
    let queue = queue_at(&format!("redis+sentinel://{sentinel}/other"));
    let error = queue.ping().await.unwrap_err().to_string();
    assert!(
        error.contains("no such service") && error.contains("other"),
        "{error}"
    );
}
