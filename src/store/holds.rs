//! `holds`: judges and queues that are closed until an operator or a worker opens them. Holds survive restarts; workers pass
//! them to their gates.

use chrono::{DateTime, Utc};

use crate::job::WaitReason;
use crate::store::database::conn::Tx;
use crate::store::database::db::{Db, transact};
use crate::store::database::row::{column, decode};
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Sql, sql, step};
use crate::store::{Dialect, StoreError};

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HoldTarget {
    /// All lanes. Stored as `queue`.
    Queue,
    /// One judge's lane. Stored as `judge:NAME`.
    Judge(String),
}

impl HoldTarget {
    fn to_text(&self) -> String {
        match self {
            Self::Queue => "queue".to_owned(),
            Self::Judge(name) => format!("judge:{name}"),
        }
    }
}

impl TryFrom<String> for HoldTarget {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.strip_prefix("judge:") {
            Some(name) => Ok(Self::Judge(name.to_owned())),
            None if text == "queue" => Ok(Self::Queue),
            None => Err("is not `queue` or `judge:NAME`"),
        }
    }
}

/// Closes a lane or all lanes, until it is released or `until` passes.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Hold {
    #[sqlx(try_from = "String")]
    pub target: HoldTarget,
    /// `paused` (by an operator), `exhausted` or `misconfigured` (by a worker after an error), `budget` (by a worker that found
    /// a cap reached).
    #[sqlx(try_from = "String")]
    pub reason: WaitReason,
    /// Text of the operator or the provider.
    pub message: String,
    pub set_by: String,
    pub since: DateTime<Utc>,
    /// Time of the automatic release, if known.
    pub until: Option<DateTime<Utc>>,
}

impl Hold {
    /// Describes target, reason and end.
    pub fn in_words(&self) -> String {
        let what = match &self.target {
            HoldTarget::Queue => "the queue is stopped".to_owned(),
            HoldTarget::Judge(judge) => format!("judge {judge:?} is stopped"),
        };
        let mut words = format!("{what} ({})", self.reason);
        if !self.message.is_empty() {
            words = format!("{words}: {}", self.message);
        }
        match self.until {
            Some(until) => format!("{words}; until {}", until.format("%Y-%m-%dT%H:%M:%SZ")),
            None => words,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Holds<'a> {
    pub(in crate::store) db: &'a Db,
}

impl Holds<'_> {
    /// Sets a hold. A worker's hold doesn't replace an operator's pause, nor a hold with the same reason. Returns whether it
    /// was set.
    pub async fn set(self, hold: &Hold) -> Result<bool, StoreError> {
        let statement = sql!(
            "setting a hold",
            "insert into holds (target, reason, message, set_by, since, until) values ($1, $2, $3, $4, $5, $6)
             on conflict (target) do update set reason = excluded.reason, message = excluded.message,
                set_by = excluded.set_by, since = excluded.since, until = excluded.until
             where excluded.reason = 'paused'
                or (holds.reason <> 'paused'
                    and (holds.reason <> excluded.reason or holds.until is distinct from excluded.until))
                or (holds.until is not null and holds.until <= excluded.since)
             returning target",
            hold.target.to_text(),
            hold.reason.as_str(),
            &hold.message,
            &hold.set_by,
            hold.since,
            hold.until
        );
        Ok(!self.db.written(&statement).await?.is_empty())
    }

    /// Sets a hold of a cap, unless another one closes the judge. Returns whether it was set.
    pub async fn set_budget(self, hold: &Hold) -> Result<bool, StoreError> {
        let statement = sql!(
            "setting a hold of a cap",
            "insert into holds (target, reason, message, set_by, since, until) values ($1, 'budget', $2, $3, $4, $5)
             on conflict (target) do update set reason = excluded.reason, message = excluded.message,
                set_by = excluded.set_by, since = excluded.since, until = excluded.until
             where (holds.reason = 'budget'
                    and (holds.until is distinct from excluded.until or holds.message <> excluded.message))
                or (holds.until is not null and holds.until <= excluded.since)
             returning target",
            hold.target.to_text(),
            &hold.message,
            &hold.set_by,
            hold.since,
            hold.until
        );
        Ok(!self.db.written(&statement).await?.is_empty())
    }

    /// Releases the holds of caps of these judges only; returns them.
    pub async fn release_budget(
        self,
        judges: &[String],
        now: DateTime<Utc>,
    ) -> Result<Vec<HoldTarget>, StoreError> {
        self.release_for("budget", judges, now).await
    }

    /// Releases a hold; returns whether there was one. Jobs that waited behind it are due now, and their wait limit starts
    /// again.
    ///
    /// A job that waits for its judge's breaker or rate limit keeps its due time; only its wait limit starts again.
    pub async fn release(
        self,
        target: &HoldTarget,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        transact!(self.db, "releasing a hold", Purpose::Any, |tx| {
            let delete = step!("delete from holds where target = $1", target.to_text());
            let released = tx.execute(&delete).await? > 0;
            if released {
                wake(&mut tx, target, now).await?;
            }
            released
        })
    }

    /// Releases a judge's `misconfigured` holds when a worker starts, because its key may have been corrected; returns them.
    pub async fn release_misconfigured(
        self,
        judges: &[String],
        now: DateTime<Utc>,
    ) -> Result<Vec<HoldTarget>, StoreError> {
        self.release_for("misconfigured", judges, now).await
    }

    async fn release_for(
        self,
        reason: &str,
        judges: &[String],
        now: DateTime<Utc>,
    ) -> Result<Vec<HoldTarget>, StoreError> {
        if judges.is_empty() {
            return Ok(Vec::new());
        }
        let mut delete = step!("delete from holds where reason = $1 and target in ", reason);
        delete.push_list(
            judges
                .iter()
                .map(|name| HoldTarget::Judge(name.clone()).to_text()),
        );
        delete.push(" returning target");
        transact!(
            self.db,
            "releasing holds of judges by their reason",
            Purpose::Any,
            |tx| { take_away(&mut tx, &delete, now).await? }
        )
    }

    /// Releases the holds with a past `until`. Returns them; each is returned to one of several concurrent workers.
    pub async fn lapse(self, now: DateTime<Utc>) -> Result<Vec<HoldTarget>, StoreError> {
        let delete = step!(
            "delete from holds where until is not null and until <= $1 returning target",
            now
        );
        transact!(self.db, "releasing expired holds", Purpose::Any, |tx| {
            take_away(&mut tx, &delete, now).await?
        })
    }

    /// Lists the holds that haven't expired; at most 1,000.
    pub async fn list(self, now: DateTime<Utc>) -> Result<Vec<Hold>, StoreError> {
        let statement = sql!(
            "listing holds",
            "select target, reason, message, set_by, since, until from holds
             where until is null or until > $1 order by target limit 1000",
            now
        );
        self.db.read(&statement).await
    }
}

/// Deletes holds and wakes the jobs behind them; returns the holds.
async fn take_away(
    tx: &mut Tx<'_>,
    delete: &Sql,
    now: DateTime<Utc>,
) -> sqlx::Result<Vec<HoldTarget>> {
    let names: Vec<String> = column(&tx.fetch(delete).await?)?;
    let mut gone = Vec::with_capacity(names.len());
    for name in names {
        let target = HoldTarget::try_from(name).map_err(|e| decode("target", e))?;
        wake(tx, &target, now).await?;
        gone.push(target);
    }
    Ok(gone)
}

/// Makes the jobs behind a hold due now and restarts their wait limit. Locked rows keep their due time and wait limit, because
/// waiting for them would keep the lane closed.
async fn wake(tx: &mut Tx<'_>, target: &HoldTarget, now: DateTime<Utc>) -> sqlx::Result<()> {
    let mut statement = step!(
        "update scoring_jobs set waiting_since = $1,
            due_at = case when wait_reason in ('paused', 'exhausted', 'misconfigured') and due_at > $1 then $1 else due_at end
         where job_id in (select w.job_id from scoring_jobs w
            where w.waiting_since is not null and w.finished_at is null and w.state = 'waiting'",
        now
    );
    match target {
        HoldTarget::Queue => {}
        HoldTarget::Judge(name) => {
            statement.push(" and w.judge = ").push_arg(name);
        }
    }
    statement.push(match tx.dialect() {
        Dialect::Postgres => " order by w.job_id for update skip locked)",
        Dialect::Sqlite => ")",
    });
    tx.execute(&statement).await.map(drop)
}
