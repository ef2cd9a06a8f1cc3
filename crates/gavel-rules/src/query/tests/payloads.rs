use super::*;

/// Errors as `pointer: message`.
fn faults(payload: &Value) -> Vec<String> {
    let faults = QueryCase::read(payload).unwrap_err();
    faults
        .iter()
        .map(|fault| format!("{}: {}", fault.pointer, fault.message))
        .collect()
}

fn with(fields: Value) -> Value {
    let mut payload = json!({"generated_kql": "T", "expected_kql": "U"});
    for (name, value) in fields.as_object().unwrap() {
        payload[name] = value.clone();
    }
    payload
}

#[test]
fn only_the_two_queries_are_required() {
    let case = case(json!({"generated_kql": "T", "expected_kql": "U"}));
    assert_eq!((case.id, case.model, case.prompt), (None, None, None));
    assert_eq!(case.threshold, 0.9);
    assert_eq!(case.grammar, Grammar::Kql);
    assert_eq!(
        faults(&json!({})),
        [
            "/generated_kql: is missing; a query, as text, is expected",
            "/expected_kql: is missing; a query, as text, is expected",
        ]
    );
    assert_eq!(faults(&json!([])), [": is a list; an object is expected"]);
}

#[test]
fn null_equals_absent() {
    let mut nulls = with(json!({}));
    for field in FIELDS {
        if !nulls[field.name].is_string() {
            nulls[field.name] = Value::Null;
        }
    }
    let text = |payload| format!("{:?}", QueryCase::read(payload));
    assert_eq!(text(&nulls), text(&with(json!({}))));
}

#[test]
fn accepts_empty_generated_query_only() {
    assert!(QueryCase::read(&with(json!({"generated_kql": ""}))).is_ok());
    assert_eq!(
        faults(&with(json!({"expected_kql": " \n"}))),
        ["/expected_kql: is empty: give the query that is right"]
    );
    assert_eq!(
        faults(&with(json!({"expected_kql": "// none\n;"}))),
        ["/expected_kql: has only comments: give the query that is right"]
    );
}

#[test]
fn reports_all_errors_with_pointers() {
    let payload = json!({
        "generated_kql": 7,
        "expected_kq": "T",
        "generated_columns": "a, b",
        "expected_columns": ["a", 1],
        "generated_results": [{"a": 1}, 2, "x", [1], null],
        "expected_results": {"a": 1},
        "ordered": "sometimes",
        "decimals": 16,
        "threshold": 90,
        "language": "spl",
        "model": ["gpt-4o"],
        "accepted": [{"kql": " "}, {"kql": "T", "column": ["a"], "columns": ["a"]}, "T"],
    });
    assert_eq!(
        faults(&payload),
        [
            "/expected_kq: is unknown; did you mean expected_kql?",
            "/generated_kql: is 7; text is expected",
            "/expected_kql: is missing; a query, as text, is expected",
            "/model: is a list; text is expected",
            "/generated_columns: is \"a, b\"; a list of names is expected",
            "/generated_results/1: is a number; a row is an object, or a list of cells",
            "/generated_results/2: is text; a row is an object, or a list of cells",
            "/generated_results/4: is null; a row is an object, or a list of cells",
            "/expected_columns/1: is 1; the name of a column is expected",
            "/expected_results: is an object; a list of rows is expected",
            "/ordered: is \"sometimes\"; true, false or \"auto\" is expected",
            "/decimals: is 16; a whole number from 0 to 15 is expected",
            "/language: is \"spl\"; one of kql, sql is expected",
            "/threshold: is 90; a number from 0 to 1 is expected",
            "/accepted/0/kql: is empty: give the query that is right",
            "/accepted/1/column: is unknown; did you mean columns?",
            "/accepted/1/columns: stands without results: give both, or neither to have those of the expected query",
            "/accepted/2: is text; an object is expected",
        ]
    );
}

#[test]
fn suggests_fields_for_names_of_other_kinds() {
    let told = faults(&json!({"generated_sql": "select 1", "expected_sql": "select 1"}));
    assert_eq!(
        told[0],
        "/generated_sql: is unknown; did you mean generated_kql?"
    );
}

#[test]
fn limit_error_contains_actual_size() {
    let long = "x".repeat(64 * 1024 + 1);
    let wide: Vec<String> = (0..501).map(|n| format!("c{n}")).collect();
    let row: serde_json::Map<String, Value> =
        wide.iter().map(|name| (name.clone(), json!(1))).collect();
    for (fields, told) in [
        (
            json!({"generated_kql": long}),
            "/generated_kql: is 65537 bytes long; at most 65536 are taken: shorten it",
        ),
        (
            json!({"expected_kql": long}),
            "/expected_kql: is 65537 bytes long; at most 65536 are taken: shorten it",
        ),
        (
            json!({"prompt": long}),
            "/prompt: is 65537 bytes long; at most 65536 are taken: shorten it",
        ),
        (
            json!({"generated_error": "x".repeat(16 * 1024 + 1)}),
            "/generated_error: is 16385 bytes long; at most 16384 are taken: shorten it",
        ),
        (
            json!({"id": "x".repeat(256)}),
            "/id: is longer than 255 characters: shorten it",
        ),
        (
            json!({"generated_results": vec![json!([]); 10_001]}),
            "/generated_results: 10001 rows; at most 10000 are compared: aggregate, or take fewer",
        ),
        (
            json!({"expected_columns": wide}),
            "/expected_columns: has 501 names; at most 500 columns are compared: project those that matter",
        ),
        (
            json!({"expected_results": [[], row]}),
            "/expected_results/1: row 1 brings more than 500 columns: project those that matter",
        ),
        (
            json!({"accepted": vec![json!({"kql": "T"}); 17]}),
            "/accepted: has 17 answers; at most 16 are compared",
        ),
        (
            json!({"dialect": "mysql"}),
            "/dialect: only SQL has dialects: leave it out, or say language sql",
        ),
    ] {
        assert_eq!(faults(&with(fields)), [told]);
    }
    let most = json!({
        "generated_kql": "x".repeat(64 * 1024),
        "generated_results": vec![json!([1]); 10_000],
        "accepted": vec![json!({"kql": "T"}); 16],
    });
    assert!(QueryCase::read(&with(most)).is_ok());
}

#[test]
fn unknown_dialect_error_lists_dialects() {
    let told = faults(&with(json!({"language": "sql", "dialect": "oracle"})));
    assert!(told[0].starts_with("/dialect: is \"oracle\"; one of generic, postgres"));
    for name in ["Postgres", "postgresql", "TSQL", " duckdb "] {
        let read = QueryCase::read(&with(json!({"language": "SQL", "dialect": name})));
        assert!(matches!(read.unwrap().grammar, Grammar::Sql(_)), "{name}");
    }
}

#[test]
fn ordered_accepts_text() {
    for (given, ordered) in [
        (json!(true), Ordered::Yes),
        (json!("TRUE"), Ordered::Yes),
        (json!(false), Ordered::No),
        (json!("false"), Ordered::No),
        (json!("auto"), Ordered::Auto),
        (json!(" Auto "), Ordered::Auto),
        (json!(null), Ordered::No),
    ] {
        let case = case(with(json!({"ordered": given})));
        assert_eq!(case.ordered, ordered, "{given}");
    }
}

#[test]
fn columns_default_to_row_keys() {
    let rows = json!([{"a": 1}, {"b": 2, "a": 1}]);
    for columns in [json!(null), json!([])] {
        let case = case(with(
            json!({"generated_results": rows, "generated_columns": columns}),
        ));
        assert_eq!(case.generated.result.columns, ["a", "b"]);
    }
    let arrays = case(with(json!({"generated_results": [[1, 2]]})));
    assert!(arrays.generated.result.columns.is_empty());
}

#[test]
fn id_accepts_number() {
    assert_eq!(case(with(json!({"id": 7}))).id.as_deref(), Some("7"));
    assert_eq!(
        faults(&with(json!({"id": [7]}))),
        ["/id: is a list; text is expected"]
    );
}

#[test]
fn blank_error_and_names_count_as_absent() {
    let case = case(with(
        json!({"generated_error": " ", "model": "", "id": " q1 "}),
    ));
    assert_eq!((case.generated_error, case.model), (None, None));
    assert_eq!(case.id.as_deref(), Some("q1"));
}

proptest::proptest! {
    #[test]
    fn no_payload_panics(
        name in 0..FIELDS.len(),
        text in "\\PC{0,30}",
        number in proptest::num::f64::ANY,
    ) {
        for value in [json!(text), json!(number), json!([text, [number], {}]), json!({"kql": text})] {
            let mut payload = with(json!({}));
            payload[FIELDS[name].name] = value;
            if let Ok(case) = QueryCase::read(&payload) {
                let total = evaluated(&case, &[grade(0.5)]).total;
                proptest::prop_assert!(total.is_some_and(|total| (0.0..=1.0).contains(&total)));
            }
        }
    }
}
