//! The last events of this process, and whoever reads along: one ring for all listeners, a place in it for each. A
//! listener that is slow costs nothing but its place; overtaken, it is told.
//!
//! Never asks a server: [`super::follow`] fills the ring from Redis while somebody attends, [`Feed::append`] in a process of
//! its own.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use uuid::Uuid;

use super::{Event, Events, EventsError};

/// How many events are kept.
pub(super) const KEPT: usize = 10_000;

/// An event with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// What a listener resumes by.
    pub id: String,
    /// The event; `None` marks a beginning, which nobody is told.
    pub event: Option<Event>,
    data: OnceLock<String>,
}

impl StoredEvent {
    /// An event, or a mark, at its place.
    pub fn new(id: String, event: Option<Event>) -> Self {
        Self {
            id,
            event,
            data: OnceLock::new(),
        }
    }

    /// The event as one line of JSON, written once for all listeners; empty for a mark.
    pub fn data(&self) -> &str {
        self.data.get_or_init(|| {
            // Ids, words and times: they always can be written.
            let text = self.event.as_ref().map(serde_json::to_string);
            text.and_then(Result::ok).unwrap_or_default()
        })
    }
}

/// Where a listener begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It asked for what happens from now on.
    Now,
    /// Right behind the id that it named.
    Resumed,
    /// From now on, since the id that it named is not known, or not any more.
    Unknown,
}

/// What a listener hears next.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// These events, oldest first.
    Events(Vec<Arc<StoredEvent>>),
    /// Events were overtaken or lost; it goes on behind this id.
    Lost(String),
    /// Nothing is heard from elsewhere until [`Heard::Restored`].
    Interrupted,
    /// It is heard again; what happened between was told before.
    Restored,
}

/// The ring.
#[derive(Debug)]
pub struct Feed {
    ring: Mutex<Ring>,
    /// The number after the newest event's.
    end: watch::Sender<u64>,
    /// Whether what there is elsewhere is in the ring.
    filled: watch::Sender<bool>,
    /// Whether what happens elsewhere is heard; false while the log is away.
    current: watch::Sender<bool>,
    /// How many listen, or are about to.
    attending: watch::Sender<usize>,
    boot: String,
}

#[derive(Debug)]
struct Ring {
    /// The number of the oldest event. Numbers are this process's own; one that is skipped is a gap.
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

    /// Forgets everything; whoever reads along finds a gap.
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
    /// An empty ring, which a mark of this start begins: ids of another start are unknown here.
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

    /// An empty ring that [`super::follow`] will fill.
    pub fn unfilled() -> Self {
        let feed = Self::new();
        feed.filled.send_replace(false);
        feed
    }

    /// Says that somebody is about to listen, so that the ring is filled for them.
    pub fn attend(self: &Arc<Self>) -> Attendance {
        self.attending.send_modify(|attending| *attending += 1);
        Attendance { feed: self.clone() }
    }

    /// Waits until somebody attends.
    pub(super) async fn attended(&self) {
        // The sender is this feed's own: it can't be gone.
        drop(self.attending.subscribe().wait_for(|n| *n > 0).await);
    }

    /// Waits until nobody has attended for so long; from then on the ring counts as not filled, and need not be.
    pub(super) async fn deserted(&self, for_so_long: Duration) {
        let mut attending = self.attending.subscribe();
        loop {
            drop(attending.wait_for(|n| *n == 0).await);
            let back = attending.wait_for(|n| *n > 0);
            if tokio::time::timeout(for_so_long, back).await.is_ok() {
                continue;
            }
            let mut deserted = false;
            // `attend` takes this lock first, so it finds the ring filled and followed, or neither.
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

    /// Says whether what happens elsewhere is heard.
    pub(super) fn is_current(&self, current: bool) {
        self.current.send_if_modified(|was| {
            let changed = *was != current;
            *was = current;
            changed
        });
    }

    /// Adds events that have ids already.
    pub fn add(&self, events: impl IntoIterator<Item = StoredEvent>) {
        let mut ring = self.ring();
        for event in events {
            ring.push(event);
        }
        let end = ring.end();
        drop(ring);
        self.end.send_replace(end);
    }

    /// Replaces everything, since what lies between is not known: every listener is told that it lost something.
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

    /// Begins to listen behind `last_id`, or from now on, in a ring that is filled already.
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

/// Somebody who listens, or is about to: as long as it is held the ring is kept filled.
#[derive(Debug)]
pub struct Attendance {
    feed: Arc<Feed>,
}

impl Attendance {
    /// Waits until what there is elsewhere is in the ring: earlier ids are known from then on.
    pub async fn filled(&self) {
        // The sender is the feed's own: it can't be gone.
        drop(
            self.feed
                .filled
                .subscribe()
                .wait_for(|filled| *filled)
                .await,
        );
    }

    /// Begins to listen behind `last_id`, or from now on.
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

impl Drop for Attendance {
    fn drop(&mut self) {
        self.feed.attending.send_modify(|attending| *attending -= 1);
    }
}

/// One listener's place in the ring.
#[derive(Debug)]
pub struct Listener {
    attendance: Attendance,
    next: u64,
    last_id: String,
    end: watch::Receiver<u64>,
    current: watch::Receiver<bool>,
    /// What this listener was told last of it.
    is_current_known: bool,
}

impl Listener {
    /// The id to resume by.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// Waits for events and answers at most `max` of them. Dropped before it answers, it has taken nothing.
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
                // The feed, which this listener holds, has the senders: they can't be gone.
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
