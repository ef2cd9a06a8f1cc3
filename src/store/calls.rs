//! `judge_calls`: every call to a provider, for the bill and the audit. What is logged is counted by day in the same
//! transaction.
//!
//! Written behind the caller's back, in groups, together with replies for the cache: logging never blocks and never fails
//! anybody. What finds the channel full is dropped, counted in `gavel_judge_calls_dropped_total`, and warned about.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::db::{Conn, twice};
use super::group::Spacing;
use super::line::Line;
use super::replies::{self, KeptReply, Unwritten};
use super::sql::{Arg, Row, Sql, decode, sql};
use super::{Store, StoreError, group, latency, usage};
use crate::job::JobId;
use crate::judge::{CallLog, CallRecord, CallUsage, ErrorClass};

/// One call as the job's page shows it.
pub type JudgeCallRow = CallRecord;

/// The calls that may wait to be written.
const CHANNEL: usize = 8192;
/// The least time between two groups: nobody waits for a call to be logged, and whoever wants to read one says so.
const SPACING: Duration = Duration::from_millis(25);
/// The longest text of a reply that is kept, in bytes.
const REPLY: usize = 64 * 1024;

/// What goes to the writer.
pub(super) enum Logged {
    Call(Box<CallRecord>),
    /// A reply for the cache.
    Reply(Box<KeptReply>),
    /// Answered when everything sent before is written, or lost.
    Flush(oneshot::Sender<()>),
}

/// The call log's end of the channel.
pub(super) struct CallSender {
    channel: mpsc::Sender<Logged>,
    hurry: Arc<Notify>,
}

/// The writer's end of the channel.
pub(super) struct CallReceiver {
    channel: mpsc::Receiver<Logged>,
    hurry: Arc<Notify>,
}

impl CallSender {
    pub(super) fn new() -> (Self, CallReceiver) {
        let (sender, receiver) = mpsc::channel(CHANNEL);
        let hurry = Arc::new(Notify::new());
        let sender = Self {
            channel: sender,
            hurry: Arc::clone(&hurry),
        };
        let receiver = CallReceiver {
            channel: receiver,
            hurry,
        };
        (sender, receiver)
    }

    /// Hands over a reply for the cache; false if the channel is full or closed.
    pub(super) fn keep(&self, reply: KeptReply) -> bool {
        self.channel
            .try_send(Logged::Reply(Box::new(reply)))
            .is_ok()
    }

    pub(super) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.channel.send(Logged::Flush(done)).await.is_ok() {
            self.hurry.notify_one();
            // The writer answers, or has ended after writing everything.
            let _ = written.await;
        }
    }
}

impl CallLog for Store {
    fn log(&self, call: CallRecord) {
        let (call_id, job_id) = (call.call_id, call.asked_for);
        if self
            .call_log
            .channel
            .try_send(Logged::Call(Box::new(call)))
            .is_err()
        {
            lost(1);
            tracing::warn!(%call_id, %job_id, "a judge call wasn't logged: the call log is full or closed");
        }
    }
}

impl Store {
    /// The calls made for a job, oldest first; at most 1,000. Waits for what the call log still holds.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn calls_of(&self, job_id: JobId) -> Result<Vec<JudgeCallRow>, StoreError> {
        const ATTEMPTED: &str = "reading a job's judge calls";
        self.call_log.flush().await;
        let statement = sql!(
            "select call_id, job_id, judge, model, called_at, latency_us, error_class, message, status, tokens_in,
                tokens_in_cached, tokens_out, cost_usd, reply
             from judge_calls where job_id = $1 order by called_at, call_id limit 1000",
            job_id.0
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        rows.iter()
            .map(call)
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }
}

/// The writer: one task, one connection.
pub(super) async fn run(
    mut receiver: CallReceiver,
    closing: CancellationToken,
    mut line: Line,
    unwritten: Unwritten,
) {
    let mut spacing = Spacing::new(SPACING);
    let counter = Uuid::now_v7();
    loop {
        spacing.keep(&receiver.hurry, &closing).await;
        let group = group::next(&mut receiver.channel, &closing).await;
        if group.is_empty() {
            return line.close().await;
        }
        let taken = group.len();
        let mut calls = Vec::with_capacity(taken);
        let (mut replies, mut flushed) = (Vec::new(), Vec::new());
        for one in group {
            match one {
                Logged::Call(call) => calls.push(*call),
                Logged::Reply(reply) => replies.push(*reply),
                Logged::Flush(done) => flushed.push(done),
            }
        }
        write(&mut line, &calls, counter).await;
        replies::write(&mut line, &unwritten, replies).await;
        for done in flushed {
            // Whoever waited may be gone.
            let _ = done.send(());
        }
        spacing.ended(taken);
    }
}

async fn write(line: &mut Line, calls: &[CallRecord], counter: Uuid) {
    if calls.is_empty() {
        return;
    }
    match insert(line, calls, counter).await {
        Ok(()) => {}
        Err(StoreError::Unexpected { .. }) if calls.len() > 1 => {
            for call in calls {
                if let Err(error) = insert(line, std::slice::from_ref(call), counter).await {
                    lost(1);
                    tracing::warn!(%error, call_id = %call.call_id, "a judge call wasn't logged");
                }
            }
        }
        Err(error) => {
            lost(calls.len() as u64);
            tracing::warn!(%error, calls = calls.len(), "judge calls weren't logged");
        }
    }
}

fn lost(calls: u64) {
    metrics::counter!("gavel_judge_calls_dropped_total").increment(calls);
}

async fn insert(line: &mut Line, calls: &[CallRecord], counter: Uuid) -> Result<(), StoreError> {
    let statement = insert_statement(calls);
    twice!("logging judge calls", async {
        let mut conn = line.take().await?;
        let result = insert_on(&mut conn, &statement, calls, counter).await;
        line.give_back(conn, &result);
        result
    })
}

/// Counts what it inserted and nothing else: a second try whose first one was committed inserts nothing.
async fn insert_on(
    conn: &mut Conn,
    insert: &Sql,
    calls: &[CallRecord],
    counter: Uuid,
) -> sqlx::Result<()> {
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
    tx.commit().await
}

fn insert_statement(calls: &[CallRecord]) -> Sql {
    const COLUMNS: &str = "call_id, job_id, judge, model, called_at, latency_us, error_class, message, status, \
                           tokens_in, tokens_in_cached, tokens_out, cost_usd, reply";
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

fn call(row: &Row) -> sqlx::Result<CallRecord> {
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
            known_usd: row.get::<Option<f64>>("cost_usd")?.unwrap_or(0.0),
        },
        reply: row.get("reply")?,
    })
}

fn error_class(text: &str) -> sqlx::Result<ErrorClass> {
    const ALL: [ErrorClass; 10] = [
        ErrorClass::Transient,
        ErrorClass::Throttled,
        ErrorClass::Exhausted,
        ErrorClass::Misconfigured,
        ErrorClass::Capability,
        ErrorClass::TooLarge,
        ErrorClass::Truncated,
        ErrorClass::Refused,
        ErrorClass::Rejected,
        ErrorClass::Unparsable,
    ];
    ALL.into_iter()
        .find(|class| class.as_str() == text)
        .ok_or_else(|| decode("error_class", "it names no class of judge errors"))
}
