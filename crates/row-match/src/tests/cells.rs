use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Case, Options, Table, compare};

fn equal_rounded(one: &Value, other: &Value, decimals: Option<u8>) -> bool {
    let table = |cell: &Value| Table::from_values(&[json!({ "a": cell })], None).unwrap();
    let options = Options {
        decimals,
        ..Options::default()
    };
    let forth = compare(&table(one), &table(other), &options).score;
    let back = compare(&table(other), &table(one), &options).score;
    assert_eq!(forth, back, "{one} and {other}");
    forth == 1.0
}

fn equal(one: &Value, other: &Value) -> bool {
    equal_rounded(one, other, None)
}

#[test]
fn case_sensitivity_affects_only_text() {
    let table = |cell: &Value| Table::in_case(&[json!({ "a": cell })], None, Case::Heeded).unwrap();
    for (one, other, score) in [
        (json!("Ada"), json!("ada"), 0.0),
        (json!(" Ada"), json!("Ada "), 1.0),
        (json!({"k": ["X"]}), json!("{\"k\":[\"X\"]}"), 1.0),
        (json!({"k": ["X"]}), json!({"k": ["x"]}), 0.0),
        (json!({"K": 1}), json!({"k": 1}), 0.0),
        (json!("1.5E3"), json!(1500), 1.0),
        (
            json!("2026-03-02T09:15:00Z"),
            json!("2026-03-02 09:15:00"),
            1.0,
        ),
    ] {
        let found = compare(&table(&one), &table(&other), &Options::default());
        assert_eq!(found.score, score, "{one} and {other}");
    }
}

#[test]
fn equivalent_cells_are_equal() {
    for (one, other) in [
        (json!(true), json!(1)),
        (json!(false), json!(0.0)),
        (json!(1), json!(1.0)),
        (json!(-0.0), json!(0)),
        (json!(" Hello "), json!("hello")),
        (json!("ÄPFEL"), json!("äpfel")),
        (json!("42"), json!(42)),
        (json!("-0"), json!(0)),
        (json!("0.50"), json!(0.5)),
        (json!("3.00"), json!(3)),
        (json!("1e-07"), json!(0.000_000_1)),
        (json!("1.5E3"), json!(1500)),
        (json!("NaN"), json!(null)),
        (json!("true"), json!(true)),
        (json!(" FALSE "), json!(false)),
        (json!("1e3"), json!(1000)),
        (json!("7e12"), json!("70E+11")),
        (json!(".5"), json!(0.5)),
        (json!("-.5"), json!(-0.5)),
        (json!("+5"), json!(5)),
        (json!("5."), json!(5.0)),
        (
            json!("+18446744073709551617"),
            json!("18446744073709551617"),
        ),
        (json!("-.0"), json!(0)),
        (json!("True"), json!(1)),
        (json!("false"), json!("False")),
        (
            json!(18_446_744_073_709_551_615_u64),
            json!("18446744073709551615"),
        ),
        (
            json!("9007199254740993.0"),
            json!(9_007_199_254_740_993_i64),
        ),
        // An integer that the JSON reader converted to a float has a float's precision.
        (
            json!("123456789012345678901234567890"),
            json!(1.234_567_890_123_456_8e29),
        ),
        (json!({"b": 1.0, "A": [" X "]}), json!({"a": ["x"], "B": 1})),
        (json!(r#" {"k": [1, 2.0]} "#), json!({"k": [1, 2]})),
        (json!("[1, 2]"), json!([1, 2])),
        (json!("[0.30000000000000004]"), json!([0.3])),
    ] {
        assert!(equal(&one, &other), "{one} and {other}");
    }
}

#[test]
fn different_cells_differ() {
    let nothings = [json!(null), json!(""), json!(0), json!("null")];
    for (at, one) in nothings.iter().enumerate() {
        for (place, other) in nothings.iter().enumerate() {
            assert_eq!(equal(one, other), at == place, "{one} and {other}");
        }
    }
    for (one, other) in [
        (json!("007"), json!(7)),
        (json!("00.5"), json!(0.5)),
        (json!("1,000"), json!(1000)),
        (json!("--5"), json!(5)),
        (json!("1e"), json!(1)),
        (json!("e3"), json!(1000)),
        (json!("."), json!(0)),
        (json!("0x10"), json!(16)),
        (json!("7e12"), json!("71e11")),
        (json!("1e999"), json!("1e998")),
        (json!("true"), json!(false)),
        (json!("t"), json!(true)),
        (json!("yes"), json!(true)),
        (json!(["true"]), json!([true])),
        (json!("12.5 %"), json!(12.5)),
        (json!("12.5%"), json!(0.125)),
        (json!("Nan"), json!(null)),
        (
            json!(9_007_199_254_740_992_i64),
            json!(9_007_199_254_740_993_i64),
        ),
        (
            json!("123456789012345678901234567890"),
            json!("123456789012345678901234567891"),
        ),
        (json!(10_000_001), json!(10_000_002)),
        (json!(10_000_001.0), json!(10_000_002.0)),
        (json!(0.001), json!(0.009)),
        (json!([1, 2]), json!([2, 1])),
        (json!(r#"{"a":1,"a":2}"#), json!({"a": 2})),
        (json!(["1"]), json!([1])),
        (json!({"a": null}), json!({})),
        (json!("{a}"), json!("{b}")),
        (json!("a b"), json!("a  b")),
    ] {
        assert!(!equal(&one, &other), "{one} and {other}");
    }
}

#[test]
fn date_formats_are_equivalent() {
    for (one, other) in [
        ("2024-05-01", "2024-05-01T00:00:00Z"),
        ("2024-05-01", "2024-05-01 00:00:00.000"),
        ("2024-05-01T10:00:00Z", "2024-05-01 10:00"),
        ("2024-05-01T10:00:00.0000000Z", "2024-05-01 10:00:00+00:00"),
        ("2024-05-01T10:00:00.2500000Z", "2024-05-01t10:00:00.25z"),
        ("2024-05-01T01:30:00+02:00", "2024-04-30T23:30:00Z"),
        ("2024-05-01 10:00:00 -0530", "2024-05-01 15:30:00 UTC"),
        ("2024-05-01 02:00:00+02", "2024-05-01"),
    ] {
        assert!(equal(&json!(one), &json!(other)), "{one} and {other}");
    }
    for (one, other) in [
        ("2024-05-01", "2024-05-01T00:00:01Z"),
        ("2024-05-01T10:00:00.1Z", "2024-05-01T10:00:00.2Z"),
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00+01:00"),
        // Invalid dates remain text.
        ("2024-02-30", "2024-02-30T00:00:00Z"),
        ("2024-05-01T24:00:00Z", "2024-05-02"),
        ("2024-05-01T10:00:60Z", "2024-05-01T10:01:00Z"),
        ("2024-05-01T10:00:00.Z", "2024-05-01T10:00:00Z"),
        ("2024-05-01T00", "2024-05-01"),
        ("01/05/2024", "2024-05-01"),
        ("2024-05-01T00:00:00+24:00", "2024-04-30"),
    ] {
        assert!(!equal(&json!(one), &json!(other)), "{one} and {other}");
    }
}

#[test]
fn near_numbers_are_equal_unless_both_are_integers() {
    for (one, other, expected) in [
        (0.5, 0.5 + 4e-7, true),
        (0.5, 0.5 + 6e-7, false),
        (0.0, 1e-9, true),
        (0.0, 2e-9, false),
        (0.000_5, 0.000_500_001, true),
        (-0.5, 0.5, false),
        (1e17, 1.000_000_000_000_000_2e17, true),
        (33_100.0, 33_100.000_000_001, true),
        (10_000_000.0, 10_000_000.5, true),
        (f64::MAX, f64::MIN, false),
        (f64::MIN_POSITIVE, 0.0, true),
    ] {
        assert_eq!(equal(&json!(one), &json!(other)), expected, "{one} {other}");
    }
}

#[test]
fn numeric_times_are_compared_precisely() {
    for (one, other, expected) in [
        // SQLite's julianday() and Postgres' extract(epoch from ..), 25 minutes later
        (2_460_431.885_416_666_5, 2_460_431.902_777_778, false),
        (1_714_541_700.75, 1_714_543_200.25, false),
        (1_714_541_700.75, 1_714_541_701.0, false),
        (1_714_541_700_250.5, 1_714_543_200_250.25, false),
        // float64 of pandas for a nanosecond time column with a gap
        (1.714_541_7e18, 1.714_543_2e18, false),
        (1_714_541_700.75, 1_714_541_700.750_000_2, true),
        (978_307_199.5, 978_307_200.5, false),
        // Too early or too late for times.
        (600_000_000.5, 600_000_001.5, true),
        (5_714_541_700.75, 5_714_541_701.25, true),
    ] {
        assert_eq!(equal(&json!(one), &json!(other)), expected, "{one} {other}");
    }
}

#[test]
fn rounding_to_decimals_only_widens_equality() {
    for (one, other, decimals, expected) in [
        (0.27, 0.273_72, 2, true),
        (0.27, 0.276, 2, false),
        (2.68, 2.675, 2, true),
        (-2.68, -2.675, 2, true),
        (3.0, 3.2, 0, true),
        (0.275, 0.274_999_999, 2, true),
        (1e300, 1.1e300, 2, false),
        (1e300, 5e300, 15, false),
        (-1e300, 1e300, 15, false),
        (0.5, 0.5 + 4e-7, 255, true),
    ] {
        let equal = equal_rounded(&json!(one), &json!(other), Some(decimals));
        assert_eq!(equal, expected, "{one} {other} {decimals}");
    }
    assert!(!equal_rounded(&json!(3), &json!(4), Some(0)));
}

/// JSON of any shape, with text that looks like numbers, dates and JSON.
pub(super) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[-+0-9.eE]{0,8}".prop_map(Value::from),
        "[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9](:[0-5][0-9](\\.[0-9]{0,9})?)?(Z|[+-][0-9:]{2,5})?"
            .prop_map(Value::from),
        "[\\[{][\\]}\",:0-9a ]{0,10}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[aAbB ]{0,2}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_cell_equals_itself_and_its_text(value in any_value()) {
        prop_assert!(equal(&value, &value));
        // A fraction on the border of two 12-digit spellings may be rounded either way.
        if !value.to_string().contains('.') && !value.is_string() && !value.is_boolean() && !value.is_null() {
            prop_assert!(equal(&value, &Value::from(value.to_string())));
        }
    }

    #[test]
    fn case_and_surrounding_white_space_are_ignored(text in "[a-zA-Z0-9:. -]{0,20}") {
        prop_assume!(text.trim() != "NaN");
        let shouted = format!("  {}\n", text.to_uppercase());
        prop_assume!(shouted.trim() != "NAN");
        prop_assert!(equal(&json!(text), &json!(shouted)));
    }

    #[test]
    fn equality_matches_its_definition(a in -10.0..10.0_f64, step in -3e-6..3e-6_f64) {
        let b = a + step;
        let tolerance = 1e-6 * a.abs().max(b.abs());
        // Too close to the limit for the precision of floats.
        prop_assume!(((a - b).abs() - tolerance).abs() > 1e-11 && tolerance > 2e-9);
        prop_assert_eq!(equal(&json!(a), &json!(b)), (a - b).abs() <= tolerance);
    }
}
