//! Compares the correlation with SciPy 1.17.1 (`kendalltau`, variant b).

use proptest::prelude::*;

use super::*;

#[track_caller]
fn assert_tau(pairs: &[(f64, f64)], expected: f64) {
    let found = kendall_tau_b(pairs).unwrap();
    assert!((found - expected).abs() < 1e-9, "{found} {expected}");
}

fn pairs<const N: usize>(a: [u8; N], b: [u8; N]) -> Vec<(f64, f64)> {
    a.iter()
        .zip(b)
        .map(|(a, b)| (f64::from(*a), f64::from(b)))
        .collect()
}

#[test]
fn tau_matches_scipy() {
    let a = [82, 74, 66, 91, 58, 45, 77, 69, 88, 30, 72, 64];
    let b = [79, 70, 71, 90, 49, 52, 60, 69, 80, 41, 66, 61];
    assert_tau(&pairs(a, b), 0.696_969_696_969_696_9);
    let tied = pairs(
        [1, 1, 2, 2, 3, 3, 3, 4, 5, 5],
        [2, 1, 2, 3, 3, 3, 1, 4, 4, 5],
    );
    assert_tau(&tied, 0.717_948_717_948_718);
    assert_tau(&pairs([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]), -1.0);
}

#[test]
fn tau_of_long_lists_with_ties_matches_scipy() {
    let long: Vec<(f64, f64)> = (0..500_u32)
        .map(|i| {
            let (a, b) = ((i * 37) % 101, (i * i + 7 * i) % 97 / 4);
            (f64::from(a), f64::from(b))
        })
        .collect();
    assert_tau(&long, 0.036_161_275_540_533_167);
    let tied: Vec<(f64, f64)> = (0..2_000_u32)
        .map(|i| (f64::from(i % 11), f64::from((i * i) % 11)))
        .collect();
    assert_tau(&tied, 0.191_911_562_915_640_85);
}

#[test]
fn constant_or_short_lists_have_no_tau() {
    assert_eq!(kendall_tau_b(&[]), None);
    assert_eq!(kendall_tau_b(&[(1.0, 2.0)]), None);
    assert_eq!(kendall_tau_b(&[(1.0, 2.0), (1.0, 3.0)]), None);
    assert_eq!(kendall_tau_b(&[(1.0, 2.0), (2.0, 2.0)]), None);
}

fn by_definition(pairs: &[(f64, f64)]) -> Option<f64> {
    let (mut in_order, mut first, mut second) = (0.0, 0.0, 0.0);
    for (n, a) in pairs.iter().enumerate() {
        for b in &pairs[n + 1..] {
            let sign = |x: f64, y: f64| f64::from(i8::from(x > y) - i8::from(x < y));
            let (x, y) = (sign(a.0, b.0), sign(a.1, b.1));
            in_order += x * y;
            first += x.abs();
            second += y.abs();
        }
    }
    (first > 0.0 && second > 0.0).then(|| in_order / (first * second).sqrt())
}

proptest! {
    #[test]
    fn tau_matches_its_definition(given in proptest::collection::vec((0_u8..12, 0_u8..12), 0..60)) {
        let pairs: Vec<(f64, f64)> = given.iter().map(|(a, b)| (f64::from(*a), f64::from(*b))).collect();
        match (kendall_tau_b(&pairs), by_definition(&pairs)) {
            (Some(found), Some(expected)) => prop_assert!((found - expected).abs() < 1e-9, "{found} {expected}"),
            (found, expected) => prop_assert_eq!(found, expected),
        }
    }

    #[test]
    fn tau_is_symmetric_and_changes_sign(given in proptest::collection::vec((0_u8..40, 0_u8..40), 2..50)) {
        let of = |turn: fn(f64, f64) -> (f64, f64)| {
            let pairs: Vec<(f64, f64)> = given.iter().map(|(a, b)| turn(f64::from(*a), f64::from(*b))).collect();
            kendall_tau_b(&pairs).map(|tau| (tau * 1e9).round())
        };
        let there = of(|a, b| (a, b));
        prop_assert_eq!(there, of(|a, b| (b, a)));
        prop_assert_eq!(there.map(|tau| -tau), of(|a, b| (a, -b)));
    }
}
