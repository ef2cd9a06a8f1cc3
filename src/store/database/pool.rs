//! The pool of sessions with Postgres: the one way to a session, whatever it is for.
//!
//! Sessions are opened on demand. A caller waits for one that comes back before another is opened, unless there are fewer
//! than [`BASE`]; sessions that were idle for [`REVIEW`] are closed. Where the server has room, each frequent purpose gets a
//! session, because changing a session's settings costs a round trip. A session that can't be opened is no error while the
//! process has others: callers wait for those, and opening is tried again later. So a process works with one session, and
//! since no statement needs a second one while it has one, callers can't wait for each other.
//!
//! Callers wait in the order of [`Purpose::rank`], heartbeats first.
//!
//! The driver's own pool asks a connection that comes back whether it lives, without a bound, and holds its permit
//! meanwhile: on a socket that has gone silent that is for good. The driver can't set keepalives or a timeout of TCP
//! either, nor is its socket within reach, so every bound here is our own. deadpool fails a caller whose session can't be
//! opened, and knows no order of callers.

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

/// How long a statement waits for a session.
const ACQUIRE: Duration = Duration::from_secs(3);
/// Sessions that are opened as soon as they are needed; any more, after a caller waited for [`PATIENCE`].
const BASE: usize = 2;
/// Sessions up to which a frequent purpose gets another one: one for each of their settings, and one for all else.
const SPECIALIZED: usize = 5;
/// Free slots of the server below which no session is opened only to save a change of settings.
const ROOM: i64 = 60;
/// Several times what a short statement takes: one that comes back is sooner there than a new one.
const PATIENCE: Duration = Duration::from_millis(20);
/// How often a caller looks again at most.
const LONGEST_LOOK: Duration = Duration::from_millis(100);
/// How long a session may be idle, and how often that is checked.
const REVIEW: Duration = Duration::from_secs(10);
/// The pauses between two tries to open a session, from the first that failed on.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A pool of sessions.
#[derive(Clone)]
pub(in crate::store) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    server: Server,
    places: Mutex<Places>,
    /// A session is there for the callers of a rank.
    returned: [Notify; 4],
}

/// The sessions that there may be.
struct Places {
    /// The most sessions.
    max: usize,
    /// Sessions, and the one that is being opened.
    open: usize,
    is_opening: bool,
    /// Sessions lent out, by rank.
    lent: [usize; 4],
    /// Callers that wait, by rank.
    waiting: [usize; 4],
    /// The most recently used one is the last.
    idle: Vec<Session>,
    refused: Option<Refused>,
    /// Free slots of the server when the last session was opened.
    free_slots: i64,
    review: Instant,
    closed: bool,
}

/// Why the last session couldn't be opened, and when that may be tried again.
struct Refused {
    error: SharedError,
    at: Instant,
    pause: Duration,
}

impl Pool {
    pub(in crate::store) fn new(address: PgAddress, max: u32) -> Self {
        let places = Places {
            max: usize::try_from(max.max(1)).unwrap_or(usize::MAX),
            open: 0,
            is_opening: false,
            lent: [0; 4],
            waiting: [0; 4],
            idle: Vec::new(),
            refused: None,
            free_slots: i64::MAX,
            review: Instant::now() + REVIEW,
            closed: false,
        };
        Self {
            shared: Arc::new(Shared {
                server: Server::new(address),
                places: Mutex::new(places),
                returned: Default::default(),
            }),
        }
    }

    /// How many sessions are lent out, and how many rest.
    pub(in crate::store) fn in_use_and_idle(&self) -> (usize, usize) {
        let places = self.shared.places();
        (places.lent.iter().sum(), places.idle.len())
    }

    pub(in crate::store) fn max(&self) -> usize {
        self.shared.places().max
    }

    pub(in crate::store) fn address(&self) -> &PgAddress {
        &self.shared.server.address
    }

    /// What its sessions noted.
    pub(in crate::store) fn last_outage(&self) -> &LastOutage {
        &self.shared.server.outage
    }

    /// Takes an idle session, or waits for one that comes back or is opened.
    pub(in crate::store) async fn take(&self, purpose: Purpose) -> sqlx::Result<Pooled> {
        let deadline = Instant::now() + ACQUIRE;
        loop {
            let idle = self.shared.lend(purpose, ..purpose.rank() + 1);
            let mut pooled = match idle {
                Some(pooled) => pooled,
                // Boxed: waiting is rare, and every future that asks the database would have room for it.
                None => Box::pin(self.shared.wait(purpose, deadline)).await?,
            };
            let session = pooled.session()?;
            if session.is_alive().await && session.serve(purpose).await {
                return Ok(pooled);
            }
        }
    }

    /// Nothing is taken from now on.
    pub(in crate::store) async fn close(&self) {
        let idle = {
            let mut places = self.shared.places();
            places.closed = true;
            std::mem::take(&mut places.idle)
        };
        futures::future::join_all(idle.into_iter().map(Session::close)).await;
    }
}

impl Places {
    /// Takes out the most recently used idle session with the right settings, else another one, unless one may be opened for
    /// it; none while callers of the ranks `before` wait. Rare purposes share sessions with each other first.
    fn lend(&mut self, purpose: Purpose, before: RangeTo<usize>) -> Option<Session> {
        let rank = purpose.rank();
        let room = match self.refused {
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
        // With few sessions the others may grow idle and be closed; with one for each purpose, the rarest is changed.
        let other = match self.open < SPECIALIZED {
            true => self.idle.len() - 1,
            false => 0,
        };
        Some(self.idle.remove(fitting.or(shared).unwrap_or(other)))
    }

    /// Whether a session is opened for a purpose rather than changed.
    fn may_specialize(&self, purpose: Purpose) -> bool {
        purpose.rank() <= 1
            && self.refused.is_none()
            && self.free_slots >= ROOM
            && self.open < self.max.min(SPECIALIZED)
    }

    /// Takes a place for another session, for a caller that waits since then.
    fn grow(&mut self, purpose: Purpose, since: Instant) -> bool {
        let specializes = self.may_specialize(purpose);
        let is_due = self.open < BASE || specializes || since.elapsed() >= PATIENCE;
        let may_try = self
            .refused
            .as_ref()
            .is_none_or(|it| it.at.elapsed() >= it.pause);
        let is_needed = self.idle.is_empty() || specializes;
        let grows = is_due && may_try && is_needed && !self.is_opening && self.open < self.max;
        if grows {
            self.open += 1;
            self.is_opening = true;
        }
        grows
    }

    /// Notes whether a session was opened.
    fn opened(&mut self, opened: sqlx::Result<Session>) {
        self.is_opening = false;
        match opened {
            Ok(_) if self.closed => self.open -= 1,
            Ok(session) => {
                self.refused = None;
                self.free_slots = session.free_slots;
                self.idle.push(session);
            }
            Err(error) => {
                self.open -= 1;
                let before = self.refused.take().map(|before| before.pause * 2);
                self.refused = Some(Refused {
                    error: SharedError::new(error),
                    at: Instant::now(),
                    pause: before.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE),
                });
            }
        }
    }

    /// Returns why a caller gets no session: none is open, and since it waits none could be opened. It waits on where the server
    /// has only none left.
    fn failed(&self, since: Instant, deadline: Instant) -> Option<sqlx::Error> {
        let refused = self.refused.as_ref().filter(|it| it.at >= since);
        let error = refused.map(|it| sqlx::Error::from(it.error.clone()));
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

    /// Takes out the sessions that were idle for long, except the last session of all.
    fn surplus(&mut self) -> Vec<Session> {
        if Instant::now() < self.review {
            return Vec::new();
        }
        self.review = Instant::now() + REVIEW;
        let idle = self.idle.iter();
        let stale = idle
            .take_while(|session| session.idle_for() >= REVIEW)
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
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(self: &Arc<Self>, purpose: Purpose, before: RangeTo<usize>) -> Option<Pooled> {
        let session = self.places().lend(purpose, before)?;
        Some(Pooled {
            session: Some(session),
            home: Arc::clone(self),
            rank: purpose.rank(),
        })
    }

    async fn wait(self: &Arc<Self>, purpose: Purpose, deadline: Instant) -> sqlx::Result<Pooled> {
        let (rank, since) = (purpose.rank(), Instant::now());
        let _in_line = InLine::new(self, rank);
        let returned = self.returned.get(rank).ok_or(sqlx::Error::PoolClosed)?;
        // Kept from look to look, with its place in line.
        let mut told = pin!(returned.notified());
        loop {
            if let Some(pooled) = self.lend(purpose, ..rank) {
                return Ok(pooled);
            }
            let (failed, grows) = {
                let mut places = self.places();
                (places.failed(since, deadline), places.grow(purpose, since))
            };
            if grows {
                tokio::spawn(Arc::clone(self).open(purpose));
            }
            if let Some(error) = failed {
                return Err(error);
            }
            // Callers look again themselves: whoever was told may have gone.
            let look = since.elapsed().clamp(PATIENCE, LONGEST_LOOK);
            if timeout(look, told.as_mut()).await.is_ok() {
                told.set(returned.notified());
            }
        }
    }

    /// Opens another session. In a task of its own: its caller takes whichever is there first.
    async fn open(self: Arc<Self>, purpose: Purpose) {
        let is_first = self.places().open == 1;
        let opened = self.server.open(purpose, is_first).await;
        self.places().opened(opened);
        self.tell();
    }

    /// Tells the next caller that there may be a session.
    fn tell(&self) {
        let waiting = self.places().waiting;
        let next = waiting
            .iter()
            .zip(&self.returned)
            .find(|(callers, _)| **callers > 0);
        if let Some((_, returned)) = next {
            returned.notify_one();
        }
    }
}

/// A caller that waits.
struct InLine<'a> {
    shared: &'a Shared,
    rank: usize,
}

impl<'a> InLine<'a> {
    fn new(shared: &'a Shared, rank: usize) -> Self {
        add(&mut shared.places().waiting, rank, 1);
        Self { shared, rank }
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        add(&mut self.shared.places().waiting, self.rank, -1);
        // What it left may serve others.
        self.shared.tell();
    }
}

/// A session on loan: it goes back by itself if it is good.
pub(in crate::store) struct Pooled {
    session: Option<Session>,
    home: Arc<Shared>,
    rank: usize,
}

impl Pooled {
    pub(in crate::store) fn session(&mut self) -> sqlx::Result<&mut Session> {
        self.session.as_mut().ok_or(sqlx::Error::PoolClosed)
    }

    /// Returns the connection without bounds; it isn't kept.
    pub(in crate::store) fn raw(&mut self) -> sqlx::Result<&mut PgConnection> {
        let (conn, state) = self.session()?.parts();
        state.unfinished();
        Ok(conn)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let surplus = {
            let mut places = self.home.places();
            add(&mut places.lent, self.rank, -1);
            match self.session.take().filter(Session::is_good) {
                Some(session) if !places.closed => places.idle.push(session),
                Some(_) | None => places.open -= 1,
            }
            places.surplus()
        };
        drop(surplus);
        self.home.tell();
    }
}
