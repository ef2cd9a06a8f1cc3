use axum::body::{Bytes, HttpBody as _};
use futures::TryStreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::activity::PIECE_BYTES;
use super::*;

fn limits() -> Arc<ConnectionLimits> {
    let http = HttpSettings {
        max_connections: 2,
        ..super::super::body::tests::limits()
    };
    Arc::new(ConnectionLimits::new(&http))
}

/// Returns the time after which a connection without progress ends.
async fn ends_after(limits: &ConnectionLimits, activity: &watch::Sender<Activity>) -> Duration {
    let begun = tokio::time::Instant::now();
    limits.wait_until_closed(activity.subscribe()).await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn timeout_depends_on_activity() {
    let limits = limits();
    let activity = Arc::new(watch::Sender::new(Activity::default()));
    assert_eq!(ends_after(&limits, &activity).await, limits.header);
    let handled = async {
        activity.send_replace(Activity::Handled);
        sleep(10 * STALLED_AFTER).await;
        activity.send_replace(Activity::Idle);
        10 * STALLED_AFTER
    };
    let (handled, ended) = tokio::join!(handled, ends_after(&limits, &activity));
    assert_eq!(
        ended,
        handled + limits.idle,
        "a handler takes what it takes"
    );
    let sending = Sending::new(activity.clone());
    assert_eq!(ends_after(&limits, &activity).await, STALLED_AFTER);
    let (after_progress, ended) = tokio::join!(
        async {
            sleep(STALLED_AFTER / 2).await;
            sending.record_progress();
            STALLED_AFTER / 2
        },
        ends_after(&limits, &activity)
    );
    assert_eq!(ended, after_progress + STALLED_AFTER);
}

#[tokio::test(start_paused = true)]
async fn evicts_longest_idle() {
    let limits = limits();
    let activity = [Activity::Handled, Activity::Idle, Activity::Idle];
    let activity = activity.map(watch::Sender::new);
    let silent = activity.iter().map(|at| Box::pin(ends_after(&limits, at)));
    let mut ended = futures::future::select_all(silent);
    for _ in 0..limits.max + probe_connections(limits.max) {
        limits.connection_permit().await.unwrap().forget();
    }
    tokio::select! {
        _ = &mut ended => panic!("they have just come"),
        _ = limits.connection_permit() => panic!("there was no room"),
        () = sleep(IDLE_AFTER / 2) => {}
    }
    tokio::select! {
        _ = &mut ended => panic!("nobody waits any more"),
        () = sleep(IDLE_AFTER) => {}
    }
    tokio::select! {
        (after, first, _) = ended => assert_eq!((after, first), (IDLE_AFTER * 3 / 2, 1)),
        _ = limits.connection_permit() => panic!("nobody gave way"),
    }
}

#[tokio::test(start_paused = true)]
async fn evicts_client_that_reads_nothing() {
    let limits = limits();
    let activity = [Activity::Sent, Activity::Idle].map(watch::Sender::new);
    let mut permits = vec![
        limits.request_permit().await.unwrap(),
        limits.request_permit().await.unwrap(),
    ];
    let mut slow = Box::pin(ends_after(&limits, &activity[0]));
    let mut idle = Box::pin(ends_after(&limits, &activity[1]));
    tokio::select! {
        _ = &mut slow => panic!("nobody asked"),
        _ = &mut idle => panic!("it keeps no leave"),
        () = sleep(SLOW_AFTER - IDLE_AFTER) => {}
    }
    tokio::select! {
        _ = &mut slow => panic!("nobody asked"),
        () = sleep(2 * IDLE_AFTER) => {}
    }
    let evict_slow = async {
        let ended = slow.await;
        permits.pop();
        ended
    };
    let (permit, ended) = tokio::join!(limits.request_permit(), evict_slow);
    assert!(permit.is_some());
    assert_eq!(ended, SLOW_AFTER + IDLE_AFTER);
}

#[tokio::test(start_paused = true)]
async fn evicts_slow_sender_but_not_running_handler() {
    let limits = limits();
    let _permits = [
        limits.request_permit().await.unwrap(),
        limits.request_permit().await.unwrap(),
    ];
    let activity = [Activity::Awaited, Activity::Handled].map(watch::Sender::new);
    let mut slow = Box::pin(ends_after(&limits, &activity[0]));
    let mut works = Box::pin(ends_after(&limits, &activity[1]));
    tokio::select! {
        _ = &mut slow => panic!("nobody asked"),
        () = sleep(3 * IDLE_AFTER) => {}
    }
    tokio::select! {
        ended = &mut slow => assert_eq!(ended, 3 * IDLE_AFTER),
        _ = &mut works => panic!("its handler doesn't wait for it"),
        _ = limits.request_permit() => panic!("nobody gave way"),
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_are_limited_by_slow_clients() {
    let limits = limits();
    let activity = [Activity::Sent, Activity::Handled].map(watch::Sender::new);
    let _permits = [
        limits.request_permit().await.unwrap(),
        limits.request_permit().await.unwrap(),
    ];
    let mut ended = Box::pin(ends_after(&limits, &activity[0]));
    let mut works = Box::pin(ends_after(&limits, &activity[1]));
    tokio::select! {
        biased;
        _ = &mut ended => panic!("its answer has just begun"),
        _ = &mut works => panic!("its handler is at work"),
        permit = limits.request_permit() => assert!(permit.is_none()),
        () = sleep(Duration::ZERO) => panic!("it waited for nobody"),
    }
    activity[1].send_replace(Activity::Awaited);
    tokio::select! {
        biased;
        _ = &mut ended => panic!("its answer has just begun"),
        _ = &mut works => panic!("it was silent for no second"),
        _ = limits.request_permit() => panic!("one may give way"),
        permit = limits.request_permit() => assert!(permit.is_none(), "that one alone"),
        () = sleep(Duration::ZERO) => panic!("it waited for nobody"),
    }
}

#[tokio::test]
async fn bytewise_bodies_do_not_block_others() {
    let router = Router::new().fallback(|request: Request| async {
        let full = request.extensions().get::<AtCapacity>().is_some();
        let read = axum::body::to_bytes(request.into_body(), 100).await;
        format!("{full} {}", read.is_ok())
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let http = HttpSettings {
        max_connections: 2 * probe_connections(usize::MAX),
        ..super::super::body::tests::limits()
    };
    let stop = CancellationToken::new();
    let head = |length: usize| {
        format!(
            "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        )
    };
    let by_the_byte = async || loop {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head(1_000).as_bytes()).await.unwrap();
        while stream.write_all(b"x").await.is_ok() {
            sleep(IDLE_AFTER / 4).await;
        }
    };
    let asking = async {
        sleep(2 * IDLE_AFTER).await;
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head(0).as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("false true"), "{answer}");
        }
    };
    let slow = futures::future::join_all((0..2 * http.max_connections).map(|_| by_the_byte()));
    tokio::select! {
        () = answer(listener, router, &http, stop.clone()) => {}
        _ = slow => {}
        () = asking => {}
    }
}

#[tokio::test]
async fn splits_only_large_bodies() {
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(2 * PIECE_BYTES + 1).collect();
    let pieces: Vec<Bytes> = split_body(Body::from(bytes.clone()))
        .into_data_stream()
        .try_collect()
        .await
        .unwrap();
    let lengths: Vec<usize> = pieces.iter().map(Bytes::len).collect();
    assert_eq!(lengths, [PIECE_BYTES, PIECE_BYTES, 1]);
    let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
    assert!(whole == bytes);
    let small = split_body(Body::from("small"));
    assert_eq!(small.size_hint().exact(), Some(5));
    assert!(split_body(Body::empty()).is_end_stream());
}

#[tokio::test]
async fn large_response_is_active_until_read() {
    const LARGE: usize = 32 << 20;
    let router = Router::new().fallback(|| async { vec![b'x'; LARGE] });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let http = super::super::body::tests::limits();
    let stop = CancellationToken::new();
    let reading = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let asked = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(asked).await.unwrap();
        let mut read = vec![stream.read_u8().await.unwrap()];
        stop.cancel();
        sleep(2 * CLOSE_TIMEOUT).await;
        stream.read_to_end(&mut read).await.unwrap();
        read
    };
    let (read, ()) = tokio::join!(reading, answer(listener, router, &http, stop.clone()));
    let end = read.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = read.split_at(end.unwrap() + 4);
    let head = String::from_utf8_lossy(head);
    assert!(head.contains(&format!("content-length: {LARGE}")), "{head}");
    assert_eq!(body.len(), LARGE);
}
