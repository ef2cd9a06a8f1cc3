//! Tests of the event feed: retention, resuming and loss.

use chrono::DateTime;
use futures::FutureExt as _;
use proptest::prelude::*;

use super::super::EventType;
use super::*;

fn some(n: usize) -> Vec<Event> {
    vec![Event::new(EventType::JobQueued, DateTime::UNIX_EPOCH); n]
}

fn append(feed: &Feed, n: usize) {
    feed.append(&some(n)).now_or_never().unwrap().unwrap();
}

fn ids(heard: Heard) -> Vec<String> {
    match heard {
        Heard::Events(events) => events.iter().map(|told| told.id.clone()).collect(),
        other @ (Heard::Lost(_) | Heard::Interrupted | Heard::Restored) => panic!("{other:?}"),
    }
}

fn now(listener: &mut Listener, max: usize) -> Option<Heard> {
    listener.next(max).now_or_never()
}

#[test]
fn listener_gets_new_events_in_order() {
    let feed = Arc::new(Feed::new());
    append(&feed, 3);
    let (mut listener, start) = feed.listen(None);
    assert_eq!(start, Start::Now);
    assert_eq!(now(&mut listener, 10), None);
    append(&feed, 2);
    let heard = ids(now(&mut listener, 10).unwrap());
    assert!(
        heard[0].ends_with("-4") && heard[1].ends_with("-5"),
        "{heard:?}"
    );
    assert_eq!(now(&mut listener, 10), None);
}

#[test]
fn id_of_another_process_is_unknown() {
    let (before, after) = (Arc::new(Feed::new()), Arc::new(Feed::new()));
    let (listener, _) = before.listen(None);
    assert_eq!(before.listen(Some(listener.last_id())).1, Start::Resumed);
    assert_eq!(after.listen(Some(listener.last_id())).1, Start::Unknown);
}

#[test]
fn overtaken_listener_is_notified_once_and_continues() {
    let feed = Arc::new(Feed::new());
    let (mut listener, _) = feed.listen(None);
    append(&feed, KEPT + 1);
    assert!(matches!(now(&mut listener, 10), Some(Heard::Lost(_))));
    assert_eq!(now(&mut listener, 10), None);
    append(&feed, 1);
    assert_eq!(ids(now(&mut listener, 10).unwrap()).len(), 1);
}

#[test]
fn listeners_are_notified_of_interruption_once() {
    let feed = Arc::new(Feed::new());
    let (mut early, _) = feed.listen(None);
    feed.is_current(false);
    feed.is_current(false);
    let (mut late, _) = feed.listen(None);
    for listener in [&mut early, &mut late] {
        assert_eq!(now(listener, 9), Some(Heard::Interrupted));
        assert_eq!(now(listener, 9), None);
    }
    append(&feed, 1);
    feed.is_current(true);
    for listener in [&mut early, &mut late] {
        assert_eq!(ids(now(listener, 9).unwrap()).len(), 1);
        assert_eq!(now(listener, 9), Some(Heard::Restored));
        assert_eq!(now(listener, 9), None);
    }
    feed.is_current(false);
    feed.is_current(true);
    assert_eq!(now(&mut early, 9), None, "nobody saw it go");
}

#[test]
fn replacing_events_notifies_listeners_of_loss() {
    let feed = Arc::new(Feed::new());
    append(&feed, 2);
    let (mut listener, _) = feed.listen(None);
    let mark = StoredEvent::new("7-0".to_owned(), None);
    feed.replace(vec![mark]);
    assert_eq!(now(&mut listener, 9), Some(Heard::Lost("7-0".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn ring_stays_filled_while_there_are_listeners() {
    const LINGER: Duration = Duration::from_secs(30);
    let feed = Arc::new(Feed::unfilled());
    assert!(
        feed.attended().now_or_never().is_none(),
        "nobody is there yet"
    );
    let first = feed.attend();
    assert!(feed.attended().now_or_never().is_some());
    assert!(first.filled().now_or_never().is_none());
    feed.replace(vec![StoredEvent::new("7-0".to_owned(), None)]);
    assert!(first.filled().now_or_never().is_some());

    let (listener, _) = first.listen(None);
    let deserted = tokio::time::timeout(LINGER * 10, feed.wait_until_idle(LINGER)).await;
    assert!(deserted.is_err(), "who listens attends");
    drop(listener);
    let (back, ()) = tokio::join!(
        async {
            tokio::time::sleep(LINGER / 2).await;
            let back = feed.attend();
            tokio::time::sleep(LINGER * 2).await;
            back.filled().now_or_never().is_some()
        },
        feed.wait_until_idle(LINGER)
    );
    assert!(back, "a pause shorter than that changes nothing");
    assert!(
        feed.attend().filled().now_or_never().is_none(),
        "nobody fills it any more"
    );
}

proptest! {
    #[test]
    fn resuming_skips_and_repeats_no_events(before in 0_usize..50, after in 0_usize..50, cut in 0_usize..100, max in 1_usize..9) {
        let feed = Arc::new(Feed::new());
        let (mut whole, _) = feed.listen(None);
        let first = whole.last_id().to_owned();
        append(&feed, before);
        append(&feed, after);
        let mut all = vec![first];
        while let Some(heard) = now(&mut whole, max) {
            all.extend(ids(heard));
        }
        let cut = cut % all.len();
        let (mut resumed, start) = feed.listen(Some(&all[cut]));
        prop_assert_eq!(start, Start::Resumed);
        let mut rest = Vec::new();
        while let Some(heard) = now(&mut resumed, max) {
            rest.extend(ids(heard));
        }
        prop_assert_eq!(&rest, &all[cut + 1..]);
    }
}
