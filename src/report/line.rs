//! A line of `evaluation-results.jsonl`: an [`Item`] and back, without loss.
//!
//! A QAS item has the shape that its origin gave these files: `test_id`, `question`, `agent_used`, `difficulty`, `expected_sql`, `generated_sql`,
//! `expected_results`, `actual_results`, `qas_evaluation`. Other kinds, and an item whose payload is no object, are `id`, `payload`, `result`.
//! Either has an object `gavel` with what gavel knows beyond that; a line without it, from elsewhere, is read as far as it goes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Item, ItemError, Outcome};
use crate::job::{Kind, Usage};
use crate::score::{About, about, name_of};

/// What gavel knows of an item beyond the line's own fields.
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
    /// Of a QAS item: what it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Of a QAS item: the fields of its payload that have no place of their own in the line.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    payload: Map<String, Value>,
    /// Of a QAS item: the fields that are null in the line and not there in its payload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    absent: Vec<String>,
}

/// An item as one line, without the line's end.
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
    // Neither has a key that isn't text, which is all that could go wrong.
    let gavel = serde_json::to_value(&gavel).unwrap_or(Value::Null);
    line.insert("gavel".to_owned(), gavel);
    Value::Object(line).to_string()
}

/// Reads a line back. `nth` is its place among the file's items, from 0: the `item_no` of a line that has none. The result `null` reads as none.
pub fn read(text: impl AsRef<[u8]>, nth: u64) -> Result<Item, String> {
    let mut line: Map<String, Value> = serde_json::from_slice(text.as_ref())
        .map_err(|error| format!("it is no JSON object: {error}"))?;
    match line.shift_remove("gavel") {
        Some(gavel) => {
            let gavel = serde_json::from_value(gavel).map_err(|e| format!("gavel: {e}"))?;
            Ok(own(line, gavel))
        }
        None if line.contains_key(About::LINE_RESULT) => Ok(foreign(line, nth)),
        None => Err("it has neither the object gavel nor the object qas_evaluation".to_owned()),
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

/// A QAS line of another program: its fields are the payload, and its evaluation tells the rest.
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

/// The name of a case, without reading it whole: it was checked when it was taken.
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
        fn a_line_reads_back_as_the_item_it_was_written_from(item in any_item()) {
            let line = write(&item);
            prop_assert!(!line.contains('\n'), "{}", line);
            prop_assert_eq!(read(&line, 7), Ok(item));
        }

        #[test]
        fn no_text_is_read_with_a_panic(text in ".{0,80}") {
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
    fn a_qas_line_has_the_shape_of_its_origin() {
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
    fn other_kinds_have_their_payload_and_result_whole() {
        let line: Value =
            serde_json::from_str(&write(&item(Kind::Query, json!({ "prompt": "p" })))).unwrap();
        assert_eq!(line["id"], "q-3");
        assert_eq!(line["payload"], json!({ "prompt": "p" }));
        assert_eq!(line["result"]["passed"], true);
        assert_eq!(line["gavel"]["kind"], "query");
    }

    #[test]
    fn a_line_of_the_origin_is_read_by_its_evaluation() {
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
    fn a_number_is_a_name_too() {
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
    fn what_is_no_item_says_what_it_lacks() {
        for (text, fault) in [
            ("[1]", "no JSON object"),
            ("{\"a\": 1", "no JSON object"),
            ("{\"a\": 1}", "neither the object gavel"),
            ("{\"gavel\": {\"item_no\": 1}}", "gavel: missing field"),
        ] {
            let error = read(text, 0).unwrap_err();
            assert!(error.contains(fault), "{text}: {error}");
        }
    }
}
