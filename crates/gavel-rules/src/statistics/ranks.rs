//! Kendall's rank correlation with ties: whether two measures rank items in the same order.

use std::cmp::Ordering;

/// Kendall's tau-b, from -1 (opposite order) to 1 (same order): concordant minus discordant pairs, normalized for ties. O(n log n) by
/// Knight's method: after sorting by the first values, the number of swaps to sort the second ones is the number of discordant pairs.
///
/// `None` for fewer than two items, or if all values on one side are equal. Values must not be NaN.
pub fn kendall_tau_b(pairs: &[(f64, f64)]) -> Option<f64> {
    let mut sorted: Vec<(f64, f64)> = pairs.to_vec();
    sorted.sort_by(|a, b| compare(a.0, b.0).then(compare(a.1, b.1)));
    let all = pairs_among(sorted.len());
    let tied_first = tied(&sorted, |a, b| a.0 == b.0);
    let tied_both = tied(&sorted, |a, b| a == b);
    let mut second: Vec<f64> = sorted.iter().map(|pair| pair.1).collect();
    let swaps = sort_counting(&mut second);
    let tied_second = tied(&second, |a, b| a == b);
    let (untied_first, untied_second) = (all - tied_first, all - tied_second);
    if untied_first == 0 || untied_second == 0 {
        return None;
    }
    // Each count is below 2^53 for any list that fits into memory.
    let in_order = (all + tied_both) as f64 - (tied_first + tied_second) as f64;
    let tau = (in_order - 2.0 * swaps as f64)
        / (untied_first as f64).sqrt()
        / (untied_second as f64).sqrt();
    Some(tau.clamp(-1.0, 1.0))
}

fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.total_cmp(&b))
}

fn pairs_among(n: usize) -> u64 {
    let n = n as u64;
    n * n.saturating_sub(1) / 2
}

fn tied<T>(sorted: &[T], same: impl Fn(&T, &T) -> bool) -> u64 {
    let groups = sorted.chunk_by(|a, b| same(a, b));
    groups.map(|group| pairs_among(group.len())).sum()
}

/// Sorts by bottom-up merging and returns the number of inversions.
fn sort_counting(values: &mut Vec<f64>) -> u64 {
    let mut merged = Vec::with_capacity(values.len());
    let (mut swaps, mut width) = (0, 1);
    while width < values.len() {
        merged.clear();
        for block in values.chunks(2 * width) {
            let (mut left, mut right) = block.split_at(width.min(block.len()));
            while let ([first, ..], [second, ..]) = (left, right) {
                if compare(*first, *second) == Ordering::Greater {
                    swaps += left.len() as u64;
                    merged.push(*second);
                    right = &right[1..];
                } else {
                    merged.push(*first);
                    left = &left[1..];
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(values, &mut merged);
        width *= 2;
    }
    swaps
}

#[cfg(test)]
mod tests;
