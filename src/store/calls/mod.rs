//! `judge_calls`: log of all calls to providers, for costs and audit. Calls are counted by day and by batch in the same
//! transaction, including failed runs.
//!
//! Calls are written in the background in groups, so that logging doesn't block or fail. If the buffer is full, only totals are
//! stored; `gavel_judge_calls_dropped_total` counts such calls.

pub(super) mod cache;
mod summed;
pub(super) mod writer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::job::JobId;
use crate::judge::{CacheKey, CallRecord, CallUsage, ErrorClass};
use crate::store::StoreError;
use crate::store::database::db::Db;
use crate::store::database::group::Reader;
use crate::store::database::row::{DbRow, decode};
use crate::store::database::sql::{Arg, Sql, sql};
use cache::Unwritten;
use summed::UnloggedTotals;

/// A call in the API of jobs.
pub type JudgeCallRow = CallRecord;

/// Size of the buffer, KiB; enough for the calls of 10,000 jobs that end at once.
const MAX_BUFFER_KIB: usize = 64 << 10;
/// Maximum length of a stored reply, bytes.
const MAX_REPLY_BYTES: usize = 64 * 1024;

pub(super) enum Logged {
    Call(Box<CallRecord>, OwnedSemaphorePermit),
    /// Completes when all earlier calls are written or lost.
    Flush(oneshot::Sender<()>),
}

pub(super) struct CallSender {
    channel: mpsc::Sender<Logged>,
    /// One permit per KiB.
    room: Arc<Semaphore>,
    hurry: Arc<Notify>,
    summed: UnloggedTotals,
    unwritten: Unwritten,
    /// Whether the writer waits for the database.
    away: watch::Receiver<bool>,
}

pub(super) struct CallReceiver {
    pub(super) channel: mpsc::Receiver<Logged>,
    pub(super) hurry: Arc<Notify>,
    summed: UnloggedTotals,
    unwritten: Unwritten,
    pub(super) away: watch::Sender<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlushMode {
    Now,
    InTurn,
}

impl CallSender {
    pub(super) fn new() -> (Self, CallReceiver) {
        let (sender, receiver) = mpsc::channel(MAX_BUFFER_KIB);
        let hurry = Arc::new(Notify::new());
        let (summed, unwritten) = (UnloggedTotals::default(), Unwritten::default());
        let (away, is_away) = watch::channel(false);
        let sender = Self {
            channel: sender,
            room: Arc::new(Semaphore::new(MAX_BUFFER_KIB)),
            hurry: Arc::clone(&hurry),
            summed: summed.clone(),
            unwritten: unwritten.clone(),
            away: is_away,
        };
        let receiver = CallReceiver {
            channel: receiver,
            hurry,
            summed,
            unwritten,
            away,
        };
        (sender, receiver)
    }

    /// Reserves buffer space for a record with this number of bytes, until it is written; `None` if the buffer is full.
    fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(1 + (bytes >> 10)).unwrap_or(u32::MAX);
        Arc::clone(&self.room).try_acquire_many_owned(kib).ok()
    }

    /// Logs a call, or only its totals if the buffer is full.
    pub(super) fn log(&self, call: CallRecord) {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let Some(room) = self.room(text(&call.reply) + text(&call.message)) else {
            self.sum_up(&call);
            return;
        };
        self.unwritten.add(&call);
        let call = Logged::Call(Box::new(call), room);
        match self.channel.try_send(call) {
            Err(TrySendError::Full(Logged::Call(call, _))) => {
                self.unwritten.remove(&call);
                self.sum_up(&call);
            }
            Err(TrySendError::Closed(Logged::Call(call, _))) => {
                self.unwritten.remove(&call);
                tracing::error!(call_id = %call.call_id, job_id = %call.asked_for, usage = ?call.usage, "judge call not counted: the store was closed before it ended");
            }
            Ok(())
            | Err(TrySendError::Full(Logged::Flush(_)) | TrySendError::Closed(Logged::Flush(_))) => {
            }
        }
    }

    /// Counts a call that found the buffer full.
    fn sum_up(&self, call: &CallRecord) {
        tracing::warn!(call_id = %call.call_id, job_id = %call.asked_for, "call log full: a judge call is counted without a row");
        self.summed.add(call);
    }

    /// Flushes the log and waits for it, unless the database is unavailable.
    pub(super) async fn flush(&self) {
        self.unless_away(self.written(FlushMode::Now)).await;
    }

    async fn unless_away(&self, written: impl Future<Output = ()>) {
        let mut away = self.away.clone();
        tokio::select! {
            () = written => {}
            // If the writer has ended, the wait ends at once.
            _ = away.wait_for(|away| *away) => {}
        }
    }

    /// Waits until everything sent before is written, also during an outage.
    async fn written(&self, mode: FlushMode) {
        let (done, written) = oneshot::channel();
        if self.channel.send(Logged::Flush(done)).await.is_ok() {
            if mode == FlushMode::Now {
                self.hurry.notify_one();
            }
            // The writer answers, or has ended after writing everything.
            let _ = written.await;
        }
    }
}

#[derive(Clone, Copy)]
pub struct Calls<'a> {
    pub(super) db: &'a Db,
    pub(super) call_log: &'a CallSender,
    pub(super) reader: &'a Reader,
}

macro_rules! columns {
    () => {
        "call_id, job_id, judge, model, called_at, latency_us, error_class, message, status, tokens_in, tokens_in_cached,
            tokens_out, cost_usd, reply, simulated, repaired, retries_spent, cache_key"
    };
}
use columns;

impl Calls<'_> {
    /// Waits until the calls logged so far are written by the next regular flush, unless the database is unavailable.
    pub async fn written(self) {
        let written = self.call_log.written(FlushMode::InTurn);
        self.call_log.unless_away(written).await;
    }

    /// Flushes the calls logged so far and waits for it, also during an outage.
    pub async fn counted(self) {
        self.call_log.written(FlushMode::Now).await;
    }

    /// Returns the calls of a job, oldest first; at most 1,000. Waits for the call log.
    pub async fn of_job(self, job_id: JobId) -> Result<Vec<JudgeCallRow>, StoreError> {
        self.call_log.flush().await;
        let statement = sql!(
            "reading a job's judge calls",
            concat!(
                "select ",
                columns!(),
                " from judge_calls where job_id = $1 order by called_at, call_id limit 1000"
            ),
            job_id.0
        );
        self.db.read_with(&statement, call).await
    }
}

pub(super) fn insert_statement(calls: &[CallRecord]) -> Sql {
    const COLUMNS: &str = columns!();
    let rows = calls
        .iter()
        .map(|call| {
            vec![
                Arg::from(call.call_id),
                call.asked_for.into(),
                (&call.judge).into(),
                (&call.model).into(),
                call.at.into(),
                i64::try_from(call.latency.as_micros())
                    .unwrap_or(i64::MAX)
                    .into(),
                call.error.map(ErrorClass::as_str).into(),
                call.message.as_deref().into(),
                call.status.into(),
                call.usage.tokens_in.into(),
                call.usage.tokens_in_cached.into(),
                call.usage.tokens_out.into(),
                call.usage.cost_usd.into(),
                call.reply.as_deref().map(cut).into(),
                call.simulated.into(),
                call.repaired.into(),
                call.retries_spent.into(),
                call.cache_key.map(|key| key.0).into(),
            ]
        })
        .collect();
    let mut statement = Sql::insert("judge_calls", COLUMNS, rows);
    statement.push(" on conflict do nothing returning call_id");
    statement
}

/// Truncates to 64 KiB at a character boundary.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(MAX_REPLY_BYTES.min(text.len()));
    text.get(..end).unwrap_or(text)
}

fn call(row: &DbRow) -> sqlx::Result<CallRecord> {
    Ok(CallRecord {
        call_id: row.get("call_id")?,
        asked_for: row.get("job_id")?,
        judge: row.get("judge")?,
        model: row.get("model")?,
        at: row.get("called_at")?,
        latency: Duration::from_micros(row.int("latency_us")?),
        error: row
            .get::<Option<String>>("error_class")?
            .map(|text| error_class(&text))
            .transpose()?,
        message: row.get("message")?,
        status: row
            .get::<Option<i64>>("status")?
            .map(|status| u16::try_from(status).map_err(|_| decode("status", "it is out of range")))
            .transpose()?,
        usage: CallUsage {
            tokens_in: row.get("tokens_in")?,
            tokens_in_cached: row.get("tokens_in_cached")?,
            tokens_out: row.get("tokens_out")?,
            cost_usd: row.get("cost_usd")?,
        },
        reply: row.get("reply")?,
        simulated: row.get("simulated")?,
        repaired: row.get("repaired")?,
        retries_spent: row.int("retries_spent")?,
        cache_key: row.get::<Option<uuid::Uuid>>("cache_key")?.map(CacheKey),
    })
}

fn error_class(text: &str) -> sqlx::Result<ErrorClass> {
    text.parse()
        .map_err(|_| decode("error_class", "it names no class of judge errors"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(reply: usize) -> CallRecord {
        CallRecord {
            call_id: uuid::Uuid::now_v7(),
            asked_for: uuid::Uuid::now_v7(),
            judge: "openai-default".to_owned(),
            model: "gpt".to_owned(),
            at: chrono::DateTime::UNIX_EPOCH,
            latency: Duration::from_secs(1),
            error: None,
            message: None,
            status: Some(200),
            usage: CallUsage::default(),
            reply: Some("x".repeat(reply)),
            simulated: false,
            repaired: false,
            retries_spent: 0,
            cache_key: None,
        }
    }

    #[test]
    fn buffer_is_bounded_and_further_calls_are_totalled() {
        let (sender, mut receiver) = CallSender::new();
        for _ in 0..20_000 {
            sender.log(call(3_000));
        }
        assert!(sender.summed.take().is_none());
        for _ in 0..100 {
            sender.log(call(MAX_REPLY_BYTES));
        }
        assert!(sender.summed.take().is_some(), "no room for the last ones");
        let mut written = 0;
        while receiver.channel.try_recv().is_ok() {
            written += 1;
        }
        assert!((20_000..20_100).contains(&written), "{written}");
        sender.log(call(MAX_REPLY_BYTES));
        assert!(sender.summed.take().is_none(), "there is room again");
    }
}
