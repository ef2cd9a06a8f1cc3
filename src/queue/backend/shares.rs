//! What one round claims from which lanes: a pure division of the free slots.
//!
//! Lanes with room for more than there are slots are claimed together, as the queue serves them in turn. A lane with less
//! room is claimed alone, up to its room. Which claim goes first changes from round to round, so that none starves.

use std::time::Duration;

use super::slots::Free;
use super::{ClaimRequest, OpenLane};
use crate::job::Lane;

/// One claim of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    lanes: Vec<Lane>,
    /// At most so many; `None`: as many as there are slots.
    room: Option<usize>,
    more_in: Option<Duration>,
}

impl Share {
    /// The claim, with what is left of the free slots.
    pub(super) fn claim(&self, left: Free) -> ClaimRequest {
        let max = self.room.map_or(left.all, |room| room.min(left.all));
        // The one suspect is worth a slot that is kept for interactive work: behind a backlog of long calls it would wait
        // for ever for one of the others to be free just when it is looked for.
        let max_bulk = if self.is_of_suspects() {
            max
        } else {
            left.bulk.min(max)
        };
        ClaimRequest {
            lanes: self.lanes.clone(),
            max,
            max_bulk,
        }
    }

    /// Whether it is the claim from the lane `suspect`.
    pub(super) fn is_of_suspects(&self) -> bool {
        self.room.is_some() && self.lanes.iter().all(Lane::is_suspect)
    }

    /// Whether so many ids fill its lane's room: then the queue may hold more, and a job that ends makes room for it. Else
    /// nothing is left in the lane but what comes due, which a wake-up or the poll finds.
    pub(super) fn is_full(&self, ids: usize) -> bool {
        self.room.is_some_and(|room| ids >= room)
    }

    /// When to look again after so many ids came of it; `None`: when something happens.
    pub(super) fn look_in(&self, ids: usize) -> Option<Duration> {
        self.more_in.filter(|_| self.is_full(ids))
    }
}

/// The claims of one round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    /// In the order to make them.
    pub(super) claims: Vec<Share>,
    /// Whether a lane has no room left and so isn't claimed from: a job that ends makes room.
    pub(super) full: bool,
    /// When the first of the lanes that have no room now has some.
    pub(super) look_in: Option<Duration>,
}

impl Shares {
    /// Divides `free` among the lanes. `in_hand` says how many jobs of a lane there are; `turn` counts rounds.
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
            // The suspect is claimed alone: it may take a slot that other bulk work may not.
            if left >= free.all && !lane.is_suspect() {
                together.push(lane);
                continue;
            }
            if left == 0 {
                shares.full = true;
                shares.look_in = sooner(shares.look_in, room.more_in);
                continue;
            }
            shares.claims.push(Share {
                lanes: vec![lane],
                room: Some(left),
                more_in: room.more_in,
            });
        }
        if !together.is_empty() {
            shares.claims.push(Share {
                lanes: together,
                room: None,
                more_in: None,
            });
        }
        if !shares.claims.is_empty() {
            let first = turn % shares.claims.len();
            shares.claims.rotate_left(first);
        }
        shares
    }
}

/// The sooner of two times to look.
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
        let names = |claim: &ClaimRequest| {
            let names: Vec<&str> = claim.lanes.iter().map(Lane::as_str).collect();
            names.join("+")
        };
        let claims = shares.claims.iter().map(|share| share.claim(FREE));
        claims.map(|claim| (names(&claim), claim.max)).collect()
    }

    #[test]
    fn a_lane_with_less_room_than_slots_is_claimed_alone_and_no_further_than_its_room() {
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
        assert_eq!((shares.full, shares.look_in), (true, Some(SECOND)));
        assert_eq!(
            [2, 3].map(|ids| shares.claims[0].is_full(ids)),
            [false, true]
        );
        let next = Shares::new(open, FREE, in_hand, 1);
        assert_eq!(claims(&next)[0], expected[1], "each goes first in its turn");
        assert_eq!(
            shares.claims[0].look_in(2),
            None,
            "there was no more to claim"
        );
        assert_eq!(shares.claims[0].look_in(3), Some(SECOND));
    }

    #[test]
    fn lanes_without_limits_are_one_claim_that_nothing_bounds() {
        let open = vec![lane("a", None), lane("b", None)];
        let shares = Shares::new(open, FREE, |_| 0, 7);
        assert_eq!(claims(&shares), [("a+b".to_owned(), 16)]);
        assert_eq!((shares.full, shares.look_in), (false, None));
        assert!(
            !shares.claims[0].is_full(16),
            "its bound is that of the slots"
        );
        assert_eq!(Shares::new(Vec::new(), FREE, |_| 0, 0), Shares::default());
    }

    #[test]
    fn the_suspect_may_take_the_one_slot_that_is_kept_for_interactive_work() {
        let suspect = OpenLane {
            lane: Lane::suspect(),
            ..lane("", Some(1))
        };
        let kept = Free { all: 1, bulk: 0 };
        let shares = Shares::new(vec![lane("a", None), suspect], kept, |_| 0, 0);
        let bulk = |share: &Share| (share.is_of_suspects(), share.claim(kept).max_bulk);
        let bulk: Vec<_> = shares.claims.iter().map(bulk).collect();
        assert_eq!(bulk, [(true, 1), (false, 0)]);
    }

    #[test]
    fn a_lane_with_more_in_hand_than_room_has_none() {
        let shares = Shares::new(vec![lane("a", Some(3))], FREE, |_| 9, 0);
        assert!(shares.claims.is_empty());
        assert_eq!(shares.look_in, Some(SECOND));
    }
}
