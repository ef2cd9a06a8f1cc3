//! Compares intervals with NumPy 2.4.6, for given and for seeded resamples.

use proptest::prelude::*;

use super::*;

const DIFFERENCES: [f64; 12] = [
    -3.0, -4.0, 5.0, -1.0, -9.0, 7.0, -17.0, 0.0, -8.0, 11.0, -6.0, -3.0,
];

#[rustfmt::skip]
const RESAMPLES_GIVEN: [[usize; 12]; 40] = [
    [11, 7, 8, 10, 6, 9, 10, 2, 0, 3, 3, 10],
    [10, 0, 5, 9, 1, 9, 1, 5, 9, 3, 4, 3],
    [8, 3, 11, 5, 5, 6, 6, 6, 6, 11, 9, 9],
    [8, 7, 4, 11, 5, 2, 10, 1, 10, 7, 1, 0],
    [5, 0, 1, 6, 11, 5, 9, 11, 9, 7, 5, 6],
    [3, 5, 4, 2, 11, 0, 1, 2, 11, 8, 10, 2],
    [8, 4, 5, 0, 7, 9, 7, 1, 6, 3, 11, 10],
    [2, 6, 11, 10, 8, 7, 0, 8, 5, 1, 2, 6],
    [8, 6, 7, 10, 8, 4, 7, 7, 1, 0, 7, 4],
    [7, 3, 2, 1, 4, 9, 4, 4, 6, 11, 4, 7],
    [5, 7, 5, 7, 6, 8, 11, 1, 6, 5, 4, 2],
    [0, 4, 9, 1, 4, 11, 11, 2, 0, 8, 0, 3],
    [5, 10, 1, 7, 6, 1, 10, 10, 5, 11, 7, 10],
    [11, 6, 3, 1, 6, 2, 9, 11, 2, 6, 0, 2],
    [4, 10, 11, 7, 7, 6, 0, 4, 11, 4, 2, 2],
    [8, 0, 11, 10, 6, 5, 9, 6, 5, 3, 5, 9],
    [0, 0, 8, 4, 9, 0, 10, 1, 4, 11, 1, 7],
    [8, 5, 0, 6, 5, 10, 8, 4, 0, 7, 3, 8],
    [10, 4, 10, 6, 6, 9, 9, 10, 11, 1, 4, 11],
    [3, 0, 6, 9, 8, 9, 7, 1, 10, 5, 10, 9],
    [11, 0, 10, 7, 5, 9, 11, 6, 1, 8, 2, 2],
    [2, 2, 10, 4, 1, 2, 4, 4, 3, 11, 10, 6],
    [11, 4, 1, 3, 1, 11, 2, 5, 2, 11, 1, 6],
    [11, 6, 10, 10, 9, 8, 6, 6, 9, 5, 11, 10],
    [4, 4, 8, 11, 1, 0, 2, 5, 1, 6, 6, 11],
    [8, 3, 9, 9, 8, 8, 3, 8, 1, 7, 11, 11],
    [3, 3, 7, 4, 8, 2, 2, 0, 5, 2, 3, 10],
    [9, 10, 7, 1, 8, 7, 10, 5, 2, 7, 5, 7],
    [4, 3, 1, 11, 9, 5, 2, 7, 4, 7, 1, 2],
    [8, 0, 8, 4, 0, 9, 8, 9, 10, 8, 10, 1],
    [11, 10, 8, 9, 8, 10, 10, 6, 9, 10, 3, 0],
    [2, 0, 5, 0, 3, 3, 8, 2, 11, 2, 11, 6],
    [2, 0, 3, 7, 1, 1, 1, 8, 1, 0, 5, 3],
    [6, 11, 10, 6, 7, 9, 5, 7, 2, 7, 2, 2],
    [9, 6, 4, 0, 2, 9, 5, 11, 10, 10, 0, 0],
    [6, 4, 10, 3, 1, 1, 3, 7, 1, 9, 3, 3],
    [7, 10, 5, 9, 3, 1, 9, 9, 9, 10, 5, 2],
    [7, 6, 4, 7, 3, 7, 9, 1, 5, 7, 0, 7],
    [10, 9, 8, 9, 4, 3, 1, 8, 3, 10, 5, 10],
    [1, 1, 4, 0, 5, 7, 7, 2, 1, 6, 7, 11],
];

#[track_caller]
fn assert_is(found: Option<Bootstrap>, low: f64, high: f64, resamples: usize) {
    let found = found.unwrap();
    assert!(
        (found.interval.low - low).abs() < 1e-9 && (found.interval.high - high).abs() < 1e-9,
        "{found:?}"
    );
    assert_eq!(found.resamples, resamples);
}

#[test]
fn interval_of_given_resamples_matches_numpy() {
    let mean = |places: [usize; 12]| places.map(|at| DIFFERENCES[at]).iter().sum::<f64>() / 12.0;
    let found = interval_of(RESAMPLES_GIVEN.map(mean).to_vec());
    assert_is(found, -5.335_416_666_666_666, 1.639_583_333_333_33, 40);
}

#[test]
fn seeded_interval_matches_numpy_and_is_deterministic() {
    // The same generator in Python: 2,000 resamples of 12 values each, seed 42.
    let found = bootstrap_mean(&DIFFERENCES, 42);
    assert_is(found, -6.5, 1.666_666_666_666_666_7, 2_000);
    assert_eq!(found, bootstrap_mean(&DIFFERENCES, 42));
    assert_ne!(found, bootstrap_mean(&DIFFERENCES, 43));
}

#[test]
fn invalid_input_has_no_interval() {
    assert_eq!(bootstrap_mean(&[], 1), None);
    assert_eq!(bootstrap_mean(&[3.0], 1), None);
}

#[test]
fn many_values_get_fewer_resamples() {
    let resamples = [2, 50_000, 100_000, 1_000_000, usize::MAX].map(resamples_for);
    assert_eq!(resamples, [2_000, 2_000, 1_000, 200, 200]);
}

proptest! {
    #[test]
    fn interval_is_within_the_values(values in proptest::collection::vec(-100.0_f64..100.0, 2..40), seed: u64) {
        let found = bootstrap_mean(&values, seed).unwrap().interval;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(found.low <= found.high);
        prop_assert!(found.low >= least - 1e-9 && found.high <= most + 1e-9, "{found:?}");
    }
}
