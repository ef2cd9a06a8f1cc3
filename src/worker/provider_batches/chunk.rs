//! State machine of a chunk. The next action is a pure function of its state, the observation and the time.
//!
//! ```text
//! items in no chunk ──▶ making ──▶ submitted ──▶ collected
//!         ▲               │            │
//!         └───────────────┤            │    back: it never arrived
//!                         └────────────┴──▶ failed: its items are scored with ordinary calls
//! ```
//!
//! A chunk that its provider had no room for also fails; its items go into smaller chunks.
//!
//! One deadline and one count of failures in a row apply, so that no batch waits forever. Items are not answered twice if that can be
//! detected.

use chrono::{DateTime, TimeDelta, Utc};

use super::tries::Tried;

/// Deadline of a chunk. Providers answer within 24 hours.
const DEADLINE: TimeDelta = TimeDelta::hours(25);
/// Failures in a row after which a chunk is given up.
const TRIES: u32 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkStatus {
    /// Time of sending, or of its noting in the store. For a planned chunk, the time of the first error.
    pub(super) since: DateTime<Utc>,
    /// Previous failures in a row.
    pub(super) tries: u32,
    pub(super) items: i64,
    pub(super) is_cancelled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// Sending: the provider has it, under this name.
    Arrived(String),
    /// Sending: the provider doesn't have it.
    Absent,
    /// Sending: the provider can't tell whether it arrived.
    CantTell,
    /// Sent: in progress.
    Running,
    /// Sent: its replies can be collected.
    Ended,
    /// The provider rejects it.
    Refused(String),
    /// Sent: the provider had no room for it.
    NoRoom(String),
    /// Sent: the provider doesn't know it. A failing provider may report this as well.
    Unknown(String),
    /// No observation: the provider is unavailable or can't be called.
    Trouble(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Store the provider's name of the chunk.
    Note(String),
    /// Plan its items again, because it never arrived.
    PlanAgain,
    /// Plan its items again, in smaller chunks.
    Split(String),
    /// Check again later.
    Wait,
    /// Check again later, and count this attempt as failed.
    TryAgain,
    /// Cancel it at the provider, and check again.
    Cancel,
    /// Collect its replies.
    Collect,
    /// Fail the chunk: its items are scored with ordinary calls.
    Fail(String),
    /// The same, after cancelling it at the provider.
    GiveUp(String),
}

impl Step {
    pub(super) fn leads_nowhere(&self) -> bool {
        matches!(self, Self::TryAgain | Self::Cancel)
    }
}

/// Returns whether failures in a row exceed their limits.
pub(super) fn is_given_up(tried: Tried, now: DateTime<Utc>) -> bool {
    tried.count >= TRIES && is_over(tried.since, now)
}

pub(super) fn is_over(since: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now - since > DEADLINE
}

/// Returns the next action for a chunk.
pub(super) fn next(chunk: &ChunkStatus, seen: Seen, now: DateTime<Utc>) -> Step {
    let over = is_over(chunk.since, now);
    let is_last_try = chunk.tries.saturating_add(1) >= TRIES;
    match seen {
        Seen::Arrived(name) => Step::Note(name),
        Seen::Absent => Step::PlanAgain,
        // Each attempt may be paid for again.
        Seen::CantTell if is_last_try => {
            Step::Fail("it may not have arrived, and its provider can't tell".to_owned())
        }
        Seen::CantTell => Step::PlanAgain,
        Seen::Running if over && is_last_try => {
            Step::GiveUp("its provider didn't end it".to_owned())
        }
        Seen::Running if over || chunk.is_cancelled => Step::Cancel,
        Seen::Running => Step::Wait,
        Seen::Ended if over && is_last_try => Step::Fail("its answers can't be fetched".to_owned()),
        Seen::Ended => Step::Collect,
        Seen::Refused(why) => Step::Fail(why),
        Seen::NoRoom(why) if chunk.items > 1 => Step::Split(why),
        Seen::NoRoom(why) => Step::Fail(why),
        Seen::Unknown(why) if is_last_try => Step::GiveUp(why),
        Seen::Trouble(why) if over && is_last_try => Step::GiveUp(why),
        Seen::Unknown(_) | Seen::Trouble(_) => Step::TryAgain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_action_follows_state_table() {
        let why = || "why".to_owned();
        let unheard = "it may not have arrived, and its provider can't tell".to_owned();
        let unfetched = "its answers can't be fetched".to_owned();
        let unended = "its provider didn't end it".to_owned();
        // Observation, hours since, failures before, items, cancelled: action.
        let table = [
            (Seen::Arrived(why()), 0, 0, 9, false, Step::Note(why())),
            (Seen::Arrived(why()), 99, 99, 9, true, Step::Note(why())),
            (Seen::Absent, 0, 0, 9, false, Step::PlanAgain),
            (Seen::Absent, 99, 99, 9, false, Step::PlanAgain),
            (Seen::CantTell, 0, 0, 9, false, Step::PlanAgain),
            (Seen::CantTell, 99, 4, 9, false, Step::PlanAgain),
            (Seen::CantTell, 0, 5, 9, false, Step::Fail(unheard)),
            (Seen::Running, 25, 99, 9, false, Step::Wait),
            (Seen::Running, 1, 0, 9, true, Step::Cancel),
            (Seen::Running, 1, 99, 9, true, Step::Cancel),
            (Seen::Running, 26, 0, 9, false, Step::Cancel),
            (Seen::Running, 26, 5, 9, false, Step::GiveUp(unended)),
            (Seen::Ended, 0, 0, 9, false, Step::Collect),
            (Seen::Ended, 25, 99, 9, true, Step::Collect),
            (Seen::Ended, 26, 4, 9, false, Step::Collect),
            (Seen::Ended, 26, 5, 9, false, Step::Fail(unfetched)),
            (Seen::Refused(why()), 0, 0, 9, false, Step::Fail(why())),
            (Seen::NoRoom(why()), 0, 0, 2, false, Step::Split(why())),
            (Seen::NoRoom(why()), 0, 0, 1, false, Step::Fail(why())),
            (Seen::Unknown(why()), 0, 0, 9, false, Step::TryAgain),
            (Seen::Unknown(why()), 0, 4, 9, false, Step::TryAgain),
            (Seen::Unknown(why()), 0, 5, 9, false, Step::GiveUp(why())),
            (Seen::Trouble(why()), 25, 99, 9, false, Step::TryAgain),
            (Seen::Trouble(why()), 26, 4, 9, false, Step::TryAgain),
            (Seen::Trouble(why()), 26, 5, 9, false, Step::GiveUp(why())),
        ];
        let since = "2026-11-22T12:00:00Z".parse().unwrap();
        for (seen, hours, tries, items, is_cancelled, expected) in table {
            let chunk = ChunkStatus {
                since,
                tries,
                items,
                is_cancelled,
            };
            let done = next(&chunk, seen.clone(), since + TimeDelta::hours(hours));
            assert_eq!(done, expected, "{seen:?} of {chunk:?} after {hours} h");
        }
    }
}
