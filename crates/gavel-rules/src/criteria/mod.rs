//! Criteria: instructions for a judge, identified by the hash of their content.
//!
//! A definition from a resolved file or from the store is validated in full and converted to one typed form. The hash covers that form, so
//! that an explicit default and an omitted one give the same criteria. No I/O, no environment.

mod read;

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::prompt::Template;
use crate::{FileError, ReplySchema, about};
use gavel_wire::{Kind, text_enum};
pub use row_match::Case;

// Placeholders of judge and answer prompts.
pub const CONVERSATION: &str = "SESSION_CONVERSATION";
pub const ALERT: &str = "ALERT_DATA";
pub const SCHEMA: &str = "OUTPUT_SCHEMA";
pub const QUESTION: &str = "QUESTION";
pub const EXPECTED_QUERY: &str = "EXPECTED_QUERY";
pub const GENERATED_QUERY: &str = "GENERATED_QUERY";
pub const EXPECTED_ANSWER: &str = "EXPECTED_ANSWER";
pub const ACTUAL_ANSWER: &str = "ACTUAL_ANSWER";

/// SHA-256 (64 hex digits) of the resolved definition as canonical JSON (RFC 8785), without `scoring.enabled`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CriteriaHash(pub String);

impl fmt::Display for CriteriaHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimension {
    /// Key in `score_breakdown`: `[a-z][a-z0-9_]*`, at most 64 characters.
    pub name: String,
    /// Maximum points, 1-100.
    pub max: u32,
}

text_enum! {
    /// Handling of a session that exceeds the judge's context window.
    pub enum Trim {
        /// Trims it and flags the score `input_trimmed`.
        Auto = "auto",
        /// Fails its job as `too_large`.
        Never = "never",
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub text: String,
    pub frame: Frame,
}

impl Prompt {
    fn new(text: String) -> Self {
        Self {
            text,
            frame: Frame::default(),
        }
    }

    /// Returns the shared data of its questions. `make` computes the schema and the template's hash on the first call.
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

#[derive(Debug, Clone, PartialEq)]
pub struct Criteria {
    /// Kind of work to score. Defaults to sessions if the file has no `kind`.
    pub kind: Kind,
    pub hash: CriteriaHash,
    /// Stored content: typed values with explicit defaults. An empty `llm_model`, a `judge.trim` of `auto` and `scoring.enabled` are
    /// omitted. [`Criteria::from_value`] reads it back to the same hash.
    pub content: Value,
    /// `scoring.enabled`; true for a definition read from the store.
    pub enabled: bool,
    /// Judge name: `llm_provider`, or `llm_provider:llm_model` if a model is set.
    pub judge: String,
    pub prompt: Prompt,
    /// `answer_prompt`: prompt to compare answers that aren't SQL. Only for kind `qas`.
    pub answer_prompt: Option<Prompt>,
    /// Dimensions of a session's breakdown, with maxima that sum to 100. Empty for other kinds.
    pub dimensions: Vec<Dimension>,
    pub trim: Trim,
    /// `ignore_case`: case sensitivity of text in query results. Only for kind `query`.
    pub case: Case,
}

/// Data shared by the questions under a definition.
#[derive(Debug)]
pub(super) struct Framed {
    pub(super) schema: Arc<ReplySchema>,
    pub(super) template_hash: String,
    pub(super) template: Template,
}

/// Cached data that a kind derives from a definition.
///
/// Derived from the other fields, so two are always equal. A clone starts empty, because its definition may be changed.
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
    pub const DEFAULT_KIND: Kind = Kind::Session;

    /// Parses a resolved definition (YAML after substitution, as JSON). Boolean and number fields are parsed from text, because
    /// substitution yields text. Unknown keys, a missing or repeated placeholder and an unknown `{{X}}` are errors.
    ///
    /// `dimensions` is optional and defaults to [`default_dimensions`]. Pages show them in this order, so it is part of the hash. Kinds
    /// other than `session` have neither dimensions nor `judge.trim`.
    pub fn from_value(value: &Value) -> Result<Self, FileError> {
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

    /// Returns the judge named by stored content; empty if none.
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

/// The four dimensions of 25 points used without `dimensions`.
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

/// Returns the content to hash and store. It is the typed form, so that `25`, `"25"` and an omitted default are equal.
fn content(read: &read::Definition) -> Value {
    let mut scoring = json!({ "llm_provider": read.llm_provider });
    if let Some(model) = &read.llm_model {
        scoring["llm_model"] = json!(model);
    }
    if !about(read.kind).criteria.is_of_session {
        return content_of_case(read, &scoring);
    }
    // Omitted for sessions, so that criteria from before other kinds existed keep their hash.
    let dimensions: Vec<Value> = read
        .dimensions
        .iter()
        .map(|d| json!({ "name": d.name, "max": d.max }))
        .collect();
    let mut content =
        json!({ "scoring": scoring, "judge_prompt": read.judge_prompt, "dimensions": dimensions });
    match read.trim {
        // Omitted, so that criteria from before this key existed keep their hash.
        Trim::Auto => {}
        Trim::Never => content["judge"] = json!({ "trim": read.trim }),
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
        // Omitted, so that criteria from before this key existed keep their hash.
        Case::Ignored => {}
        Case::Heeded => content["ignore_case"] = json!(false),
    }
    content
}

fn hash(content: &Value) -> Result<CriteriaHash, FileError> {
    let unwritable =
        |error| FileError::new(".", format!("can't be written as canonical JSON: {error}"));
    let canonical = serde_json_canonicalizer::to_vec(content).map_err(unwritable)?;
    Ok(CriteriaHash(hex::encode(Sha256::digest(canonical))))
}

#[cfg(test)]
mod tests;
