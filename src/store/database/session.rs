//! Sessions with Postgres, each statement bounded in time.
//!
//! Settings are sent after connecting, because poolers reject them in the startup message, and again when a session
//! serves another purpose.
//!
//! A session is kept only if its last statement ended in good order and no transaction is open; any other is dropped,
//! which closes its socket without a word. All sessions of a process share a generation: one that finds its server gone
//! raises it, and those opened earlier are dropped when they are next taken. Never retries a statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres, Row as _, Transaction};
use tokio::time::{Instant, timeout};

use super::connect::PgAddress;
use super::error::{NoneToSpare, is_lost, timed_out};
use super::last_outage::LastOutage;

/// How long opening a connection may take.
pub(in crate::store) const CONNECT: Duration = Duration::from_secs(2);
/// How long a session that rested may take to say that it lives, or to take leave.
const PING: Duration = Duration::from_secs(1);
/// How long a session that was used is believed to be alive.
const TRUSTED: Duration = Duration::from_millis(500);
/// Slots of the server that are left to processes without a session.
const SPARED: i64 = 3;

/// What a session is taken for. On Postgres sequential scans are off for what runs all the time: a plan made while a table was
/// empty must not outlive its emptiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Purpose {
    Heartbeat,
    /// Grouped reads.
    Read,
    /// Grouped writes whose callers wait for the commit to be on the disk.
    Write,
    /// Results of runs, as [`Purpose::Write`], but others wait behind them: a wait for a lock is short.
    Record,
    /// Claims, whose commit may be lost in a crash of the database, and which wait shortly for locks.
    Claim,
    /// The walk over unfinished jobs.
    Rescue,
    /// Any other statement.
    Any,
    /// One that reads or moves many rows.
    Many,
    /// Migrations, without bounds. The session isn't kept.
    Migrate,
}

impl Purpose {
    /// Callers of a lower rank are served first.
    pub(super) fn rank(self) -> usize {
        match self {
            Self::Heartbeat => 0,
            Self::Read | Self::Write | Self::Record | Self::Claim => 1,
            Self::Any | Self::Migrate => 2,
            Self::Rescue | Self::Many => 3,
        }
    }

    /// Returns how many of `room` sessions may be lent to a rank and those behind it: slow statements leave some to others.
    pub(super) fn share(rank: usize, room: usize) -> usize {
        match rank {
            0 | 1 => room,
            2 => room - room / 4,
            _ => (room / 2).max(1),
        }
    }

    /// Returns how many milliseconds a statement and a wait for a lock may take, and the session's other settings.
    fn settings(self) -> (u64, u64, &'static str) {
        const LAZY: &str = "set enable_seqscan = off; set synchronous_commit = off";
        const DURABLE: &str = "set enable_seqscan = off; set synchronous_commit = on";
        const ANY: &str = "set enable_seqscan = default; set synchronous_commit = default";
        match self {
            Self::Heartbeat | Self::Read => (5_000, 3_000, LAZY),
            Self::Write => (5_000, 3_000, DURABLE),
            Self::Record => (5_000, 250, DURABLE),
            Self::Claim => (5_000, 250, LAZY),
            Self::Rescue => (55_000, 3_000, LAZY),
            Self::Any => (5_000, 3_000, ANY),
            Self::Many => (55_000, 3_000, ANY),
            Self::Migrate => (0, 0, ANY),
        }
    }

    /// After this the server is taken for gone: later than the server ends a statement by itself.
    fn limit(self) -> Duration {
        Duration::from_millis(self.settings().0 + 1_000)
    }

    fn statement(self) -> String {
        let (statement, lock, others) = self.settings();
        format!("set statement_timeout = {statement}; set lock_timeout = {lock}; {others}")
    }
}

/// One connection and what is known of it.
pub(in crate::store) struct Session {
    conn: Box<PgConnection>,
    state: State,
    /// Free slots of the server when it was opened.
    pub(super) free_slots: i64,
}

/// What the sessions of a process share.
#[derive(Clone)]
pub(in crate::store) struct Server {
    pub(super) address: PgAddress,
    generation: Arc<AtomicU64>,
    pub(super) outage: LastOutage,
}

/// What is known of a connection.
pub(in crate::store) struct State {
    opened: u64,
    server: Server,
    purpose: Purpose,
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
        self.within(self.purpose.limit(), work).await
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
        self.server.outage.heard(&result);
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
            tokio::time::sleep(Purpose::Any.limit()).await;
            if self.opened != self.server.generation.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Says that whatever was opened up to now is not to be trusted. Does nothing if that was said already.
    fn raise(&self) {
        let opened = self.opened;
        let raised = self.server.generation.compare_exchange(
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

impl Server {
    pub(super) fn new(address: PgAddress) -> Self {
        Self {
            address,
            generation: Arc::default(),
            outage: LastOutage::default(),
        }
    }

    /// Opens a session. One that isn't the process's first leaves the server's last slots to others.
    pub(super) async fn open(&self, purpose: Purpose, is_first: bool) -> sqlx::Result<Session> {
        // Read before: what is raised meanwhile may concern this one.
        let opened = self.generation.load(Ordering::Relaxed);
        let opening = timeout(CONNECT, greeted(&self.address, purpose, is_first)).await;
        let connected = opening.unwrap_or_else(|_| Err(timed_out("connecting")));
        self.outage.heard(&connected);
        let (conn, free_slots) = connected?;
        Ok(Session {
            conn: Box::new(conn),
            free_slots,
            state: State {
                opened,
                server: self.clone(),
                purpose,
                used: Instant::now(),
                good: true,
            },
        })
    }
}

impl Session {
    /// The rank of the purpose that its settings are for.
    pub(super) fn rank(&self) -> usize {
        self.state.purpose.rank()
    }

    /// Returns how long ago it was used.
    pub(super) fn idle_for(&self) -> Duration {
        self.state.used.elapsed()
    }

    /// Whether it has the settings of a purpose.
    pub(super) fn fits(&self, purpose: Purpose) -> bool {
        self.state.purpose.settings() == purpose.settings()
    }

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
        self.state.good && self.state.opened == self.state.server.generation.load(Ordering::Relaxed)
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

    /// Makes it ready for another purpose.
    pub(super) async fn serve(&mut self, purpose: Purpose) -> bool {
        if self.fits(purpose) {
            return true;
        }
        let change = sqlx::raw_sql(AssertSqlSafe(purpose.statement())).execute(&mut *self.conn);
        self.state.purpose = purpose;
        self.state.within(PING, change).await.is_ok()
    }

    /// Takes leave of the server, if that is quick.
    pub(in crate::store) async fn close(self) {
        if self.is_good() {
            // It is going away: an error in saying so changes nothing.
            let _ = timeout(PING, self.conn.close()).await;
        }
    }
}

/// Opens a connection to a server that can be written to: a standby, or a primary before it is one, is skipped. So is one
/// that has few slots left, unless the connection is the process's first.
async fn greeted(
    address: &PgAddress,
    purpose: Purpose,
    is_first: bool,
) -> sqlx::Result<(PgConnection, i64)> {
    // Parallel workers and those of autovacuum count, too: it may be few too soon. -1: no limit.
    const LEFT: &str = "select least(
        current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
            - coalesce(current_setting('reserved_connections', true), '0')::bigint
            - (select sum(numbackends) from pg_stat_database)::bigint,
        (select nullif(datconnlimit, -1) - numbackends from pg_database join pg_stat_database using (datname)
            where datname = current_database()),
        (select nullif(rolconnlimit, -1) - (select count(*) from pg_stat_activity where usename = rolname)
            from pg_roles where rolname = current_user))";
    let mut conn = address.connect().await?;
    // A switched-off sequential scan looks so dear that Postgres would compile the plan of a query over three rows, for
    // 60 ms.
    let settings = purpose.statement();
    let greeting = format!("set jit = off; {settings}; show transaction_read_only; {LEFT}");
    let rows = sqlx::raw_sql(AssertSqlSafe(greeting))
        .fetch_all(&mut conn)
        .await?;
    let [read_only, left] = rows.as_slice() else {
        return Err(sqlx::Error::RowNotFound);
    };
    if read_only.try_get::<&str, _>(0)? == "on" {
        let read_only = std::io::Error::other("the server is read-only");
        return Err(sqlx::Error::Io(read_only));
    }
    let left = left.try_get(0)?;
    if !is_first && left < SPARED {
        return Err(NoneToSpare.into());
    }
    Ok((conn, left))
}
