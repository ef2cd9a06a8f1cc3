//! Request and parsing of a judge's opinion. The reasons come before the grade or label, because models score better after reasoning.
//!
//! Reports all errors at once, with messages for the judge. Unknown members are ignored.

use serde_json::{Value, json};

use super::JudgedBy;
use super::faults::kind;
use crate::{Fault, JudgeAnswer, JudgeError};

/// Maximum stored length of the reasons, in bytes. Longer ones are cut without a repair turn.
const LONGEST_REASONS: usize = 16 * 1024;
const SHOWN: usize = 40;

pub(super) struct ReplyForm<T> {
    pub(super) kind: &'static str,
    pub(super) schema_name: &'static str,
    /// Increment on any change of the schema or the checks. Part of the template's hash, but not of criteria hashes.
    pub(super) version: &'static str,
    pub(super) description: &'static str,
    pub(super) reasons: (&'static str, &'static str),
    /// Name and schema of the verdict. Bounds go into the description, because strict providers reject them as keywords.
    pub(super) verdict: (&'static str, fn() -> Value),
    pub(super) read: fn(Option<&Value>) -> Result<T, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum JudgeOpinion<T> {
    Replied {
        verdict: T,
        reasons: String,
        by: JudgedBy,
    },
    Failed(JudgeError),
    NotRun,
}

impl<T> ReplyForm<T> {
    /// Closed schema with all properties required, reasons first.
    pub(super) fn schema(&self) -> Value {
        let ((reasons, description), (verdict, schema)) = (self.reasons, self.verdict);
        json!({
            "type": "object",
            "description": self.description,
            "required": [reasons, verdict],
            "additionalProperties": false,
            "properties": {
                (reasons): { "type": "string", "description": description },
                (verdict): schema(),
            },
        })
    }

    pub(super) fn read(&self, reply: &Value) -> Result<(T, String), Vec<Fault>> {
        let Value::Object(members) = reply else {
            return Err(vec![Fault {
                pointer: String::new(),
                message: format!("the reply must be one JSON object, not {}", kind(reply)),
            }]);
        };
        let reasons = reasons(members.get(self.reasons.0));
        let verdict = (self.read)(members.get(self.verdict.0));
        match (verdict, reasons) {
            (Ok(verdict), Ok(reasons)) => Ok((verdict, reasons)),
            (verdict, reasons) => {
                let faults = [
                    (self.reasons.0, reasons.err()),
                    (self.verdict.0, verdict.err()),
                ];
                let fault = |(name, message): (&str, Option<String>)| {
                    let pointer = format!("/{name}");
                    message.map(|message| Fault { pointer, message })
                };
                Err(faults.into_iter().filter_map(fault).collect())
            }
        }
    }

    /// Converts an answer into an outcome. `None`: no judge was called.
    pub(super) fn judged(&self, answer: Option<&JudgeAnswer>) -> JudgeOpinion<T> {
        match answer {
            None => JudgeOpinion::NotRun,
            Some(Err(error)) => JudgeOpinion::Failed(error.clone()),
            Some(Ok(reply)) => match self.read(&reply.value) {
                Ok((verdict, reasons)) => JudgeOpinion::Replied {
                    verdict,
                    reasons,
                    by: JudgedBy::from(reply),
                },
                Err(faults) => JudgeOpinion::Failed(JudgeError::unusable(reply, &faults)),
            },
        }
    }
}

fn reasons(given: Option<&Value>) -> Result<String, String> {
    let text = given.and_then(Value::as_str).map(str::trim);
    match text.filter(|text| !text.is_empty()) {
        Some(text) => Ok(text[..text.floor_char_boundary(LONGEST_REASONS)].to_owned()),
        None => Err("is missing or empty; text is expected".to_owned()),
    }
}

/// Parses a number from 0 to 1.
pub(super) fn grade(given: Option<&Value>) -> Result<f64, String> {
    let grade = given.and_then(Value::as_f64);
    grade
        .filter(|grade| (0.0..=1.0).contains(grade))
        .ok_or_else(|| {
            let given = given.map_or_else(|| "missing".to_owned(), Value::to_string);
            let given: String = given.chars().take(SHOWN).collect();
            format!("is {given}; a number from 0 to 1 is expected")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: ReplyForm<f64> = ReplyForm {
        kind: "query",
        schema_name: "grade",
        version: "1",
        description: "A grade.",
        reasons: ("why", "The reasons."),
        verdict: ("score", || json!({ "type": "number" })),
        read: grade,
    };

    #[test]
    fn reports_all_errors_with_pointers() {
        const WHY: &str = "/why: is missing or empty; text is expected";
        let told = |reply: &Value| -> Vec<String> {
            let faults = FORM.read(reply).unwrap_err();
            faults.iter().map(Fault::to_string).collect()
        };
        for (reply, faults) in [
            (
                json!({"why": "a", "score": 1.01}),
                vec!["/score: is 1.01; a number from 0 to 1 is expected"],
            ),
            (
                json!({"why": "a", "score": "1"}),
                vec!["/score: is \"1\"; a number from 0 to 1 is expected"],
            ),
            (
                json!({"why": 7}),
                vec![WHY, "/score: is missing; a number from 0 to 1 is expected"],
            ),
            (json!({"why": " ", "score": 0}), vec![WHY]),
            (
                json!([]),
                vec!["the reply must be one JSON object, not a list"],
            ),
        ] {
            assert_eq!(told(&reply), faults, "{reply}");
        }
        let long = told(&json!({"why": "a", "score": "x".repeat(1_000)}));
        assert!(long[0].len() < 100, "{long:?}");
    }

    #[test]
    fn trims_and_cuts_reasons() {
        let reply =
            json!({"why": format!("  {}", "é".repeat(LONGEST_REASONS)), "score": 1, "more": 2});
        let (score, why) = FORM.read(&reply).unwrap();
        assert_eq!((score, why.len()), (1.0, LONGEST_REASONS));
        assert!(why.starts_with('é'));
    }

    #[test]
    fn schema_has_reasons_before_grade() {
        let schema = FORM.schema();
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["why", "score"]);
        assert_eq!(schema["required"], json!(names));
        assert_eq!(schema["additionalProperties"], json!(false));
    }
}
