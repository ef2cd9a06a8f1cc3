//! What becomes of a chunk: a pure function of where it stands, what was seen of it, and the time.
//!
//! ```text
//! items in no chunk ──▶ making ──▶ submitted ──▶ collected
//!         ▲               │            │
//!         └───────────────┤            │    back: it never arrived
//!                         └────────────┴──▶ failed: its items are asked the ordinary way
//! ```
//!
//! One that its provider had no room for has failed too; its items go into smaller ones.
//!
//! There is one deadline, and one count of tries in a row that led nowhere. Nobody answers a chunk's items twice where that can
//! be known, and no batch waits for ever.

use chrono::{DateTime, TimeDelta, Utc};

use super::tries::Tried;

/// How long a chunk may take. Providers answer within 24 hours.
const DEADLINE: TimeDelta = TimeDelta::hours(25);
/// So many tries in a row that lead nowhere are enough.
const TRIES: u32 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkStatus {
    /// When it was handed over, or noted; of what is planned: when trouble began.
    pub(super) since: DateTime<Utc>,
    /// Tries in a row that led nowhere, before this one.
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
    /// Sending: the provider can't tell.
    CantTell,
    /// Sent: the provider works on it.
    Running,
    /// Sent: what was answered can be collected.
    Ended,
    /// The provider finds fault with it.
    Refused(String),
    /// Sent: the provider had no room for it.
    NoRoom(String),
    /// Sent: the provider doesn't know it. One that is in trouble says so too.
    Unknown(String),
    /// Nothing: the provider is away, or can't be asked.
    Trouble(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Note its name.
    Note(String),
    /// Plan its items anew: it isn't there.
    PlanAgain,
    /// Plan its items anew, in smaller chunks.
    Split(String),
    /// Look again later.
    Wait,
    /// Look again later: this try led nowhere.
    TryAgain,
    /// Tell the provider to end it, and look again.
    Cancel,
    /// Collect its answers.
    Collect,
    /// Nothing comes of it: its items are asked the ordinary way.
    Fail(String),
    /// The same, once the provider was told to answer no more of it.
    GiveUp(String),
}

impl Step {
    pub(super) fn leads_nowhere(&self) -> bool {
        matches!(self, Self::TryAgain | Self::Cancel)
    }
}

/// Whether what led nowhere so often in a row, since then, is given up.
pub(super) fn is_given_up(tried: Tried, now: DateTime<Utc>) -> bool {
    tried.count >= TRIES && is_over(tried.since, now)
}

/// Whether something takes longer than it may.
pub(super) fn is_over(since: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now - since > DEADLINE
}

/// What to do with a chunk.
pub(super) fn next(chunk: &ChunkStatus, seen: Seen, now: DateTime<Utc>) -> Step {
    let over = is_over(chunk.since, now);
    let is_last_try = chunk.tries.saturating_add(1) >= TRIES;
    match seen {
        Seen::Arrived(name) => Step::Note(name),
        Seen::Absent => Step::PlanAgain,
        // Each time it may be paid once more.
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
    fn what_was_seen_where_and_when_says_what_to_do() {
        let why = || "why".to_owned();
        let unheard = "it may not have arrived, and its provider can't tell".to_owned();
        let unfetched = "its answers can't be fetched".to_owned();
        let unended = "its provider didn't end it".to_owned();
        // Seen, hours since, tries before, items, cancelled: what to do.
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
