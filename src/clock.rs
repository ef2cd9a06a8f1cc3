//! The time, as an argument.

use chrono::{DateTime, SubsecRound, Utc};

/// Tells the time. Stored times have microseconds, so that both databases give back what was written.
pub trait Clock: Send + Sync {
    /// Now, UTC, cut to microseconds.
    fn now(&self) -> DateTime<Utc>;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the machine's clock"
    )]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }
}
