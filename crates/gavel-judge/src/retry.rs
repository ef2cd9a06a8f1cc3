//! Retry policy: a pure function of the error class and the state of the question.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};

use super::error::ErrorClass;
use super::gate::HeldBack;

/// Pause after a 429 without `Retry-After`, unless the gate has a longer one.
const DEFAULT_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct RetryOptions {
    /// Delay before the first retry. Default 1 s, doubles.
    pub first_delay: Duration,
    /// Retries of a question over all its runs. Default 3.
    pub max_retries: u32,
    /// Multiplies delays by a random factor of 1-2. Off by default, so that delays are as documented.
    pub jitter: Jitter,
    /// Maximum total wait in the worker's slot per run. Default 10 s.
    pub longest_in_slot: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
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
    /// Returns the delay before retry `spent + 1`, or `None` after the last one.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RetryState {
    pub(super) retries_spent: u32,
    /// Time waited in the slot without using a retry.
    pub(super) waited: Duration,
    /// Whether the output cap can still be raised, at most once.
    pub(super) cap_can_grow: bool,
    /// Whether the repair turn is unused.
    pub(super) repair_left: bool,
    /// Whether fields of the request can still be dropped.
    pub(super) fields_left: bool,
    /// Whether the question can still be shortened in this run.
    pub(super) can_shrink: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Retry {
        after: Duration,
        cost: RetryCost,
    },
    /// The job waits outside the slot.
    Wait {
        why: HeldBack,
        /// `None` if an operator must act.
        retry_in: Option<Duration>,
        /// Whether the next call uses a retry.
        cost: RetryCost,
    },
    RepairTurn,
    LargerCap,
    Shrink,
    /// Repeat without the rejected field.
    DropField,
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryCost {
    /// One of `max_retries`.
    OneRetry,
    Free,
}

/// Returns the action after an error of `class`. `retry_after` is the provider's, otherwise the gate's.
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
                .unwrap_or(DEFAULT_PAUSE)
                .max(Duration::from_secs(1));
            let cost = RetryCost::Free;
            match in_slot(options, state.waited, Some(after)) {
                Some(after) => Decision::Retry { after, cost },
                None => Decision::Wait {
                    why: HeldBack::Throttled,
                    retry_in: Some(after),
                    cost,
                },
            }
        }
        ErrorClass::Exhausted => Decision::Wait {
            why: HeldBack::Exhausted,
            retry_in: retry_after,
            cost: RetryCost::Free,
        },
        ErrorClass::Capability => once(state.fields_left, Decision::DropField),
        ErrorClass::Truncated => once(state.cap_can_grow, Decision::LargerCap),
        ErrorClass::Unparsable => once(state.repair_left, Decision::RepairTurn),
        ErrorClass::TooLarge => once(state.can_shrink, Decision::Shrink),
        ErrorClass::Misconfigured | ErrorClass::Refused | ErrorClass::Rejected => Decision::Fail,
    }
}

/// Returns the sleep in the slot for a wait without a retry. `None` if the total with `waited` would be too long.
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
    // `Retry-After` can be a date in the past if clocks differ. Retries without a pause would be used up immediately.
    let after = retry_after.map_or(scheduled, |asked| asked.max(options.first_delay));
    if after > options.longest_in_slot {
        return Decision::Wait {
            why: HeldBack::Throttled,
            retry_in: Some(after),
            cost: RetryCost::OneRetry,
        };
    }
    Decision::Retry {
        after,
        cost: RetryCost::OneRetry,
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

    fn retry(seconds: u64, cost: RetryCost) -> Decision {
        Decision::Retry {
            after: secs(seconds),
            cost,
        }
    }

    fn wait(why: HeldBack, seconds: u64, cost: RetryCost) -> Decision {
        Decision::Wait {
            why,
            retry_in: Some(secs(seconds)),
            cost,
        }
    }

    fn decide(class: ErrorClass, state: RetryState, retry_after: Option<u64>) -> Decision {
        let options = RetryOptions::default();
        after_error(&options, class, state, retry_after.map(secs))
    }

    #[test]
    fn retries_transient_errors_after_1_2_and_4_seconds() {
        let table = [
            (0, retry(1, RetryCost::OneRetry)),
            (1, retry(2, RetryCost::OneRetry)),
            (2, retry(4, RetryCost::OneRetry)),
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
    fn long_retry_after_moves_the_job_out_of_its_slot() {
        let transient = ErrorClass::Transient;
        assert_eq!(
            decide(transient, FRESH, Some(7)),
            retry(7, RetryCost::OneRetry)
        );
        assert_eq!(
            decide(transient, FRESH, Some(10)),
            retry(10, RetryCost::OneRetry)
        );
        assert_eq!(
            decide(transient, FRESH, Some(11)),
            wait(HeldBack::Throttled, 11, RetryCost::OneRetry)
        );
        let spent = RetryState {
            retries_spent: 3,
            ..FRESH
        };
        assert_eq!(decide(transient, spent, Some(1)), Decision::Fail);
        assert_eq!(
            decide(transient, FRESH, Some(0)),
            retry(1, RetryCost::OneRetry)
        );
    }

    #[test]
    fn throttling_uses_no_retry() {
        let throttled = ErrorClass::Throttled;
        for retries_spent in 0..5 {
            let state = RetryState {
                retries_spent,
                ..FRESH
            };
            assert_eq!(decide(throttled, state, Some(9)), retry(9, RetryCost::Free));
            assert_eq!(
                decide(throttled, state, Some(11)),
                wait(HeldBack::Throttled, 11, RetryCost::Free)
            );
        }
        assert_eq!(decide(throttled, FRESH, Some(0)), retry(1, RetryCost::Free));
    }

    #[test]
    fn total_wait_in_slot_is_at_most_10_seconds() {
        let waited = RetryState {
            waited: secs(6),
            ..FRESH
        };
        assert_eq!(
            decide(ErrorClass::Throttled, waited, Some(4)),
            retry(4, RetryCost::Free)
        );
        assert_eq!(
            decide(ErrorClass::Throttled, waited, Some(5)),
            wait(HeldBack::Throttled, 5, RetryCost::Free)
        );
    }

    #[test]
    fn only_short_denials_wait_in_the_slot() {
        let options = RetryOptions::default();
        let slept = |retry_in: Option<u64>| in_slot(&options, Duration::ZERO, retry_in.map(secs));
        assert_eq!(slept(Some(10)), Some(secs(10)));
        assert_eq!(slept(Some(30)), None);
        assert_eq!(slept(None), None);
    }

    #[test]
    fn other_remedies_apply_once() {
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
    fn exhausted_quota_waits_for_operator_or_reset() {
        let reset = decide(ErrorClass::Exhausted, FRESH, Some(5));
        assert_eq!(reset, wait(HeldBack::Exhausted, 5, RetryCost::Free));
        assert_eq!(
            decide(ErrorClass::Exhausted, FRESH, None),
            Decision::Wait {
                why: HeldBack::Exhausted,
                retry_in: None,
                cost: RetryCost::Free,
            }
        );
    }

    #[test]
    fn jitter_only_increases_delays() {
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
