//! Whether a call may go out now: breaker, pauses, pace, concurrency. One gate serves all judges of a process.
//!
//! [`Gate::new`] is the gate of a process that is alone; [`shared_gate`] keeps it in step with the other workers' through Redis.
//! Durations count from now, so that a gate needs no wall clock and its tests run on paused time.

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

/// Why a call may not go out now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeldBack {
    /// Too many transient failures in a row; a probe goes out after the cool-down.
    BreakerOpen,
    /// The provider answered 429: no call goes out for as long as it asked for, or for a pause that grows.
    Throttled,
    /// Quota or spend limit used up; until resumed, or the known reset.
    Exhausted,
    /// Key, model or address refused; until resumed.
    Misconfigured,
    /// An operator said so; until resumed.
    Paused,
    /// What it may cost in a day or a month is spent; until that ends, or the cap is raised.
    Budget,
    /// Nothing is wrong: the judge's requests or tokens a minute are used up for the moment. Closes no lane.
    Paced,
    /// Nothing is wrong: as many calls are out as the entry's `max_concurrency`, or the asker's permits, allow. Closes no
    /// lane.
    Busy,
}

/// What a gate answers instead of a permit. It spends nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    pub why: HeldBack,
    /// When to come again; `None` where somebody must act first.
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

/// A gate's leave to make one call. Dropping it without [`Gate::report`] frees its slot and its probe, and counts as nothing.
pub struct Permit {
    /// Whether this call is the breaker's probe.
    pub probe: bool,
    /// The call's share of the judge's pace.
    pub(crate) ticket: PaceTicket,
    /// Runs when the permit is dropped.
    pub(crate) _on_drop: Option<Box<dyn Send + Sync>>,
}

/// How a call ended, as far as a gate cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// A reply came, good or bad: the judge is alive.
    Alive,
    /// An error of this class, with what the provider asked for.
    Failed {
        class: ErrorClass,
        /// Retry-After or a known reset.
        retry_after: Option<Duration>,
        /// What happened, for the judges page.
        message: String,
    },
    /// No answer came in time, a transient failure of a judge that may have too many calls at once; with what happened.
    Late(String),
}

/// What a call will take of a judge's tokens a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// The prompt, by estimate.
    pub prompt_tokens: u64,
    /// The cap on the answer; what the model typically answers is learned.
    pub most_answer_tokens: u64,
}

/// What a call used, as its reply reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokensUsed {
    /// Of the prompt, cached ones included.
    pub input: u64,
    /// Of the answer, hidden reasoning included.
    pub output: u64,
}

/// Everything that a gate learns of a call's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEnd {
    pub outcome: CallOutcome,
    /// What it used; `None` if nobody said.
    pub used: Option<TokensUsed>,
    /// What the server said of its limits, with a good reply or a bad one.
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

/// What a judge may be asked a minute, as configured; `None` for no such limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaceLimits {
    pub requests_per_minute: Option<u64>,
    /// Tokens, of prompts and answers together.
    pub tokens_per_minute: Option<u64>,
}

/// For how many runs a judge has room, those whose calls are out included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Calls in flight.
    pub in_flight: usize,
    /// The most at once; `None` for no cap.
    pub cap: Option<usize>,
    /// How many more the pace lets go out soon; `None` where it limits nothing.
    pub starts: Option<usize>,
    /// When the pace lets more go out than that.
    pub more_in: Option<Duration>,
}

/// One quantity that is limited by the minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterSnapshot {
    /// What holds now, a minute; `None` for no limit.
    pub limit: Option<u64>,
    pub configured: Option<u64>,
    /// As the server's replies say.
    pub learned: Option<u64>,
    /// What went out within the last minute.
    pub used: u64,
}

/// A judge's pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaceSnapshot {
    pub requests: MeterSnapshot,
    /// Tokens, of prompts and answers together.
    pub tokens: MeterSnapshot,
    /// Tokens of prompts, where the server limits them apart.
    pub input_tokens: MeterSnapshot,
    /// Tokens of answers, where the server limits them apart.
    pub output_tokens: MeterSnapshot,
    /// How long something is left of what a 429 took.
    pub shrunk_for: Option<Duration>,
    /// How long nothing goes out because a reply said that nothing is left.
    pub held_for: Option<Duration>,
}

/// Where a judge's breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go out.
    Closed,
    /// No call goes out until the cool-down ends.
    Open,
    /// One probe is out.
    HalfOpen,
}

impl BreakerState {
    /// The name shown and stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// The live workers, as the store knows them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerCounts {
    pub alive: u32,
    /// How many others of them can't reach Redis and keep to their part, by judge.
    pub apart: BTreeMap<String, u32>,
}

impl WorkerCounts {
    /// What of a figure is left for those that share it; 0 is none.
    fn together(&self, judge: &str, figure: u64) -> u64 {
        let alive = u64::from(self.alive.max(1));
        let apart = self.apart.get(judge).copied().unwrap_or(0);
        let sharing = alive.saturating_sub(u64::from(apart)).max(1);
        let part = u128::from(figure) * u128::from(sharing) / u128::from(alive);
        u64::try_from(part).unwrap_or(figure).max(figure.min(1))
    }
}

/// For whom a gate's figures hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// For this process, which is the only one.
    Alone,
    /// For all workers together.
    Together,
    /// For this process, by its part: Redis is away, and each worker takes its share.
    Part {
        /// Among how many the figures are divided.
        workers: u32,
    },
}

/// What a gate knows of one judge, for the judges page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSnapshot {
    pub judge: String,
    pub breaker: BreakerState,
    /// Transient failures in a row.
    pub failures_in_row: u32,
    /// Why the lane is closed now, or open and held back by its pace ([`HeldBack::Paced`]), if it is.
    pub closed: Option<Denial>,
    /// Calls in flight.
    pub in_flight: u32,
    /// For whom the figures hold.
    pub sharing: Sharing,
    pub pace: PaceSnapshot,
    /// The last error; kept while calls succeed again.
    pub last_error: Option<LastError>,
}

/// An error that a judge's call ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// The provider's words.
    pub message: String,
    /// How long ago.
    pub ago: Duration,
}

/// A closure that must reach other processes and outlive this one; the worker writes it to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    pub judge: String,
    /// [`HeldBack::Exhausted`] or [`HeldBack::Misconfigured`].
    pub why: HeldBack,
    /// The provider's words.
    pub message: String,
    /// When it opens by itself, if known.
    pub reopens_in: Option<Duration>,
}
