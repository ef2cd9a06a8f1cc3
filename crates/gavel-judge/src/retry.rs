//! What follows from an error class: a pure decision. It never sleeps and never calls.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};

use super::error::ErrorClass;
use super::gate::HeldBack;

/// The pause after a 429 that names none, where the gate doesn't know better.
const UNNAMED_PAUSE: Duration = Duration::from_secs(10);

/// The retries' figures.
#[derive(Debug, Clone)]
pub struct RetryOptions {
    /// The delay before the first retry; 1 s, doubling.
    pub first_delay: Duration,
    /// Retries of a question over all its runs; 3.
    pub max_retries: u32,
    /// Delays are drawn from 1-2 times the schedule; off, so that a delay is what is documented.
    pub jitter: Jitter,
    /// Waits up to this may be spent in the worker's slot, over the whole of one run; 10 s.
    pub longest_in_slot: Duration,
}

/// Whether delays are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// They are what the schedule says.
    Off,
    On,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_secs(1),
            max_retries: 3,
            jitter: Jitter::Off,
            longest_in_slot: Duration::from_secs(10),
        }
    }
}

impl RetryOptions {
    /// The delay before retry number `spent + 1`; `None` once all are spent.
    pub(super) fn delay(&self, spent: u32) -> Option<Duration> {
        if spent >= self.max_retries {
            return None;
        }
        let schedule = ExponentialBuilder::default()
            .with_min_delay(self.first_delay)
            .with_factor(2.0)
            .with_max_times(self.max_retries as usize);
        let schedule = match self.jitter {
            Jitter::Off => schedule,
            Jitter::On => schedule.with_jitter(),
        };
        schedule.build().nth(spent as usize)
    }
}

/// What a question has been through in this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RetryState {
    /// Retries spent over all runs.
    pub(super) retries_spent: u32,
    /// Time spent in the slot on waits that spend no retry.
    pub(super) waited: Duration,
    /// Whether the output cap can be raised, and hasn't been.
    pub(super) cap_can_grow: bool,
    /// Whether the repair turn is still to be had.
    pub(super) repair_left: bool,
    /// Whether the provider may still be asked with fewer fields.
    pub(super) fields_left: bool,
    /// Whether the question may be made smaller, and hasn't been in this run.
    pub(super) can_shrink: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The same call again after a while.
    Retry { after: Duration, spends: Spends },
    /// The job waits, outside the slot.
    Wait {
        why: HeldBack,
        /// For how long; `None` where somebody must act.
        retry_in: Option<Duration>,
        /// Whether the call to come spends a retry.
        spends: Spends,
    },
    /// The model is shown its faults, once.
    RepairTurn,
    /// Again with a larger output cap, once.
    LargerCap,
    /// Again with a smaller question, once.
    Shrink,
    /// Again without the field that the server refused.
    DropField,
    /// It ends here.
    Fail,
}

/// Whether something spends a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spends {
    /// One of `max_retries`.
    ARetry,
    /// Waiting is not failing.
    Nothing,
}

/// What follows from an error of `class`. `retry_after`: what the provider asked for, else what the gate makes of it.
pub(super) fn after_error(
    options: &RetryOptions,
    class: ErrorClass,
    state: RetryState,
    retry_after: Option<Duration>,
) -> Decision {
    match class {
        ErrorClass::Transient => after_transient(options, state, retry_after),
        ErrorClass::Throttled => {
            let after = retry_after
                .unwrap_or(UNNAMED_PAUSE)
                .max(Duration::from_secs(1));
            let spends = Spends::Nothing;
            match in_slot(options, state.waited, Some(after)) {
                Some(after) => Decision::Retry { after, spends },
                None => Decision::Wait {
                    why: HeldBack::Throttled,
                    retry_in: Some(after),
                    spends,
                },
            }
        }
        ErrorClass::Exhausted => Decision::Wait {
            why: HeldBack::Exhausted,
            retry_in: retry_after,
            spends: Spends::Nothing,
        },
        ErrorClass::Capability => once(state.fields_left, Decision::DropField),
        ErrorClass::Truncated => once(state.cap_can_grow, Decision::LargerCap),
        ErrorClass::Unparsable => once(state.repair_left, Decision::RepairTurn),
        ErrorClass::TooLarge => once(state.can_shrink, Decision::Shrink),
        ErrorClass::Misconfigured | ErrorClass::Refused | ErrorClass::Rejected => Decision::Fail,
    }
}

/// How long a wait that spends nothing is slept off in the slot, where `waited` was before; `None`: it is too long for that.
pub(super) fn in_slot(
    options: &RetryOptions,
    waited: Duration,
    retry_in: Option<Duration>,
) -> Option<Duration> {
    retry_in.filter(|after| waited.saturating_add(*after) <= options.longest_in_slot)
}

fn after_transient(
    options: &RetryOptions,
    state: RetryState,
    retry_after: Option<Duration>,
) -> Decision {
    let Some(scheduled) = options.delay(state.retries_spent) else {
        return Decision::Fail;
    };
    // A date by a clock that runs behind ours has passed already: retries without a pause would be spent in no time.
    let after = retry_after.map_or(scheduled, |asked| asked.max(options.first_delay));
    if after > options.longest_in_slot {
        return Decision::Wait {
            why: HeldBack::Throttled,
            retry_in: Some(after),
            spends: Spends::ARetry,
        };
    }
    Decision::Retry {
        after,
        spends: Spends::ARetry,
    }
}

fn once(left: bool, decision: Decision) -> Decision {
    if left { decision } else { Decision::Fail }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: RetryState = RetryState {
        retries_spent: 0,
        waited: Duration::ZERO,
        cap_can_grow: true,
        repair_left: true,
        fields_left: true,
        can_shrink: true,
    };

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn retry(seconds: u64, spends: Spends) -> Decision {
        Decision::Retry {
            after: secs(seconds),
            spends,
        }
    }

    fn wait(why: HeldBack, seconds: u64, spends: Spends) -> Decision {
        Decision::Wait {
            why,
            retry_in: Some(secs(seconds)),
            spends,
        }
    }

    fn decide(class: ErrorClass, state: RetryState, retry_after: Option<u64>) -> Decision {
        let options = RetryOptions::default();
        after_error(&options, class, state, retry_after.map(secs))
    }

    #[test]
    fn transient_errors_are_retried_after_1_2_and_4_seconds_and_then_fail() {
        let table = [
            (0, retry(1, Spends::ARetry)),
            (1, retry(2, Spends::ARetry)),
            (2, retry(4, Spends::ARetry)),
            (3, Decision::Fail),
            (7, Decision::Fail),
        ];
        for (retries_spent, expected) in table {
            let state = RetryState {
                retries_spent,
                ..FRESH
            };
            assert_eq!(decide(ErrorClass::Transient, state, None), expected);
        }
    }

    #[test]
    fn retry_after_wins_over_the_schedule_and_beyond_10_seconds_the_job_waits() {
        let transient = ErrorClass::Transient;
        assert_eq!(decide(transient, FRESH, Some(7)), retry(7, Spends::ARetry));
        assert_eq!(
            decide(transient, FRESH, Some(10)),
            retry(10, Spends::ARetry)
        );
        assert_eq!(
            decide(transient, FRESH, Some(11)),
            wait(HeldBack::Throttled, 11, Spends::ARetry)
        );
        let spent = RetryState {
            retries_spent: 3,
            ..FRESH
        };
        assert_eq!(decide(transient, spent, Some(1)), Decision::Fail);
        assert_eq!(decide(transient, FRESH, Some(0)), retry(1, Spends::ARetry));
    }

    #[test]
    fn a_429_spends_no_retry_however_many_were_spent() {
        let throttled = ErrorClass::Throttled;
        for retries_spent in 0..5 {
            let state = RetryState {
                retries_spent,
                ..FRESH
            };
            assert_eq!(decide(throttled, state, Some(9)), retry(9, Spends::Nothing));
            assert_eq!(
                decide(throttled, state, Some(11)),
                wait(HeldBack::Throttled, 11, Spends::Nothing)
            );
        }
        assert_eq!(decide(throttled, FRESH, Some(0)), retry(1, Spends::Nothing));
    }

    #[test]
    fn waits_in_the_slot_add_up_to_10_seconds_at_most() {
        let waited = RetryState {
            waited: secs(6),
            ..FRESH
        };
        assert_eq!(
            decide(ErrorClass::Throttled, waited, Some(4)),
            retry(4, Spends::Nothing)
        );
        assert_eq!(
            decide(ErrorClass::Throttled, waited, Some(5)),
            wait(HeldBack::Throttled, 5, Spends::Nothing)
        );
    }

    #[test]
    fn a_short_refusal_is_slept_off_and_a_long_or_endless_one_waits() {
        let options = RetryOptions::default();
        let slept = |retry_in: Option<u64>| in_slot(&options, Duration::ZERO, retry_in.map(secs));
        assert_eq!(slept(Some(10)), Some(secs(10)));
        assert_eq!(slept(Some(30)), None);
        assert_eq!(slept(None), None);
    }

    #[test]
    fn each_other_remedy_is_had_once() {
        let nothing_left = RetryState {
            cap_can_grow: false,
            repair_left: false,
            fields_left: false,
            can_shrink: false,
            ..FRESH
        };
        let table = [
            (ErrorClass::Capability, Decision::DropField),
            (ErrorClass::Truncated, Decision::LargerCap),
            (ErrorClass::Unparsable, Decision::RepairTurn),
            (ErrorClass::Misconfigured, Decision::Fail),
            (ErrorClass::TooLarge, Decision::Shrink),
            (ErrorClass::Refused, Decision::Fail),
            (ErrorClass::Rejected, Decision::Fail),
        ];
        for (class, first) in table {
            assert_eq!(decide(class, FRESH, None), first, "{class:?}");
            assert_eq!(decide(class, nothing_left, None), Decision::Fail);
        }
    }

    #[test]
    fn a_used_up_quota_waits_for_somebody_or_for_the_known_reset() {
        let reset = decide(ErrorClass::Exhausted, FRESH, Some(5));
        assert_eq!(reset, wait(HeldBack::Exhausted, 5, Spends::Nothing));
        assert_eq!(
            decide(ErrorClass::Exhausted, FRESH, None),
            Decision::Wait {
                why: HeldBack::Exhausted,
                retry_in: None,
                spends: Spends::Nothing,
            }
        );
    }

    #[test]
    fn jitter_only_ever_lengthens_a_delay() {
        let options = RetryOptions {
            jitter: Jitter::On,
            ..RetryOptions::default()
        };
        for (spent, base) in [(0, 1), (1, 2), (2, 4)] {
            let delay = options.delay(spent).unwrap_or_default();
            assert!(delay >= secs(base) && delay <= secs(base * 2), "{delay:?}");
        }
    }
}
