//! From a reply's text to a checked value, and the words that ask for a repair. It never calls and never retries.
//!
//! Many servers don't hold a model to the schema, so its text may be anything. The answer is the one object outside the thoughts.
//! One beside prose may be quoted from the work that is judged, so it counts only if the model repeats it whole at the end of its
//! reply.

mod scan;

use serde_json::Value;

use self::scan::Scanned;
use super::question::{Fault, Question};

/// Faults shown to the model at most; a wholly wrong reply needs no list of a thousand.
const MOST_FAULTS: usize = 20;
const NO_JSON: &str = "the reply is not JSON; expected one JSON object and nothing else";
const EMPTY: &str = "the reply is empty; expected one JSON object";
const UNCLOSED: &str =
    "the reply holds nothing but thoughts, which never end; expected one JSON object behind them";
const SEVERAL: &str = "the reply holds more than one JSON object that could be the answer; expected one and nothing else";
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
    let Some(found) = only_one(&scanned)? else {
        return Err(nothing_in(&scanned));
    };
    let mut faults = (question.check)(found).err().unwrap_or_default();
    let is_repeated = first == Some(found) && question.schema.lacks(found).is_none();
    if scanned.has_words && (!is_repeated || scanned.may_be_quoted) {
        faults.extend(Unusable::from(BESIDE.to_owned()).faults);
    }
    if faults.is_empty() {
        return Ok(Answer {
            is_complete: !scanned.has_words && question.schema.lacks(found).is_none(),
            value: found.clone(),
        });
    }
    // An object found within one that can't be read is a part of the answer.
    let object = Some(found.clone());
    Err(scanned
        .broken
        .map_or(Unusable { faults, object }, Unusable::from))
}

/// Returns the one object of a text, unchecked.
pub(super) fn object(text: &str) -> Option<Value> {
    only_one(&scan::scan(text)).ok().flatten().cloned()
}

/// The object of a text; an error where there are different ones.
fn only_one(scanned: &Scanned) -> Result<Option<&Value>, Unusable> {
    let Some((last, others)) = scanned.objects.split_last() else {
        return Ok(None);
    };
    if others.iter().all(|other| other == last) && !scanned.has_more {
        return Ok(Some(last));
    }
    let several = || SEVERAL.to_owned();
    Err(scanned.broken.clone().unwrap_or_else(several).into())
}

fn nothing_in(scanned: &Scanned) -> Unusable {
    let fault = match &scanned.broken {
        Some(broken) => broken.clone(),
        None if scanned.is_thinking => UNCLOSED.to_owned(),
        None if scanned.is_blank() => EMPTY.to_owned(),
        None => NO_JSON.to_owned(),
    };
    fault.into()
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
