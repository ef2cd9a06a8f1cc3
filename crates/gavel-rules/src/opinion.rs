//! A judge's opinion of a case, asked for and read: the reasons in words, then a grade or a label, so that it argues before it counts.
//!
//! Every fault is told at once, in words that the judge can act on. Members that nobody asked for are ignored.

use serde_json::{Value, json};

use super::JudgedBy;
use super::faults::kind;
use crate::{ErrorClass, Fault, JudgeAnswer, JudgeError, Reply};

/// The longest reasons that are kept, in bytes: a judge that has more to say is cut, and isn't asked again for that.
const LONGEST_REASONS: usize = 16 * 1024;
/// The most that a fault repeats of what was given, in characters.
const SHOWN: usize = 40;

pub(super) struct ReplyForm<T> {
    pub(super) kind: &'static str,
    /// The reply's name for providers that want one.
    pub(super) schema_name: &'static str,
    /// Rises whenever the meaning of the schema or of the checks changes; it is part of the template's hash, and of no criteria hash.
    pub(super) version: &'static str,
    pub(super) description: &'static str,
    /// Name and description of the reasons.
    pub(super) reasons: (&'static str, &'static str),
    /// Name and schema of the verdict. Strict providers refuse bounds as keywords: they stand in words.
    pub(super) verdict: (&'static str, fn() -> Value),
    pub(super) read: fn(Option<&Value>) -> Result<T, String>,
}

/// What became of a judge's part.
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
    /// Closed, every property required, the reasons first.
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

    /// The verdict and its reasons, or what is wrong with the reply.
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

    /// What an answer comes to; `None`: nobody was asked.
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
                Err(faults) => JudgeOpinion::Failed(unusable(reply, &faults)),
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

/// A number from 0 to 1.
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

/// The error of a reply that was good when it came and isn't now: it was kept by a release that took more.
fn unusable(reply: &Reply, faults: &[Fault]) -> JudgeError {
    JudgeError {
        class: ErrorClass::Unparsable,
        message: format!(
            "the reply of judge {} can't be used: {}",
            reply.provider,
            Fault::in_words(faults)
        ),
        status: None,
        retry_after: None,
        raw_reply: Some(reply.value.to_string()),
        unasked: None,
    }
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
    fn what_is_wrong_is_told_at_once_with_its_place() {
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
    fn reasons_are_trimmed_and_cut_between_characters() {
        let reply =
            json!({"why": format!("  {}", "é".repeat(LONGEST_REASONS)), "score": 1, "more": 2});
        let (score, why) = FORM.read(&reply).unwrap();
        assert_eq!((score, why.len()), (1.0, LONGEST_REASONS));
        assert!(why.starts_with('é'));
    }

    #[test]
    fn the_reasons_are_asked_for_before_the_grade_and_nothing_else_is() {
        let schema = FORM.schema();
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["why", "score"]);
        assert_eq!(schema["required"], json!(names));
        assert_eq!(schema["additionalProperties"], json!(false));
    }
}
