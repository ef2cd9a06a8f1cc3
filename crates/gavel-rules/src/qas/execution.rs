//! The execution component: whether the answer is the expected one, by the type of the answer.

use serde_json::Value;

use super::Preliminary;
use super::answer::{self, ComparisonForm};
use super::case::QasCase;
use super::table::AnswerTable;
use row_match::{Options, Table};

/// Numbers this close are equal, as a share of the expected one.
const TOLERANCE: f64 = 0.01;
/// Numbers this far apart are worth nothing.
const WORTHLESS: f64 = 0.10;
/// What numbers beyond the tolerance are worth at most.
const MOST_BEYOND: f64 = 0.9;
/// What a comparison of shares may be off by; and so may what should be 0, because sums of floating-point numbers are.
const SLACK: f64 = 1e-9;
/// The shares of a table's score.
const ROW_COUNTS: f64 = 0.3;
const COLUMNS: f64 = 0.3;
const ROWS: f64 = 0.4;

/// What the answer is worth, unless a judge has to say.
pub(super) fn execution(case: &QasCase) -> Preliminary {
    if case.success == Some(false) {
        return Preliminary::Known(
            0.0,
            "the run failed (success is false, or an error without success)".to_owned(),
        );
    }
    let Some(expected) = &case.expected else {
        let why = "no_ground_truth: there are no expected results; the weight goes to the other components";
        return Preliminary::Absent(why.to_owned());
    };
    let Some(actual) = &case.actual else {
        return Preliminary::Known(0.0, "there is no answer".to_owned());
    };
    if case.answers_with_an_error() {
        return Preliminary::Known(0.0, "the answer is an error".to_owned());
    }
    match case.answer_type.comparison() {
        ComparisonForm::Numbers => numbers(expected, actual),
        ComparisonForm::Booleans => booleans(expected, actual),
        ComparisonForm::Tables => tables(expected, actual),
        ComparisonForm::Texts => texts(expected, actual),
    }
}

fn numbers(expected: &Value, actual: &Value) -> Preliminary {
    let Some((expected, _)) = answer::number(expected) else {
        return Preliminary::Known(0.0, "the expected results hold no number".to_owned());
    };
    match answer::number(actual) {
        Some((actual, _)) => {
            let (score, off) = closeness(expected, actual);
            Preliminary::Known(
                score,
                match off.is_finite() {
                    true => format!(
                        "{actual} against {expected} expected: off by {:.2} %",
                        off * 100.0
                    ),
                    false => format!("{actual} against {expected} expected"),
                },
            )
        }
        None => Preliminary::Known(0.0, format!("no number; {expected} is expected")),
    }
}

/// What a number is worth, and by which share it is off.
fn closeness(expected: f64, actual: f64) -> (f64, f64) {
    if !expected.is_finite() || !actual.is_finite() {
        let is_same = expected == actual || (expected.is_nan() && actual.is_nan());
        return if is_same {
            (1.0, 0.0)
        } else {
            (0.0, f64::INFINITY)
        };
    }
    // Halved, so that the distance of the two largest numbers is finite.
    let half = (actual / 2.0 - expected / 2.0).abs();
    let off = match expected {
        0.0 if actual.abs() <= SLACK => 0.0,
        _ => half / (expected.abs() / 2.0),
    };
    if off <= TOLERANCE + SLACK {
        (1.0, off)
    } else {
        ((1.0 - off / WORTHLESS).clamp(0.0, MOST_BEYOND), off)
    }
}

fn booleans(expected: &Value, actual: &Value) -> Preliminary {
    let (score, why) = match (answer::boolean(expected), answer::boolean(actual)) {
        (Some(expected), Some(actual)) if expected == actual => {
            (1.0, format!("{actual}, as expected"))
        }
        (Some(expected), Some(actual)) => (0.0, format!("{actual}; {expected} is expected")),
        (Some(expected), None) => (0.0, format!("no boolean; {expected} is expected")),
        (None, Some(_) | None) => (0.0, "the expected results hold no boolean".to_owned()),
    };
    Preliminary::Known(score, why)
}

fn tables(expected: &Value, actual: &Value) -> Preliminary {
    let table = |value| AnswerTable::of(value).map(|table| table.table());
    let is_unknown = |value| AnswerTable::of(value).is_some_and(|it| it.is_of_unknown_form());
    let expected = match table(expected) {
        Some(Ok(table)) => table,
        Some(Err(error)) => {
            return Preliminary::Known(
                0.0,
                format!("the expected results can't be compared: {error}"),
            );
        }
        None => return Preliminary::Known(0.0, "the expected results hold no rows".to_owned()),
    };
    match table(actual) {
        Some(Ok(found)) => likeness(&expected, &found, is_unknown(actual)),
        Some(Err(error)) => {
            Preliminary::Known(0.0, format!("the answer can't be compared: {error}"))
        }
        None => Preliminary::Known(0.0, format!("no rows; expected: {}", expected.rows())),
    }
}

fn likeness(expected: &Table, actual: &Table, is_of_unknown_form: bool) -> Preliminary {
    let (wanted, found) = (expected.rows(), actual.rows());
    match (wanted, found) {
        (0, 0) => return Preliminary::Known(1.0, "no rows, as expected".to_owned()),
        (0, _) => return Preliminary::Known(0.0, format!("rows: {found}; none is expected")),
        (_, 0) => return Preliminary::Known(0.0, format!("no rows; expected: {wanted}")),
        _ => {}
    }
    let comparison = row_match::compare(expected, actual, &Options::default());
    let there = comparison.columns.iter().flatten().count();
    let columns = comparison.columns.len();
    let share = |part: usize, whole: usize| {
        if whole == 0 {
            1.0
        } else {
            part as f64 / whole as f64
        }
    };
    let score = ROW_COUNTS * share(wanted.min(found), wanted.max(found))
        + COLUMNS * share(there, columns)
        + ROWS * comparison.f1;
    let mut why = format!(
        "rows: {found} against {wanted} expected; columns: {there} of {columns}; matching rows: {} (F1 {:.3})",
        comparison.matched_in_all, comparison.f1
    );
    if comparison.cut_short {
        why.push_str("; the search for matching rows was cut short");
    }
    if is_of_unknown_form && comparison.f1 < 1.0 {
        why.push_str("; the answer has no known table form, so each object was compared as a row");
    }
    Preliminary::Known(score.min(1.0), why)
}

fn texts(expected: &Value, actual: &Value) -> Preliminary {
    if answer::is_same(expected, actual) {
        Preliminary::Known(1.0, "the answer is the expected one".to_owned())
    } else if answer::text(actual).is_empty() {
        Preliminary::Known(0.0, "the answer is empty".to_owned())
    } else {
        Preliminary::Judged
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn score(part: Preliminary) -> f64 {
        match part {
            Preliminary::Known(score, _) => score,
            Preliminary::Absent(why) => panic!("absent: {why}"),
            Preliminary::Judged => panic!("a judge has to say"),
        }
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn numbers_within_a_hundredth_are_equal_and_fade_to_nothing_at_a_tenth() {
        let cases = [
            (100.0, 100.0, 1.0),
            (100.0, 101.0, 1.0),
            (100.0, 99.0, 1.0),
            (100.0, 101.5, 0.85),
            (100.0, 105.0, 0.5),
            (100.0, 109.0, 0.1),
            (100.0, 110.0, 0.0),
            (100.0, 500.0, 0.0),
            (-100.0, -105.0, 0.5),
            (0.0, 0.0, 1.0),
            (0.0, 1e-9, 1.0),
            (0.0, -1e-10, 1.0),
            (0.0, 2e-9, 0.0),
            (0.0, 0.002, 0.0),
            (0.5, 0.505, 1.0),
            (0.5, 0.525, 0.5),
            // Rates
            (0.002, 0.0, 0.0),
            (0.002, 0.002_01, 1.0),
            (-0.002, -0.0021, 0.5),
            (1e-300, -1e-300, 0.0),
            (f64::MAX, -f64::MAX, 0.0),
            (f64::INFINITY, f64::INFINITY, 1.0),
            (f64::INFINITY, 1.0, 0.0),
            (f64::NAN, f64::NAN, 1.0),
            (1.0, f64::NAN, 0.0),
        ];
        for (expected, actual, worth) in cases {
            let found = closeness(expected, actual).0;
            assert!((found - worth).abs() < 1e-9, "{expected} {actual}: {found}");
        }
        assert!(closeness(100.0, 101.0001).0 <= MOST_BEYOND);
    }

    #[test]
    fn a_table_counts_by_rows_columns_and_matches() {
        let expected = json!([{ "a": 1, "b": "x" }, { "a": 2, "b": "y" }, { "a": 3, "b": "z" }, { "a": 4, "b": "w" }]);
        let cases = [
            (expected.clone(), 1.0),
            (
                json!([{ "A": 4, "b": "W" }, { "A": 3, "b": "z" }, { "A": 2, "b": "y" }, { "A": 1, "b": "x" }]),
                1.0,
            ),
            // Half of the rows: 0.3 · 2/4 + 0.3 + 0.4 · F1 (2 · 2 / 6)
            (
                json!([{ "a": 1, "b": "x" }, { "a": 2, "b": "y" }]),
                0.15 + 0.3 + 0.4 * 2.0 / 3.0,
            ),
            // A column is missing, so that no row matches: 0.3 + 0.3 · 1/2
            (
                json!([{ "a": 1 }, { "a": 2 }, { "a": 3 }, { "a": 4 }]),
                0.45,
            ),
            // Renamed columns go by their values.
            (
                json!([{ "n": 1, "t": "x" }, { "n": 2, "t": "y" }, { "n": 3, "t": "z" }, { "n": 4, "t": "w" }]),
                1.0,
            ),
            (json!([]), 0.0),
            (json!("none"), 0.0),
        ];
        for (actual, worth) in cases {
            assert_near(score(tables(&expected, &actual)), worth);
        }
        assert_near(score(tables(&json!([]), &json!([]))), 1.0);
        assert_near(score(tables(&json!([]), &expected)), 0.0);
    }

    #[test]
    fn object_of_no_known_table_form_is_named() {
        let expected = json!([{ "a": 1 }, { "a": 2 }]);
        for (actual, is_named) in [
            (
                json!({ "page": [{ "a": 1 }, { "a": 2 }], "more": [{ "b": 1 }] }),
                true,
            ),
            (json!({ "a": 1 }), false),
            (json!([{ "a": [1] }]), false),
            (
                json!([{ "series": [{ "a": 1 }] }, { "series": [{ "a": 2 }] }]),
                true,
            ),
            (json!([{ "page": [{ "a": 1 }, { "a": 2 }] }]), true),
            (
                json!({ "tables": [{ "columns": ["a"], "rows": [[1], [2]] }] }),
                false,
            ),
        ] {
            let Preliminary::Known(_, why) = tables(&expected, &actual) else {
                panic!("no score: {actual}");
            };
            assert_eq!(why.contains("no known table form"), is_named, "{why}");
        }
    }

    #[test]
    fn lists_are_tables_of_one_column() {
        let expected = json!(["b", "a", "c"]);
        assert_near(score(tables(&expected, &json!(["a", "b", "c"]))), 1.0);
        assert_near(
            score(tables(
                &expected,
                &json!([{ "name": "a" }, { "name": "b" }, { "name": "c" }]),
            )),
            1.0,
        );
        // 0.3 · 2/3 + 0.3 + 0.4 · F1 (2 · 2 / 5)
        assert_near(
            score(tables(&expected, &json!(["a", "b"]))),
            0.2 + 0.3 + 0.32,
        );
    }

    #[test]
    fn booleans_are_equal_or_not() {
        assert_near(score(booleans(&json!(true), &json!("yes"))), 1.0);
        assert_near(score(booleans(&json!("no"), &json!([{ "x": 0 }]))), 1.0);
        assert_near(score(booleans(&json!(true), &json!(false))), 0.0);
        assert_near(score(booleans(&json!(true), &json!("perhaps"))), 0.0);
    }

    #[test]
    fn texts_that_differ_are_the_judges() {
        assert_near(score(texts(&json!(" a "), &json!("a"))), 1.0);
        assert_near(score(texts(&json!("a"), &json!([{ "answer": "a" }]))), 1.0);
        assert_near(
            score(texts(
                &json!({ "a": 1, "b": 2 }),
                &json!({ "b": 2, "a": 1 }),
            )),
            1.0,
        );
        assert_near(score(texts(&json!("a"), &json!("  "))), 0.0);
        assert_eq!(texts(&json!("a"), &json!("A")), Preliminary::Judged);
    }

    proptest! {
        #[test]
        fn a_number_is_worth_a_share(expected in any::<f64>(), actual in any::<f64>()) {
            let score = closeness(expected, actual).0;
            prop_assert!((0.0..=1.0).contains(&score), "{}", score);
            prop_assert_eq!(closeness(expected, expected).0, 1.0);
        }
    }
}
