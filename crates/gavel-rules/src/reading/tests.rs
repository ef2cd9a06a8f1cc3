use serde_json::json;

use super::*;

const FIELDS: &[Field] = &[
    Field::text("id"),
    Field::json("is_valid"),
    Field::text("generated_sql"),
];

fn faults_of(payload: &Value, read: impl Fn(&mut ObjectReader<'_>)) -> Vec<String> {
    let mut reading = ObjectReader::begin(payload, FIELDS, Spelling::SnakeOrCamel).unwrap();
    read(&mut reading);
    let told = reading.finish().err().unwrap_or_default();
    told.iter()
        .map(|fault| format!("{} {}", fault.pointer, fault.message))
        .collect()
}

#[test]
fn accepts_one_of_two_spellings() {
    let none = |_: &mut ObjectReader<'_>| {};
    assert!(faults_of(&json!({ "isValid": true, "generated_sql": "" }), none).is_empty());
    let found = faults_of(
        &json!({ "isValid": true, "is_valid": true, "generatedSqll": 1, "zzz/~": 1 }),
        none,
    );
    assert_eq!(
        found,
        [
            "/isValid is is_valid in another spelling, and both are given: leave one out",
            "/generatedSqll is unknown; did you mean generated_sql?",
        ]
    );
    let payload = json!({ "isValid": true });
    let snake = ObjectReader::begin(&payload, FIELDS, Spelling::Snake).unwrap();
    assert_eq!(snake.finish().unwrap_err().len(), 1);
}

#[test]
fn too_many_fields_is_checked_before_names() {
    let payload = |fields: usize| -> Value {
        let names = (0..fields).map(|n| (format!("generated_sq{n}"), json!(n)));
        Value::Object(names.collect())
    };
    let faults = |fields| {
        let payload = payload(fields);
        match ObjectReader::begin(&payload, FIELDS, Spelling::Snake) {
            Ok(reading) => reading.finish().unwrap_err(),
            Err(faults) => faults,
        }
    };
    // Each of them resembles a known name, and is reported.
    assert_eq!(faults(MAX_FIELDS).len(), 101);
    let told = faults(100_000);
    assert_eq!(told.len(), 1);
    assert_eq!(
        told[0].message,
        "has 100000 fields; at most 500 are taken: leave some out"
    );
}

#[test]
fn error_pointer_matches_field() {
    let found = faults_of(&json!({ "isValid": "yes", "id": [1] }), |reading| {
        assert_eq!(reading.boolean("is_valid"), None);
        assert_eq!(reading.name("id"), None);
        reading.missing("id", "a name");
        reading.missing("generated_sql", "the query");
    });
    assert_eq!(
        found,
        [
            "/isValid is \"yes\"; true or false is expected",
            "/id is a list; text is expected",
            "/generated_sql is missing; the query is expected",
        ]
    );
}

#[test]
fn limits_lists_and_texts() {
    let long = "x".repeat(LONGEST_TEXT + 1);
    let found = faults_of(
        &json!({ "id": [long], "generated_sql": long, "is_valid": [1, "a", null] }),
        |reading| {
            assert_eq!(reading.texts("id"), None);
            assert_eq!(reading.text("generated_sql"), None);
            let _ = reading.texts("is_valid");
        },
    );
    assert_eq!(
        found,
        [
            "/id holds 65537 bytes; at most 65536 are taken: shorten it",
            "/generated_sql is 65537 bytes long; at most 65536 are taken: shorten it",
            "/is_valid/0 is 1; text is expected",
            "/is_valid/2 is null; text is expected",
        ]
    );
}

#[test]
fn a_payload_is_an_object() {
    let payload = json!([1]);
    let faults = ObjectReader::begin(&payload, FIELDS, Spelling::Snake)
        .err()
        .unwrap();
    assert_eq!(faults[0].message, "is a list; an object is expected");
}

#[test]
fn boolean_accepts_text() {
    for (given, truth) in [
        (json!(true), Some(true)),
        (json!("TRUE"), Some(true)),
        (json!(" False "), Some(false)),
        (json!(""), None),
    ] {
        let payload = json!({ "is_valid": given });
        let mut reading = ObjectReader::begin(&payload, FIELDS, Spelling::Snake).unwrap();
        assert_eq!(reading.boolean("is_valid"), truth, "{payload}");
        assert!(reading.finish().is_ok(), "{payload}");
    }
}

#[test]
fn nested_object_errors_have_full_pointers() {
    let payload = json!({ "id": [{ "idd": 1, "generated_sql": 7, "zzz": 1 }, 8] });
    let found = faults_of(&payload, |reading| {
        let (place, items) = reading.list("id", "objects").unwrap();
        for (at, item) in items.iter().enumerate() {
            let within = reading.within(format!("{place}/{at}"), item, FIELDS);
            if let Some(mut within) = within {
                assert_eq!(within.text("generated_sql"), None);
                within.missing("id", "a name");
                reading.adopt(within);
            }
        }
    });
    assert_eq!(
        found,
        [
            "/id/0/idd is unknown; did you mean id?",
            "/id/0/zzz is unknown; known: id, is_valid, generated_sql",
            "/id/0/generated_sql is 7; text is expected",
            "/id/0/id is missing; a name is expected",
            "/id/1 is a number; an object is expected",
        ]
    );
}

#[test]
fn name_accepts_number() {
    let payload = json!({ "id": 7 });
    let mut reading = ObjectReader::begin(&payload, FIELDS, Spelling::Snake).unwrap();
    assert_eq!(reading.name("id").as_deref(), Some("7"));
}
