//! Redis outages: the queue returns errors in time, and recovers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gavel::clock::SystemClock;
use gavel::queue::redis::{RedisOptions, RedisQueue};
use gavel::queue::{Queue as _, QueueError};
use gavel::redis_client::RedisClient;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{LONG, bulk, from, no_redis};
use crate::support::{no_listener, redis_server};

fn queue_at(address: std::net::SocketAddr) -> RedisQueue {
    let options = RedisOptions {
        queue: format!("test-{}", Uuid::now_v7().simple()),
        ..RedisOptions::new(RedisClient::new(&format!("redis://{address}")).unwrap())
    };
    RedisQueue::new(options, Arc::new(SystemClock)).unwrap()
}

fn redis_address() -> Option<String> {
    let Some(url) = redis_server() else {
        no_redis("not tested");
        return None;
    };
    let address = url.trim_start_matches("redis://");
    Some(address.trim_end_matches('/').to_owned())
}

#[tokio::test]
async fn queue_is_created_while_its_server_is_down_and_reports_it() {
    let (_nobody, address) = no_listener();
    let queue = queue_at(address);
    let start = Instant::now();
    for _ in 0..2 {
        let refused = queue.push(&bulk(1, "a")).await;
        assert!(
            matches!(refused, Err(QueueError::Unreachable { .. })),
            "{refused:?}"
        );
    }
    assert!(queue.ping().await.is_err());
    queue.woken(Duration::from_millis(10)).await;
    assert!(start.elapsed() < Duration::from_secs(5));
    queue.close().await;
}

#[tokio::test]
async fn silent_server_is_an_error_and_not_a_hang() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let queue = queue_at(listener.local_addr().unwrap());
    let call = tokio::time::timeout(LONG, queue.ping()).await.unwrap();
    assert!(
        matches!(call, Err(QueueError::Unreachable { .. })),
        "{call:?}"
    );
}

#[tokio::test]
async fn ping_fails_if_a_command_of_the_scripts_is_forbidden() {
    let Some(server) = redis_address() else {
        return;
    };
    let admin = redis::Client::open(format!("redis://{server}")).unwrap();
    let mut admin = admin.get_multiplexed_async_connection().await.unwrap();
    for forbidden in ["-zadd", "-zpopmin", "-hset", "-publish", "resetchannels"] {
        let user = format!("test-{}", Uuid::now_v7().simple());
        let rules = ["on", ">secret", "~*", "&*", "+@all"];
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER").arg(&user).arg(&rules).arg(forbidden);
        let () = set.query_async(&mut admin).await.unwrap();
        let client = RedisClient::new(&format!("redis://{user}:secret@{server}")).unwrap();
        let queue = RedisQueue::new(RedisOptions::new(client), Arc::new(SystemClock)).unwrap();
        let pinged = queue.ping().await;
        assert!(pinged.is_err(), "{forbidden}");
        let mut delete = redis::cmd("ACL");
        delete.arg("DELUSER").arg(&user);
        let () = delete.query_async(&mut admin).await.unwrap();
    }
}

#[tokio::test]
async fn queue_reconnects_automatically() {
    let Some(server) = redis_address() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let queue = queue_at(address);

    let proxy = tokio::spawn(relay(listener, server.clone()));
    let pushes = bulk(1, "a");
    queue.push(&pushes).await.unwrap();
    proxy.abort();
    drop(proxy.await);
    assert!(queue.ping().await.is_err());

    let listener = TcpListener::bind(address).await.unwrap();
    let proxy = tokio::spawn(relay(listener, server));
    let answers = async {
        while queue.ping().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, answers).await.unwrap();
    let got = queue.claim(&from(&["a"], 1)).await.unwrap();
    assert_eq!(got[0].id, pushes[0].id);
    proxy.abort();
}

#[tokio::test]
async fn connection_that_swallows_requests_is_replaced() {
    let Some(server) = redis_address() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let queue = queue_at(listener.local_addr().unwrap());
    let stall = CancellationToken::new();
    let stalls = stall.clone();
    let proxy = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut upstream = TcpStream::connect(&server).await.unwrap();
        let passed = tokio::io::copy_bidirectional(&mut client, &mut upstream);
        assert!(stalls.run_until_cancelled(passed).await.is_none());
        // The first connection stays open and silent; later ones work.
        relay(listener, server).await;
        drop(client);
    });
    queue.ping().await.unwrap();
    stall.cancel();
    let call = tokio::time::timeout(LONG, queue.ping()).await.unwrap();
    assert!(
        matches!(call, Err(QueueError::Unreachable { .. })),
        "{call:?}"
    );
    queue.ping().await.unwrap();
    proxy.abort();
}

async fn relay(listener: TcpListener, server: String) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        let mut upstream = TcpStream::connect(&server).await.unwrap();
        connections.spawn(async move {
            drop(tokio::io::copy_bidirectional(&mut client, &mut upstream).await);
            drop(client.shutdown().await);
        });
    }
}

#[tokio::test]
async fn queue_name_that_would_break_the_hash_tag_is_rejected() {
    for name in ["", "a}b"] {
        let options = RedisOptions {
            queue: name.to_owned(),
            ..RedisOptions::new(RedisClient::new("redis://127.0.0.1:1").unwrap())
        };
        let refused = RedisQueue::new(options, Arc::new(SystemClock));
        assert!(matches!(refused, Err(QueueError::Unexpected { .. })));
    }
}
