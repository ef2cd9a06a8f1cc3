//! Maps a judge's wait to the outcome of a run. No I/O.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::job::{Wait, WaitReason};
use crate::judge::gate::HeldBack;
use crate::store::{Ending, wait_reason};

/// Minimum wait for a fallback.
const MIN_FALLBACK_WAIT: Duration = Duration::from_secs(1);

/// Returns the outcome of a run with a judge that can't be called now.
///
/// A pause or a cap belongs to the judge, not to the row: the job returns to `queued` in its closed lane. A job that got no concurrency
/// permit returns to `queued` as well. A suspect stays suspect because it made no call. Every other wait is stored in the row with its
/// reason. If the end of the wait is unknown, the row is due at once: its lane stays closed until it is opened, and the job then goes
/// first.
pub(super) fn ending_of_wait(
    why: HeldBack,
    retry_in: Option<Duration>,
    now: DateTime<Utc>,
) -> Ending {
    match why {
        HeldBack::Paused | HeldBack::Budget => Ending::Requeued,
        HeldBack::Busy => Ending::NotStarted,
        HeldBack::BreakerOpen
        | HeldBack::Throttled
        | HeldBack::Paced
        | HeldBack::Exhausted
        | HeldBack::Misconfigured => {
            let until = retry_in.map(|delay| at_most_a_day_after(now, delay));
            Ending::Waiting {
                wait: Wait {
                    reason: wait_reason(why),
                    until,
                },
                due_at: until.unwrap_or(now),
            }
        }
    }
}

/// Returns the outcome of a run if its judge declined and its fallback can't be called now.
///
/// The row always waits for a time, because its lane is the first judge's and open: it would be claimed again
/// immediately, in an endless loop.
pub(super) fn ending_of_fallback_wait(retry_in: Duration, now: DateTime<Utc>) -> Ending {
    let until = at_most_a_day_after(now, retry_in.max(MIN_FALLBACK_WAIT));
    Ending::Waiting {
        wait: Wait {
            reason: WaitReason::Fallback,
            until: Some(until),
        },
        due_at: until,
    }
}

fn at_most_a_day_after(now: DateTime<Utc>, delay: Duration) -> DateTime<Utc> {
    let delay = TimeDelta::from_std(delay).unwrap_or(TimeDelta::days(1));
    now + delay.min(TimeDelta::days(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("a time")
    }

    #[test]
    fn requeues_jobs_of_paused_or_busy_judge() {
        let now = at("2026-01-01T00:00:00Z");
        for (why, ending) in [
            (HeldBack::Paused, Ending::Requeued),
            (HeldBack::Budget, Ending::Requeued),
            (HeldBack::Busy, Ending::NotStarted),
        ] {
            assert_eq!(ending_of_wait(why, None, now), ending);
            let delay = Some(Duration::from_secs(5));
            assert_eq!(ending_of_wait(why, delay, now), ending);
        }
    }

    #[test]
    fn other_waits_have_reason_and_due_time() {
        let now = at("2026-01-01T00:00:00Z");
        let cases = [
            (HeldBack::BreakerOpen, WaitReason::BreakerOpen),
            (HeldBack::Throttled, WaitReason::Throttled),
            (HeldBack::Paced, WaitReason::Paced),
            (HeldBack::Exhausted, WaitReason::Exhausted),
            (HeldBack::Misconfigured, WaitReason::Misconfigured),
        ];
        for (why, reason) in cases {
            let until = at("2026-01-01T00:00:30Z");
            assert_eq!(
                ending_of_wait(why, Some(Duration::from_secs(30)), now),
                Ending::Waiting {
                    wait: Wait {
                        reason,
                        until: Some(until)
                    },
                    due_at: until
                },
            );
            assert_eq!(
                ending_of_wait(why, None, now),
                Ending::Waiting {
                    wait: Wait {
                        reason,
                        until: None
                    },
                    due_at: now
                },
            );
        }
    }

    #[test]
    fn fallback_wait_lasts_at_least_a_second() {
        let now = at("2026-01-01T00:00:00Z");
        for (seconds, until) in [(0, 1), (1, 1), (30, 30)] {
            let until = now + TimeDelta::seconds(until);
            assert_eq!(
                ending_of_fallback_wait(Duration::from_secs(seconds), now),
                Ending::Waiting {
                    wait: Wait {
                        reason: WaitReason::Fallback,
                        until: Some(until)
                    },
                    due_at: until
                },
            );
        }
    }

    #[test]
    fn waits_are_limited_to_a_day() {
        let now = at("2026-01-01T00:00:00Z");
        let Ending::Waiting { due_at, .. } =
            ending_of_wait(HeldBack::Throttled, Some(Duration::MAX), now)
        else {
            panic!("it waits");
        };
        assert_eq!(due_at, at("2026-01-02T00:00:00Z"));
    }
}
