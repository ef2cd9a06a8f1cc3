//! Criteria: what a judge is told to look for, identified by the hash of its content.
//!
//! A definition is read from a resolved file or from the store, checked in full, and brought into one typed form. The hash
//! is taken of that form, so that a file which writes a default out and one which leaves it away are the same criteria.
//! Nothing here reads a file or the environment.

mod read;

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::prompt::Template;
use crate::{ReplySchema, about};
use gavel_wire::Kind;
pub use row_match::Case;

/// Where the conversation stands in a judge prompt.
pub const CONVERSATION: &str = "SESSION_CONVERSATION";
/// Where the alert stands in a judge prompt.
pub const ALERT: &str = "ALERT_DATA";
/// Where the reply's schema stands in a judge prompt.
pub const SCHEMA: &str = "OUTPUT_SCHEMA";
/// Where a question to an agent stands, in plain language.
pub const QUESTION: &str = "QUESTION";
/// Where the query that is right stands.
pub const EXPECTED_QUERY: &str = "EXPECTED_QUERY";
/// Where the agent's query stands.
pub const GENERATED_QUERY: &str = "GENERATED_QUERY";
/// Where the answer that is right stands.
pub const EXPECTED_ANSWER: &str = "EXPECTED_ANSWER";
/// Where the agent's answer stands.
pub const ACTUAL_ANSWER: &str = "ACTUAL_ANSWER";

/// SHA-256 (64 hex digits) of the resolved definition as canonical JSON (RFC 8785), `scoring.enabled` left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CriteriaHash(pub String);

impl fmt::Display for CriteriaHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A fault in a criteria file: the path of the key, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct CriteriaError {
    /// Dotted path of the key, for the file's line to be found by; `.` for the whole file.
    pub path: String,
    pub message: String,
}

/// One dimension of a session's score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    /// Its key in `score_breakdown`: `[a-z][a-z0-9_]*`, at most 64 characters.
    pub name: String,
    /// The most points it can give, 1-100.
    pub max: u32,
}

/// What happens to a session that is larger than the judge's context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// It is made smaller, and its score is flagged `input_trimmed`.
    Auto,
    /// Its job fails as `too_large`.
    Never,
}

/// A prompt's template, and what every question made of it shares.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub text: String,
    /// What every question under this definition shares, made by the first.
    pub frame: Frame,
}

impl Prompt {
    fn new(text: String) -> Self {
        Self {
            text,
            frame: Frame::default(),
        }
    }

    /// What its questions share; `make` gives the schema and the template's hash the first time.
    pub(super) fn framed(&self, make: impl FnOnce() -> (Value, String)) -> &Framed {
        self.frame.0.get_or_init(|| {
            let (schema, template_hash) = make();
            Framed {
                template: Template::new(&self.text, &schema),
                schema: Arc::new(schema.into()),
                template_hash,
            }
        })
    }
}

/// A definition, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Criteria {
    /// What is scored by it. A file says `kind`; one that doesn't is for sessions.
    pub kind: Kind,
    pub hash: CriteriaHash,
    /// The content that is stored: every value in its typed form, defaults written out, an empty `llm_model`, a
    /// `judge.trim` of `auto` and `scoring.enabled` left out. [`Criteria::from_value`] reads it back to the same hash.
    pub content: Value,
    /// `scoring.enabled`; true for a definition read back from the store.
    pub enabled: bool,
    /// The judge's name: `llm_provider`, or `llm_provider:llm_model` where a model is given.
    pub judge: String,
    /// `judge_prompt`.
    pub prompt: Prompt,
    /// `answer_prompt`: how answers that aren't SQL are compared; of kind `qas` only.
    pub answer_prompt: Option<Prompt>,
    /// What a session's breakdown is made of, the maxima sum up to 100; empty for other kinds.
    pub dimensions: Vec<Dimension>,
    /// `judge.trim`: whether a session may be made smaller to fit.
    pub trim: Trim,
    /// `ignore_case`: how text in results of queries is compared; of kind `query` only.
    pub case: Case,
}

/// What the questions under a definition share.
#[derive(Debug)]
pub(super) struct Framed {
    /// Of the reply.
    pub(super) schema: Arc<ReplySchema>,
    pub(super) template_hash: String,
    pub(super) template: Template,
}

/// What a kind makes of a definition, once it is made.
///
/// It follows from the other fields and says nothing of its own: it equals any other, and a copy, which may be changed,
/// begins empty.
#[derive(Debug, Default)]
pub struct Frame(OnceLock<Framed>);

impl Clone for Frame {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Frame {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Criteria {
    /// What is scored by criteria that don't say it.
    pub const DEFAULT_KIND: Kind = Kind::Session;

    /// Reads a resolved definition (YAML after substitution, as JSON). Boolean and number fields are parsed from text,
    /// since substitution yields text. Unknown keys, a missing or repeated placeholder and an unknown `{{X}}` are errors.
    ///
    /// `dimensions` is optional: [`default_dimensions`]. Their order counts, as the page shows them in it. Kinds other than
    /// `session` have neither dimensions nor `judge.trim`.
    pub fn from_value(value: &Value) -> Result<Self, CriteriaError> {
        let read = read::definition(value)?;
        let content = content(&read);
        let judge = judge_name(&read.llm_provider, read.llm_model.as_deref());
        Ok(Self {
            kind: read.kind,
            hash: hash(&content)?,
            content,
            enabled: read.enabled,
            judge,
            prompt: Prompt::new(read.judge_prompt),
            answer_prompt: read.answer_prompt.map(Prompt::new),
            dimensions: read.dimensions,
            trim: read.trim,
            case: read.case,
        })
    }

    /// The judge that a stored content names; empty where it names none.
    pub fn judge_of(content: &Value) -> String {
        let named = |key: &str| content.get("scoring")?.get(key)?.as_str();
        judge_name(
            named("llm_provider").unwrap_or_default(),
            named("llm_model"),
        )
    }
}

fn judge_name(entry: &str, model: Option<&str>) -> String {
    match model {
        Some(model) => format!("{entry}:{model}"),
        None => entry.to_owned(),
    }
}

/// The four dimensions of 25 that a file without `dimensions` means.
pub fn default_dimensions() -> Vec<Dimension> {
    [
        "logical_flow",
        "consistency",
        "tool_relevance",
        "synthesis_quality",
    ]
    .into_iter()
    .map(|name| Dimension {
        name: name.to_owned(),
        max: 25,
    })
    .collect()
}

/// What is hashed and stored: the typed form, so that `25`, `"25"` and an omitted default are equal.
fn content(read: &read::Definition) -> Value {
    let mut scoring = json!({ "llm_provider": read.llm_provider });
    if let Some(model) = &read.llm_model {
        scoring["llm_model"] = json!(model);
    }
    if !about(read.kind).criteria.is_of_session {
        return content_of_case(read, &scoring);
    }
    // The kind is left out, so that criteria from before there were other kinds keep their hash.
    let dimensions: Vec<Value> = read
        .dimensions
        .iter()
        .map(|d| json!({ "name": d.name, "max": d.max }))
        .collect();
    let mut content =
        json!({ "scoring": scoring, "judge_prompt": read.judge_prompt, "dimensions": dimensions });
    match read.trim {
        // Left out, so that criteria from before there was such a key keep their hash.
        Trim::Auto => {}
        Trim::Never => content["judge"] = json!({ "trim": "never" }),
    }
    content
}

fn content_of_case(read: &read::Definition, scoring: &Value) -> Value {
    let mut content = json!({
        "kind": read.kind,
        "scoring": scoring,
        "judge_prompt": read.judge_prompt,
    });
    if let Some(prompt) = &read.answer_prompt {
        content["answer_prompt"] = json!(prompt);
    }
    match read.case {
        // Left out, so that criteria from before there was such a key keep their hash.
        Case::Ignored => {}
        Case::Heeded => content["ignore_case"] = json!(false),
    }
    content
}

fn hash(content: &Value) -> Result<CriteriaHash, CriteriaError> {
    let unwritable =
        |error| read::fault(".", format!("can't be written as canonical JSON: {error}"));
    let canonical = serde_json_canonicalizer::to_vec(content).map_err(unwritable)?;
    Ok(CriteriaHash(hex::encode(Sha256::digest(canonical))))
}

#[cfg(test)]
mod tests;
