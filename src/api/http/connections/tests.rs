//! Who gives way, when, and that nobody is kept out.

use axum::body::{Bytes, HttpBody as _};
use futures::TryStreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::activity::PIECE_BYTES;
use super::*;

fn room() -> Arc<Room> {
    let http = HttpSettings {
        max_connections: 2,
        ..super::super::body::tests::limits()
    };
    Arc::new(Room::new(&http))
}

/// How long after now a connection ends that nothing happens on.
async fn ends_after(room: &Room, activity: &watch::Sender<Activity>) -> Duration {
    let begun = tokio::time::Instant::now();
    room.silent(activity.subscribe()).await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_ends_by_what_it_is_at() {
    let room = room();
    let activity = Arc::new(watch::Sender::new(Activity::default()));
    assert_eq!(ends_after(&room, &activity).await, room.header);
    let handled = async {
        activity.send_replace(Activity::Handled);
        sleep(10 * STALLED_AFTER).await;
        activity.send_replace(Activity::Idle);
        10 * STALLED_AFTER
    };
    let (handled, ended) = tokio::join!(handled, ends_after(&room, &activity));
    assert_eq!(ended, handled + room.idle, "a handler takes what it takes");
    let sending = Sending::new(activity.clone());
    assert_eq!(ends_after(&room, &activity).await, STALLED_AFTER);
    let (goes_on, ended) = tokio::join!(
        async {
            sleep(STALLED_AFTER / 2).await;
            sending.goes_on();
            STALLED_AFTER / 2
        },
        ends_after(&room, &activity)
    );
    assert_eq!(ended, goes_on + STALLED_AFTER);
}

#[tokio::test(start_paused = true)]
async fn whoever_was_silent_for_the_longest_time_gives_way() {
    let room = room();
    let activity = [Activity::Handled, Activity::Idle, Activity::Idle];
    let activity = activity.map(watch::Sender::new);
    let silent = activity.iter().map(|at| Box::pin(ends_after(&room, at)));
    let mut ended = futures::future::select_all(silent);
    for _ in 0..room.max + for_probes(room.max) {
        room.place().await.unwrap().forget();
    }
    tokio::select! {
        _ = &mut ended => panic!("they have just come"),
        _ = room.place() => panic!("there was no room"),
        () = sleep(IDLE_AFTER / 2) => {}
    }
    tokio::select! {
        _ = &mut ended => panic!("nobody waits any more"),
        () = sleep(IDLE_AFTER) => {}
    }
    tokio::select! {
        (after, first, _) = ended => assert_eq!((after, first), (IDLE_AFTER * 3 / 2, 1)),
        _ = room.place() => panic!("nobody gave way"),
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_nothing_of_an_answer_gives_leave_to_those_who_ask_then() {
    let room = room();
    let activity = [Activity::Sent, Activity::Idle].map(watch::Sender::new);
    let mut leaves = vec![room.leave().await.unwrap(), room.leave().await.unwrap()];
    let mut slow = Box::pin(ends_after(&room, &activity[0]));
    let mut idle = Box::pin(ends_after(&room, &activity[1]));
    tokio::select! {
        _ = &mut slow => panic!("nobody asked"),
        _ = &mut idle => panic!("it keeps no leave"),
        () = sleep(SLOW_AFTER - IDLE_AFTER) => {}
    }
    tokio::select! {
        _ = &mut slow => panic!("nobody asked"),
        () = sleep(2 * IDLE_AFTER) => {}
    }
    let gives_leave = async {
        let ended = slow.await;
        leaves.pop();
        ended
    };
    let (leave, ended) = tokio::join!(room.leave(), gives_leave);
    assert!(leave.is_some());
    assert_eq!(ended, SLOW_AFTER + IDLE_AFTER);
}

#[tokio::test(start_paused = true)]
async fn whoever_sends_a_body_slowly_gives_leave_and_a_handler_at_work_does_not() {
    let room = room();
    let _leaves = [room.leave().await.unwrap(), room.leave().await.unwrap()];
    let activity = [Activity::Awaited, Activity::Handled].map(watch::Sender::new);
    let mut slow = Box::pin(ends_after(&room, &activity[0]));
    let mut works = Box::pin(ends_after(&room, &activity[1]));
    tokio::select! {
        _ = &mut slow => panic!("nobody asked"),
        () = sleep(3 * IDLE_AFTER) => {}
    }
    tokio::select! {
        ended = &mut slow => assert_eq!(ended, 3 * IDLE_AFTER),
        _ = &mut works => panic!("its handler doesn't wait for it"),
        _ = room.leave() => panic!("nobody gave way"),
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_wait_than_there_are_who_could_give_way() {
    let room = room();
    let activity = [Activity::Sent, Activity::Handled].map(watch::Sender::new);
    let _leaves = [room.leave().await.unwrap(), room.leave().await.unwrap()];
    let mut goes_on = Box::pin(ends_after(&room, &activity[0]));
    let mut works = Box::pin(ends_after(&room, &activity[1]));
    tokio::select! {
        biased;
        _ = &mut goes_on => panic!("its answer has just begun"),
        _ = &mut works => panic!("its handler is at work"),
        leave = room.leave() => assert!(leave.is_none()),
        () = sleep(Duration::ZERO) => panic!("it waited for nobody"),
    }
    activity[1].send_replace(Activity::Awaited);
    tokio::select! {
        biased;
        _ = &mut goes_on => panic!("its answer has just begun"),
        _ = &mut works => panic!("it was silent for no second"),
        _ = room.leave() => panic!("one may give way"),
        leave = room.leave() => assert!(leave.is_none(), "that one alone"),
        () = sleep(Duration::ZERO) => panic!("it waited for nobody"),
    }
}

#[tokio::test]
async fn bodies_that_come_by_the_byte_keep_nobody_out() {
    let router = Router::new().fallback(|request: Request| async {
        let full = request.extensions().get::<OverFull>().is_some();
        let read = axum::body::to_bytes(request.into_body(), 100).await;
        format!("{full} {}", read.is_ok())
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let http = HttpSettings {
        max_connections: 2 * for_probes(usize::MAX),
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
async fn a_large_body_is_cut_into_pieces_and_a_small_one_stays_as_it_is() {
    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(2 * PIECE_BYTES + 1).collect();
    let pieces: Vec<Bytes> = in_pieces(Body::from(bytes.clone()))
        .into_data_stream()
        .try_collect()
        .await
        .unwrap();
    let lengths: Vec<usize> = pieces.iter().map(Bytes::len).collect();
    assert_eq!(lengths, [PIECE_BYTES, PIECE_BYTES, 1]);
    let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
    assert!(whole == bytes);
    let small = in_pieces(Body::from("small"));
    assert_eq!(small.size_hint().exact(), Some(5));
    assert!(in_pieces(Body::empty()).is_end_stream());
}

#[tokio::test]
async fn a_large_answer_is_under_way_until_its_slow_reader_has_taken_it() {
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
        sleep(2 * CLOSING).await;
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
