//! Criteria: what a judge is told to look for, identified by the hash of its content. (Skeleton: bodies to be written.)

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Dotted path of the key, for the file's line to be found by.
    pub path: String,
    /// What is wrong and what would be right.
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

/// A definition, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Criteria {
    /// Identity of the content.
    pub hash: CriteriaHash,
    /// The content that is stored: the resolved file without `scoring.enabled`.
    pub content: Value,
    /// `scoring.enabled`; true for a definition read back from the store.
    pub enabled: bool,
    /// The judge's name: `llm_provider`, or `llm_provider:llm_model` where a model is given.
    pub judge: String,
    /// The prompt with its three placeholders.
    pub judge_prompt: String,
    /// What the breakdown is made of; the maxima sum up to 100.
    pub dimensions: Vec<Dimension>,
}

impl Criteria {
    /// Reads a resolved definition (YAML after substitution, as JSON). Boolean and number fields are parsed from text,
    /// since substitution yields text. Unknown keys, a missing placeholder and an unknown `{{X}}` are errors.
    pub fn from_value(_value: &Value) -> Result<Self, CriteriaError> {
        unimplemented!()
    }
}
