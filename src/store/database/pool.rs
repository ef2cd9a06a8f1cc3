//! Sessions with Postgres, each statement bounded in time, and the pool of those that nobody holds.
//!
//! Every session of a process has a [`ConnectionPermit`], whether it is the pool's, a dedicated connection's or a migration's: there are never more
//! sessions than permits. Settings are sent after connecting: poolers refuse them in the startup message.
//!
//! The driver's own pool asks a connection that comes back whether it lives, without a bound, and holds its permit
//! meanwhile: on a socket that has gone silent that is for good. The driver can't set keepalives or a timeout of TCP
//! either, nor is its socket within reach, so every bound here is our own.
//!
//! A session is kept only if its last statement ended in good order and no transaction is open; any other is dropped,
//! which closes its socket without a word. All sessions of a process share a generation: one that finds its server gone
//! raises it, and those opened earlier are dropped when they are next taken. Never retries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres, Row as _, Transaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::connect::PgAddress;
use super::error::{is_lost, timed_out};
use super::last_outage::LastOutage;

/// How long a statement waits for a permit.
const ACQUIRE: Duration = Duration::from_secs(3);
/// How long opening a connection may take.
pub(in crate::store) const CONNECT: Duration = Duration::from_secs(2);
/// How long a session that rested may take to say that it lives, or to take leave.
const PING: Duration = Duration::from_secs(1);
/// How long a session that was used is believed to be alive.
const TRUSTED: Duration = Duration::from_millis(500);
/// How long an unused session is kept.
const IDLE: Duration = Duration::from_mins(1);

/// How long one statement may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Bound {
    /// The server ends it after 5 s, and a wait for a lock after 3 s.
    Ordinary,
    /// One that reads or moves many rows: the server ends it after 55 s.
    Long,
    /// As an ordinary one, but a wait for a lock ends after 250 ms: others wait behind it.
    Brief,
}

impl Bound {
    /// After this the server is taken for gone: later than the server ends a statement by itself.
    fn client(self) -> Duration {
        match self {
            Self::Ordinary | Self::Brief => Duration::from_secs(6),
            Self::Long => Duration::from_secs(58),
        }
    }

    /// What tells the server.
    fn setting(self) -> &'static str {
        match self {
            Self::Ordinary => "set statement_timeout = 5000; set lock_timeout = 3000",
            Self::Long => "set statement_timeout = 55000; set lock_timeout = 3000",
            Self::Brief => "set statement_timeout = 5000; set lock_timeout = 250",
        }
    }
}

/// One connection and what is known of it.
pub(in crate::store) struct Session {
    conn: Box<PgConnection>,
    state: State,
}

/// What is known of a connection.
pub(in crate::store) struct State {
    opened: u64,
    generation: Arc<AtomicU64>,
    outage: LastOutage,
    bound: Bound,
    used: Instant,
    /// The last statement ended in good order, and no transaction is open.
    good: bool,
}

impl State {
    /// Runs a statement within its bound. Whoever drops the future leaves a session that isn't kept, and says nothing
    /// about the server.
    pub(in crate::store) async fn timed<T>(
        &mut self,
        work: impl Future<Output = sqlx::Result<T>>,
    ) -> sqlx::Result<T> {
        self.within(self.bound.client(), work).await
    }

    async fn within<T>(
        &mut self,
        limit: Duration,
        work: impl Future<Output = sqlx::Result<T>>,
    ) -> sqlx::Result<T> {
        self.good = false;
        let result = tokio::select! {
            biased;
            ended = timeout(limit, work) => ended.ok(),
            () = self.left_behind() => None,
        };
        let result = result.unwrap_or_else(|| Err(timed_out("waiting for the database")));
        self.used = Instant::now();
        self.outage.heard(&result);
        match &result {
            Ok(_) => self.good = true,
            Err(error) if is_lost(error) => self.raise(),
            Err(error) => self.good = error.as_database_error().is_some(),
        }
        result
    }

    /// Ends when a long statement waits on a connection that was opened before another one found its server gone.
    async fn left_behind(&self) {
        loop {
            tokio::time::sleep(Bound::Ordinary.client()).await;
            if self.opened != self.generation.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Says that whatever was opened up to now is not to be trusted. Does nothing if that was said already.
    fn raise(&self) {
        let opened = self.opened;
        let raised = self.generation.compare_exchange(
            opened,
            opened + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if raised.is_ok() {
            tracing::warn!("a connection to the database was lost; all are opened anew");
        }
    }

    /// A transaction is open, or may be: only its commit ends that in good order.
    pub(in crate::store) fn unfinished(&mut self) {
        self.good = false;
    }
}

impl Session {
    pub(in crate::store) fn parts(&mut self) -> (&mut PgConnection, &mut State) {
        (&mut self.conn, &mut self.state)
    }

    pub(in crate::store) async fn begin(
        &mut self,
    ) -> sqlx::Result<(Transaction<'_, Postgres>, &mut State)> {
        let (conn, state) = (&mut self.conn, &mut self.state);
        let begun = state.timed(sqlx::Connection::begin(&mut **conn)).await?;
        state.unfinished();
        Ok((begun, state))
    }

    /// Whether it may be used again.
    pub(in crate::store) fn is_good(&self) -> bool {
        self.state.good && self.state.opened == self.state.generation.load(Ordering::Relaxed)
    }

    /// Asks a session that rested whether it lives.
    pub(in crate::store) async fn is_alive(&mut self) -> bool {
        if !self.is_good() {
            return false;
        }
        if self.state.used.elapsed() < TRUSTED {
            return true;
        }
        let answer = timeout(PING, self.conn.ping()).await;
        self.state.used = Instant::now();
        self.state.good = matches!(answer, Ok(Ok(())));
        // One that was closed while it rested says nothing of the server; one that is silent does.
        if answer.is_err() {
            self.state.raise();
        }
        self.state.good
    }

    async fn bind_to(&mut self, bound: Bound) -> bool {
        if self.state.bound == bound {
            return true;
        }
        let change = sqlx::raw_sql(bound.setting()).execute(&mut *self.conn);
        let changed = self.state.within(PING, change).await.is_ok();
        self.state.bound = bound;
        changed
    }

    /// Takes leave of the server, if that is quick.
    pub(in crate::store) async fn close(self) {
        if self.is_good() {
            // It is going away: an error in saying so changes nothing.
            let _ = timeout(PING, self.conn.close()).await;
        }
    }
}

/// The leave to have one of the sessions that a process may have.
pub(in crate::store) type ConnectionPermit = OwnedSemaphorePermit;

/// A pool of sessions.
#[derive(Clone)]
pub(in crate::store) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    address: PgAddress,
    /// The most that are lent out at once.
    most: usize,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    generation: Arc<AtomicU64>,
    outage: LastOutage,
}

impl Pool {
    /// How many sessions are lent out, and how many rest.
    pub(in crate::store) fn in_use_and_idle(&self) -> (usize, usize) {
        let lent = self
            .shared
            .most
            .saturating_sub(self.shared.permits.available_permits());
        (lent, self.shared.idle().len())
    }

    pub(in crate::store) fn new(address: PgAddress, most: u32) -> Self {
        let most = usize::try_from(most.max(1)).unwrap_or(Semaphore::MAX_PERMITS);
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            shared: Arc::new(Shared {
                address,
                most,
                permits: Arc::new(Semaphore::new(most)),
                idle: Mutex::default(),
                generation: Arc::default(),
                outage: LastOutage::default(),
            }),
        }
    }

    /// What its sessions noted.
    pub(in crate::store) fn last_outage(&self) -> &LastOutage {
        &self.shared.outage
    }

    /// Takes a permit for a session outside the pool, and leaves the pool's own what remains.
    pub(in crate::store) async fn reserve(&self) -> sqlx::Result<ConnectionPermit> {
        let permit = self.permit().await?;
        if let Some(idle) = self.shared.pop_surplus() {
            idle.close().await;
        }
        Ok(permit)
    }

    async fn permit(&self) -> sqlx::Result<ConnectionPermit> {
        timeout(ACQUIRE, Arc::clone(&self.shared.permits).acquire_owned())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)
    }

    /// Opens a session by a permit, with settings of its own.
    pub(in crate::store) async fn open(
        &self,
        _at: &ConnectionPermit,
        bound: Bound,
        settings: &str,
    ) -> sqlx::Result<Session> {
        // Read before: what is raised meanwhile may concern this one.
        let opened = self.shared.generation.load(Ordering::Relaxed);
        let settings = format!("{}; {settings}", bound.setting());
        let opening = timeout(CONNECT, greeted(&self.shared.address, &settings)).await;
        let connected = opening.unwrap_or_else(|_| Err(timed_out("connecting")));
        self.shared.outage.heard(&connected);
        let conn = connected?;
        Ok(Session {
            conn: Box::new(conn),
            state: State {
                opened,
                generation: Arc::clone(&self.shared.generation),
                outage: self.shared.outage.clone(),
                bound,
                used: Instant::now(),
                good: true,
            },
        })
    }

    /// Takes an idle session, or opens one.
    pub(in crate::store) async fn take(&self, bound: Bound) -> sqlx::Result<Pooled> {
        let permit = self.permit().await?;
        while let Some(mut session) = self.shared.pop(bound) {
            if session.is_alive().await && session.bind_to(bound).await {
                return Ok(self.lend(session, permit));
            }
        }
        // Boxed: opening is rare, and every future that asks the database would have room for it.
        let session = Box::pin(self.open(&permit, bound, "")).await?;
        Ok(self.lend(session, permit))
    }

    fn lend(&self, session: Session, permit: ConnectionPermit) -> Pooled {
        Pooled {
            session: Some(session),
            home: Arc::clone(&self.shared),
            _permit: permit,
        }
    }

    /// Nothing is taken from now on.
    pub(in crate::store) async fn close(&self) {
        self.shared.permits.close();
        let idle = std::mem::take(&mut *self.shared.idle());
        futures::future::join_all(idle.into_iter().map(Session::close)).await;
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one used last, of those with this bound if there are any.
    fn pop(&self, bound: Bound) -> Option<Session> {
        let mut idle = self.idle();
        let fitting = idle
            .iter()
            .rposition(|session| session.state.bound == bound);
        match fitting {
            Some(at) => Some(idle.remove(at)),
            None => idle.pop(),
        }
    }

    /// One that rests while somebody else has the permit for it.
    fn pop_surplus(&self) -> Option<Session> {
        let mut idle = self.idle();
        if idle.len() > self.permits.available_permits() {
            return idle.pop();
        }
        None
    }
}

/// A session on loan: it goes back by itself if it is good.
pub(in crate::store) struct Pooled {
    session: Option<Session>,
    home: Arc<Shared>,
    _permit: ConnectionPermit,
}

impl Pooled {
    pub(in crate::store) fn session(&mut self) -> sqlx::Result<&mut Session> {
        self.session.as_mut().ok_or(sqlx::Error::PoolClosed)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if self.home.permits.is_closed() {
            return;
        }
        if let Some(session) = self.session.take().filter(Session::is_good) {
            let mut idle = self.home.idle();
            idle.retain(|session| session.is_good() && session.state.used.elapsed() < IDLE);
            idle.push(session);
        }
    }
}

/// A connection to a server that can be written to: a standby, or a primary before it is one, is skipped.
async fn greeted(address: &PgAddress, settings: &str) -> sqlx::Result<PgConnection> {
    let mut conn = address.connect().await?;
    // A switched-off sequential scan looks so dear that Postgres would compile the plan of a query over three rows, for
    // 60 ms.
    let greeting = format!("set jit = off; {settings}; show transaction_read_only");
    let rows = sqlx::raw_sql(AssertSqlSafe(greeting))
        .fetch_all(&mut conn)
        .await?;
    for row in rows {
        if row.try_get::<&str, _>(0)? == "on" {
            return Err(sqlx::Error::Io(std::io::Error::other(
                "the server is read-only",
            )));
        }
    }
    Ok(conn)
}
