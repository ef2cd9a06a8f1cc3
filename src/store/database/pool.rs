//! Pool of Postgres sessions for all purposes.
//!
//! Sessions are opened on demand. With [`MIN_SESSIONS`] sessions open, a caller first waits for a returned one. Sessions that are idle
//! for [`MAX_IDLE`] are closed. If the server has room, each frequent purpose gets a session, because changing a session's
//! settings costs a round trip. If a session can't be opened while others exist, callers wait for those, and opening is retried
//! later. So a process works with one session. Callers can't deadlock, because none takes a second session.
//!
//! Callers wait in the order of [`Purpose::rank`], heartbeats first.
//!
//! Not sqlx's pool, because it pings returned connections without a timeout and occupies their permit during that time, which is forever
//! on a silent socket. It also can't set keepalives or TCP timeouts. Not deadpool, because it fails callers if a session can't
//! be opened, and has no order of callers.

use std::ops::RangeTo;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::connect::PgAddress;
use super::error::{Outage, SharedError};
use super::last_outage::LastOutage;
use super::session::{Purpose, Server, Session};

/// Maximum wait of a statement for a session.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of sessions that are opened immediately; further ones after a caller has waited for [`OPEN_DELAY`].
const MIN_SESSIONS: usize = 2;
/// Number of sessions up to which frequent purposes get their own: one per group of settings, and one for the rest.
const MAX_SPECIALIZED: usize = 5;
/// With fewer free slots of the server, no session is opened just to avoid a change of settings.
const MIN_FREE_SLOTS: i64 = 60;
/// Several times the duration of a short statement, because a returned session is usually available before a new one.
const OPEN_DELAY: Duration = Duration::from_millis(20);
/// Maximum interval at which a waiting caller polls.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum idle time of a session, and the interval of the check.
const MAX_IDLE: Duration = Duration::from_secs(10);
/// Delays between tries to open a session after a failure, minimum and maximum.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(in crate::store) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    server: Server,
    slots: Mutex<Slots>,
    /// Notifies callers of a rank that a session is available.
    returned: [Notify; 4],
}

struct Slots {
    max: usize,
    /// Includes the one that is being opened.
    open: usize,
    is_opening: bool,
    /// Number of sessions in use, by rank.
    lent: [usize; 4],
    waiting: [usize; 4],
    /// Ordered by last use, most recent last.
    idle: Vec<Session>,
    failure: Option<OpenFailure>,
    /// Free slots of the server when the last session was opened.
    free_slots: i64,
    review: Instant,
    closed: bool,
}

/// The last failure to open a session, and the delay before the next try.
struct OpenFailure {
    error: SharedError,
    at: Instant,
    retry_delay: Duration,
}

impl Pool {
    pub(in crate::store) fn new(address: PgAddress, max: u32) -> Self {
        let slots = Slots {
            max: usize::try_from(max.max(1)).unwrap_or(usize::MAX),
            open: 0,
            is_opening: false,
            lent: [0; 4],
            waiting: [0; 4],
            idle: Vec::new(),
            failure: None,
            free_slots: i64::MAX,
            review: Instant::now() + MAX_IDLE,
            closed: false,
        };
        Self {
            shared: Arc::new(Shared {
                server: Server::new(address),
                slots: Mutex::new(slots),
                returned: Default::default(),
            }),
        }
    }

    /// Returns the numbers of sessions in use and idle.
    pub(in crate::store) fn in_use_and_idle(&self) -> (usize, usize) {
        let slots = self.shared.slots();
        (slots.lent.iter().sum(), slots.idle.len())
    }

    pub(in crate::store) fn max(&self) -> usize {
        self.shared.slots().max
    }

    pub(in crate::store) fn address(&self) -> &PgAddress {
        &self.shared.server.address
    }

    pub(in crate::store) fn last_outage(&self) -> &LastOutage {
        &self.shared.server.outage
    }

    /// Acquires an idle session, or waits for a returned or new one.
    pub(in crate::store) async fn take(&self, purpose: Purpose) -> sqlx::Result<Pooled> {
        let deadline = Instant::now() + ACQUIRE_TIMEOUT;
        loop {
            let idle = self.shared.lend(purpose, ..purpose.rank() + 1);
            let mut pooled = match idle {
                Some(pooled) => pooled,
                // Boxed, because waiting is rare and every future that uses the database would contain it.
                None => Box::pin(self.shared.wait(purpose, deadline)).await?,
            };
            let session = pooled.session()?;
            if session.is_alive().await && session.serve(purpose).await {
                return Ok(pooled);
            }
        }
    }

    /// Later calls of `take` fail.
    pub(in crate::store) async fn close(&self) {
        let idle = {
            let mut slots = self.shared.slots();
            slots.closed = true;
            std::mem::take(&mut slots.idle)
        };
        futures::future::join_all(idle.into_iter().map(Session::close)).await;
    }
}

impl Slots {
    /// Takes the most recently used idle session with matching settings. Otherwise takes another one, unless a new session may
    /// be opened. Returns none while callers of the ranks `before` wait. Rare purposes first reuse each other's sessions.
    fn lend(&mut self, purpose: Purpose, before: RangeTo<usize>) -> Option<Session> {
        let rank = purpose.rank();
        let room = match self.failure {
            Some(_) => self.open,
            None => self.max,
        };
        let has_share = (0..=rank).all(|rank| {
            let lent: usize = self.lent.iter().skip(rank).sum();
            lent < Purpose::share(rank, room)
        });
        let is_next = self
            .waiting
            .iter()
            .take(before.end)
            .all(|callers| *callers == 0);
        if !is_next || !has_share {
            return None;
        }
        let fitting = self.idle.iter().rposition(|session| session.fits(purpose));
        if fitting.is_none() && (self.idle.is_empty() || self.may_specialize(purpose)) {
            return None;
        }
        let mut idle = self.idle.iter();
        let shared = idle.position(|session| rank > 1 && session.rank() > 1);
        add(&mut self.lent, rank, 1);
        // With few sessions the rest may become idle and be closed; with one per purpose, the least recently used is changed.
        let other = match self.open < MAX_SPECIALIZED {
            true => self.idle.len() - 1,
            false => 0,
        };
        Some(self.idle.remove(fitting.or(shared).unwrap_or(other)))
    }

    /// Whether a new session is opened instead of changing another one.
    fn may_specialize(&self, purpose: Purpose) -> bool {
        purpose.rank() <= 1
            && self.failure.is_none()
            && self.free_slots >= MIN_FREE_SLOTS
            && self.open < self.max.min(MAX_SPECIALIZED)
    }

    /// Reserves a slot for a new session, for a caller that waits since `since`.
    fn reserve_slot(&mut self, purpose: Purpose, since: Instant) -> bool {
        let specializes = self.may_specialize(purpose);
        let is_due = self.open < MIN_SESSIONS || specializes || since.elapsed() >= OPEN_DELAY;
        let may_try = self
            .failure
            .as_ref()
            .is_none_or(|it| it.at.elapsed() >= it.retry_delay);
        let is_needed = self.idle.is_empty() || specializes;
        let opens = is_due && may_try && is_needed && !self.is_opening && self.open < self.max;
        if opens {
            self.open += 1;
            self.is_opening = true;
        }
        opens
    }

    /// Stores the result of opening a session.
    fn opened(&mut self, opened: sqlx::Result<Session>) {
        self.is_opening = false;
        match opened {
            Ok(_) if self.closed => self.open -= 1,
            Ok(session) => {
                self.failure = None;
                self.free_slots = session.free_slots;
                self.idle.push(session);
            }
            Err(error) => {
                self.open -= 1;
                let before = self.failure.take().map(|before| before.retry_delay * 2);
                self.failure = Some(OpenFailure {
                    error: SharedError::new(error),
                    at: Instant::now(),
                    retry_delay: before.unwrap_or(MIN_RETRY_DELAY).min(MAX_RETRY_DELAY),
                });
            }
        }
    }

    /// Returns the error for a caller: no session is open, and opening failed since the caller waits. If the server has no free
    /// slot, the caller waits until its deadline.
    fn failed(&self, since: Instant, deadline: Instant) -> Option<sqlx::Error> {
        let failure = self.failure.as_ref().filter(|it| it.at >= since);
        let error = failure.map(|it| sqlx::Error::from(it.error.clone()));
        let is_over = Instant::now() >= deadline;
        match error {
            _ if self.closed => Some(sqlx::Error::PoolClosed),
            Some(error) if is_over => Some(error),
            Some(error) if self.open == 0 => {
                (Outage::of(&error) != Some(Outage::NoFreeConnection)).then_some(error)
            }
            Some(_) | None => is_over.then_some(sqlx::Error::PoolTimedOut),
        }
    }

    /// Removes the sessions that are idle for too long, except the process's last one.
    fn surplus(&mut self) -> Vec<Session> {
        if Instant::now() < self.review {
            return Vec::new();
        }
        self.review = Instant::now() + MAX_IDLE;
        let idle = self.idle.iter();
        let stale = idle
            .take_while(|session| session.idle_for() >= MAX_IDLE)
            .count();
        let surplus = stale.min(self.open.saturating_sub(1));
        self.open -= surplus;
        self.idle.drain(..surplus).collect()
    }
}

fn add(counts: &mut [usize; 4], rank: usize, change: isize) {
    if let Some(count) = counts.get_mut(rank) {
        *count = count.saturating_add_signed(change);
    }
}

impl Shared {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(self: &Arc<Self>, purpose: Purpose, before: RangeTo<usize>) -> Option<Pooled> {
        let session = self.slots().lend(purpose, before)?;
        Some(Pooled {
            session: Some(session),
            home: Arc::clone(self),
            rank: purpose.rank(),
        })
    }

    async fn wait(self: &Arc<Self>, purpose: Purpose, deadline: Instant) -> sqlx::Result<Pooled> {
        let (rank, since) = (purpose.rank(), Instant::now());
        let _in_line = Waiter::new(self, rank);
        let returned = self.returned.get(rank).ok_or(sqlx::Error::PoolClosed)?;
        // Created once, because dropping it would lose the caller's place in the queue.
        let mut notified = pin!(returned.notified());
        loop {
            if let Some(pooled) = self.lend(purpose, ..rank) {
                return Ok(pooled);
            }
            let (failed, opens) = {
                let mut slots = self.slots();
                (
                    slots.failed(since, deadline),
                    slots.reserve_slot(purpose, since),
                )
            };
            if opens {
                tokio::spawn(Arc::clone(self).open(purpose));
            }
            if let Some(error) = failed {
                return Err(error);
            }
            // Callers also poll, because a notified caller may have been cancelled.
            let poll = since.elapsed().clamp(OPEN_DELAY, MAX_POLL_INTERVAL);
            if timeout(poll, notified.as_mut()).await.is_ok() {
                notified.set(returned.notified());
            }
        }
    }

    /// Opens a session in a task, because its caller uses the first available session.
    async fn open(self: Arc<Self>, purpose: Purpose) {
        let is_first = self.slots().open == 1;
        let opened = self.server.open(purpose, is_first).await;
        self.slots().opened(opened);
        self.notify_next();
    }

    /// Notifies the next caller that a session may be available.
    fn notify_next(&self) {
        let waiting = self.slots().waiting;
        let next = waiting
            .iter()
            .zip(&self.returned)
            .find(|(callers, _)| **callers > 0);
        if let Some((_, returned)) = next {
            returned.notify_one();
        }
    }
}

/// Registers a waiting caller.
struct Waiter<'a> {
    shared: &'a Shared,
    rank: usize,
}

impl<'a> Waiter<'a> {
    fn new(shared: &'a Shared, rank: usize) -> Self {
        add(&mut shared.slots().waiting, rank, 1);
        Self { shared, rank }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        add(&mut self.shared.slots().waiting, self.rank, -1);
        // Its session or notification may serve another caller.
        self.shared.notify_next();
    }
}

/// A borrowed session, which returns to the pool on drop if it is good.
pub(in crate::store) struct Pooled {
    session: Option<Session>,
    home: Arc<Shared>,
    rank: usize,
}

impl Pooled {
    pub(in crate::store) fn session(&mut self) -> sqlx::Result<&mut Session> {
        self.session.as_mut().ok_or(sqlx::Error::PoolClosed)
    }

    /// Returns the connection without timeouts; the session isn't reused.
    pub(in crate::store) fn raw(&mut self) -> sqlx::Result<&mut PgConnection> {
        let (conn, state) = self.session()?.parts();
        state.unfinished();
        Ok(conn)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let surplus = {
            let mut slots = self.home.slots();
            add(&mut slots.lent, self.rank, -1);
            match self.session.take().filter(Session::is_good) {
                Some(session) if !slots.closed => slots.idle.push(session),
                Some(_) | None => slots.open -= 1,
            }
            slots.surplus()
        };
        drop(surplus);
        self.home.notify_next();
    }
}
