//! Cursor over a list that changes while it is read: a position and a page give the next position.
//!
//! Both generations list by start time, newest first. After each page, the end of the window moves down to the oldest
//! session of the page, and the first page is read again, so that insertions and deletions above don't shift the rest.
//! Because the end is exclusive in one generation, it is set one microsecond after that session: some sessions are
//! listed again, but none is skipped.
//!
//! If the window can't move (a page of sessions with the same start, another order, an ignored window), pages are
//! counted instead. If the window then has fewer sessions than before, some may have shifted, so it restarts at its
//! first page.

use chrono::{DateTime, TimeDelta, Utc};

use crate::history::tarsy::ListPage;
use crate::store::WalkPlace;

/// Maximum pages without moving the window, because such a list may be endless.
pub(super) const MOST_PAGES: u32 = 100_000;

/// Returns the next position, or `None` at the end.
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
    // If the number of pages isn't reported, pages may be smaller than requested, so only an empty page is the last.
    page.total_pages
        .is_some_and(|pages| pages <= u64::from(place.page))
}

/// Returns the time of the page's last session if the page has the expected order.
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
    fn window_moves_to_oldest_session_of_page() {
        let next = next(place(100, 1, None), &page(&[90, 80], 5));
        assert_eq!(next, Some(place(81, 1, None)));
    }

    #[test]
    fn ends_at_last_or_empty_page() {
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
    fn counts_pages_if_window_cannot_move() {
        // All sessions have the same start, so the window doesn't move.
        let moment = next(place(81, 1, None), &page(&[80, 80], 5));
        assert_eq!(moment, Some(place(81, 2, Some(10))));
        // Another order, or no times.
        let mixed = next(place(100, 1, None), &page(&[80, 90], 5));
        assert_eq!(mixed, Some(place(100, 2, Some(10))));
        let mut timeless = page(&[90, 80], 5);
        timeless.items[1].began_at = None;
        assert_eq!(
            next(place(100, 1, None), &timeless),
            Some(place(100, 2, Some(10)))
        );
        // Once pages are counted, counting continues to the end of the window.
        let counted = next(place(100, 2, Some(10)), &page(&[70, 60], 5));
        assert_eq!(counted, Some(place(100, 3, Some(10))));
    }

    #[test]
    fn shrunk_window_restarts_at_first_page() {
        let shrunk = next(place(100, 3, Some(12)), &page(&[70, 60], 5));
        assert_eq!(shrunk, Some(place(100, 1, Some(10))));
        // Even for the last page, because its sessions may have moved to the previous one.
        let last = next(place(100, 3, Some(12)), &page(&[], 2));
        assert_eq!(last, Some(place(100, 1, Some(4))));
        let grown = next(place(100, 3, Some(8)), &page(&[70, 60], 5));
        assert_eq!(grown, Some(place(100, 4, Some(10))));
    }
}
