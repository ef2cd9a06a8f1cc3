//! Recent events of this process: one ring buffer for all listeners, each with its position. A slow listener that is overtaken is notified
//! of the loss.
//!
//! The feed makes no server calls. [`super::follow`] fills it from Redis while there are listeners; in a single process, [`Feed::append`]
//! does.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use uuid::Uuid;

use super::{Event, Events, EventsError};

/// Capacity of the ring.
pub(super) const KEPT: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// Id from which a listener resumes.
    pub id: String,
    /// `None`: a mark without an event, which isn't sent to listeners.
    pub event: Option<Event>,
    data: OnceLock<String>,
}

impl StoredEvent {
    pub fn new(id: String, event: Option<Event>) -> Self {
        Self {
            id,
            event,
            data: OnceLock::new(),
        }
    }

    /// Returns the event as one line of JSON, serialized once for all listeners; empty for a mark.
    pub fn data(&self) -> &str {
        self.data.get_or_init(|| {
            // Serialization of ids, strings and times doesn't fail.
            let text = self.event.as_ref().map(serde_json::to_string);
            text.and_then(Result::ok).unwrap_or_default()
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// No id was given: new events only.
    Now,
    Resumed,
    /// New events only, because the given id is unknown or expired.
    Unknown,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// Oldest first.
    Events(Vec<Arc<StoredEvent>>),
    /// Events were overtaken or lost; the listener continues after this id.
    Lost(String),
    /// The connection to the log is lost until [`Heard::Restored`].
    Interrupted,
    /// The connection is back; events since the interruption were sent before.
    Restored,
}

#[derive(Debug)]
pub struct Feed {
    ring: Mutex<Ring>,
    /// Number after the newest event's.
    end: watch::Sender<u64>,
    /// Whether the ring contains the events of the log.
    filled: watch::Sender<bool>,
    /// Whether the feed is connected to the log.
    current: watch::Sender<bool>,
    /// Number of current and announced listeners.
    attending: watch::Sender<usize>,
    boot: String,
}

#[derive(Debug)]
struct Ring {
    /// Number of the oldest event. Numbers are local to this process; a skipped one marks a gap.
    first: u64,
    events: VecDeque<Arc<StoredEvent>>,
}

impl Ring {
    fn end(&self) -> u64 {
        self.first.saturating_add(self.events.len() as u64)
    }

    fn push(&mut self, event: StoredEvent) {
        if self.events.len() >= KEPT {
            self.events.pop_front();
            self.first += 1;
        }
        self.events.push_back(Arc::new(event));
    }

    /// Removes all events; listeners find a gap.
    fn clear(&mut self) {
        self.first = self.end() + 1;
        self.events.clear();
    }

    fn last_id(&self) -> String {
        self.events
            .back()
            .map_or_else(String::new, |event| event.id.clone())
    }
}

impl Default for Feed {
    fn default() -> Self {
        Self::new()
    }
}

impl Feed {
    /// Returns an empty ring that starts with a mark of this process, so that ids of other processes are unknown.
    pub fn new() -> Self {
        let boot = Uuid::now_v7().simple().to_string();
        let mut ring = Ring {
            first: 0,
            events: VecDeque::new(),
        };
        ring.push(StoredEvent::new(format!("{boot}-0"), None));
        let (end, _) = watch::channel(ring.end());
        Self {
            ring: Mutex::new(ring),
            end,
            filled: watch::channel(true).0,
            current: watch::channel(true).0,
            attending: watch::channel(0).0,
            boot,
        }
    }

    /// Returns an empty ring to be filled by [`super::follow`].
    pub fn unfilled() -> Self {
        let feed = Self::new();
        feed.filled.send_replace(false);
        feed
    }

    /// Announces a listener, so that the ring is filled.
    pub fn attend(self: &Arc<Self>) -> FeedGuard {
        self.attending.send_modify(|attending| *attending += 1);
        FeedGuard { feed: self.clone() }
    }

    pub(super) async fn attended(&self) {
        // The feed owns the sender, so the channel isn't closed.
        drop(self.attending.subscribe().wait_for(|n| *n > 0).await);
    }

    /// Waits until no listener has been present for `for_so_long`. From then on, the ring counts as not filled.
    pub(super) async fn wait_until_idle(&self, for_so_long: Duration) {
        let mut attending = self.attending.subscribe();
        loop {
            drop(attending.wait_for(|n| *n == 0).await);
            let back = attending.wait_for(|n| *n > 0);
            if tokio::time::timeout(for_so_long, back).await.is_ok() {
                continue;
            }
            let mut deserted = false;
            // `attend` takes this lock first, so the ring is filled and followed, or empty and unfollowed.
            self.attending.send_if_modified(|n| {
                deserted = *n == 0;
                if deserted {
                    self.filled.send_replace(false);
                }
                false
            });
            if deserted {
                return;
            }
        }
    }

    pub(super) fn is_current(&self, current: bool) {
        self.current.send_if_modified(|was| {
            let changed = *was != current;
            *was = current;
            changed
        });
    }

    pub fn add(&self, events: impl IntoIterator<Item = StoredEvent>) {
        let mut ring = self.ring();
        for event in events {
            ring.push(event);
        }
        let end = ring.end();
        drop(ring);
        self.end.send_replace(end);
    }

    /// Replaces all events. Every listener is notified of a loss, because the events in between are unknown.
    pub(super) fn replace(&self, events: Vec<StoredEvent>) {
        let mut ring = self.ring();
        ring.clear();
        for event in events {
            ring.push(event);
        }
        let end = ring.end();
        drop(ring);
        self.end.send_replace(end);
        self.filled.send_replace(true);
    }

    /// Starts listening after `last_id`, or at new events, in a ring that is filled.
    pub fn listen(self: &Arc<Self>, last_id: Option<&str>) -> (Listener, Start) {
        self.attend().listen(last_id)
    }

    fn place(&self, last_id: Option<&str>) -> (u64, String, Start) {
        let ring = self.ring();
        let found = last_id.map(|id| ring.events.iter().rposition(|event| event.id == id));
        let (next, start) = match found {
            None => (ring.end(), Start::Now),
            Some(None) => (ring.end(), Start::Unknown),
            Some(Some(place)) => (ring.first + place as u64 + 1, Start::Resumed),
        };
        let last_id = match (start, last_id) {
            (Start::Resumed, Some(id)) => id.to_owned(),
            (Start::Resumed | Start::Now | Start::Unknown, _) => ring.last_id(),
        };
        (next, last_id, start)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock()
    }
}

#[async_trait]
impl Events for Feed {
    async fn append(&self, events: &[Event]) -> Result<(), EventsError> {
        let mut ring = self.ring();
        for event in events {
            let id = format!("{}-{}", self.boot, ring.end());
            ring.push(StoredEvent::new(id, Some(event.clone())));
        }
        let end = ring.end();
        drop(ring);
        self.end.send_replace(end);
        Ok(())
    }
}

/// Announced listener. The ring stays filled while it exists.
#[derive(Debug)]
pub struct FeedGuard {
    feed: Arc<Feed>,
}

impl FeedGuard {
    /// Waits until the ring contains the events of the log, so that earlier ids are known.
    pub async fn filled(&self) {
        drop(
            self.feed
                .filled
                .subscribe()
                .wait_for(|filled| *filled)
                .await,
        );
    }

    /// Starts listening after `last_id`, or at new events.
    pub fn listen(self, last_id: Option<&str>) -> (Listener, Start) {
        let end = self.feed.end.subscribe();
        let current = self.feed.current.subscribe();
        let (next, last_id, start) = self.feed.place(last_id);
        let listener = Listener {
            attendance: self,
            next,
            last_id,
            end,
            current,
            is_current_known: true,
        };
        (listener, start)
    }
}

impl Drop for FeedGuard {
    fn drop(&mut self) {
        self.feed.attending.send_modify(|attending| *attending -= 1);
    }
}

#[derive(Debug)]
pub struct Listener {
    attendance: FeedGuard,
    next: u64,
    last_id: String,
    end: watch::Receiver<u64>,
    current: watch::Receiver<bool>,
    /// Connection state last sent to this listener.
    is_current_known: bool,
}

impl Listener {
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// Waits for events and returns at most `max` of them. Cancel-safe.
    pub async fn next(&mut self, max: usize) -> Heard {
        loop {
            self.end.borrow_and_update();
            if let Some(heard) = self.look(max) {
                return heard;
            }
            let current = *self.current.borrow_and_update();
            if current != self.is_current_known {
                self.is_current_known = current;
                return match current {
                    true => Heard::Restored,
                    false => Heard::Interrupted,
                };
            }
            let changed = tokio::select! {
                changed = self.end.changed() => changed,
                changed = self.current.changed() => changed,
            };
            if changed.is_err() {
                // The listener keeps the feed and its senders alive.
                std::future::pending::<()>().await;
            }
        }
    }

    fn look(&mut self, max: usize) -> Option<Heard> {
        let ring = self.attendance.feed.ring();
        let Some(skip) = self.next.checked_sub(ring.first) else {
            self.next = ring.end();
            self.last_id = ring.last_id();
            return Some(Heard::Lost(self.last_id.clone()));
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let events: Vec<Arc<StoredEvent>> =
            ring.events.iter().skip(skip).take(max).cloned().collect();
        drop(ring);
        let last = events.last()?;
        self.next += events.len() as u64;
        self.last_id.clone_from(&last.id);
        Some(Heard::Events(events))
    }
}

#[cfg(test)]
mod tests;
