//! From a reply's text to a checked value, and the words that ask for a repair. It never calls and never retries.
//!
//! Many servers don't hold a model to the schema, so its text may be anything. The answer is the one object outside the thoughts.
//! One among prose is taken only if the prose can't contradict it, because a judge quotes the work that it judges.

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
const WITHIN: &str =
    "the reply holds its JSON object within a sentence; expected the object and nothing else";

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
    /// Whether an object with every field of the schema was among it.
    pub(super) is_whole: bool,
}

impl From<String> for Unusable {
    fn from(message: String) -> Self {
        let pointer = String::new();
        Self {
            faults: vec![Fault { pointer, message }],
            is_whole: false,
        }
    }
}

/// Finds the reply's JSON object in the text and checks it.
pub(super) fn parse(text: &str, question: &Question) -> Result<Answer, Unusable> {
    let scanned = scan::scan(text);
    let Some(found) = only_one(&scanned)? else {
        return Err(nothing_in(&scanned));
    };
    let lacked = question.schema.lacks(found);
    let is_whole = lacked.is_none();
    let has_prose = scanned.has_prose();
    let doubt = match has_prose {
        true => doubt(&scanned, found, lacked),
        false => None,
    };
    let unusable = match (doubt, (question.check)(found)) {
        (None, Ok(())) => {
            return Ok(Answer {
                value: found.clone(),
                is_complete: is_whole && !has_prose,
            });
        }
        (Some(doubt), _) => doubt.into(),
        (None, Err(faults)) => Unusable { faults, is_whole },
    };
    // An object found within one that can't be read is a part of the answer.
    Err(scanned.broken.map_or(unusable, Unusable::from))
}

/// The object of a text; an error where there are different ones.
fn only_one<'a>(scanned: &'a Scanned<'_>) -> Result<Option<&'a Value>, Unusable> {
    let Some((last, others)) = scanned.objects.split_last() else {
        return Ok(None);
    };
    if others.iter().all(|other| other == last) && !scanned.has_more {
        return Ok(Some(last));
    }
    let several = || SEVERAL.to_owned();
    Err(scanned.broken.clone().unwrap_or_else(several).into())
}

fn nothing_in(scanned: &Scanned<'_>) -> Unusable {
    let fault = match &scanned.broken {
        Some(broken) => broken.clone(),
        None if scanned.is_thinking => UNCLOSED.to_owned(),
        None if scanned.is_blank() => EMPTY.to_owned(),
        None => NO_JSON.to_owned(),
    };
    fault.into()
}

/// Why an object that stands among prose may not be the answer: the prose may quote it, or say something else.
fn doubt(scanned: &Scanned<'_>, found: &Value, lacked: Option<String>) -> Option<String> {
    if let Some(pointer) = lacked {
        return Some(format!(
            "the reply holds prose beside an object that lacks {pointer}; expected one whole JSON object and nothing else"
        ));
    }
    if !scanned.stands_apart() {
        return Some(WITHIN.to_owned());
    }
    let known = scan::numbers(&found.to_string());
    let other = scan::numbers(&scanned.prose())
        .into_iter()
        .find(|number| !known.contains(number))?;
    Some(format!(
        "the reply says {other} beside its JSON object, which has no such number; expected the object and nothing else"
    ))
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
