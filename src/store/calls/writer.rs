//! Writer of the call log: groups of calls with their totals by day and by batch, each group in one transaction.
//!
//! While the database is unavailable it retries until [`Store::close`](crate::store::Store::close). Calls that can't be stored
//! are added to the totals.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::cache::Unwritten;
use super::summed::UnloggedTotals;
use super::{CallReceiver, Logged, insert_statement};
use crate::judge::CallRecord;
use crate::store::StoreError;
use crate::store::analytics::latency;
use crate::store::budgets::usage;
use crate::store::budgets::{BatchUsage, Spent, spend_for_jobs};
use crate::store::database::conn::Conn;
use crate::store::database::db::{Db, retry_once};
use crate::store::database::group;
use crate::store::database::group::Spacing;
use crate::store::database::row::column;
use crate::store::database::session::Purpose;
use crate::store::database::sql::Sql;

/// Minimum time between two groups; readers flush the log.
const GROUP_INTERVAL: Duration = Duration::from_millis(100);
/// Delay of a retry while the database is unavailable.
const RETRY_DELAY: Duration = Duration::from_millis(500);

pub(in crate::store) struct CallWriter {
    pub(in crate::store) db: Db,
    pub(in crate::store) closing: CancellationToken,
    pub(in crate::store) spent: Spent,
}

/// Runs the writer, a single task.
pub(in crate::store) async fn run(writer: CallWriter, receiver: CallReceiver) {
    let CallReceiver {
        mut channel,
        hurry,
        summed,
        unwritten,
        away,
    } = receiver;
    let mut log = Log {
        db: writer.db,
        closing: writer.closing.clone(),
        spent: writer.spent,
        summed,
        unwritten,
        away,
        counter: Uuid::now_v7(),
    };
    let mut spacing = Spacing::new(GROUP_INTERVAL);
    loop {
        spacing.keep(&hurry, &writer.closing).await;
        let taken = log.write_group(&mut channel, &writer.closing).await;
        if taken == 0 {
            break;
        }
        spacing.ended(taken);
    }
    log.end().await;
}

struct Log {
    db: Db,
    closing: CancellationToken,
    spent: Spent,
    summed: UnloggedTotals,
    unwritten: Unwritten,
    away: watch::Sender<bool>,
    /// Worker id of the totals; each process has its own rows.
    counter: Uuid,
}

impl Log {
    /// Writes a group; returns its size.
    async fn write_group(
        &mut self,
        channel: &mut mpsc::Receiver<Logged>,
        closing: &CancellationToken,
    ) -> usize {
        let group = group::next(channel, closing).await;
        let taken = group.len();
        let mut calls = Vec::with_capacity(taken);
        let mut flushed = Vec::new();
        for one in group {
            match one {
                Logged::Call(call, _room) => calls.push(*call),
                Logged::Flush(done) => flushed.push(done),
            }
        }
        self.write(&calls).await;
        for call in &calls {
            self.unwritten.remove(call);
        }
        self.write_summed().await;
        for done in flushed {
            // The caller may have been cancelled.
            let _ = done.send(());
        }
        taken
    }

    /// Writes calls, with retries. Calls that the database rejects, or that are left when the store closes, are added to the
    /// totals.
    async fn write(&mut self, calls: &[CallRecord]) {
        if calls.is_empty() {
            return;
        }
        match self.keep_trying(calls).await {
            Ok(()) => {}
            Err(StoreError::Unexpected { .. }) if calls.len() > 1 => {
                for call in calls {
                    if let Err(error) = self.keep_trying(std::slice::from_ref(call)).await {
                        tracing::warn!(%error, call_id = %call.call_id, "failed to log a judge call; its totals are counted");
                        self.summed.add(call);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, calls = calls.len(), "failed to log judge calls; their totals are counted if possible");
                for call in calls {
                    self.summed.add(call);
                }
            }
        }
    }

    /// Retries until success; `Unavailable` once the store closes.
    async fn keep_trying(&mut self, calls: &[CallRecord]) -> Result<(), StoreError> {
        let statement = insert_statement(calls);
        loop {
            if self.closing.is_cancelled() && *self.away.borrow() {
                // Without further tries, because a backlog would delay the shutdown by minutes.
                return Err(StoreError::closed("logging judge calls"));
            }
            match self.insert(&statement, calls).await {
                Err(StoreError::Unavailable { .. }) => {
                    if !self.away.send_replace(true) {
                        tracing::warn!(
                            "database unavailable; judge calls are buffered until it recovers"
                        );
                    }
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_DELAY) => {}
                        () = self.closing.cancelled() => {}
                    }
                }
                written => {
                    self.away.send_replace(false);
                    return written;
                }
            }
        }
    }

    async fn insert(&mut self, statement: &Sql, calls: &[CallRecord]) -> Result<(), StoreError> {
        let paused = retry_once!("logging judge calls", async {
            let mut conn = self.db.writer(Purpose::Write).await?;
            insert_on(&mut conn, statement, calls, self.counter).await
        })?;
        self.spent.add(paused);
        Ok(())
    }

    /// Writes the totals of calls without rows. If that fails, the next group retries it.
    async fn write_summed(&mut self) {
        while !*self.away.borrow()
            && let Some(pile) = self.summed.take()
        {
            let written = retry_once!("counting judge calls that weren't logged", async {
                let mut conn = self.db.writer(Purpose::Write).await?;
                pile.write_on(&mut conn).await
            });
            match written {
                Ok(paused) => self.spent.add(paused),
                Err(StoreError::Unavailable { .. }) => return self.summed.put_back(pile),
                Err(error) => {
                    tracing::error!(%error, "database rejected the totals of judge calls");
                    pile.log_lost();
                }
            }
        }
    }

    /// A last try for the totals, because the database may be available again.
    async fn end(&mut self) {
        self.away.send_replace(false);
        self.write_summed().await;
        while let Some(pile) = self.summed.take() {
            pile.log_lost();
        }
    }
}

/// Counts only the rows that it inserted, so that a repetition after a commit has no effect. Returns the batches that it
/// paused.
async fn insert_on(
    conn: &mut Conn,
    insert: &Sql,
    calls: &[CallRecord],
    counter: Uuid,
) -> sqlx::Result<Vec<(Uuid, crate::job::Kind)>> {
    let mut tx = conn.begin().await?;
    let mut new: HashSet<Uuid> = column(&tx.fetch(insert).await?)?;
    // Removed from the set, because a duplicate in the group is inserted once.
    let new: Vec<&CallRecord> = calls
        .iter()
        .filter(|call| new.remove(&call.call_id))
        .collect();
    let counts = [
        usage::count_statement(new.iter().copied(), counter),
        latency::count_statement(new.iter().copied(), counter),
    ];
    for count in counts.into_iter().flatten() {
        tx.execute(&count).await?;
    }
    let mut used: BTreeMap<Uuid, BatchUsage> = BTreeMap::new();
    for call in new {
        used.entry(call.asked_for).or_default().add_call(call);
    }
    let paused = spend_for_jobs(&mut tx, &used, counter).await?;
    tx.commit().await?;
    Ok(paused)
}
