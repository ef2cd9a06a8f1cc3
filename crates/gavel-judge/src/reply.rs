//! From a reply's text to a checked value, and the words that ask for a repair. It never calls and never retries.
//!
//! Many servers don't hold a model to the schema, so its text may be anything. The answer is the one object outside the thoughts.
//! One beside prose may be quoted from the work that is judged, so it counts only if the model repeats it whole at the end of its
//! reply.

mod scan;

use serde_json::Value;

use super::question::{Fault, Question};

/// Faults shown to the model at most; a wholly wrong reply needs no list of a thousand.
const MOST_FAULTS: usize = 20;
const BESIDE: &str = "the reply holds text beside its JSON object: send the object alone";

/// An answer that passed its check.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) value: Value,
    /// Whether it has every field of the schema, and no prose stands beside it: then nothing is missing.
    pub(super) is_complete: bool,
}

/// Why a text holds no answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Unusable {
    pub(super) faults: Vec<Fault>,
    /// The one object of the text, if it has one.
    pub(super) object: Option<Value>,
}

impl From<String> for Unusable {
    fn from(message: String) -> Self {
        let pointer = String::new();
        Self {
            faults: vec![Fault { pointer, message }],
            object: None,
        }
    }
}

/// Returns the JSON object of a text, checked. One beside prose counts only if it ends the reply on lines of its own, has every field
/// of the schema and equals `first`, the object of the model's reply before.
pub(super) fn parse(
    text: &str,
    question: &Question,
    first: Option<&Value>,
) -> Result<Answer, Unusable> {
    let scanned = scan::scan(text);
    let found = scanned.one()?;
    let is_whole = question.schema.lacks(found).is_none();
    let mut faults = (question.check)(found).err().unwrap_or_default();
    let is_repeated = is_whole && first == Some(found);
    if scanned.has_words && (!is_repeated || scanned.may_be_quoted) {
        faults.extend(Unusable::from(BESIDE.to_owned()).faults);
    }
    match scanned.broken {
        _ if faults.is_empty() => Ok(Answer {
            is_complete: is_whole && !scanned.has_words,
            value: found.clone(),
        }),
        // An object found within one that can't be read is a part of the answer.
        Some(broken) => Err(broken.into()),
        None => Err(Unusable {
            faults,
            object: Some(found.clone()),
        }),
    }
}

/// Returns the one object of a text, unchecked.
pub(super) fn object(text: &str) -> Option<Value> {
    scan::scan(text).one().ok().cloned()
}

/// What the model is told on its repair turn.
pub(super) fn repair_prompt(faults: &[Fault]) -> String {
    let mut prompt = String::from("Your reply above can't be used, for these reasons:\n");
    for fault in faults.iter().take(MOST_FAULTS) {
        prompt.push_str(&format!("- {fault}\n"));
    }
    if faults.len() > MOST_FAULTS {
        prompt.push_str(&format!("- and {} more\n", faults.len() - MOST_FAULTS));
    }
    prompt.push_str(
        "Keep your judgement as it is. Answer again with the whole corrected JSON object that matches the schema, and nothing else.",
    );
    prompt
}

/// One line on what is wrong, for the error's message: pointers and rules, none of the reply's own text beyond them.
pub(super) fn summary(faults: &[Fault]) -> String {
    match faults {
        [] => "unknown fault".to_owned(),
        [fault] => fault.to_string(),
        [fault, rest @ ..] => format!("{fault} (and {} more)", rest.len()),
    }
}

#[cfg(test)]
mod tests;
