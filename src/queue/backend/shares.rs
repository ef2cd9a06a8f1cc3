//! Divides the free slots of one round among the lanes. No I/O.
//!
//! Lanes with more room than free slots form one group, which the queue serves round-robin. A lane with less room is a group with its own
//! limit. The first group rotates between rounds, so that no lane starves.

use std::time::Duration;

use super::super::ClaimRequest;
use super::slots::Free;
use super::{Claimed, LaneShare, OpenLane};
use crate::job::Lane;

/// Lanes of a claim with a common limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    lanes: Vec<Lane>,
    /// Maximum ids; `None`: limited by the slots only.
    room: Option<usize>,
    more_in: Option<Duration>,
}

impl Share {
    fn of_claim(&self, free: Free) -> LaneShare {
        LaneShare {
            lanes: self.lanes.clone(),
            max: self.room.map_or(free.all, |room| room.min(free.all)),
            // A suspect may use a reserved slot. Otherwise, behind a backlog of long calls, it might never find another slot free at the
            // time of its claim.
            takes_kept: self.is_of_suspects(),
        }
    }

    pub(super) fn count(&self, ids: &[Claimed]) -> usize {
        let is_of_it = |id: &&Claimed| self.lanes.contains(&id.lane);
        ids.iter().filter(is_of_it).count()
    }

    pub(super) fn is_of_suspects(&self) -> bool {
        self.room.is_some() && self.lanes.iter().all(Lane::is_suspect)
    }

    /// Returns whether this number of ids fills the lane's room. If so, the queue may contain more, and a finished job makes room.
    /// Otherwise the lane is empty, and a wake-up or the poll finds new ids.
    pub(super) fn is_full(&self, ids: usize) -> bool {
        self.room.is_some_and(|room| ids >= room)
    }

    /// Returns the time until the next claim after this number of ids, or `None` to wait for an event.
    pub(super) fn poll_after(&self, ids: usize) -> Option<Duration> {
        self.more_in.filter(|_| self.is_full(ids))
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    /// In the order of service.
    pub(super) of_lanes: Vec<Share>,
    /// Whether a lane without room is skipped. A finished job makes room.
    pub(super) full: bool,
    /// Time until the first of the full lanes has room.
    pub(super) poll_after: Option<Duration>,
}

impl Shares {
    /// Returns the claim of all groups, so that one call to the queue is enough.
    pub(super) fn claim(&self, free: Free) -> ClaimRequest {
        let shares = self.of_lanes.iter().map(|share| share.of_claim(free));
        ClaimRequest {
            shares: shares.collect(),
            max: free.all,
            max_bulk: free.bulk,
        }
    }

    /// Divides `free` among the lanes. `in_hand` returns the active jobs of a lane; `turn` counts rounds.
    pub(super) fn new(
        open: Vec<OpenLane>,
        free: Free,
        in_hand: impl Fn(&Lane) -> usize,
        turn: usize,
    ) -> Self {
        let mut shares = Self::default();
        let mut together = Vec::new();
        for OpenLane { lane, room } in open {
            let Some(room) = room else {
                together.push(lane);
                continue;
            };
            let left = room.most.saturating_sub(in_hand(&lane));
            // The lane `suspect` is a separate group, because it may use a slot that other bulk work may not.
            if left >= free.all && !lane.is_suspect() {
                together.push(lane);
                continue;
            }
            if left == 0 {
                shares.full = true;
                shares.poll_after = sooner(shares.poll_after, room.more_in);
                continue;
            }
            shares.of_lanes.push(Share {
                lanes: vec![lane],
                room: Some(left),
                more_in: room.more_in,
            });
        }
        if !together.is_empty() {
            shares.of_lanes.push(Share {
                lanes: together,
                room: None,
                more_in: None,
            });
        }
        if !shares.of_lanes.is_empty() {
            let first = turn % shares.of_lanes.len();
            shares.of_lanes.rotate_left(first);
        }
        shares
    }
}

/// Returns the shorter of two optional durations.
pub(super) fn sooner(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.into_iter().chain(b).min()
}

#[cfg(test)]
mod tests {
    use super::super::LaneRoom;
    use super::*;

    const FREE: Free = Free { all: 16, bulk: 15 };
    const SECOND: Duration = Duration::from_secs(1);

    fn lane(name: &str, most: Option<usize>) -> OpenLane {
        OpenLane {
            lane: Lane::of_judge(name),
            room: most.map(|most| LaneRoom {
                most,
                more_in: Some(SECOND),
            }),
        }
    }

    fn claims(shares: &Shares) -> Vec<(String, usize)> {
        let names = |share: &LaneShare| {
            let names: Vec<&str> = share.lanes.iter().map(Lane::as_str).collect();
            names.join("+")
        };
        let claim = shares.claim(FREE);
        assert_eq!((claim.max, claim.max_bulk), (FREE.all, FREE.bulk));
        let of_lanes = claim.shares.iter();
        of_lanes.map(|share| (names(share), share.max)).collect()
    }

    #[test]
    fn lane_with_little_room_is_claimed_up_to_its_room() {
        let open = vec![
            lane("free", None),
            lane("wide", Some(64)),
            lane("tight", Some(5)),
            lane("full", Some(2)),
        ];
        let in_hand = |lane: &Lane| match lane.as_str() {
            "tight" | "full" => 2,
            _ => 0,
        };
        let shares = Shares::new(open.clone(), FREE, in_hand, 0);
        let expected = [("tight".to_owned(), 3), ("free+wide".to_owned(), 16)];
        assert_eq!(claims(&shares), expected);
        assert_eq!((shares.full, shares.poll_after), (true, Some(SECOND)));
        assert_eq!(
            [2, 3].map(|ids| shares.of_lanes[0].is_full(ids)),
            [false, true]
        );
        let next = Shares::new(open, FREE, in_hand, 1);
        assert_eq!(claims(&next)[0], expected[1], "each goes first in its turn");
        assert_eq!(
            shares.of_lanes[0].poll_after(2),
            None,
            "there was no more to claim"
        );
        assert_eq!(shares.of_lanes[0].poll_after(3), Some(SECOND));
    }

    #[test]
    fn unlimited_lanes_form_one_group() {
        let open = vec![lane("a", None), lane("b", None)];
        let shares = Shares::new(open, FREE, |_| 0, 7);
        assert_eq!(claims(&shares), [("a+b".to_owned(), 16)]);
        assert_eq!((shares.full, shares.poll_after), (false, None));
        assert!(
            !shares.of_lanes[0].is_full(16),
            "its bound is that of the slots"
        );
        assert_eq!(Shares::new(Vec::new(), FREE, |_| 0, 0), Shares::default());
    }

    #[test]
    fn suspect_may_use_reserved_slot() {
        let suspect = OpenLane {
            lane: Lane::suspect(),
            ..lane("", Some(1))
        };
        let kept = Free { all: 1, bulk: 0 };
        let shares = Shares::new(vec![lane("a", None), suspect], kept, |_| 0, 0);
        let claim = shares.claim(kept);
        assert_eq!(claim.max_bulk, 0);
        let of_lanes = claim.shares.iter();
        let takes_kept: Vec<_> = of_lanes
            .map(|share| (share.takes_kept, share.max))
            .collect();
        assert_eq!(takes_kept, [(true, 1), (false, 1)]);
    }

    #[test]
    fn overfull_lane_has_no_room() {
        let shares = Shares::new(vec![lane("a", Some(3))], FREE, |_| 9, 0);
        assert!(shares.of_lanes.is_empty());
        assert_eq!(shares.poll_after, Some(SECOND));
    }
}
