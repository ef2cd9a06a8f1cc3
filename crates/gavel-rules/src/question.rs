use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use gavel_wire::Flag;

use super::error::JudgeError;
use super::prompt_text::PromptText;
use super::tokens::ModelFamily;

/// Error in a reply: location, and a message for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// JSON pointer into the reply, "" for the reply itself.
    pub pointer: String,
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => write!(f, "{}", self.message),
            pointer => write!(f, "{pointer}: {}", self.message),
        }
    }
}

impl Fault {
    pub fn in_words(faults: &[Self]) -> String {
        let texts: Vec<String> = faults.iter().map(Self::to_string).collect();
        texts.join("; ")
    }
}

/// Checks that providers don't enforce: ranges, lengths, types.
pub type Check = Arc<dyn Fn(&Value) -> Result<(), Vec<Fault>> + Send + Sync>;

/// Reviews a valid reply against its question. Its weaknesses are sent back to the model once.
pub trait Review: Send + Sync {
    /// Returns the weaknesses; empty for a good reply.
    fn weaknesses(&self, reply: &Value, question: &Question) -> Vec<Weakness>;

    /// Whether `second` has the same judgement as the weak `first`. Otherwise it must not replace it.
    fn keeps_judgement(&self, first: &Value, second: &Value) -> bool;
}

/// Weakness of an otherwise usable reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Weakness {
    pub flag: Flag,
    pub fault: Fault,
}

/// Random text that fences evidence. Created for each run of a job, and not part of any cache key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nonce(pub String);

impl Nonce {
    pub fn from_bits(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The model's context window in tokens.
    pub context_window: u32,
    /// Tokens reserved for the reply.
    pub max_output_tokens: u32,
    /// Tokenizer family, used to estimate tokens.
    pub family: ModelFamily,
}

impl Limits {
    /// Returns the tokens available to the question: the window without the reply's tokens and the margin.
    pub fn for_the_question(&self) -> u64 {
        let window = u64::from(self.context_window);
        window
            .saturating_sub(u64::from(self.max_output_tokens))
            .saturating_sub(self.margin())
    }

    /// Returns the tokens reserved for the provider's wrapping of a prompt and for estimation errors: a fiftieth of the window.
    pub fn margin(&self) -> u64 {
        u64::from(self.context_window) / 50
    }
}

/// Makes a smaller version of a question that is too large; `None` if it can't be reduced further. Receives the question, to avoid
/// storing a second copy of the prompt.
pub type Shrink = Arc<dyn Fn(&Question, Target) -> Option<Question> + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// About half: the provider rejected it as too large, so the estimate was wrong by an unknown factor.
    Half,
    /// The maximum of a judge with these limits, estimated for that judge's family.
    Within(Limits),
}

/// JSON schema of a reply: closed objects with every property required, in the order to be written. Models write properties in schema
/// order, and score better with the reasons first. Ranges and lengths are only in descriptions, because strict providers reject their
/// keywords.
#[derive(Debug)]
pub struct ReplySchema {
    value: Value,
    json: Box<RawValue>,
}

/// Returns the JSON pointer of the first missing property, including nested objects.
fn lacks(value: &Value, schema: &Value) -> Option<String> {
    let properties = schema.get("properties")?.as_object()?;
    let required = schema.get("required")?.as_array()?;
    required.iter().filter_map(Value::as_str).find_map(|name| {
        let lacked = match value.get(name).filter(|value| !value.is_null()) {
            Some(value) => lacks(value, properties.get(name)?)?,
            None => String::new(),
        };
        Some(format!("/{name}{lacked}"))
    })
}

impl ReplySchema {
    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn lacks(&self, reply: &Value) -> Option<String> {
        lacks(reply, &self.value)
    }

    pub fn json(&self) -> &RawValue {
        &self.json
    }
}

impl From<Value> for ReplySchema {
    fn from(value: Value) -> Self {
        Self {
            // Serializing a value can't fail.
            json: to_raw_value(&value).unwrap_or_default(),
            value,
        }
    }
}

/// Question to one model. Cheap to clone, because a worker may have a thousand of them.
#[derive(Clone)]
pub struct Question {
    /// Name of the kind. Determines the timeout, and is logged.
    pub kind: &'static str,
    /// SHA-256 (hex) of the unfilled template, including the schema's version.
    pub template_hash: String,
    pub criteria_hash: String,
    /// SHA-256 (hex) of the evidence before fencing. The cache key consists of this and the hashes above. The text itself is only in the
    /// prompt, to save memory with a thousand questions in flight.
    pub evidence_hash: String,
    /// Complete prompt with fenced evidence, sent as one user message. The instructions come first, for prompt caching.
    pub prompt: PromptText,
    /// Schema name for providers that require one, `[a-z_]+`.
    pub schema_name: &'static str,
    pub schema: Arc<ReplySchema>,
    pub check: Check,
    /// Estimated tokens of evidence trimmed to fit; 0 if untrimmed.
    pub trimmed_tokens: u64,
    /// Makes a smaller question if the provider rejects this one as too large; `None` if it must not be trimmed.
    pub shrink: Option<Shrink>,
    pub review: Option<Arc<dyn Review>>,
}

impl Question {
    /// Returns a smaller question with its own evidence hash, or `None`.
    pub fn shrink(&self) -> Option<Self> {
        self.shrink
            .as_ref()
            .and_then(|shrink| shrink(self, Target::Half))
    }

    /// Returns the question if it fits a judge with these limits. Otherwise returns a smaller one, or `None`.
    pub fn fit_into(&self, limits: &Limits) -> Option<Self> {
        if self.tokens(limits.family) <= limits.for_the_question() {
            return Some(self.clone());
        }
        self.shrink
            .as_ref()
            .and_then(|shrink| shrink(self, Target::Within(*limits)))
    }

    /// Estimated tokens, including the schema sent along.
    pub fn tokens(&self, family: ModelFamily) -> u64 {
        self.prompt.tokens(family) + family.tokens(self.schema.json().get())
    }

    pub fn weaknesses(&self, reply: &Value) -> Vec<Weakness> {
        let review = self.review.as_ref();
        review.map_or_else(Vec::new, |review| review.weaknesses(reply, self))
    }

    pub fn keeps_judgement(&self, first: &Value, second: &Value) -> bool {
        let review = self.review.as_ref();
        review.is_none_or(|review| review.keeps_judgement(first, second))
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Prompts must not be logged, only lengths and hashes.
        f.debug_struct("Question")
            .field("kind", &self.kind)
            .field("template_hash", &self.template_hash)
            .field("criteria_hash", &self.criteria_hash)
            .field("prompt_bytes", &self.prompt.bytes())
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub value: Value,
    /// Name of the provider entry in `llm_providers.yaml`.
    pub provider: String,
    /// Model as reported by the provider.
    pub model: String,
    pub simulated: bool,
    /// Whether it needed the repair turn.
    pub repaired: bool,
    pub cached: bool,
    /// Whether the judge declined, and its fallback replied.
    pub by_fallback: bool,
    /// Estimated tokens of evidence trimmed from its question; 0 if untrimmed.
    pub trimmed_tokens: u64,
    pub weaknesses: Vec<Weakness>,
    /// Whether the reply is complete although the provider reported an unusual finish reason.
    pub odd_finish: bool,
}

/// Final outcome of a question: a reply, or an error after all retries.
pub type JudgeAnswer = Result<Reply, JudgeError>;
