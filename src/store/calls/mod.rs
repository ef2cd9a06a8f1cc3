//! `judge_calls`: every call to a provider, for the bill and the audit. What is logged is counted by day and by batch in the
//! same transaction, whatever becomes of the run that made it.
//!
//! Written behind the caller's back, in groups: logging never blocks and never fails anybody. Of what finds no room only the
//! sums are kept; `gavel_judge_calls_dropped_total` counts such calls.

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
use crate::store::database::reads::Reader;
use crate::store::database::sql::{Arg, DbRow, Sql, all, decode, sql};
use cache::Unwritten;
use summed::SummedCalls;

/// One call as the job's page shows it.
pub type JudgeCallRow = CallRecord;

/// What may wait to be written, KiB: the calls of 10,000 jobs that end at once have room.
const ROOM: usize = 64 << 10;
/// The longest text of a reply that is kept, in bytes.
const REPLY: usize = 64 * 1024;

/// What goes to the writer.
pub(super) enum Logged {
    Call(Box<CallRecord>, OwnedSemaphorePermit),
    /// Answered when everything sent before is written, or lost.
    Flush(oneshot::Sender<()>),
}

/// The call log's end of the channel.
pub(super) struct CallSender {
    channel: mpsc::Sender<Logged>,
    /// A permit is a KiB.
    room: Arc<Semaphore>,
    hurry: Arc<Notify>,
    summed: SummedCalls,
    unwritten: Unwritten,
    /// Whether the writer waits for the database.
    away: watch::Receiver<bool>,
}

/// The writer's end of the channel.
pub(super) struct CallReceiver {
    pub(super) channel: mpsc::Receiver<Logged>,
    pub(super) hurry: Arc<Notify>,
    summed: SummedCalls,
    unwritten: Unwritten,
    pub(super) away: watch::Sender<bool>,
}

/// When the next group is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    InTurn,
}

impl CallSender {
    pub(super) fn new() -> (Self, CallReceiver) {
        let (sender, receiver) = mpsc::channel(ROOM);
        let hurry = Arc::new(Notify::new());
        let (summed, unwritten) = (SummedCalls::default(), Unwritten::default());
        let (away, is_away) = watch::channel(false);
        let sender = Self {
            channel: sender,
            room: Arc::new(Semaphore::new(ROOM)),
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

    /// Room for a record with so many bytes of text, until it is written; `None`: there is none.
    fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(1 + (bytes >> 10)).unwrap_or(u32::MAX);
        Arc::clone(&self.room).try_acquire_many_owned(kib).ok()
    }

    /// Takes a call; of one that finds no room, its sums.
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
                tracing::error!(call_id = %call.call_id, job_id = %call.asked_for, usage = ?call.usage, "a judge call is counted nowhere: the store was closed before it ended");
            }
            Ok(())
            | Err(TrySendError::Full(Logged::Flush(_)) | TrySendError::Closed(Logged::Flush(_))) => {
            }
        }
    }

    /// Counts a call that has no room.
    fn sum_up(&self, call: &CallRecord) {
        tracing::warn!(call_id = %call.call_id, job_id = %call.asked_for, "a judge call is counted, and has no row of its own: the call log is full");
        self.summed.add(call);
    }

    /// Has what was sent before written now, and waits for that, unless the database is away.
    pub(super) async fn flush(&self) {
        self.unless_away(self.written(When::Now)).await;
    }

    async fn unless_away(&self, written: impl Future<Output = ()>) {
        let mut away = self.away.clone();
        tokio::select! {
            () = written => {}
            // The writer that has ended has nothing to wait for either.
            _ = away.wait_for(|away| *away) => {}
        }
    }

    /// Waits for what was sent before, however long the database is away.
    async fn written(&self, when: When) {
        let (done, written) = oneshot::channel();
        if self.channel.send(Logged::Flush(done)).await.is_ok() {
            if when == When::Now {
                self.hurry.notify_one();
            }
            // The writer answers, or has ended after writing everything.
            let _ = written.await;
        }
    }
}

/// The log of judge calls.
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    pub(super) db: &'a Db,
    pub(super) call_log: &'a CallSender,
    pub(super) reader: &'a Reader,
}

/// What a call is read with.
macro_rules! columns {
    () => {
        "call_id, job_id, judge, model, called_at, latency_us, error_class, message, status, tokens_in, tokens_in_cached,
            tokens_out, cost_usd, reply, simulated, repaired, retries_spent, cache_key"
    };
}
use columns;

impl Calls<'_> {
    /// Waits until the calls that were logged so far are counted in their turn, unless the database is away.
    pub async fn written(self) {
        let written = self.call_log.written(When::InTurn);
        self.call_log.unless_away(written).await;
    }

    /// Has the calls that were logged so far counted now, and waits for that however long the database is away.
    pub async fn counted(self) {
        self.call_log.written(When::Now).await;
    }

    /// The calls made for a job, oldest first; at most 1,000. Waits for what the call log still holds.
    pub async fn of_job(self, job_id: JobId) -> Result<Vec<JudgeCallRow>, StoreError> {
        const ATTEMPTED: &str = "reading a job's judge calls";
        self.call_log.flush().await;
        let statement = sql!(
            concat!(
                "select ",
                columns!(),
                " from judge_calls where job_id = $1 order by called_at, call_id limit 1000"
            ),
            job_id.0
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, call)
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
                call.status.map(i64::from).into(),
                call.usage.tokens_in.into(),
                call.usage.tokens_in_cached.into(),
                call.usage.tokens_out.into(),
                call.usage.cost_usd.into(),
                call.reply.as_deref().map(cut).into(),
                call.simulated.into(),
                call.repaired.into(),
                i64::from(call.retries_spent).into(),
                call.cache_key.map(|key| key.0).into(),
            ]
        })
        .collect();
    let mut statement = Sql::of_rows(COLUMNS, rows);
    statement
        .push("insert into judge_calls (")
        .push(COLUMNS)
        .push(") select ")
        .push(COLUMNS)
        .push(" from v where call_id is not null on conflict do nothing returning call_id");
    statement
}

/// At most 64 KiB, cut between characters.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(REPLY.min(text.len()));
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
    ErrorClass::ALL
        .into_iter()
        .find(|class| class.as_str() == text)
        .ok_or_else(|| decode("error_class", "it names no class of judge errors"))
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
    fn what_waits_is_bounded_by_its_bytes_and_the_rest_is_summed_up() {
        let (sender, mut receiver) = CallSender::new();
        for _ in 0..20_000 {
            sender.log(call(3_000));
        }
        assert!(sender.summed.take().is_none());
        for _ in 0..100 {
            sender.log(call(REPLY));
        }
        assert!(sender.summed.take().is_some(), "no room for the last ones");
        let mut written = 0;
        while receiver.channel.try_recv().is_ok() {
            written += 1;
        }
        assert!((20_000..20_100).contains(&written), "{written}");
        sender.log(call(REPLY));
        assert!(sender.summed.take().is_none(), "there is room again");
    }
}
