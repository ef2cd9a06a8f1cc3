//! Line of `evaluation-results.jsonl`: converts an [`Item`] and back without loss.
//!
//! A QAS item has the fields of the original program: `test_id`, `question`, `agent_used`, `difficulty`, `expected_sql`, `generated_sql`,
//! `expected_results`, `actual_results`, `qas_evaluation`. Other kinds, and items whose payload isn't an object, have `id`, `payload`,
//! `result`. Both have an object `gavel` with further fields. From a line without it (of another program), the known fields are read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Item, ItemError, Outcome};
use crate::job::{Kind, Usage};
use crate::score::{About, about, name_of};

/// Fields of an item beyond the original ones.
#[derive(Serialize, Deserialize)]
struct Gavel {
    item_no: u64,
    kind: Kind,
    outcome: Outcome,
    #[serde(default)]
    total: Option<f64>,
    #[serde(default)]
    passed: Option<bool>,
    #[serde(default)]
    error: Option<ItemError>,
    #[serde(default)]
    simulated: bool,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    job_id: Option<Uuid>,
    /// Name of a QAS item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Of a QAS item: fields of its payload without a field in the line.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    payload: Map<String, Value>,
    /// Of a QAS item: fields that are null in the line and missing in its payload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    absent: Vec<String>,
}

/// Returns an item as one line, without the line end.
pub fn write(item: &Item) -> String {
    let mut gavel = Gavel {
        item_no: item.item_no,
        kind: item.kind,
        outcome: item.outcome,
        total: item.total,
        passed: item.passed,
        error: item.error.clone(),
        simulated: item.simulated,
        usage: item.usage,
        job_id: item.job_id,
        id: None,
        payload: Map::new(),
        absent: Vec::new(),
    };
    let mut line = Map::new();
    let result = item.result.clone().unwrap_or(Value::Null);
    match (item.about().line_fields, &item.payload) {
        (names @ [_, ..], Value::Object(payload)) => {
            gavel.id = item.id.clone();
            let mut rest = payload.clone();
            for name in names.iter().copied() {
                let value = rest.shift_remove(name).unwrap_or_else(|| {
                    gavel.absent.push(name.to_owned());
                    Value::Null
                });
                line.insert(name.to_owned(), value);
            }
            gavel.payload = rest;
            line.insert(About::LINE_RESULT.to_owned(), result);
        }
        (_, payload) => {
            line.insert("id".to_owned(), item.id.clone().into());
            line.insert("payload".to_owned(), payload.clone());
            line.insert("result".to_owned(), result);
        }
    }
    // All keys are text, so serialization doesn't fail.
    let gavel = serde_json::to_value(&gavel).unwrap_or(Value::Null);
    line.insert("gavel".to_owned(), gavel);
    Value::Object(line).to_string()
}

/// Parses a line. `nth` is its index in the file, used as `item_no` if the line has none. A `null` result is read as `None`.
pub fn read(text: impl AsRef<[u8]>, nth: u64) -> Result<Item, String> {
    let mut line: Map<String, Value> = serde_json::from_slice(text.as_ref())
        .map_err(|error| format!("it is no JSON object: {error}"))?;
    match line.shift_remove("gavel") {
        Some(gavel) => {
            let gavel = serde_json::from_value(gavel).map_err(|e| format!("gavel: {e}"))?;
            Ok(own(line, gavel))
        }
        None if line.contains_key(About::LINE_RESULT) => Ok(foreign(line, nth)),
        None => Err("it has no object gavel or qas_evaluation".to_owned()),
    }
}

fn own(mut line: Map<String, Value>, gavel: Gavel) -> Item {
    let is_generic = line.contains_key("payload");
    let mut take = |name: &str| line.shift_remove(name).unwrap_or(Value::Null);
    let (id, payload, result) = if is_generic {
        let id = take("id").as_str().map(str::to_owned);
        (id, take("payload"), take("result"))
    } else {
        let mut payload: Map<String, Value> = about(gavel.kind)
            .line_fields
            .iter()
            .filter(|name| !gavel.absent.iter().any(|absent| absent == *name))
            .map(|name| ((*name).to_owned(), take(name)))
            .collect();
        payload.extend(gavel.payload);
        (gavel.id, Value::Object(payload), take(About::LINE_RESULT))
    };
    Item {
        item_no: gavel.item_no,
        kind: gavel.kind,
        id,
        payload,
        outcome: gavel.outcome,
        total: gavel.total,
        passed: gavel.passed,
        result: Some(result).filter(|result| !result.is_null()),
        error: gavel.error,
        simulated: gavel.simulated,
        usage: gavel.usage,
        job_id: gavel.job_id,
    }
}

/// Reads a QAS line of another program: its fields are the payload, and its evaluation the result.
fn foreign(mut line: Map<String, Value>, nth: u64) -> Item {
    let kind = About::kind_of_foreign_lines();
    let result = line.shift_remove(About::LINE_RESULT);
    let (total, passed) = result
        .as_ref()
        .map_or((None, None), |result| about(kind).verdict_of(result));
    Item {
        item_no: nth,
        kind,
        id: name_of(kind, &line),
        outcome: Outcome::from_total(total),
        total,
        passed,
        payload: Value::Object(line),
        result: result.filter(|result| !result.is_null()),
        error: None,
        simulated: false,
        usage: Usage::default(),
        job_id: None,
    }
}

/// Returns the name of a case without parsing it completely, because it was validated when it was accepted.
pub fn id_of(kind: Kind, payload: &Value) -> Option<String> {
    payload
        .as_object()
        .filter(|_| kind.is_case())
        .and_then(|fields| name_of(kind, fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::source::tests::any_item;
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        #[test]
        fn line_round_trips(item in any_item()) {
            let line = write(&item);
            prop_assert!(!line.contains('\n'), "{}", line);
            prop_assert_eq!(read(&line, 7), Ok(item));
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in ".{0,80}") {
            let _ = read(&text, 0);
        }
    }

    fn item(kind: Kind, payload: Value) -> Item {
        Item {
            item_no: 3,
            kind,
            id: Some("q-3".to_owned()),
            payload,
            outcome: Outcome::Scored,
            total: Some(0.98),
            passed: Some(true),
            result: Some(json!({ "final_score": 0.98, "passed": true })),
            error: None,
            simulated: true,
            usage: Usage::default(),
            job_id: None,
        }
    }

    #[test]
    fn qas_line_has_original_fields() {
        let payload = json!({ "question": "How many?", "test_id": "q-3", "category": "counts", "success": true });
        let line: Map<String, Value> =
            serde_json::from_str(&write(&item(Kind::Qas, payload))).unwrap();
        let keys: Vec<&String> = line.keys().collect();
        assert_eq!(keys[..8], *about(Kind::Qas).line_fields);
        assert_eq!(keys[8..], ["qas_evaluation", "gavel"]);
        assert_eq!(line["question"], "How many?");
        assert_eq!(line["expected_sql"], Value::Null);
        assert_eq!(line["qas_evaluation"]["final_score"], 0.98);
        assert_eq!(line["gavel"]["simulated"], true);
        assert_eq!(
            line["gavel"]["payload"],
            json!({ "category": "counts", "success": true })
        );
    }

    #[test]
    fn other_kinds_have_payload_and_result() {
        let line: Value =
            serde_json::from_str(&write(&item(Kind::Query, json!({ "prompt": "p" })))).unwrap();
        assert_eq!(line["id"], "q-3");
        assert_eq!(line["payload"], json!({ "prompt": "p" }));
        assert_eq!(line["result"]["passed"], true);
        assert_eq!(line["gavel"]["kind"], "query");
    }

    #[test]
    fn reads_line_of_original_program() {
        let text = r#"{"test_id":"t1","question":"q","agent_used":"sql","qas_evaluation":{"final_score":0.4,"passed":false}}"#;
        let item = read(text, 12).unwrap();
        assert_eq!(
            (item.item_no, item.kind, item.outcome),
            (12, Kind::Qas, Outcome::Scored)
        );
        assert_eq!((item.total, item.passed), (Some(0.4), Some(false)));
        assert_eq!(item.payload["agent_used"], "sql");
    }

    #[test]
    fn number_can_be_a_name() {
        for (kind, payload, name) in [
            (Kind::Query, json!({"id": 1}), Some("1")),
            (Kind::SqlMetrics, json!({"id": " a "}), Some("a")),
            (Kind::Qas, json!({"test_id": 5, "id": 6}), Some("5")),
            (Kind::Query, json!({"id": ""}), None),
            (Kind::Query, json!({"id": null}), None),
        ] {
            assert_eq!(id_of(kind, &payload).as_deref(), name, "{payload}");
        }
        let text = r#"{"test_id":7,"qas_evaluation":{"final_score":0.4}}"#;
        assert_eq!(read(text, 0).unwrap().id.as_deref(), Some("7"));
    }

    #[test]
    fn invalid_item_reports_missing_field() {
        for (text, fault) in [
            ("[1]", "no JSON object"),
            ("{\"a\": 1", "no JSON object"),
            ("{\"a\": 1}", "it has no object gavel"),
            ("{\"gavel\": {\"item_no\": 1}}", "gavel: missing field"),
        ] {
            let error = read(text, 0).unwrap_err();
            assert!(error.contains(fault), "{text}: {error}");
        }
    }
}
