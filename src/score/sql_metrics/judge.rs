//! What the judge is asked about two queries, and what it answers: its reasoning, then one of three labels.

use std::sync::Arc;

use serde_json::{Value, json};

use super::MetricsCase;
use super::correctness::Label;
use crate::judge::{Fault, Limits, Nonce, Question};
use crate::score::criteria::{EXPECTED_QUERY, GENERATED_QUERY};
use crate::score::opinion::Opinion;
use crate::score::prompt::{Form, Part, question};
use crate::score::{BadRequest, Criteria};

/// Rises whenever the schema's meaning changes; it is part of the template hash, and of no criteria hash.
const VERSION: &str = "query-correctness-1";

/// What the judge thinks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
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

/// Reads a reply, or says what is wrong with it.
pub(super) fn read(value: &Value) -> Result<Verdict, Vec<Fault>> {
    let mut opinion = Opinion::of(value)?;
    let reasoning = opinion.reasons("reasoning");
    let label = opinion.label("label", "correct, partial or wrong");
    opinion.finish(
        reasoning
            .zip(label)
            .map(|(reasoning, label)| Verdict { label, reasoning }),
    )
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
