//! What the judge is asked about two queries, and what it answers: its reasoning, then one of three labels.

use std::sync::Arc;

use serde_json::{Value, json};

use super::MetricsCase;
use super::correctness::Label;
use crate::judge::{Fault, Limits, Nonce, Question};
use crate::score::criteria::{EXPECTED_QUERY, GENERATED_QUERY};
use crate::score::faults::kind;
use crate::score::prompt::{Form, Part, question};
use crate::score::{BadRequest, Criteria};

/// Rises whenever the schema's meaning changes; it is part of the template hash, and of no criteria hash.
const VERSION: &str = "query-correctness-1";
/// The longest reasoning, in bytes.
const LONGEST: usize = 16 * 1024;

/// What the judge thinks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Opinion {
    /// Its choice.
    pub(super) label: Label,
    /// Why.
    pub(super) reasoning: String,
}

/// Asks how right the generated query of a case is.
pub(super) fn ask(
    case: &MetricsCase,
    criteria: &Criteria,
    asked: (&Limits, &Nonce),
) -> Result<Question, BadRequest> {
    let parts = [
        Part {
            placeholder: EXPECTED_QUERY,
            name: "expected-sql",
            text: case.expected_sql.as_deref().unwrap_or_default(),
        },
        Part {
            placeholder: GENERATED_QUERY,
            name: "generated-sql",
            text: &case.generated_sql,
        },
    ];
    let form = Form {
        kind: "sql_metrics",
        schema_name: "query_correctness",
        version: VERSION,
        schema,
        check: Arc::new(|value| read(value).map(drop)),
    };
    question(form, criteria, &criteria.prompt, &parts, asked)
}

/// Closed, every property required, the reasoning first: the judge argues before it chooses.
fn schema() -> Value {
    json!({
        "type": "object",
        "description": "The correctness of one generated query.",
        "required": ["reasoning", "label"],
        "additionalProperties": false,
        "properties": {
            "reasoning": {
                "type": "string",
                "description": "What both queries return, and which difference matters; two to six sentences.",
            },
            "label": { "type": "string", "enum": Label::ALL, "description": "correct, partial or wrong." },
        },
    })
}

/// Reads a reply, or says what is wrong with it. Unknown keys are ignored.
pub(super) fn read(value: &Value) -> Result<Opinion, Vec<Fault>> {
    let Value::Object(reply) = value else {
        return Err(vec![fault(
            "",
            format!("the reply must be one JSON object, not {}", kind(value)),
        )]);
    };
    let mut faults = Vec::new();
    let reasoning = reply
        .get("reasoning")
        .and_then(Value::as_str)
        .map(str::trim);
    let reasoning = reasoning.filter(|text| !text.is_empty());
    if reasoning.is_none() {
        faults.push(fault(
            "/reasoning",
            "is missing or empty; text is expected".to_owned(),
        ));
    }
    let word = reply
        .get("label")
        .and_then(Value::as_str)
        .map(|word| word.trim().to_ascii_lowercase());
    let label: Option<Label> =
        word.and_then(|word| serde_json::from_value(Value::String(word)).ok());
    if label.is_none() {
        faults.push(fault(
            "/label",
            "is none of the labels; correct, partial or wrong is expected".to_owned(),
        ));
    }
    match (reasoning, label) {
        (Some(reasoning), Some(label)) => Ok(Opinion {
            label,
            reasoning: reasoning[..reasoning.floor_char_boundary(LONGEST)].to_owned(),
        }),
        (Some(_) | None, Some(_) | None) => Err(faults),
    }
}

fn fault(pointer: &str, message: String) -> Fault {
    Fault {
        pointer: pointer.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_its_reasoning_and_one_of_three_labels() {
        let good = read(&json!({ "reasoning": " same ", "label": "Correct" })).unwrap();
        assert_eq!(
            (good.label, good.reasoning.as_str()),
            (Label::Correct, "same")
        );
        for reply in [
            json!({ "reasoning": "x", "label": "right" }),
            json!({ "label": "wrong" }),
            json!(1),
        ] {
            assert_eq!(read(&reply).unwrap_err().len(), 1, "{reply}");
        }
        assert_eq!(
            schema()["properties"]["label"]["enum"],
            json!(["correct", "partial", "wrong"])
        );
    }
}
