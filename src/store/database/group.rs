//! Groups writes: items that arrive during a commit go into the next one, so that a single caller doesn't wait.
//!
//! Groups without waiting callers may also be spaced, because a few large groups cost a fraction of many small ones in round
//! trips and wake-ups.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::store::database::db::{Db, retry_once};
use crate::store::database::error::StoreError;
use crate::store::database::group;
use crate::store::database::row::DbRow;
use crate::store::database::session::Purpose;
use crate::store::database::sql::Sql;

pub(in crate::store) const GROUP: usize = 256;

/// Waits for an item and takes all that have arrived, up to [`GROUP`]. Empty once the channel is closed and drained.
pub(in crate::store) async fn next<T>(
    receiver: &mut mpsc::Receiver<T>,
    closing: &CancellationToken,
) -> Vec<T> {
    let mut group = Vec::new();
    loop {
        tokio::select! {
            biased;
            // Items sent earlier are still received.
            () = closing.cancelled(), if !receiver.is_closed() => receiver.close(),
            _ = receiver.recv_many(&mut group, GROUP) => return group,
        }
    }
}

/// Minimum time between the end of a group and the next one.
pub(in crate::store) struct Spacing {
    least: Duration,
    next: Instant,
}

impl Spacing {
    pub(in crate::store) fn new(least: Duration) -> Self {
        Self {
            least,
            next: Instant::now(),
        }
    }

    /// Waits until the next group may start: at once after an idle period, on `hurry`, and while closing.
    pub(in crate::store) async fn keep(&self, hurry: &Notify, closing: &CancellationToken) {
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(self.next) => {}
            () = hurry.notified() => {}
            () = closing.cancelled() => {}
        }
    }

    /// Notes a group of this size. After a full group the next one starts at once, so that a backlog isn't slowed down.
    pub(in crate::store) fn ended(&mut self, group: usize) {
        if group < GROUP {
            self.next = Instant::now() + self.least;
        }
    }
}

// Grouped reads of requests and runs: facts, sessions and cached replies. Keys that arrive while the readers are busy go into
// the next statement, because at a thousand jobs per second single-row statements would be most of Postgres's work. Not used
// on SQLite, where they gain nothing. Callers decode the rows, so that a long conversation delays no other caller.

const READING: &str = "reading what requests and runs need";
/// Maximum number of sessions per statement, because each may have some MiB.
const SESSIONS: usize = 64;

/// Builders of the statements, by keys.
#[derive(Clone, Copy)]
pub(in crate::store) struct Statements {
    pub(in crate::store) sessions: fn(Vec<Uuid>) -> Sql,
    /// Each row has its session's id in `viewed_id`.
    pub(in crate::store) facts: fn(Vec<Uuid>) -> Sql,
    pub(in crate::store) calls: fn(Vec<Uuid>) -> Sql,
}

type Answer = oneshot::Sender<Result<Vec<DbRow>, StoreError>>;

/// A request for the rows of one key.
pub(in crate::store) enum Read {
    Session(Uuid, Answer),
    Facts(Uuid, Answer),
    /// The newest call with this key, of any age.
    Call(Uuid, Answer),
}

/// Sender of requests to the readers.
pub(in crate::store) struct Reader(mpsc::Sender<Read>);

impl Reader {
    pub(in crate::store) fn new(capacity: usize) -> (Self, mpsc::Receiver<Read>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Self(sender), receiver)
    }

    pub(in crate::store) async fn session(&self, id: Uuid) -> Result<Option<DbRow>, StoreError> {
        let rows = self.ask(|answer| Read::Session(id, answer)).await?;
        Ok(rows.into_iter().next())
    }

    /// Rows of a session's facts, one per relevant job.
    pub(in crate::store) async fn scoring_facts(&self, id: Uuid) -> Result<Vec<DbRow>, StoreError> {
        self.ask(|answer| Read::Facts(id, answer)).await
    }

    /// Row of the newest judge call with a key.
    pub(in crate::store) async fn call(&self, key: Uuid) -> Result<Option<DbRow>, StoreError> {
        let rows = self.ask(|answer| Read::Call(key, answer)).await?;
        Ok(rows.into_iter().next())
    }

    async fn ask(&self, read: impl FnOnce(Answer) -> Read) -> Result<Vec<DbRow>, StoreError> {
        let (answer, rows) = oneshot::channel();
        self.0
            .send(read(answer))
            .await
            .map_err(|_| StoreError::closed(READING))?;
        rows.await.map_err(|_| StoreError::closed(READING))?
    }
}

/// Runs a reader. While one reads, the other collects requests, so that a caller waits for at most one statement.
pub(in crate::store) async fn run(
    receiver: Arc<Mutex<mpsc::Receiver<Read>>>,
    closing: CancellationToken,
    db: Db,
    statements: Statements,
) {
    loop {
        let group = group::next(&mut *receiver.lock().await, &closing).await;
        if group.is_empty() {
            return;
        }
        let (mut facts, mut sessions) = (PendingReads::default(), PendingReads::default());
        let mut calls = PendingReads::default();
        for read in group {
            match read {
                Read::Facts(id, answer) => facts.add(id, answer),
                Read::Session(id, answer) => sessions.add(id, answer),
                Read::Call(key, answer) => calls.add(key, answer),
            }
        }
        while let Some(wanted) = facts.take(group::GROUP) {
            let statement = (statements.facts)(wanted.keys().copied().collect());
            answer(&db, &statement, "viewed_id", wanted).await;
        }
        while let Some(wanted) = sessions.take(SESSIONS) {
            let statement = (statements.sessions)(wanted.keys().copied().collect());
            answer(&db, &statement, "session_id", wanted).await;
        }
        while let Some(wanted) = calls.take(group::GROUP) {
            let statement = (statements.calls)(wanted.keys().copied().collect());
            answer(&db, &statement, "cache_key", wanted).await;
        }
    }
}

/// Pending requests. A row has one receiver, so duplicate keys go into a later statement.
struct PendingReads<K>(Vec<(K, Answer)>);

impl<K> Default for PendingReads<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Eq + Hash + Clone> PendingReads<K> {
    fn add(&mut self, key: K, answer: Answer) {
        self.0.push((key, answer));
    }

    /// Takes up to `most` requests with distinct keys; `None` without callers.
    fn take(&mut self, most: usize) -> Option<HashMap<K, Answer>> {
        let mut taken = HashMap::with_capacity(self.0.len().min(most));
        let mut left = Vec::new();
        for (key, answer) in self.0.drain(..) {
            if taken.len() < most && !taken.contains_key(&key) {
                taken.insert(key, answer);
            } else {
                left.push((key, answer));
            }
        }
        self.0 = left;
        (!taken.is_empty()).then_some(taken)
    }
}

/// Reads the rows and sends each to its caller; callers of missing rows get none.
async fn answer<K>(db: &Db, statement: &Sql, key_column: &'static str, wanted: HashMap<K, Answer>)
where
    K: Eq + Hash + super::row::Field,
{
    let rows = retry_once!(READING, async {
        db.writer(Purpose::Read).await?.fetch(statement).await
    });
    // The caller may have been cancelled.
    match rows {
        Ok(rows) => {
            let mut found: HashMap<K, Vec<DbRow>> = HashMap::with_capacity(wanted.len());
            for row in rows {
                if let Ok(key) = row.get::<K>(key_column) {
                    found.entry(key).or_default().push(row);
                }
            }
            for (key, answer) in wanted {
                let _ = answer.send(Ok(found.remove(&key).unwrap_or_default()));
            }
        }
        Err(error) => {
            for answer in wanted.into_values() {
                let _ = answer.send(Err(error.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(20);

    async fn waited(spacing: &Spacing, hurry: &Notify, closing: &CancellationToken) -> Duration {
        let began = Instant::now();
        spacing.keep(hurry, closing).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn groups_are_spaced_unless_idle_hurried_or_closing() {
        let (hurry, closing) = (Notify::new(), CancellationToken::new());
        let mut spacing = Spacing::new(LEAST);
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
        spacing.ended(1);
        assert!(waited(&spacing, &hurry, &closing).await >= LEAST);
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
        spacing.ended(1);
        hurry.notify_one();
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
        assert!(waited(&spacing, &hurry, &closing).await >= LEAST);
        spacing.ended(1);
        closing.cancel();
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn full_group_is_followed_immediately() {
        let (hurry, closing) = (Notify::new(), CancellationToken::new());
        let mut spacing = Spacing::new(LEAST);
        spacing.ended(GROUP);
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
        spacing.ended(GROUP - 1);
        assert!(waited(&spacing, &hurry, &closing).await >= LEAST);
    }
}
