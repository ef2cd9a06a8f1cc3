//! The gate's two scripts and their replies. Each script is one atomic step of bounded length.

use std::time::Duration;

use redis::Script;

use crate::gate::BreakerState;
use crate::gate::memory::SharedState;

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

/// Result of `enter`, after the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnterReply {
    /// The call leaves after `wait`, at `at_ms` on the Redis clock.
    Passes {
        probe: bool,
        wait: Duration,
        at_ms: i64,
    },
    Later(Duration),
    Closed,
}

impl SharedState {
    /// Parses a reply. `None` if it is malformed.
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

impl EnterReply {
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
