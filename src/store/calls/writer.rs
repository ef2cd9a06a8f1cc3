//! Writes the call log: groups of calls, with what they come to by day and by batch, each group in one
//! transaction.
//!
//! Never gives up a call while the database is away: it tries on until [`Store::close`](crate::store::Store::close). What a call
//! came to is kept where the call itself can't be.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::cache::Unwritten;
use super::summed::SummedCalls;
use super::{CallReceiver, Logged, insert_statement};
use crate::judge::CallRecord;
use crate::store::StoreError;
use crate::store::analytics::latency;
use crate::store::budgets::usage;
use crate::store::budgets::{BatchUsage, Spent, spend_for_jobs};
use crate::store::database::db::{Conn, Db, retry_once};
use crate::store::database::group;
use crate::store::database::group::Spacing;
use crate::store::database::session::Purpose;
use crate::store::database::sql::Sql;

/// The least time between two groups: nobody waits for a call to be logged, and whoever wants to read one says so.
const SPACING: Duration = Duration::from_millis(100);
/// The pause between two tries while the database is away.
const PAUSE: Duration = Duration::from_millis(500);

/// What the writer works with.
pub(in crate::store) struct CallWriter {
    pub(in crate::store) db: Db,
    pub(in crate::store) closing: CancellationToken,
    pub(in crate::store) spent: Spent,
}

/// The writer: one task.
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
    let mut spacing = Spacing::new(SPACING);
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

/// The database, and what couldn't be written to it.
struct Log {
    db: Db,
    closing: CancellationToken,
    spent: Spent,
    summed: SummedCalls,
    unwritten: Unwritten,
    away: watch::Sender<bool>,
    /// Whose sums the calls are added to: each process has rows of its own.
    counter: Uuid,
}

impl Log {
    /// Writes what has gathered; answers how much that was.
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
            // Whoever waited may be gone.
            let _ = done.send(());
        }
        taken
    }

    /// Writes calls, however long it takes. What the database refuses, or what is left when the store closes without it,
    /// is only summed up.
    async fn write(&mut self, calls: &[CallRecord]) {
        if calls.is_empty() {
            return;
        }
        match self.keep_trying(calls).await {
            Ok(()) => {}
            Err(StoreError::Unexpected { .. }) if calls.len() > 1 => {
                for call in calls {
                    if let Err(error) = self.keep_trying(std::slice::from_ref(call)).await {
                        tracing::warn!(%error, call_id = %call.call_id, "a judge call wasn't logged; what it came to is counted");
                        self.summed.add(call);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, calls = calls.len(), "judge calls weren't logged; what they came to is counted if that is possible");
                for call in calls {
                    self.summed.add(call);
                }
            }
        }
    }

    /// `Unavailable` once the store closes.
    async fn keep_trying(&mut self, calls: &[CallRecord]) -> Result<(), StoreError> {
        let statement = insert_statement(calls);
        loop {
            if self.closing.is_cancelled() && *self.away.borrow() {
                // One try after the other, a backlog would hold up the end for minutes.
                return Err(StoreError::closed("logging judge calls"));
            }
            match self.insert(&statement, calls).await {
                Err(StoreError::Unavailable { .. }) => {
                    if !self.away.send_replace(true) {
                        tracing::warn!(
                            "the database is away; judge calls are kept until it is back"
                        );
                    }
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
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
            let mut conn = self.db.writer_for(Purpose::Write).await?;
            insert_on(&mut conn, statement, calls, self.counter).await
        })?;
        self.spent.add(paused);
        Ok(())
    }

    /// Writes the sums of calls that have no rows of their own. What can't be written now is tried again with the next group.
    async fn write_summed(&mut self) {
        while !*self.away.borrow()
            && let Some(pile) = self.summed.take()
        {
            let written = retry_once!("counting judge calls that weren't logged", async {
                let mut conn = self.db.writer_for(Purpose::Write).await?;
                pile.write_on(&mut conn).await
            });
            match written {
                Ok(paused) => self.spent.add(paused),
                Err(StoreError::Unavailable { .. }) => return self.summed.put_back(pile),
                Err(error) => {
                    tracing::error!(%error, "the sums of judge calls were refused");
                    pile.log_lost();
                }
            }
        }
    }

    /// A last try for the sums, though the calls had none: the database may be back.
    async fn end(&mut self) {
        self.away.send_replace(false);
        self.write_summed().await;
        while let Some(pile) = self.summed.take() {
            pile.log_lost();
        }
    }
}

/// Counts what it inserted and nothing else: a second try whose first one was committed inserts nothing. Answers the batches that
/// it paused.
async fn insert_on(
    conn: &mut Conn,
    insert: &Sql,
    calls: &[CallRecord],
    counter: Uuid,
) -> sqlx::Result<Vec<(Uuid, crate::job::Kind)>> {
    let mut tx = conn.begin().await?;
    let mut new = tx
        .fetch(insert)
        .await?
        .iter()
        .map(|row| row.get("call_id"))
        .collect::<sqlx::Result<HashSet<Uuid>>>()?;
    // Taken out: one that stands in the group twice was inserted once.
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
