//! Gate in front of judge calls: breaker, pauses, pace and concurrency. One gate serves all judges of a process.
//!
//! [`Gate::new`] creates the gate of a single process. [`shared_gate`] synchronizes it with other workers through Redis. Durations are
//! relative to now, so that a gate needs no wall clock and its tests run on paused time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::ErrorClass;

mod memory;
mod rates;
mod redis;

pub(crate) use memory::PaceTicket;
pub use memory::{Gate, GateOptions};
pub use rates::{LimitReport, RateReport, Span};
pub use redis::shared_gate;

/// Reason why a gate denies a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeldBack {
    /// Too many transient failures in a row. A probe leaves after the cool-down.
    BreakerOpen,
    /// The provider returned 429. Calls resume after its `Retry-After` or a growing pause.
    Throttled,
    /// Quota or cost limit of the provider exhausted. Lasts until resumed or until a reported reset.
    Exhausted,
    /// Key, model or address rejected. Lasts until resumed.
    Misconfigured,
    /// Paused by an operator. Lasts until resumed.
    Paused,
    /// Daily or monthly cost cap reached. Lasts until the period ends or the cap is raised.
    Budget,
    /// Not an error: requests or tokens of the current minute are used up. Does not close the lane.
    Paced,
    /// Not an error: calls in flight reached the entry's `max_concurrency` or the caller's permits. Does not close the lane.
    Busy,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub why: HeldBack,
    /// Retry delay. `None` if an operator must act first.
    pub retry_in: Option<Duration>,
}

impl Denial {
    pub(crate) fn new(why: HeldBack, wait: Duration) -> Self {
        Self {
            why,
            retry_in: Some(wait),
        }
    }
}

/// Permission for one call. Dropping it without [`Gate::report`] frees its slot and probe and records no outcome.
pub struct Permit {
    pub probe: bool,
    pub(crate) ticket: PaceTicket,
    pub(crate) _on_drop: Option<Box<dyn Send + Sync>>,
}

/// Outcome of a call, as the gate distinguishes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// A reply arrived, good or bad.
    Alive,
    Failed {
        class: ErrorClass,
        retry_after: Option<Duration>,
        /// Error text for the judges page.
        message: String,
    },
    /// Timeout, with its text: a transient failure of a judge that may have too many concurrent calls.
    Late(String),
}

/// Tokens that a call is expected to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    pub prompt_tokens: u64,
    /// Cap on the answer. The gate learns the typical size.
    pub most_answer_tokens: u64,
}

/// Tokens that a call used, from its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokensUsed {
    /// Prompt tokens, including cached ones.
    pub input: u64,
    /// Answer tokens, including hidden reasoning.
    pub output: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEnd {
    pub outcome: CallOutcome,
    /// `None` if the reply has no usage.
    pub used: Option<TokensUsed>,
    /// Rate limits in the headers of a successful or failed reply.
    pub rates: RateReport,
}

impl From<CallOutcome> for CallEnd {
    fn from(outcome: CallOutcome) -> Self {
        Self {
            outcome,
            used: None,
            rates: RateReport::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaceLimits {
    pub requests_per_minute: Option<u64>,
    /// Total of prompts and answers.
    pub tokens_per_minute: Option<u64>,
}

/// Capacity of a judge in runs, including runs with calls in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub in_flight: usize,
    /// Maximum concurrency. `None` without a cap.
    pub cap: Option<usize>,
    /// Number of further calls that the pace soon allows. `None` without limits.
    pub starts: Option<usize>,
    /// Time until the pace allows more than `starts`.
    pub more_in: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterSnapshot {
    /// Effective limit per minute. `None` without a limit.
    pub limit: Option<u64>,
    pub configured: Option<u64>,
    /// From the server's replies.
    pub learned: Option<u64>,
    pub used: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaceSnapshot {
    pub requests: MeterSnapshot,
    /// Total of prompts and answers.
    pub tokens: MeterSnapshot,
    /// Prompt tokens, if the server limits them separately.
    pub input_tokens: MeterSnapshot,
    /// Answer tokens, if the server limits them separately.
    pub output_tokens: MeterSnapshot,
    /// Time until the slowdown after 429s ends.
    pub shrunk_for: Option<Duration>,
    /// Time until a limit that a reply reported as exhausted resets.
    pub held_for: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    /// Calls are denied until the cool-down ends.
    Open,
    HalfOpen,
}

impl BreakerState {
    /// Returns the displayed and stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerCounts {
    pub alive: u32,
    /// By judge, the number of other workers that can't reach Redis and use their local share.
    pub apart: BTreeMap<String, u32>,
}

impl WorkerCounts {
    /// Returns the part of `figure` for the workers that share it through Redis: 0 only if `figure` is 0.
    fn shared_part(&self, judge: &str, figure: u64) -> u64 {
        let alive = u64::from(self.alive.max(1));
        let apart = self.apart.get(judge).copied().unwrap_or(0);
        let sharing = alive.saturating_sub(u64::from(apart)).max(1);
        let part = u128::from(figure) * u128::from(sharing) / u128::from(alive);
        u64::try_from(part).unwrap_or(figure).max(figure.min(1))
    }
}

/// Scope of a gate's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// This process, which is the only one.
    Alone,
    /// All workers together.
    Together,
    /// This process with its share of the limits, because Redis is unavailable.
    Part {
        /// Number of workers that divide the limits.
        workers: u32,
    },
}

/// State of one judge for the judges page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSnapshot {
    pub judge: String,
    pub breaker: BreakerState,
    pub failures_in_row: u32,
    /// Reason why the lane is closed, or [`HeldBack::Paced`] if it is open but rate limited.
    pub closed: Option<Denial>,
    pub in_flight: u32,
    pub sharing: Sharing,
    pub pace: PaceSnapshot,
    /// Not cleared by a success.
    pub last_error: Option<LastError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    pub message: String,
    pub ago: Duration,
}

/// Closure that must reach other processes and outlive this one. The worker stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    pub judge: String,
    /// [`HeldBack::Exhausted`] or [`HeldBack::Misconfigured`].
    pub why: HeldBack,
    /// Error text of the provider.
    pub message: String,
    /// Time until it reopens automatically, if known.
    pub reopens_in: Option<Duration>,
}
