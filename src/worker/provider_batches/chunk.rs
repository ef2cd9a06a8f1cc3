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
//! One deadline and one count of failures in a row apply, so that waits are bounded. Items are not answered twice if that can be
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
    pub(super) tries: u32,
    pub(super) items: i64,
    pub(super) is_cancelled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChunkObservation {
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
pub(super) enum ChunkAction {
    /// Store the provider's name of the chunk.
    Note(String),
    /// Plan its items again, because it never arrived.
    PlanAgain,
    /// Plan its items again, in smaller chunks.
    Split(String),
    Wait,
    /// Check again later, and count this attempt as failed.
    TryAgain,
    /// Cancel it at the provider, and check again.
    Cancel,
    Collect,
    /// Fail the chunk: its items are scored with ordinary calls.
    Fail(String),
    /// The same, after cancelling it at the provider.
    GiveUp(String),
}

impl ChunkAction {
    pub(super) fn is_failed_attempt(&self) -> bool {
        matches!(self, Self::TryAgain | Self::Cancel)
    }
}

pub(super) fn is_given_up(tried: Tried, now: DateTime<Utc>) -> bool {
    tried.count >= TRIES && is_over(tried.since, now)
}

pub(super) fn is_over(since: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now - since > DEADLINE
}

pub(super) fn next(chunk: &ChunkStatus, seen: ChunkObservation, now: DateTime<Utc>) -> ChunkAction {
    let over = is_over(chunk.since, now);
    let is_last_try = chunk.tries.saturating_add(1) >= TRIES;
    match seen {
        ChunkObservation::Arrived(name) => ChunkAction::Note(name),
        ChunkObservation::Absent => ChunkAction::PlanAgain,
        // Each attempt may be paid for again.
        ChunkObservation::CantTell if is_last_try => ChunkAction::Fail(
            "it may not have arrived, and its provider can't confirm it".to_owned(),
        ),
        ChunkObservation::CantTell => ChunkAction::PlanAgain,
        ChunkObservation::Running if over && is_last_try => {
            ChunkAction::GiveUp("its provider didn't end it".to_owned())
        }
        ChunkObservation::Running if over || chunk.is_cancelled => ChunkAction::Cancel,
        ChunkObservation::Running => ChunkAction::Wait,
        ChunkObservation::Ended if over && is_last_try => {
            ChunkAction::Fail("its answers can't be fetched".to_owned())
        }
        ChunkObservation::Ended => ChunkAction::Collect,
        ChunkObservation::Refused(why) => ChunkAction::Fail(why),
        ChunkObservation::NoRoom(why) if chunk.items > 1 => ChunkAction::Split(why),
        ChunkObservation::NoRoom(why) => ChunkAction::Fail(why),
        ChunkObservation::Unknown(why) if is_last_try => ChunkAction::GiveUp(why),
        ChunkObservation::Trouble(why) if over && is_last_try => ChunkAction::GiveUp(why),
        ChunkObservation::Unknown(_) | ChunkObservation::Trouble(_) => ChunkAction::TryAgain,
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkAction::{
        Cancel, Collect, Fail, GiveUp, Note, PlanAgain, Split, TryAgain, Wait,
    };
    use super::ChunkObservation::{
        Absent, Arrived, CantTell, Ended, NoRoom, Refused, Running, Trouble, Unknown,
    };
    use super::*;

    #[test]
    fn next_action_follows_state_table() {
        let why = || "why".to_owned();
        let unheard = "it may not have arrived, and its provider can't confirm it".to_owned();
        let unfetched = "its answers can't be fetched".to_owned();
        let unended = "its provider didn't end it".to_owned();
        // Observation, hours since, failures before, items, cancelled: action.
        let table = [
            (Arrived(why()), 0, 0, 9, false, Note(why())),
            (Arrived(why()), 99, 99, 9, true, Note(why())),
            (Absent, 0, 0, 9, false, PlanAgain),
            (Absent, 99, 99, 9, false, PlanAgain),
            (CantTell, 0, 0, 9, false, PlanAgain),
            (CantTell, 99, 4, 9, false, PlanAgain),
            (CantTell, 0, 5, 9, false, Fail(unheard)),
            (Running, 25, 99, 9, false, Wait),
            (Running, 1, 0, 9, true, Cancel),
            (Running, 1, 99, 9, true, Cancel),
            (Running, 26, 0, 9, false, Cancel),
            (Running, 26, 5, 9, false, GiveUp(unended)),
            (Ended, 0, 0, 9, false, Collect),
            (Ended, 25, 99, 9, true, Collect),
            (Ended, 26, 4, 9, false, Collect),
            (Ended, 26, 5, 9, false, Fail(unfetched)),
            (Refused(why()), 0, 0, 9, false, Fail(why())),
            (NoRoom(why()), 0, 0, 2, false, Split(why())),
            (NoRoom(why()), 0, 0, 1, false, Fail(why())),
            (Unknown(why()), 0, 0, 9, false, TryAgain),
            (Unknown(why()), 0, 4, 9, false, TryAgain),
            (Unknown(why()), 0, 5, 9, false, GiveUp(why())),
            (Trouble(why()), 25, 99, 9, false, TryAgain),
            (Trouble(why()), 26, 4, 9, false, TryAgain),
            (Trouble(why()), 26, 5, 9, false, GiveUp(why())),
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
