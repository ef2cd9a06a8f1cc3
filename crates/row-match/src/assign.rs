//! Assigns generated columns to as many expected columns as possible, best pairs first. Each is used at most once.

use std::cmp::Reverse;

use super::weights::Weights;

/// Returns, per expected column, the index among the weights' generated columns. Maximizes the number of pairs. Prefers pairs that share
/// more values, then pairs with closer positions. Pairs in `fixed` are unchanged.
pub(super) fn assign(weights: &Weights, fixed: &[(usize, usize)]) -> Vec<Option<usize>> {
    let columns = weights.shared.len();
    let mut given = vec![None; columns];
    let mut owner = vec![None; weights.generated.len()];
    let mut pinned = vec![false; columns];
    for &(column, place) in fixed {
        given[column] = Some(place);
        owner[place] = Some(column);
        pinned[column] = true;
    }
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (column, shared) in weights.shared.iter().enumerate() {
        let places = shared.iter().enumerate().filter(|(_, shared)| **shared > 0);
        pairs.extend(places.map(|(place, _)| (column, place)));
    }
    pairs.sort_by_key(|&(column, place)| {
        (
            Reverse(weights.shared[column][place]),
            column.abs_diff(place),
            column,
        )
    });
    for (column, place) in pairs {
        if given[column].is_none() && owner[place].is_none() {
            given[column] = Some(place);
            owner[place] = Some(column);
        }
    }
    for column in 0..columns {
        if given[column].is_none() {
            make_room(weights, column, &pinned, &mut given, &mut owner);
        }
    }
    given
}

/// Finds an augmenting path for a column, breadth first.
fn make_room(
    weights: &Weights,
    column: usize,
    pinned: &[bool],
    given: &mut [Option<usize>],
    owner: &mut [Option<usize>],
) {
    let mut asked_by: Vec<Option<usize>> = vec![None; owner.len()];
    let mut waiting = std::collections::VecDeque::from([column]);
    while let Some(asking) = waiting.pop_front() {
        for (place, &shared) in weights.shared[asking].iter().enumerate() {
            if shared == 0 || asked_by[place].is_some() {
                continue;
            }
            asked_by[place] = Some(asking);
            match owner[place] {
                Some(holder) if pinned[holder] => {}
                Some(holder) => waiting.push_back(holder),
                None => {
                    move_along(place, &asked_by, given, owner);
                    return;
                }
            }
        }
    }
}

/// Gives the free place to the column that requested it, then that column's previous place to its requester, and so on.
fn move_along(
    free: usize,
    asked_by: &[Option<usize>],
    given: &mut [Option<usize>],
    owner: &mut [Option<usize>],
) {
    let mut next = Some(free);
    while let Some(place) = next {
        let Some(asking) = asked_by[place] else {
            return;
        };
        next = given[asking].replace(place);
        owner[place] = Some(asking);
    }
}
