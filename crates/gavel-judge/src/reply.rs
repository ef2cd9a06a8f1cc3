//! Parses a reply's text into a checked value, and builds the prompt for its repair.
//!
//! Many servers don't enforce the schema, so the text may be anything. The answer is the only object outside thinking. An object next to prose
//! may be quoted from the evidence, so it is accepted only if the model repeats it completely at the end of its next reply.

mod scan;

use serde_json::Value;

use super::question::{Fault, Question};

/// Limit of the errors in a repair prompt.
const MAX_FAULTS: usize = 20;
const BESIDE: &str = "the reply holds text beside its JSON object: send the object alone";

/// An answer that passed the check.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) value: Value,
    /// Whether it has every field of the schema and no prose next to it.
    pub(super) is_complete: bool,
}

/// Reason why a text has no answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Unusable {
    pub(super) faults: Vec<Fault>,
    /// The only object of the text.
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

/// Returns the checked JSON object of a text. An object next to prose must be at the end on separate lines, have every field of the schema, and
/// equal `first`, the object of the previous reply.
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
        // The object is a part of an invalid one.
        Some(broken) => Err(broken.into()),
        None => Err(Unusable {
            faults,
            object: Some(found.clone()),
        }),
    }
}

/// Returns the only object of a text, unchecked.
pub(super) fn object(text: &str) -> Option<Value> {
    scan::scan(text).one().ok().cloned()
}

/// Returns the prompt for a repair.
pub(super) fn repair_prompt(faults: &[Fault]) -> String {
    let listed = faults.iter().take(MAX_FAULTS);
    let mut listed: String = listed.map(|fault| format!("- {fault}\n")).collect();
    if faults.len() > MAX_FAULTS {
        listed.push_str(&format!("- and {} more\n", faults.len() - MAX_FAULTS));
    }
    format!(
        "Your reply above can't be used, for these reasons:\n{listed}\
         Keep your judgement as it is. Answer again with the whole corrected JSON object that matches the schema, and nothing else.",
    )
}

/// Returns one line for an error message, which quotes no more of the reply than its errors do.
pub(super) fn summary(faults: &[Fault]) -> String {
    match faults {
        [] => "unknown fault".to_owned(),
        [fault] => fault.to_string(),
        [fault, rest @ ..] => format!("{fault} (and {} more)", rest.len()),
    }
}

#[cfg(test)]
mod tests;
