//! The gate that all workers share through Redis: one breaker, one pace and one cap of calls per judge.
//!
//! Keys: `{gavel:<queue>:gate:<judge>}:state`, `:members`, and `:r`, `:t`, `:i`, `:o` (what went out lately, by tenths of
//! a second). Times are Redis' own. A call to a judge without a limit costs no round trip: its slot is in hand, and what
//! became of it is told a little later. A call under a limit, and the breaker's probe, ask first. A worker that says
//! nothing for ten seconds is gone, with its slots and its probe.
//!
//! While Redis is away each worker lets through its part of the figures, by the number of live workers, and counts for
//! itself. Who is first in line, what an operator stopped, and the limits that only 429s tell stay in each process.

mod scripts;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use redis::RedisError;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::memory::{
    Admitted, Asked, Denied, GateOptions, Leave, MemoryGate, Message, Place, Rule,
};
use super::{CallEnd, Closed, Closure, Gate, GateSnapshot, Load, Permit, Refusal, Room};
use crate::redis_client::RedisClient;
pub(in crate::judge::gate) use scripts::SharedState;
use scripts::{Scripts, Verdict};

/// A call that may leave within this is let go, and waits for its time.
const HORIZON: Duration = Duration::from_millis(250);
/// A worker that says nothing for so long is gone.
const LEASE: Duration = Duration::from_secs(10);
/// How often this looks whether a lane has something to say or was silent for too long.
const LOOK: Duration = Duration::from_millis(100);
/// What happens within this is told together.
const TOGETHER: Duration = Duration::from_millis(5);
/// How often a server that is away is tried.
const RETRY: Duration = Duration::from_millis(500);
/// A script that takes longer than this is a server that is away.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// What a process may still say when it leaves.
const FAREWELL: Duration = Duration::from_millis(500);

/// The gate of one of many processes.
pub struct RedisGate {
    local: MemoryGate,
    link: Arc<Link>,
}

/// What reaches the others.
struct Link {
    client: RedisClient,
    scripts: Scripts,
    /// Before the judge's name in every key.
    prefix: String,
    member: String,
    /// Something is to be said.
    news: Notify,
    away: AtomicBool,
    workers: AtomicU32,
}

impl RedisGate {
    /// A gate of the queue `queue`, and what keeps it in step with the others: to be run until `stop`.
    pub fn new(
        client: &RedisClient,
        queue: &str,
        options: GateOptions,
        stop: CancellationToken,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + use<>) {
        let gate = Arc::new(Self {
            local: MemoryGate::by(options, Rule::Together),
            link: Arc::new(Link {
                client: client.with_response_timeout(RESPONSE_TIMEOUT),
                scripts: Scripts::new(),
                prefix: format!("{{gavel:{queue}:gate:"),
                member: Uuid::now_v7().simple().to_string(),
                news: Notify::new(),
                away: AtomicBool::new(false),
                workers: AtomicU32::new(1),
            }),
        });
        let keeping = Arc::clone(&gate).keep_in_step(stop);
        (gate, keeping)
    }

    async fn keep_in_step(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.tell(LEASE).await;
            let pause = match self.link.away.load(Ordering::Relaxed) {
                true => RETRY,
                false => TOGETHER,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
            if pause == TOGETHER {
                tokio::select! {
                    () = self.link.news.notified() => {}
                    () = tokio::time::sleep(LOOK) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
        // A worker that leaves in good order keeps nothing for the length of a lease.
        let leaving = async {
            for judge in self.local.judges() {
                let message = self
                    .local
                    .with_lane(&judge, |lane, now| lane.last_message(now));
                self.say(&judge, message, Duration::ZERO).await;
            }
        };
        if !self.link.away.load(Ordering::Relaxed) {
            let _late = tokio::time::timeout(FAREWELL, leaving).await;
        }
    }

    /// Tells the others what is news here, and hears how the lanes stand.
    async fn tell(&self, lease: Duration) {
        if self.link.away.load(Ordering::Relaxed) {
            self.try_again().await;
            return;
        }
        let telling = self
            .local
            .messages()
            .into_iter()
            .map(|(judge, message)| async move { self.say(&judge, message, lease).await });
        join_all(telling).await;
    }

    async fn say(&self, judge: &str, message: Message, lease: Duration) {
        let mut args = self.figures(judge, &message, lease);
        args.extend(message.report);
        let sent = Instant::now();
        let answer = self.link.answer(&self.link.scripts.report, judge, &args);
        match answer.await.map(|answer| SharedState::read(&answer)) {
            Ok(Some(state)) => self.local.with_lane(judge, |lane, now| {
                lane.adopt(&state, sent, now);
                lane.adopt_slots(&state);
            }),
            Ok(None) => self.lost(&"an answer of another shape"),
            Err(error) => self.lost(&error),
        }
    }

    /// Asks whether the server is back; it is told what it missed from then on.
    async fn try_again(&self) {
        // A write: one that is full, or no longer the primary, answers reads.
        let key = format!("{}}}:back", self.link.prefix);
        let mut write = redis::cmd("SET");
        write.arg(&key).arg(1).arg("PX").arg(whole(RETRY));
        if self.link.client.command::<()>(&key, &write).await.is_ok() {
            self.link.away.store(false, Ordering::Relaxed);
            self.local.follow(Rule::Together);
            tracing::info!(
                "Redis is back: the judges' breakers, paces and caps hold for all workers together again"
            );
        } else {
            self.local.follow(self.part());
        }
    }

    /// The server is away, or can't do the work.
    fn lost(&self, error: &(dyn std::fmt::Display + Sync)) {
        if !self.link.away.swap(true, Ordering::Relaxed) {
            let workers = self.link.workers.load(Ordering::Relaxed);
            tracing::warn!(%error, workers, "Redis is away: this worker keeps to its part of the judges' paces and caps, by the number of live workers");
            self.local.follow(self.part());
        }
    }

    fn part(&self) -> Rule {
        Rule::Part {
            workers: self.link.workers.load(Ordering::Relaxed),
        }
    }

    /// What every script is told.
    fn figures(&self, judge: &str, message: &Message, lease: Duration) -> Vec<String> {
        let options = self.local.options();
        let limits = self.local.limits(judge);
        let figures = [
            u64::from(self.local.cap(judge)),
            whole(lease),
            u64::from(options.failures_to_open.max(1)),
            whole(options.cool_down),
            limits.requests_per_minute.unwrap_or(0),
            limits.tokens_per_minute.unwrap_or(0),
            u64::from(message.out),
            message.slots as u64,
            message.wanted as u64,
        ];
        let member = self.link.member.clone();
        let figures = figures.iter().map(u64::to_string);
        std::iter::once(member).chain(figures).collect()
    }

    /// Asks the others to let a call go, and waits for its time.
    async fn ask(
        &self,
        gate: &MemoryGate,
        judge: &str,
        load: Load,
        (input, output): (u64, u64),
    ) -> Result<Admitted, Asking> {
        let nothing = Message::default();
        let mut args = self.figures(judge, &nothing, LEASE);
        args.extend([input, output, whole(HORIZON)].map(|figure| figure.to_string()));
        let sent = Instant::now();
        let _asking = Question::new(gate, judge);
        let answer = self.link.answer(&self.link.scripts.enter, judge, &args);
        let read = answer
            .await
            .map(|answer| SharedState::read(&answer).zip(Verdict::read(&answer)));
        let (state, verdict) = match read {
            Ok(Some(read)) => read,
            Ok(None) => {
                self.lost(&"an answer of another shape");
                return Err(Asking::Lost);
            }
            Err(error) => {
                self.lost(&error);
                return Err(Asking::Lost);
            }
        };
        gate.with_lane(judge, |lane, now| lane.adopt(&state, sent, now));
        match verdict {
            Verdict::Passes { probe, wait, at_ms } => {
                tokio::time::sleep_until(sent + wait).await;
                Ok(gate.with_lane(judge, |lane, now| lane.let_go(load, probe, at_ms, now)))
            }
            Verdict::Later(wait) => {
                gate.with_lane(judge, |lane, now| lane.pace.due_in(wait, now));
                Err(Asking::Denied(Denied::Later(
                    wait.saturating_sub(HORIZON / 2),
                )))
            }
            Verdict::Closed => Err(Asking::Denied(
                gate.with_lane(judge, |lane, now| lane.refused(now)),
            )),
        }
    }
}

/// Why a call that asked the others wasn't let go.
enum Asking {
    Denied(Denied),
    /// Nobody answered.
    Lost,
}

/// A call that asks: while it does, a probe may be on its way to it.
struct Question<'a> {
    gate: &'a MemoryGate,
    judge: &'a str,
}

impl<'a> Question<'a> {
    fn new(gate: &'a MemoryGate, judge: &'a str) -> Self {
        gate.with_lane(judge, |lane, _| lane.asks(1));
        Self { gate, judge }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.gate.with_lane(self.judge, |lane, _| lane.asks(-1));
    }
}

impl Link {
    async fn answer(
        &self,
        script: &redis::Script,
        judge: &str,
        args: &[String],
    ) -> Result<Vec<i64>, RedisError> {
        let key = format!("{}{judge}}}", self.prefix);
        self.client.invoke(script, &key, args).await
    }
}

#[async_trait]
impl Leave for RedisGate {
    async fn leave(
        &self,
        gate: &MemoryGate,
        judge: &str,
        load: Load,
        place: Place,
    ) -> Result<Admitted, Denied> {
        let asked = gate.with_lane(judge, |lane, now| lane.ask(load, place, now))?;
        let (input, output) = match asked {
            Asked::Admitted(admitted) => return Ok(admitted),
            Asked::Together { input, output } => (input, output),
        };
        match self.ask(gate, judge, load, (input, output)).await {
            Ok(admitted) => Ok(admitted),
            Err(Asking::Denied(denied)) => Err(denied),
            Err(Asking::Lost) => gate.with_lane(judge, |lane, now| lane.admit(load, place, now)),
        }
    }

    fn wants_slot(&self) {
        self.link.news.notify_one();
    }
}

#[async_trait]
impl Gate for RedisGate {
    async fn enter(
        &self,
        judge: &str,
        patience: Duration,
        load: &(dyn Fn() -> Load + Send + Sync),
    ) -> Result<Permit, Refusal> {
        self.local.enter_by(judge, patience, load, self).await
    }

    fn report(&self, judge: &str, permit: Permit, end: &CallEnd) {
        self.local.report(judge, permit, end);
        self.link.news.notify_one();
    }

    fn closed(&self, judge: &str) -> Option<Refusal> {
        self.local.closed(judge)
    }

    fn room(&self, judge: &str) -> Result<Room, Refusal> {
        self.local.room(judge)
    }

    fn close(&self, judge: &str, why: Closed, reopens_in: Option<Duration>) {
        self.local.close(judge, why, reopens_in);
    }

    fn open(&self, judge: &str) {
        self.local.open(judge);
    }

    fn live_workers(&self, count: u32) {
        self.link.workers.store(count.max(1), Ordering::Relaxed);
    }

    fn held(&self) -> Vec<String> {
        self.local.held()
    }

    fn take_closures(&self) -> Vec<Closure> {
        self.local.take_closures()
    }

    fn snapshot(&self) -> Vec<GateSnapshot> {
        self.local.snapshot()
    }
}

fn whole(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
