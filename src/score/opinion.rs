//! A judge's opinion of a case, read from its reply: the reasons in words, and a grade or a label. Knows no kind.
//!
//! Every fault is told at once, in words that the judge can act on. Members that nobody asked for are ignored.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::faults::kind;
use crate::judge::{ErrorClass, Fault, JudgeError, Reply};

/// The longest reasons that are kept, in bytes: a judge that has more to say is cut, and isn't asked again for that.
const LONGEST_REASONS: usize = 16 * 1024;
/// The most that a fault repeats of what was given, in characters.
const SHOWN: usize = 40;

/// A reply that is being read.
pub(super) struct Opinion<'a> {
    members: &'a Map<String, Value>,
    faults: Vec<Fault>,
}

impl<'a> Opinion<'a> {
    /// Begins with a reply.
    ///
    /// # Errors
    /// It is no object.
    pub(super) fn of(reply: &'a Value) -> Result<Self, Vec<Fault>> {
        match reply {
            Value::Object(members) => Ok(Self {
                members,
                faults: Vec::new(),
            }),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(vec![Fault {
                pointer: String::new(),
                message: format!("the reply must be one JSON object, not {}", kind(reply)),
            }]),
        }
    }

    /// Text that isn't blank, trimmed.
    pub(super) fn reasons(&mut self, name: &str) -> Option<String> {
        let text = self.members.get(name).and_then(Value::as_str);
        match text.map(str::trim).filter(|text| !text.is_empty()) {
            Some(text) => Some(text[..text.floor_char_boundary(LONGEST_REASONS)].to_owned()),
            None => self.fault(name, "is missing or empty; text is expected".to_owned()),
        }
    }

    /// A number from 0 to 1.
    pub(super) fn grade(&mut self, name: &str) -> Option<f64> {
        let given = self.members.get(name);
        let grade = given.and_then(Value::as_f64);
        let grade = grade.filter(|grade| (0.0..=1.0).contains(grade));
        if grade.is_some() {
            return grade;
        }
        let given = given.map_or_else(|| "missing".to_owned(), Value::to_string);
        let given: String = given.chars().take(SHOWN).collect();
        self.fault(
            name,
            format!("is {given}; a number from 0 to 1 is expected"),
        )
    }

    /// One of some words, in any case; `words` names them in a fault.
    pub(super) fn label<T: DeserializeOwned>(&mut self, name: &str, words: &str) -> Option<T> {
        let word = self.members.get(name).and_then(Value::as_str);
        let word = word.map(|word| Value::String(word.trim().to_ascii_lowercase()));
        match word.and_then(|word| serde_json::from_value(word).ok()) {
            Some(label) => Some(label),
            None => self.fault(name, format!("is none of the labels; {words} is expected")),
        }
    }

    fn fault<T>(&mut self, name: &str, message: String) -> Option<T> {
        self.faults.push(Fault {
            pointer: format!("/{name}"),
            message,
        });
        None
    }

    /// What was read; if something wasn't, the faults.
    pub(super) fn finish<T>(self, read: Option<T>) -> Result<T, Vec<Fault>> {
        read.ok_or(self.faults)
    }
}

/// The error of a reply that was good when it came and isn't now: it was kept by a release that took more.
pub(super) fn unusable(reply: &Reply, faults: &[Fault]) -> JudgeError {
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
    use serde_json::json;

    use super::*;

    /// The places and words of what is wrong with a reply of reasons and a grade.
    fn told(reply: &Value) -> Vec<String> {
        let faults = Opinion::of(reply).and_then(|mut opinion| {
            let (why, score) = (opinion.reasons("why"), opinion.grade("score"));
            opinion.finish(why.zip(score))
        });
        let faults = faults.unwrap_err();
        faults.iter().map(Fault::to_string).collect()
    }

    #[test]
    fn what_is_wrong_is_told_at_once_with_its_place() {
        const WHY: &str = "/why: is missing or empty; text is expected";
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
        let reply = json!({"why": format!("  {}", "é".repeat(LONGEST_REASONS))});
        let why = Opinion::of(&reply).unwrap().reasons("why").unwrap();
        assert_eq!(why.len(), LONGEST_REASONS);
        assert!(why.starts_with('é'));
    }
}
