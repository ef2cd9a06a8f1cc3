use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::MetricsCase;
use crate::criteria::{EXPECTED_QUERY, GENERATED_QUERY};
use crate::opinion::ReplyForm;
use crate::prompt::{Evidence, question};
use crate::{Criteria, Unscorable};
use crate::{Limits, Nonce, Question};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Label {
    Correct,
    Partial,
    Wrong,
}

impl Label {
    /// All labels, best first.
    const ALL: [Self; 3] = [Self::Correct, Self::Partial, Self::Wrong];

    /// Score from 0 to 1.
    pub(super) fn score(self) -> f64 {
        match self {
            Self::Correct => 1.0,
            Self::Partial => 0.5,
            Self::Wrong => 0.0,
        }
    }
}

pub(super) static FORM: ReplyForm<Label> = ReplyForm {
    kind: "sql_metrics",
    schema_name: "query_correctness",
    version: "query-correctness-1",
    description: "The correctness of one generated query.",
    reasons: (
        "reasoning",
        "What both queries return, and which difference matters; two to six sentences.",
    ),
    verdict: (
        "label",
        || json!({ "type": "string", "enum": Label::ALL, "description": "correct, partial or wrong." }),
    ),
    read: label,
};

pub(super) fn question_of(
    case: &MetricsCase,
    criteria: &Criteria,
    asked: (&Limits, &Nonce),
) -> Result<Question, Unscorable> {
    let expected = case.expected_sql.as_deref().unwrap_or_default();
    let evidence = [
        Evidence::new(EXPECTED_QUERY, "expected-sql", expected),
        Evidence::new(GENERATED_QUERY, "generated-sql", &case.generated_sql),
    ];
    question(&FORM, criteria, &criteria.prompt, &evidence, asked)
}

fn label(given: Option<&Value>) -> Result<Label, String> {
    let word = given.and_then(Value::as_str);
    let word = word.map(|word| Value::String(word.trim().to_ascii_lowercase()));
    word.and_then(|word| serde_json::from_value(word).ok())
        .ok_or_else(|| "is none of the labels; correct, partial or wrong is expected".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_has_reasoning_and_one_of_three_labels() {
        let good = FORM.read(&json!({ "reasoning": " same ", "label": "Correct" }));
        assert_eq!(good.unwrap(), (Label::Correct, "same".to_owned()));
        for reply in [
            json!({ "reasoning": "x", "label": "right" }),
            json!({ "label": "wrong" }),
            json!(1),
        ] {
            assert_eq!(FORM.read(&reply).unwrap_err().len(), 1, "{reply}");
        }
        assert_eq!(
            FORM.schema()["properties"]["label"]["enum"],
            json!(["correct", "partial", "wrong"])
        );
        assert_eq!(Label::ALL.map(Label::score), [1.0, 0.5, 0.0]);
    }
}
