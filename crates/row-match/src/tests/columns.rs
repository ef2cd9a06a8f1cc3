use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Options, Table, compare, schema_match};
use super::compared;

fn named(names: &[&str], rows: &Value) -> Table {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Table::from_values(rows.as_array().unwrap(), Some(&names)).unwrap()
}

#[test]
fn columns_map_by_name_else_by_values() {
    for (expected, generated, score) in [
        // Names are trimmed and case-insensitive, in any position, with any other columns.
        (
            r#"[{" Level ":1,"b":2}]"#,
            r#"[{"c":1,"B":2,"LEVEL":1}]"#,
            1.0,
        ),
        (r#"[{"a":1,"b":2}]"#, r#"[{"x":2,"y":1}]"#, 1.0),
        (r#"[{"a":1,"b":2}]"#, r#"[{"a":1,"y":2,"z":3}]"#, 1.0),
        // A name match has priority over better values.
        (r#"[{"a":1,"b":2}]"#, r#"[{"a":2,"b":1}]"#, 0.0),
        (r#"[{"a":1}]"#, r#"[{"a":2,"x":1}]"#, 0.0),
        // Rows don't match if a column is missing.
        (r#"[{"a":1,"b":2}]"#, r#"[{"a":1}]"#, 0.0),
        (r#"[{"a":1,"b":null}]"#, r#"[{"a":1}]"#, 0.0),
        (r#"[{"a":1,"b":1}]"#, r#"[{"a":1}]"#, 0.0),
        (r#"[{"a":1,"b":1}]"#, r#"[{"x":1}]"#, 0.0),
        (r#"[{"a":1,"b":2}]"#, r#"[{"a":1,"x":3}]"#, 0.0),
        (r#"[{"a":1,"b":null}]"#, r#"[{"a":1,"x":null}]"#, 1.0),
        ("[[1,2],[3,4]]", "[[2,1],[4,3]]", 1.0),
        ("[[1,2],[3,4]]", r#"[{"p":3,"q":4},{"p":1,"q":2}]"#, 1.0),
        ("[[1,2],[3]]", "[[1,2],[3,null]]", 1.0),
        // Near numbers count as common values.
        (r#"[{"a":0.5,"b":7}]"#, r#"[{"x":7,"y":0.5000000001}]"#, 1.0),
    ] {
        let found = compared(expected, generated);
        assert_eq!(found.score, score, "{expected} {generated}");
    }
}

#[test]
fn columns_with_equal_values_map_by_rows() {
    // Both columns contain 1, 2, 3, but only one mapping matches the rows.
    let found = compared(
        r#"[{"a":1,"b":2},{"a":2,"b":3},{"a":3,"b":1}]"#,
        r#"[{"x":2,"y":1},{"x":3,"y":2},{"x":1,"y":3}]"#,
    );
    assert_eq!((found.score, found.columns), (1.0, vec![Some(1), Some(0)]));
    // With a third of the rows wrong, the others still determine the mapping.
    let found = compared(
        r#"[{"k":1,"a":1,"b":2},{"k":2,"a":2,"b":3},{"k":3,"a":3,"b":1}]"#,
        r#"[{"k":3,"x":1,"y":3},{"k":1,"x":2,"y":1},{"k":2,"x":3,"y":9}]"#,
    );
    assert_eq!(found.matched, 2);
}

#[test]
fn maps_all_columns_rather_than_best_pair() {
    // `a` shares more values with x, but `b` shares values only with x.
    let found = compared(
        r#"[{"a":1,"b":1},{"a":2,"b":7},{"a":3,"b":7}]"#,
        r#"[{"x":1,"y":1},{"x":2,"y":4},{"x":3,"y":4}]"#,
    );
    assert!(found.columns.iter().all(Option::is_some));
    assert_eq!(found.matched, 1);
}

#[test]
fn duplicate_names_map_by_values() {
    let expected = named(&["id", "name", "id"], &json!([[1, "a", 10], [2, "b", 20]]));
    for (names, rows, score) in [
        (
            ["id", "name", "id"],
            json!([[10, "a", 1], [20, "b", 2]]),
            1.0,
        ),
        (
            ["id", "name", "other_id"],
            json!([[10, "a", 1], [20, "b", 2]]),
            1.0,
        ),
        (["id", "name", "id"], json!([[1, "a", 1], [2, "b", 2]]), 0.0),
    ] {
        let found = compare(&expected, &named(&names, &rows), &Options::default());
        assert_eq!(found.score, score, "{names:?} {rows}");
    }
    // Only one side has the name twice.
    let expected = named(
        &["name", "city", "n"],
        &json!([["Ada", "Rome", 1], ["Bo", "Oslo", 2]]),
    );
    for (names, rows, score) in [
        (
            ["name", "name", "n"],
            json!([["Rome", "Ada", 1], ["Oslo", "Bo", 2]]),
            1.0,
        ),
        (
            ["name", "name", "name"],
            json!([[1, "Rome", "Ada"], [2, "Oslo", "Bo"]]),
            1.0,
        ),
        (
            ["name", "name", "n"],
            json!([["Rome", "Rome", 1], ["Oslo", "Oslo", 2]]),
            0.0,
        ),
    ] {
        let found = compare(&expected, &named(&names, &rows), &Options::default());
        assert_eq!(found.score, score, "{names:?} {rows}");
    }
    let found = compared(r#"[{"Id":1,"ID":2}]"#, r#"[{"id":2,"Id":1}]"#);
    assert_eq!(found.score, 1.0);
}

#[test]
fn keys_in_different_case_are_one_column() {
    let found = compared(
        r#"[{"a":1,"b":2},{"B":4,"A":3}]"#,
        r#"[{"A":3,"b":4},{"a":1,"b":2}]"#,
    );
    assert_eq!((found.score, found.columns.len()), (1.0, 2));
}

#[test]
fn named_column_without_values_is_null() {
    let expected = named(&["a", "b"], &json!([{"a": 1}]));
    let without = named(&["a"], &json!([{"a": 1}]));
    let options = Options::default();
    assert_eq!(compare(&expected, &expected, &options).score, 1.0);
    assert_eq!(compare(&expected, &without, &options).score, 0.0);
    assert_eq!(compare(&without, &expected, &options).score, 1.0);
}

#[test]
fn columns_map_only_by_name_without_rows() {
    let expected = named(&["a", "b", "c", "c"], &json!([]));
    let generated = named(&["x", "C", "[a]", "c"], &json!([]));
    let found = compare(&expected, &generated, &Options::default());
    assert_eq!(found.columns, [Some(2), None, Some(1), Some(3)]);
    assert_eq!(found.score, 1.0);
}

#[test]
fn schema_match_counts_expected_names_found() {
    let own = |names: &[&str]| -> Vec<String> { names.iter().map(|&n| n.to_owned()).collect() };
    for (expected, generated, score) in [
        (&["a", "b"][..], &["B", " a ", "c"][..], 1.0),
        (&["a", "b"], &["a"], 0.5),
        (&["a", "A", "b"], &["a"], 0.5),
        (
            &["['my col']", "\"b\"", "[c]", "`d`"],
            &["my col", "b", "c", "d"],
            1.0,
        ),
        (&[], &[], 1.0),
        (&[], &["a"], 1.0),
        (&["a"], &[], 0.0),
    ] {
        let found = schema_match(&own(expected), &own(generated));
        assert_eq!(found.score, score, "{expected:?} {generated:?}");
    }
    let found = schema_match(&own(&["Level", "n", "N"]), &own(&["x", "LEVEL"]));
    assert_eq!(found.matched, ["Level"]);
    assert_eq!(found.missing, ["n"]);
    assert_eq!(found.extra, ["x"]);
}

/// Table of small numbers, so that columns and rows repeat.
fn cells() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (1..6_usize, 1..9_usize).prop_flat_map(|(width, rows)| {
        prop::collection::vec(prop::collection::vec(0..3_u8, width), rows)
    })
}

proptest! {
    #[test]
    fn renaming_and_shuffling_preserves_matches(
        cells in cells(), columns in any::<prop::sample::Index>(), rows in any::<prop::sample::Index>(),
    ) {
        let mut generated = cells.clone();
        let width = cells[0].len();
        let turn = columns.index(width);
        for row in &mut generated {
            row.rotate_left(turn);
            row.reverse();
        }
        let count = generated.len();
        generated.rotate_left(rows.index(count));
        let read = |name: &str, cells: &[Vec<u8>]| {
            let names: Vec<String> = (0..width).map(|at| format!("{name}{at}")).collect();
            let rows: Vec<Value> = cells.iter().map(|row| json!(row)).collect();
            Table::from_values(&rows, Some(&names)).unwrap()
        };
        let found = compare(&read("a", &cells), &read("b", &generated), &Options::default());
        prop_assert_eq!(found.score, 1.0);
        prop_assert_eq!(found.precision, 1.0);
        prop_assert!(!found.cut_short);
    }
}
