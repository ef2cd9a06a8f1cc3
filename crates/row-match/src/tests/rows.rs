use std::num::NonZeroUsize;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Options, Table, compare};
use super::{compared, in_order, table};

#[test]
fn rows_match_as_a_multiset() {
    // Expected, generated, matched, score, precision.
    for (expected, generated, matched, score, precision) in [
        ("[]", "[]", 0, 1.0, 1.0),
        ("[]", r#"[{"a":1}]"#, 0, 0.0, 0.0),
        (r#"[{"a":1}]"#, "[]", 0, 0.0, 0.0),
        (r#"[{"a":null}]"#, "[]", 0, 0.0, 0.0),
        (r#"[{"a":1},{"a":2}]"#, r#"[{"a":2},{"a":1}]"#, 2, 1.0, 1.0),
        (r#"[{"a":1},{"a":2}]"#, r#"[{"a":1}]"#, 1, 0.5, 1.0),
        (r#"[{"a":1}]"#, r#"[{"a":1},{"a":1}]"#, 1, 1.0, 0.5),
        (r#"[{"a":1},{"a":1}]"#, r#"[{"a":1},{"a":2}]"#, 1, 0.5, 0.5),
        (r#"[{"a":0.001}]"#, r#"[{"a":0.009}]"#, 0, 0.0, 0.0),
        (r#"[{"a":null}]"#, r#"[{"a":0}]"#, 0, 0.0, 0.0),
        ("[[1,3],[2,4]]", "[[1,4],[2,3]]", 0, 0.0, 0.0),
        (
            r#"[{"a":1,"b":3},{"a":2,"b":4}]"#,
            r#"[{"a":1,"b":4},{"a":2,"b":3}]"#,
            0,
            0.0,
            0.0,
        ),
        // A missing key is NULL in an existing column.
        (
            r#"[{"a":1},{"a":2,"b":5}]"#,
            r#"[{"a":1,"b":null},{"a":2,"b":5}]"#,
            2,
            1.0,
            1.0,
        ),
        // Rows without columns match no others.
        ("[{}]", r#"[{"a":1}]"#, 0, 0.0, 0.0),
        ("[{}]", "[{}]", 1, 1.0, 1.0),
        // Near numbers, in other rows than the identical ones.
        (
            r#"[{"a":"x","n":0.1},{"a":"y","n":0.1}]"#,
            r#"[{"a":"y","n":0.10000001},{"a":"x","n":0.1}]"#,
            2,
            1.0,
            1.0,
        ),
    ] {
        let found = compared(expected, generated);
        assert_eq!(found.matched, matched, "{expected} {generated}");
        assert_eq!(found.score, score, "{expected} {generated}");
        assert_eq!(found.precision, precision, "{expected} {generated}");
        assert!(!found.cut_short);
    }
}

#[test]
fn recall_precision_and_f1_cover_all_rows() {
    let found = compared(
        r#"[{"a":1},{"a":2},{"a":3},{"a":4}]"#,
        r#"[{"a":9},{"a":2},{"a":1},{"a":1},{"a":8},{"a":3}]"#,
    );
    assert_eq!((found.expected_rows, found.generated_rows), (4, 6));
    assert_eq!((found.matched, found.compared), (3, 4));
    assert_eq!((found.recall, found.precision, found.f1), (0.75, 0.5, 0.6));
    assert_eq!(found.missing, [3]);
    assert_eq!(found.extra, [0, 3, 4]);
}

#[test]
fn lists_first_five_missing_and_extra_rows() {
    let side = |from: i64| -> String {
        let rows: Vec<Value> = (from..from + 9).map(|n| json!({ "a": n })).collect();
        json!(rows).to_string()
    };
    let found = compared(&side(0), &side(100));
    assert_eq!(found.missing, [0, 1, 2, 3, 4]);
    assert_eq!(found.extra, [0, 1, 2, 3, 4]);
}

#[test]
fn cap_limits_only_expected_rows_of_the_score() {
    let rows: Vec<Value> = (0..200).map(|n| json!({ "a": n })).collect();
    let reversed: Vec<Value> = rows.iter().rev().cloned().collect();
    let read = |rows: &[Value]| Table::from_values(rows, None).unwrap();
    let options = Options {
        cap_expected: NonZeroUsize::new(100),
        ..Options::default()
    };
    let found = compare(&read(&rows), &read(&reversed), &options);
    assert_eq!(
        (found.score, found.matched, found.compared),
        (1.0, 100, 100)
    );
    assert_eq!((found.recall, found.precision), (1.0, 1.0));

    let found = compare(&read(&rows), &read(&rows[..50]), &options);
    assert_eq!((found.score, found.matched, found.compared), (0.5, 50, 100));
    assert_eq!((found.recall, found.precision), (0.25, 1.0));
}

#[test]
fn row_beyond_cap_takes_no_partner_from_earlier_row() {
    // The second expected row equals the generated one exactly; without it, the first is near enough.
    let options = Options {
        cap_expected: NonZeroUsize::new(1),
        ..Options::default()
    };
    let expected = table(r#"[{"a":0.50000001},{"a":0.5}]"#);
    let found = compare(&expected, &table(r#"[{"a":0.5}]"#), &options);
    assert_eq!((found.score, found.recall), (1.0, 0.5));
}

#[test]
fn chains_of_near_numbers_get_the_most_pairs() {
    // Each is near to its neighbours only; a first fit in the given order would leave two unpaired.
    let found = compared(
        r#"[{"a":0.5000004},{"a":0.5},{"a":0.5000012}]"#,
        r#"[{"a":0.5000008},{"a":0.5000001},{"a":0.5000015}]"#,
    );
    assert_eq!(found.matched, 3);
    let found = compared(
        r#"[{"a":0.5},{"a":0.5000006}]"#,
        r#"[{"a":0.5000003},{"a":0.5000003}]"#,
    );
    assert_eq!(found.matched, 2);
    // A float between two integers doesn't make them equal.
    let found = compared(
        r#"[{"a":10000000},{"a":10000001},{"a":0.5}]"#,
        r#"[{"a":10000002},{"a":10000000.5},{"a":0.5}]"#,
    );
    assert_eq!(found.matched, 2);
}

#[test]
fn misplaced_row_affects_only_itself() {
    for (expected, generated, matched) in [
        ("[[1],[2],[3]]", "[[1],[2],[3]]", 3),
        ("[[1],[2],[3]]", "[[2],[3]]", 2),
        ("[[1],[2],[3]]", "[[0],[1],[2],[3]]", 3),
        ("[[1],[2],[3]]", "[[3],[1],[2]]", 2),
        ("[[1],[2],[3]]", "[[3],[2],[1]]", 1),
        ("[[1],[1],[2]]", "[[1],[2],[1]]", 2),
        ("[]", "[]", 0),
        ("[[1.5]]", "[[1.5000001],[1.5]]", 1),
    ] {
        let found = in_order(expected, generated);
        assert_eq!(found.matched, matched, "{expected} {generated}");
    }
    let found = in_order("[[1],[2],[3],[4]]", "[[4],[1],[7],[3]]");
    assert_eq!((found.missing, found.extra), (vec![1, 3], vec![0, 2]));
}

#[test]
fn tied_rows_may_be_swapped() {
    // Sorted by the second cell.
    for (expected, generated, matched) in [
        (
            r#"[["ICML",3],["AAAS",1],["ISA",1]]"#,
            r#"[["ICML",3],["ISA",1],["AAAS",1]]"#,
            3,
        ),
        ("[[1,1],[2,2]]", "[[2,2],[1,1]]", 1),
        ("[[1,1],[2,1],[3,1],[4,2]]", "[[4,2],[3,1],[2,1],[1,1]]", 3),
        ("[[1,1],[2,1],[3,2]]", "[[2,1],[9,1],[1,1],[3,2]]", 3),
        // Near numbers among tied rows.
        ("[[0.5,1],[0.25,1]]", "[[0.25,1],[0.50000001,1]]", 2),
        // Tied rows separated by others aren't neighbours.
        ("[[1,1],[2,1],[3,2]]", "[[1,1],[3,2],[2,1]]", 2),
        ("[]", "[]", 0),
    ] {
        let options = Options {
            ordered: true,
            sorted_by: vec![1],
            ..Options::default()
        };
        let found = compare(&table(expected), &table(generated), &options);
        assert_eq!(found.matched, matched, "{expected} {generated}");
    }
    let options = Options {
        ordered: true,
        sorted_by: vec![1],
        ..Options::default()
    };
    let (expected, generated) = ("[[1,1],[2,1],[7,1]]", "[[2,1],[8,1],[1,1]]");
    let found = compare(&table(expected), &table(generated), &options);
    assert_eq!((found.missing, found.extra), (vec![2], vec![1]));
}

/// Length of the longest common subsequence, by its definition.
fn longest(expected: &[f64], generated: &[f64], equal: impl Fn(f64, f64) -> bool) -> usize {
    let mut line = vec![0; generated.len() + 1];
    for &one in expected {
        let mut corner = 0;
        for (at, &other) in generated.iter().enumerate() {
            let above = line[at + 1];
            line[at + 1] = if equal(one, other) {
                corner + 1
            } else {
                above.max(line[at])
            };
            corner = above;
        }
    }
    line[generated.len()]
}

/// Maximum number of pairs, by brute force.
fn most(expected: &[f64], free: &mut Vec<f64>, equal: &impl Fn(f64, f64) -> bool) -> usize {
    let Some((&first, rest)) = expected.split_first() else {
        return 0;
    };
    let mut best = most(rest, free, equal);
    for at in 0..free.len() {
        if equal(first, free[at]) {
            let taken = free.remove(at);
            best = best.max(1 + most(rest, free, equal));
            free.insert(at, taken);
        }
    }
    best
}

fn column(cells: &[f64]) -> Table {
    let rows: Vec<Value> = cells.iter().map(|cell| json!({ "a": cell })).collect();
    Table::from_values(&rows, None).unwrap()
}

/// Numbers, some near to each other.
fn near_numbers(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((0..8_u8).prop_map(|n| 0.5 + f64::from(n) * 2e-7), count)
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.max(b)
}

proptest! {
    #[test]
    fn ordered_pairs_are_longest_common_subsequence(
        expected in near_numbers(0..90), generated in near_numbers(0..90),
    ) {
        let options = Options { ordered: true, ..Options::default() };
        let found = compare(&column(&expected), &column(&generated), &options);
        prop_assert_eq!(found.matched_in_all, longest(&expected, &generated, near));
        prop_assert_eq!(found.missing.len(), (expected.len() - found.matched_in_all).min(5));
        prop_assert_eq!(found.extra.len(), (generated.len() - found.matched_in_all).min(5));
    }

    #[test]
    fn single_column_pairs_identical_rows_first(
        expected in near_numbers(0..6), generated in near_numbers(0..6),
    ) {
        let found = compare(&column(&expected), &column(&generated), &Options::default());
        let mut left = generated.clone();
        let rest: Vec<f64> = expected.iter().copied().filter(|cell| {
            let same = left.iter().position(|other| other == cell);
            same.map(|at| left.remove(at)).is_none()
        }).collect();
        let same = expected.len() - rest.len();
        prop_assert_eq!(found.matched_in_all, same + most(&rest, &mut left, &near));
    }
}
