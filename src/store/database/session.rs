//! Sessions with Postgres, with a timeout for each statement.
//!
//! Settings are sent after connecting, because poolers reject them in the startup message, and again when the purpose changes.
//!
//! A session is reused only if its last statement completed and no transaction is open; otherwise it is dropped, which closes
//! its socket. All sessions of a process share a generation. A session that loses its server increases it, and older sessions
//! are dropped when they are next taken. Statements are not retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres, Row as _, Transaction};
use tokio::time::{Instant, timeout};

use super::connect::PgAddress;
use super::error::{NoneToSpare, is_lost, timed_out};
use super::last_outage::LastOutage;

pub(in crate::store) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of pinging or closing an idle session.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// A session that was used within this time isn't pinged.
const PING_INTERVAL: Duration = Duration::from_millis(500);
/// Free slots of the server that are reserved for processes without a session.
const RESERVED_SLOTS: i64 = 3;

/// Purpose of a session, which decides its settings. Frequent purposes disable sequential scans on Postgres, because a plan
/// that was made while a table was empty would use one later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Purpose {
    Heartbeat,
    Read,
    /// Grouped writes whose callers wait for a durable commit.
    Write,
    /// Results of runs. Like [`Purpose::Write`] with a short lock timeout, because other results wait behind them.
    Record,
    /// Claims, which may be lost if the database crashes, and have a short lock timeout.
    Claim,
    /// The scan of unfinished jobs.
    Rescue,
    /// Any other statement.
    Any,
    /// Statements that read or change many rows.
    Many,
    /// Migrations, without timeouts. The session isn't reused.
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

    /// Returns how many of `room` sessions this and higher ranks may use, so that slow statements leave some to others.
    pub(super) fn share(rank: usize, room: usize) -> usize {
        match rank {
            0 | 1 => room,
            2 => room - room / 4,
            _ => (room / 2).max(1),
        }
    }

    /// Returns the statement timeout and lock timeout in milliseconds, and the other settings.
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

    /// Time after which the server counts as lost; longer than the server's own statement timeout.
    fn limit(self) -> Duration {
        Duration::from_millis(self.settings().0 + 1_000)
    }

    fn statement(self) -> String {
        let (statement, lock, others) = self.settings();
        format!("set statement_timeout = {statement}; set lock_timeout = {lock}; {others}")
    }
}

pub(in crate::store) struct Session {
    conn: Box<PgConnection>,
    state: State,
    /// Free slots of the server when it was opened.
    pub(super) free_slots: i64,
}

/// State shared by all sessions of a process.
#[derive(Clone)]
pub(in crate::store) struct Server {
    pub(super) address: PgAddress,
    generation: Arc<AtomicU64>,
    pub(super) outage: LastOutage,
}

pub(in crate::store) struct State {
    opened: u64,
    server: Server,
    purpose: Purpose,
    used: Instant,
    /// The last statement completed, and no transaction is open.
    good: bool,
}

impl State {
    /// Runs a statement with its timeout. If the future is dropped, the session isn't reused, but other sessions are
    /// unaffected.
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
            () = self.outdated() => None,
        };
        let result = result.unwrap_or_else(|| Err(timed_out("waiting for the database")));
        self.used = Instant::now();
        self.server.outage.record(&result);
        match &result {
            Ok(_) => self.good = true,
            Err(error) if is_lost(error) => self.invalidate(),
            Err(error) => self.good = error.as_database_error().is_some(),
        }
        result
    }

    /// Completes when a long statement waits on a connection that is older than the last loss of the server.
    async fn outdated(&self) {
        loop {
            tokio::time::sleep(Purpose::Any.limit()).await;
            if self.opened != self.server.generation.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Invalidates all sessions of this generation, unless that has happened already.
    fn invalidate(&self) {
        let opened = self.opened;
        let raised = self.server.generation.compare_exchange(
            opened,
            opened + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if raised.is_ok() {
            tracing::warn!("lost a database connection; reopening all");
        }
    }

    /// A transaction may be open; only its commit makes the session good again.
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

    /// Opens a session. If the process has others, the server's last slots are left to other processes.
    pub(super) async fn open(&self, purpose: Purpose, is_first: bool) -> sqlx::Result<Session> {
        // Read first, because the server may be lost while connecting.
        let opened = self.generation.load(Ordering::Relaxed);
        let opening = timeout(
            CONNECT_TIMEOUT,
            connect_writable(&self.address, purpose, is_first),
        )
        .await;
        let connected = opening.unwrap_or_else(|_| Err(timed_out("connecting")));
        self.outage.record(&connected);
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
    pub(super) fn rank(&self) -> usize {
        self.state.purpose.rank()
    }

    pub(super) fn idle_for(&self) -> Duration {
        self.state.used.elapsed()
    }

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

    /// Whether it may be reused.
    pub(in crate::store) fn is_good(&self) -> bool {
        self.state.good && self.state.opened == self.state.server.generation.load(Ordering::Relaxed)
    }

    /// Pings a session that was idle.
    pub(in crate::store) async fn is_alive(&mut self) -> bool {
        if !self.is_good() {
            return false;
        }
        if self.state.used.elapsed() < PING_INTERVAL {
            return true;
        }
        let answer = timeout(PING_TIMEOUT, self.conn.ping()).await;
        self.state.used = Instant::now();
        self.state.good = matches!(answer, Ok(Ok(())));
        // A connection that was closed while idle doesn't indicate a server problem; a timeout does.
        if answer.is_err() {
            self.state.invalidate();
        }
        self.state.good
    }

    /// Changes its settings to those of another purpose.
    pub(super) async fn serve(&mut self, purpose: Purpose) -> bool {
        if self.fits(purpose) {
            return true;
        }
        let change = sqlx::raw_sql(AssertSqlSafe(purpose.statement())).execute(&mut *self.conn);
        self.state.purpose = purpose;
        self.state.within(PING_TIMEOUT, change).await.is_ok()
    }

    pub(in crate::store) async fn close(self) {
        if self.is_good() {
            // An error is irrelevant, because the connection is closed anyway.
            let _ = timeout(PING_TIMEOUT, self.conn.close()).await;
        }
    }
}

/// Opens a connection to a writable server; rejects a standby. Also rejects a server with few free slots, unless this is the
/// process's first connection.
async fn connect_writable(
    address: &PgAddress,
    purpose: Purpose,
    is_first: bool,
) -> sqlx::Result<(PgConnection, i64)> {
    // Counts parallel and autovacuum workers too, so the result may be too low. -1: no limit.
    const LEFT: &str = "select least(
        current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
            - coalesce(current_setting('reserved_connections', true), '0')::bigint
            - (select sum(numbackends) from pg_stat_database)::bigint,
        (select nullif(datconnlimit, -1) - numbackends from pg_database join pg_stat_database using (datname)
            where datname = current_database()),
        (select nullif(rolconnlimit, -1) - (select count(*) from pg_stat_activity where usename = rolname)
            from pg_roles where rolname = current_user))";
    let mut conn = address.connect().await?;
    // A disabled sequential scan raises a plan's cost so much that Postgres would compile it for 60 ms.
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
    if !is_first && left < RESERVED_SLOTS {
        return Err(NoneToSpare.into());
    }
    Ok((conn, left))
}
