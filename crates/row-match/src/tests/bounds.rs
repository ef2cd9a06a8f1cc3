use std::num::NonZeroUsize;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::budget::Steps;
use super::super::{MAX_COLUMNS, MAX_ROWS, Options, Table, TableError, compare, compare_within};
use super::cells::any_value;

#[test]
fn rejects_oversized_tables_and_invalid_rows() {
    let wide = |width: usize| json!(vec![0; width]);
    for (rows, fault) in [
        (
            vec![json!({}); MAX_ROWS + 1],
            TableError::TooManyRows { rows: MAX_ROWS + 1 },
        ),
        (
            vec![json!([1]), wide(MAX_COLUMNS + 1)],
            TableError::TooManyColumns { row: 1 },
        ),
        (
            vec![json!([]), json!(3)],
            TableError::NotARow {
                row: 1,
                found: "a number",
            },
        ),
        (
            vec![json!(null)],
            TableError::NotARow {
                row: 0,
                found: "null",
            },
        ),
    ] {
        let refused = Table::from_values(&rows, None).unwrap_err();
        assert_eq!(refused, fault);
    }
    assert!(Table::from_values(&vec![json!({}); MAX_ROWS], None).is_ok());
    assert!(Table::from_values(&[wide(MAX_COLUMNS)], None).is_ok());
    let names: Vec<String> = (0..=MAX_COLUMNS).map(|n| n.to_string()).collect();
    let refused = Table::from_values(&[], Some(&names)).unwrap_err();
    assert_eq!(refused, TableError::TooManyColumns { row: 0 });
}

#[test]
fn column_limit_covers_keys_of_all_rows() {
    let rows: Vec<Value> = (0..=MAX_COLUMNS)
        .map(|n| json!({ n.to_string(): 1 }))
        .collect();
    let refused = Table::from_values(&rows, None).unwrap_err();
    assert_eq!(refused, TableError::TooManyColumns { row: MAX_COLUMNS });
}

#[test]
fn cell_depth_limit_is_that_of_the_json_reader() {
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    assert!(Table::from_values(&[json!([nested(128)])], None).is_ok());
    let refused = Table::from_values(&[json!([]), json!([nested(129)])], None).unwrap_err();
    assert_eq!(refused, TableError::TooDeep { row: 1 });
    let text = nested(200).to_string();
    assert!(Table::from_values(&[json!([text])], None).is_ok());
}

/// Pseudo-random numbers, deterministic for a seed.
fn bits(seed: u64) -> impl Iterator<Item = u32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    })
}

const FEW: Steps = Steps {
    columns: 40_000,
    rows: 10_000,
};

#[test]
fn endless_search_is_cut_short() {
    // Flags in many similar columns, and another result that no choice of columns can match.
    let flags = |seed: u64| -> Table {
        let mut bits = bits(seed);
        let mut row = || -> Value { bits.by_ref().take(60).map(|bits| bits >> 31).collect() };
        let rows: Vec<Value> = (0..200).map(|_| row()).collect();
        Table::from_values(&rows, None).unwrap()
    };
    let found = compare_within(&flags(1), &flags(2), &Options::default(), FEW);
    assert!(found.cut_short);
    assert!(found.score < 0.1, "{}", found.score);
}

#[test]
fn nearly_equal_rows_are_cut_short_but_equal_themselves() {
    // Each row is near to most of the others, but not to all.
    let numbers = |seed: u64| {
        let near = bits(seed).map(|bits| f64::from(bits) / f64::from(u32::MAX) * 6e-7);
        near.take(400).map(|near| json!({ "a": 0.5 + near }))
    };
    let read = |rows: Vec<Value>| Table::from_values(&rows, None).unwrap();
    let in_order = Options {
        ordered: true,
        ..Options::default()
    };
    let one = read(numbers(1).collect());
    let other = read(numbers(2).collect());
    assert!(compare_within(&one, &other, &in_order, FEW).cut_short);
    assert!(!compare(&one, &other, &in_order).cut_short);
    let more = read(numbers(1).chain([json!({ "a": 7 })]).collect());
    for options in [in_order, Options::default()] {
        let found = compare_within(&one, &more, &options, FEW);
        assert_eq!((found.score, found.extra), (1.0, vec![400]));
    }
}

/// Rows of any shape, with names from a small pool so that both sides share some.
fn any_rows() -> impl Strategy<Value = Vec<Value>> {
    let row = prop_oneof![
        prop::collection::vec(any_value(), 0..4).prop_map(Value::from),
        prop::collection::hash_map("[aAbc]{0,2}", any_value(), 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect())),
    ];
    prop::collection::vec(row, 0..8)
}

proptest! {
    // Generating values uses most of the time, and each case has two results.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_results_compare_and_equal_themselves(
        expected in any_rows(), generated in any_rows(),
        ordered in any::<bool>(), decimals in any::<Option<u8>>(), cap in 0..10_usize,
    ) {
        let options = Options { ordered, sorted_by: Vec::new(), decimals, cap_expected: NonZeroUsize::new(cap) };
        let expected = Table::from_values(&expected, None).unwrap();
        let generated = Table::from_values(&generated, None).unwrap();
        let found = compare(&expected, &generated, &options);
        for share in [found.score, found.recall, found.precision, found.f1] {
            prop_assert!((0.0..=1.0).contains(&share), "{}", share);
        }
        prop_assert!(found.matched <= found.compared);
        prop_assert!(found.matched_in_all <= found.expected_rows.min(found.generated_rows));
        prop_assert_eq!(found.columns.len(), expected.names().len());
        prop_assert!(!found.cut_short);
        let itself = compare(&expected, &expected, &options);
        prop_assert_eq!((itself.score, itself.f1), (1.0, 1.0));
    }

    #[test]
    fn requiring_order_never_adds_matches(expected in any_rows(), generated in any_rows()) {
        let expected = Table::from_values(&expected, None).unwrap();
        let generated = Table::from_values(&generated, None).unwrap();
        let free = compare(&expected, &generated, &Options::default());
        let kept = Options { ordered: true, ..Options::default() };
        let kept = compare(&expected, &generated, &kept);
        prop_assert!(kept.matched <= free.matched);
    }
}
