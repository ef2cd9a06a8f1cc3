//! `llm_providers.yaml` after substitution: entries, models, prices, limits. (Skeleton: bodies to be written.)

use serde_json::Value;

/// A fault in `llm_providers.yaml`: the path of the key, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ProvidersError {
    /// Dotted path of the key, for the file's line to be found by.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Why a judge of a name can't be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotConfigured {
    /// No entry of that name, or the entry doesn't list that model.
    #[error("unknown judge {name:?}; known: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// The entry has no key and doesn't say `auth: none`.
    #[error("judge {name:?} is not configured: {remedy}")]
    NoKey {
        /// The judge's name.
        name: String,
        /// What to set, e.g. `set OPENAI_API_KEY`.
        remedy: String,
    },
}

/// One entry, checked, with its key resolved (the key is secret and never shown).
#[derive(Debug, Clone)]
pub struct JudgeSpec {
    _todo: (),
}

/// All entries.
#[derive(Debug, Clone)]
pub struct Providers {
    _todo: (),
}

impl Providers {
    /// Reads the resolved YAML (as JSON). Unknown keys are errors with "did you mean".
    /// `key_file` reads the file that an entry's `key_file:` names.
    pub fn from_value(
        _value: &Value,
        _key_file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ProvidersError> {
        unimplemented!()
    }

    /// Every judge name that can be asked for: `entry`, and `entry:model` for each of its other models.
    pub fn names(&self) -> Vec<String> {
        unimplemented!()
    }

    /// Whether a judge of that name could be asked (the name is known and has a key or needs none).
    pub fn check(&self, _name: &str) -> Result<(), NotConfigured> {
        unimplemented!()
    }

    /// The spec of a judge that [`Self::check`] accepts.
    pub fn spec(&self, _name: &str) -> Result<JudgeSpec, NotConfigured> {
        unimplemented!()
    }
}
