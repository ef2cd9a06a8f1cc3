//! How a list that changes while it is read is read whole. Pure: a place and a page give the next place.
//!
//! Both generations list by the time that a session began, newest first. So the end of the window moves down to the
//! oldest session of the page, and its first page is read again: what is deleted or added above can't shift what is
//! still to come. The window's end is exclusive in one generation, and so it keeps a microsecond beyond that session:
//! some are listed twice, and none is skipped.
//!
//! Where that brings no progress (a page of sessions that began in one microsecond, a list in another order, a source
//! that ignores the window), pages are counted; if the window holds fewer sessions than before, something may have
//! shifted, and its first page comes again.

use chrono::{DateTime, TimeDelta, Utc};

use crate::history::tarsy::ListPage;
use crate::store::WalkPlace;

/// Pages that may be read without the window's end moving down: a list that asks for more has no end.
pub(super) const MOST_PAGES: u32 = 100_000;

/// Where to read on; `None`: all was seen.
pub(super) fn next(place: WalkPlace, page: &ListPage) -> Option<WalkPlace> {
    let shrunk = match (place.total, page.total_items) {
        (Some(before), Some(now)) => now < before,
        (None, _) | (_, None) => false,
    };
    if place.page > 1 && shrunk {
        return Some(WalkPlace {
            page: 1,
            total: page.total_items,
            ..place
        });
    }
    if page.items.is_empty() || is_last(place, page) {
        return None;
    }
    let on = oldest(page)
        .and_then(|at| at.checked_add_signed(TimeDelta::microseconds(1)))
        .filter(|until| place.page == 1 && *until < place.until);
    Some(match on {
        Some(until) => WalkPlace {
            until,
            page: 1,
            total: None,
        },
        None => WalkPlace {
            page: place.page + 1,
            total: page.total_items,
            ..place
        },
    })
}

fn is_last(place: WalkPlace, page: &ListPage) -> bool {
    // A source that doesn't say may give smaller pages than it was asked for: then the last one is the empty one.
    page.total_pages
        .is_some_and(|pages| pages <= u64::from(place.page))
}

/// The time of the page's last session, if the page is in the order that the walk relies on.
fn oldest(page: &ListPage) -> Option<DateTime<Utc>> {
    let times: Option<Vec<_>> = page.items.iter().map(|item| item.began_at).collect();
    let times = times?;
    times
        .is_sorted_by(|a, b| a >= b)
        .then(|| times.last().copied())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tarsy::Listed;

    fn at(us: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(us).unwrap()
    }

    fn page(times: &[i64], pages: u64) -> ListPage {
        ListPage {
            items: times
                .iter()
                .map(|us| Listed {
                    id: us.to_string(),
                    status: None,
                    began_at: Some(at(*us)),
                    completed_at: None,
                    quality: None,
                })
                .collect(),
            total_pages: Some(pages),
            total_items: Some(pages * 2),
        }
    }

    fn place(until: i64, page: u32, total: Option<u64>) -> WalkPlace {
        WalkPlace {
            until: at(until),
            page,
            total,
        }
    }

    #[test]
    fn the_window_moves_down_to_the_oldest_of_a_page_and_keeps_it() {
        let next = next(place(100, 1, None), &page(&[90, 80], 5));
        assert_eq!(next, Some(place(81, 1, None)));
    }

    #[test]
    fn the_walk_ends_with_the_last_page_or_an_empty_one() {
        assert_eq!(next(place(100, 1, None), &page(&[90], 1)), None);
        assert_eq!(next(place(100, 1, None), &page(&[], 0)), None);
        let mut untold = page(&[90, 80], 1);
        untold.total_pages = None;
        assert_eq!(
            next(place(100, 1, None), &untold),
            Some(place(81, 1, None)),
            "a short page may be all that a source gives at once"
        );
        untold.items.clear();
        assert_eq!(next(place(81, 2, None), &untold), None);
    }

    #[test]
    fn pages_are_counted_where_the_window_can_not_move() {
        // A page of one moment: the window that would follow is the one that is there.
        let moment = next(place(81, 1, None), &page(&[80, 80], 5));
        assert_eq!(moment, Some(place(81, 2, Some(10))));
        // Another order, or no times at all.
        let mixed = next(place(100, 1, None), &page(&[80, 90], 5));
        assert_eq!(mixed, Some(place(100, 2, Some(10))));
        let mut timeless = page(&[90, 80], 5);
        timeless.items[1].began_at = None;
        assert_eq!(
            next(place(100, 1, None), &timeless),
            Some(place(100, 2, Some(10)))
        );
        // Once pages are counted, they are to the end of the window.
        let counted = next(place(100, 2, Some(10)), &page(&[70, 60], 5));
        assert_eq!(counted, Some(place(100, 3, Some(10))));
    }

    #[test]
    fn a_counted_window_that_shrinks_is_read_again_from_its_first_page() {
        let shrunk = next(place(100, 3, Some(12)), &page(&[70, 60], 5));
        assert_eq!(shrunk, Some(place(100, 1, Some(10))));
        // Even if it was the last page: what it held may have moved to the one before.
        let last = next(place(100, 3, Some(12)), &page(&[], 2));
        assert_eq!(last, Some(place(100, 1, Some(4))));
        let grown = next(place(100, 3, Some(8)), &page(&[70, 60], 5));
        assert_eq!(grown, Some(place(100, 4, Some(10))));
    }
}
