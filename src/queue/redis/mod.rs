//! Queue in Redis 7: sets of ids under one hash tag per queue, moved by Lua scripts.
//!
//! Keys: `{gavel:<queue>}:ready:<lane>:i` and `:b` (first in, first out), `:delayed`, `:ids` (state of each
//! id), `:waits` (delayed ids per lane), `:turns`, `:order`, and the channel `:wake`. Times are Redis times. Due
//! times are sent as delays, so that clock differences don't matter. Calls fail fast while the server is unavailable,
//! see [`RedisClient`]. Lost keys (evicted, or an empty server) cost at most the order: `rescue` pushes due ids again,
//! and a push detects which ids are still in place.

mod scripts;
mod wake;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use redis::{FromRedisValue, RedisError, Script};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{ClaimRequest, Claimed, Depth, Push, Queue, QueueError};
use crate::clock::Clock;
use crate::job::{JobId, Lane, Priority};
use crate::redis_client::{RedisClient, explain, is_away};

use scripts::Scripts;
use wake::Listener;

/// Response timeout. A hanging Redis counts as unavailable, and work is claimed from the store.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Validity of a successful write probe.
const WRITABLE_TTL: Duration = Duration::from_secs(1);

/// Maximum ids moved by one script.
const SLICE: usize = 500;
/// Delays of a due push as its script reads them: at the back, and in front.
const AT_BACK: i64 = -1;
const IN_FRONT: i64 = -2;

#[derive(Debug, Clone)]
pub struct RedisOptions {
    pub client: RedisClient,
    /// Name of the queue, without braces. Queues of different names share no keys.
    pub queue: String,
}

impl RedisOptions {
    /// Options of the queue `gavel`.
    #[must_use]
    pub fn new(client: RedisClient) -> Self {
        Self {
            client,
            queue: "gavel".to_owned(),
        }
    }
}

pub struct RedisQueue {
    client: RedisClient,
    scripts: Scripts,
    prefix: String,
    clock: Arc<dyn Clock>,
    turn: AtomicUsize,
    heard: Arc<Notify>,
    listener: Mutex<Option<Listener>>,
    written: Mutex<Option<Instant>>,
}

impl RedisQueue {
    /// Prepares the queue. Connects with the first call, so this succeeds while Redis is down. Errors: for an invalid
    /// queue name.
    pub fn new(options: RedisOptions, clock: Arc<dyn Clock>) -> Result<Self, QueueError> {
        if options.queue.is_empty() || options.queue.contains(['{', '}']) {
            return Err(QueueError::Unexpected {
                attempted: "preparing the queue",
                reason: format!(
                    "queue name {:?} is empty or has braces; choose one without",
                    options.queue
                ),
            });
        }
        Ok(Self {
            client: options.client.with_response_timeout(RESPONSE_TIMEOUT),
            scripts: Scripts::new(),
            prefix: format!("{{gavel:{}}}", options.queue),
            clock,
            turn: AtomicUsize::new(0),
            heard: Arc::new(Notify::new()),
            listener: Mutex::new(None),
            written: Mutex::new(None),
        })
    }

    /// Ends the listener task. Dropping the queue ends it as well.
    pub async fn close(&self) {
        let listener = self.listener.lock().take();
        if let Some(listener) = listener {
            listener.close().await;
        }
    }

    /// Checks whether ids can be pushed. A full server still answers empty claims, but rejects writes.
    async fn check_writable(&self) -> Result<(), QueueError> {
        let written = || self.written.lock();
        let known = *written();
        if known.is_some_and(|at| at.elapsed() < WRITABLE_TTL) {
            return Ok(());
        }
        *written() = None;
        self.ping().await?;
        *written() = Some(Instant::now());
        Ok(())
    }

    async fn claim_slice(
        &self,
        claim: &ClaimRequest,
        want: usize,
    ) -> Result<Vec<Claimed>, QueueError> {
        let mut args = vec![
            want.to_string(),
            claim.max_bulk.to_string(),
            SLICE.to_string(),
        ];
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for share in &claim.shares {
            args.push(share.max.to_string());
            args.push(u8::from(share.takes_kept).to_string());
            args.push(share.lanes.len().to_string());
            let (after, before) = share.lanes.split_at(turn % share.lanes.len().max(1));
            args.extend(before.iter().chain(after).map(Lane::to_string));
        }
        let claiming = "claiming ids";
        let answer: Vec<(String, String, String)> =
            self.run(claiming, &self.scripts.claim, &args).await?;
        answer
            .into_iter()
            .map(|(id, lane, set)| {
                Ok(Claimed {
                    id: id_of(claiming, &id)?,
                    lane: Lane::from(lane),
                    priority: priority_of(claiming, &set)?,
                })
            })
            .collect()
    }

    async fn run<T: FromRedisValue>(
        &self,
        attempted: &'static str,
        script: &Script,
        args: &[String],
    ) -> Result<T, QueueError> {
        self.client
            .invoke(script, &self.prefix, args)
            .await
            .map_err(failed(attempted))
    }

    /// Returns the milliseconds until `when`, rounded up because the store rejects an early id.
    fn delay_ms(&self, when: DateTime<Utc>) -> i64 {
        let left = when - self.clock.now();
        match left.num_microseconds() {
            Some(micros) if micros <= 0 => 0,
            Some(micros) => micros / 1_000 + 1,
            None => left.num_milliseconds().max(0),
        }
    }
}

impl RedisQueue {
    async fn push_each(&self, pushes: Vec<(&Push, i64)>) -> Result<(), QueueError> {
        for slice in pushes.chunks(SLICE) {
            let mut args = Vec::with_capacity(slice.len() * 4);
            for (push, delay) in slice {
                args.extend([
                    push.id.to_string(),
                    push.lane.to_string(),
                    set_of(push.priority).to_owned(),
                    delay.to_string(),
                ]);
            }
            let push = || self.client.invoke(&self.scripts.push, &self.prefix, &args);
            let () = retry_once(push(), push())
                .await
                .map_err(failed("pushing ids"))?;
        }
        Ok(())
    }
}

/// Retries an idempotent call once if its connection was closed. An idle connection reports that only on use.
async fn retry_once<T>(
    first: impl Future<Output = Result<T, RedisError>>,
    again: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, RedisError> {
    match first.await {
        Err(error) if error.is_connection_dropped() => again.await,
        sent => sent,
    }
}

#[async_trait]
impl Queue for RedisQueue {
    async fn push(&self, ids: &[Push]) -> Result<(), QueueError> {
        let delay = |push: &Push| match push.due_at {
            Some(when) if when > self.clock.now() => self.delay_ms(when),
            Some(_) | None => AT_BACK,
        };
        let pushes = ids.iter().map(|push| (push, delay(push))).collect();
        self.push_each(pushes).await
    }

    async fn push_first(&self, ids: &[Push]) -> Result<(), QueueError> {
        // Each id goes in front of the previous one.
        let pushes = ids.iter().rev().map(|push| (push, IN_FRONT)).collect();
        self.push_each(pushes).await
    }

    async fn claim(&self, claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
        let (mut claimed, mut left) = (Vec::new(), claim.clone());
        while left.max > 0 && !left.shares.is_empty() {
            let want = left.max.min(SLICE);
            let slice = match self.claim_slice(&left, want).await {
                Ok(slice) => slice,
                Err(error) if claimed.is_empty() => return Err(error),
                // Ids of earlier slices have left the queue, so they must be returned.
                Err(_) => break,
            };
            let last = slice.len() < want;
            left.take(&slice);
            claimed.extend(slice);
            if last {
                break;
            }
        }
        if claimed.is_empty() {
            self.check_writable().await?;
        }
        Ok(claimed)
    }

    async fn depth(&self, lane: &Lane) -> Result<Depth, QueueError> {
        let (interactive, bulk, delayed) = self
            .run("counting ids", &self.scripts.depth, &[lane.to_string()])
            .await?;
        Ok(Depth {
            interactive,
            bulk,
            delayed,
        })
    }

    fn holds_ids(&self) -> bool {
        true
    }

    async fn woken(&self, at_most: Duration) {
        // Started on the first wait, because a process that only pushes needs no second connection.
        self.listener.lock().get_or_insert_with(|| {
            Listener::start(
                self.client.clone(),
                format!("{}:wake", self.prefix),
                Arc::clone(&self.heard),
            )
        });
        // The caller polls after a timeout as well.
        drop(tokio::time::timeout(at_most, self.heard.notified()).await);
    }

    async fn ping(&self) -> Result<(), QueueError> {
        let ping = || self.client.invoke(&self.scripts.probe, &self.prefix, &[]);
        retry_once(ping(), ping()).await.map_err(failed("pinging"))
    }
}

/// Maps client errors to `Unreachable` or `Unexpected`.
fn failed(attempted: &'static str) -> impl Fn(RedisError) -> QueueError {
    move |error| {
        let reason = explain(&error);
        if is_away(&error) {
            QueueError::Unreachable { attempted, reason }
        } else {
            QueueError::Unexpected { attempted, reason }
        }
    }
}

fn set_of(priority: Priority) -> &'static str {
    match priority {
        Priority::Interactive => "i",
        Priority::Bulk => "b",
    }
}

fn priority_of(attempted: &'static str, set: &str) -> Result<Priority, QueueError> {
    match set {
        "i" => Ok(Priority::Interactive),
        "b" => Ok(Priority::Bulk),
        other => Err(QueueError::Unexpected {
            attempted,
            reason: format!("unknown set {other:?}"),
        }),
    }
}

fn id_of(attempted: &'static str, text: &str) -> Result<JobId, QueueError> {
    text.parse().map_err(|_| QueueError::Unexpected {
        attempted,
        reason: format!("not an id: {text:?}"),
    })
}
