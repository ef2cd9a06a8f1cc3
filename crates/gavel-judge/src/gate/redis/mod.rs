//! Gate shared by all workers through Redis: one breaker, one pace and one concurrency cap per judge.
//!
//! Keys: `{gavel:<queue>:gate:<judge>}:state`, `:members`, and `:r`, `:t`, `:i`, `:o` (recent usage per 100 ms). Times are on the Redis
//! clock. A call to a judge without limits needs no round trip, because its slot is already acquired and its outcome is reported within 0.4
//! s. A call under a limit and the breaker's probe need a round trip. A worker that is silent for a lease loses its slots and its probe.
//!
//! While Redis is unavailable each worker uses its share of the limits, divided by the number of live workers, and counts locally. If only
//! some workers can't reach Redis, the others share the rest. The line of waiting calls, an operator's holds and limits learned only from
//! 429s stay local to each process.

mod scripts;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::memory::{
    Admitted, Denied, LaneGate, LinePosition, LocalDecision, PeerMessage, Peers, Rule, SharedState,
};
use super::{Gate, GateOptions, Load, WorkerCounts};
use gavel_redis::{RedisClient, explain};
use scripts::{EnterReply, Scripts};

/// A call that may leave within this time is admitted and sleeps until then.
const HORIZON: Duration = Duration::from_millis(250);
/// Interval between checks for pending messages.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Events within this time are reported together.
const BATCH_DELAY: Duration = Duration::from_millis(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Timeout of a script, after which Redis counts as unavailable.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

struct Link {
    client: RedisClient,
    scripts: Scripts,
    /// Prefix of all keys, before the judge's name.
    prefix: String,
    member: String,
    /// Wakes the synchronization early.
    wake_sync: Notify,
    away: AtomicBool,
    workers: Mutex<WorkerCounts>,
}

/// Creates a gate of the queue `queue` and its synchronization task, which must run until `stop`.
pub fn shared_gate(
    client: &RedisClient,
    queue: &str,
    options: GateOptions,
    stop: CancellationToken,
) -> (Arc<Gate>, impl Future<Output = ()> + Send + use<>) {
    let link = Arc::new(Link {
        client: client.with_response_timeout(RESPONSE_TIMEOUT),
        scripts: Scripts::new(),
        prefix: format!("{{gavel:{queue}:gate:"),
        member: Uuid::now_v7().simple().to_string(),
        wake_sync: Notify::new(),
        away: AtomicBool::new(false),
        workers: Mutex::default(),
    });
    let gate = Arc::new(Gate::with_peers(options, Rule::Together, link.clone()));
    let sync = GateSync {
        gate: Arc::clone(&gate),
        link,
    };
    (gate, sync.keep(stop))
}

struct GateSync {
    gate: Arc<Gate>,
    link: Arc<Link>,
}

impl GateSync {
    async fn keep(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.sync_lanes().await;
            let pause = match self.link.away.load(Ordering::Relaxed) {
                true => RETRY_INTERVAL,
                false => BATCH_DELAY,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
            if pause == BATCH_DELAY {
                tokio::select! {
                    () = self.link.wake_sync.notified() => {}
                    () = tokio::time::sleep(CHECK_INTERVAL) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
        // Releases slots at a regular shutdown instead of keeping them for a lease.
        let leaving = async {
            for judge in self.gate.judges() {
                let message = self.gate.with_lane(&judge, LaneGate::last_message);
                self.send(&judge, message, Duration::ZERO).await;
            }
        };
        if !self.link.away.load(Ordering::Relaxed) {
            let _late = tokio::time::timeout(SHUTDOWN_TIMEOUT, leaving).await;
        }
    }

    /// Sends pending messages of all lanes and applies the replies.
    async fn sync_lanes(&self) {
        if self.link.away.load(Ordering::Relaxed) {
            self.probe_redis().await;
            return;
        }
        let lease = self.gate.options().lease;
        let messages = self.gate.messages().into_iter();
        let telling =
            messages.map(|(judge, message)| async move { self.send(&judge, message, lease).await });
        join_all(telling).await;
    }

    async fn send(&self, judge: &str, message: PeerMessage, lease: Duration) {
        let (gate, link) = (&*self.gate, &*self.link);
        let mut args = link.common_args(gate, judge, &message, lease);
        args.extend(message.report);
        let sent = Instant::now();
        let answer = link
            .run_script(gate, &link.scripts.report, judge, &args)
            .await;
        if let Some(state) =
            answer.and_then(|answer| link.checked(gate, SharedState::read(&answer)))
        {
            gate.with_lane(judge, |lane, now| {
                lane.adopt(&state, sent, now);
                lane.adopt_slots(&state);
            });
        }
    }

    /// Probes Redis. Pending updates are sent after it recovers.
    async fn probe_redis(&self) {
        let key = format!("{}}}:back", self.link.prefix);
        if self.link.client.probe(&key).await.is_ok() {
            self.link.away.store(false, Ordering::Relaxed);
            self.gate.follow(Rule::Together);
            tracing::info!(
                "Redis available again: workers share the judges' breakers, rate limits and caps"
            );
        } else {
            self.gate.follow(self.link.local_share());
        }
    }
}

impl Link {
    /// Runs a script. Returns `None` if Redis is unavailable.
    async fn run_script(
        &self,
        gate: &Gate,
        script: &redis::Script,
        judge: &str,
        args: &[String],
    ) -> Option<Vec<i64>> {
        let key = format!("{}{judge}}}", self.prefix);
        let answer = self.client.invoke(script, &key, args).await;
        answer
            .map_err(|error| self.go_local(gate, &explain(&error)))
            .ok()
    }

    /// Treats a malformed reply like an outage.
    fn checked<T>(&self, gate: &Gate, read: Option<T>) -> Option<T> {
        if read.is_none() {
            self.go_local(gate, &"an answer of another shape");
        }
        read
    }

    /// Switches to the local share after an outage or an error.
    fn go_local(&self, gate: &Gate, error: &(dyn std::fmt::Display + Sync)) {
        if !self.away.swap(true, Ordering::Relaxed) {
            let workers = self.workers.lock().alive;
            tracing::warn!(%error, workers, "Redis unavailable: this worker uses its share of the judges' rate limits and caps, divided by live workers");
            gate.follow(self.local_share());
        }
    }

    fn local_share(&self) -> Rule {
        Rule::Part {
            workers: self.workers.lock().alive.max(1),
        }
    }

    fn common_args(
        &self,
        gate: &Gate,
        judge: &str,
        message: &PeerMessage,
        lease: Duration,
    ) -> Vec<String> {
        let options = gate.options();
        let limits = gate.limits(judge);
        let requests = limits.requests_per_minute.unwrap_or(0);
        let tokens = limits.tokens_per_minute.unwrap_or(0);
        let ours = |figure: u64| self.workers.lock().shared_part(judge, figure);
        let common_args = [
            ours(u64::from(gate.cap(judge))),
            millis(lease),
            u64::from(options.failures_to_open.max(1)),
            millis(options.cool_down),
            requests,
            tokens,
            u64::from(message.out),
            message.slots as u64,
            message.wanted as u64,
            ours(requests),
            ours(tokens),
        ];
        let common_args = common_args.iter().map(u64::to_string);
        std::iter::once(self.member.clone())
            .chain(common_args)
            .collect()
    }

    /// Requests admission from peers and sleeps until the departure. Returns `None` if Redis is unavailable.
    async fn request_admission(
        &self,
        gate: &Gate,
        judge: &str,
        load: Load,
        (input, output): (u64, u64),
    ) -> Option<Result<Admitted, Denied>> {
        let nothing = PeerMessage::default();
        let mut args = self.common_args(gate, judge, &nothing, gate.options().lease);
        args.extend([input, output, millis(HORIZON)].map(|figure| figure.to_string()));
        let sent = Instant::now();
        let _pending = PendingGuard::new(gate, judge);
        let answer = self
            .run_script(gate, &self.scripts.enter, judge, &args)
            .await?;
        let read = SharedState::read(&answer).zip(EnterReply::read(&answer));
        let (state, verdict) = self.checked(gate, read)?;
        gate.with_lane(judge, |lane, now| lane.adopt(&state, sent, now));
        Some(match verdict {
            EnterReply::Passes { probe, wait, at_ms } => {
                tokio::time::sleep_until(sent + wait).await;
                Ok(gate.with_lane(judge, |lane, now| lane.grant(load, probe, at_ms, now)))
            }
            EnterReply::Later(wait) => {
                gate.with_lane(judge, |lane, now| lane.pace.due_in(wait, now));
                Err(Denied::Later(wait.saturating_sub(HORIZON / 2)))
            }
            EnterReply::Closed => Err(gate.with_lane(judge, LaneGate::denied)),
        })
    }
}

/// Marks a call that awaits a decision, because a probe may be granted to it.
struct PendingGuard<'a> {
    gate: &'a Gate,
    judge: &'a str,
}

impl<'a> PendingGuard<'a> {
    fn new(gate: &'a Gate, judge: &'a str) -> Self {
        gate.with_lane(judge, |lane, _| lane.adjust_pending(1));
        Self { gate, judge }
    }
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        self.gate
            .with_lane(self.judge, |lane, _| lane.adjust_pending(-1));
    }
}

#[async_trait]
impl Peers for Link {
    async fn leave(
        &self,
        gate: &Gate,
        judge: &str,
        load: Load,
        place: LinePosition,
    ) -> Result<Admitted, Denied> {
        let (input, output) =
            match gate.with_lane(judge, |lane, now| lane.decide_locally(load, place, now))? {
                LocalDecision::Admitted(admitted) => return Ok(admitted),
                LocalDecision::AskPeers { input, output } => (input, output),
            };
        match self
            .request_admission(gate, judge, load, (input, output))
            .await
        {
            Some(answer) => answer,
            None => gate.with_lane(judge, |lane, now| lane.admit(load, place, now)),
        }
    }

    fn wake_sync(&self) {
        self.wake_sync.notify_one();
    }

    fn live_workers(&self, workers: WorkerCounts) {
        *self.workers.lock() = workers;
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
