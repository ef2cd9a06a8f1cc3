//! The gate's two scripts, and what they answer. One script is one atomic step of bounded length.

use std::time::Duration;

use redis::Script;

use crate::judge::gate::BreakerState;

/// What every answer begins with.
const STATE_FIELDS: usize = 16;

pub(super) struct Scripts {
    pub(super) enter: Script,
    pub(super) report: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            enter: with_prelude(include_str!("lua/enter.lua")),
            report: with_prelude(include_str!("lua/report.lua")),
        }
    }
}

fn with_prelude(body: &str) -> Script {
    Script::new(&format!("{}{body}", include_str!("lua/prelude.lua")))
}

/// One judge's lane as all workers share it, at the moment of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::judge::gate) struct SharedState {
    /// Redis' clock, ms.
    pub(in crate::judge::gate) now_ms: i64,
    /// When the state was begun; another one means that Redis lost it.
    pub(in crate::judge::gate) born: i64,
    pub(in crate::judge::gate) breaker: BreakerState,
    pub(in crate::judge::gate) failures: u32,
    /// How long the breaker stays open.
    pub(in crate::judge::gate) opens_in: Duration,
    /// How long a 429 holds the lane closed.
    pub(in crate::judge::gate) throttled_for: Duration,
    /// How long nothing goes out because nothing is left.
    pub(in crate::judge::gate) held_for: Duration,
    /// When the next call is due by the pace.
    pub(in crate::judge::gate) next_in: Duration,
    /// What replies said of requests, tokens, tokens of prompts, tokens of answers.
    pub(in crate::judge::gate) learned: [Option<u64>; 4],
    /// Slots in hand, how many of them may be kept, and how many are free beside them.
    pub(in crate::judge::gate) slots: usize,
    pub(in crate::judge::gate) allowed: usize,
    pub(in crate::judge::gate) free: usize,
}

/// What `enter` says beside the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call leaves after `wait`, at `at_ms` of Redis' clock.
    Passes {
        probe: bool,
        wait: Duration,
        at_ms: i64,
    },
    /// The pace lets it go after so long.
    Later(Duration),
    /// The state says why not.
    Closed,
}

impl SharedState {
    /// Reads an answer; `None` if it has another shape.
    pub(super) fn read(answer: &[i64]) -> Option<Self> {
        let &[
            now_ms,
            born,
            breaker,
            failures,
            opens_in,
            throttled_for,
            held_for,
            next_in,
            requests,
            tokens,
            input,
            output,
            slots,
            allowed,
            free,
            _members,
        ] = answer.get(..STATE_FIELDS)?.first_chunk::<STATE_FIELDS>()?;
        let limit = |said: i64| u64::try_from(said).ok().filter(|limit| *limit > 0);
        let count = |said: i64| usize::try_from(said).unwrap_or(0);
        Some(Self {
            now_ms,
            born,
            breaker: match breaker {
                0 => BreakerState::Closed,
                1 => BreakerState::Open,
                _ => BreakerState::HalfOpen,
            },
            failures: u32::try_from(failures).unwrap_or(u32::MAX),
            opens_in: ms(opens_in),
            throttled_for: ms(throttled_for),
            held_for: ms(held_for),
            next_in: ms(next_in),
            learned: [requests, tokens, input, output].map(limit),
            slots: count(slots),
            allowed: count(allowed),
            free: count(free),
        })
    }
}

impl Verdict {
    /// Reads what `enter` says beside the state.
    pub(super) fn read(answer: &[i64]) -> Option<Self> {
        let &[verdict, wait, at_ms] = answer.get(STATE_FIELDS..)?.first_chunk::<3>()?;
        Some(match verdict {
            0 | 1 => Self::Passes {
                probe: verdict == 1,
                wait: ms(wait),
                at_ms,
            },
            2 => Self::Later(ms(wait)),
            _ => Self::Closed,
        })
    }
}

fn ms(said: i64) -> Duration {
    Duration::from_millis(u64::try_from(said).unwrap_or(0))
}
