//! What is asked, and what comes back.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use gavel_wire::Flag;

use super::error::JudgeError;
use super::prompt_text::PromptText;
use super::tokens::ModelFamily;

/// A fault in a reply: where, and what is wrong, in words that the model can act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// JSON pointer into the reply, "" for the whole.
    pub pointer: String,
    /// What is wrong and what is expected.
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
    /// Faults in one line.
    pub fn in_words(faults: &[Self]) -> String {
        let texts: Vec<String> = faults.iter().map(Self::to_string).collect();
        texts.join("; ")
    }
}

/// Checks that providers don't enforce: ranges, lengths, types.
pub type Check = Arc<dyn Fn(&Value) -> Result<(), Vec<Fault>> + Send + Sync>;

/// Holds a reply that passes every check against what was asked for. Its model is shown the weaknesses once.
pub trait Review: Send + Sync {
    /// What the reply should be better at; empty for a good one.
    fn weaknesses(&self, reply: &Value, question: &Question) -> Vec<Weakness>;

    /// Whether the judgement of `first`, which is weak, stands in `second` as well: only then may `second` take its place.
    fn keeps_judgement(&self, first: &Value, second: &Value) -> bool;
}

/// What a reply should be better at, though it can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Weakness {
    /// How a score made of it is marked.
    pub flag: Flag,
    /// What its model is told.
    pub fault: Fault,
}

/// A random text that fences evidence; made for each run of a job, and part of no cache key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nonce(pub String);

impl Nonce {
    /// A nonce of 32 hex digits.
    pub fn from_bits(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }
}

/// What the judge can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The model's context window in tokens.
    pub context_window: u32,
    /// Tokens kept for the reply.
    pub max_output_tokens: u32,
    /// How the model's tokens are estimated.
    pub family: ModelFamily,
}

impl Limits {
    /// Tokens left for what is asked: the window without the reply's tokens and without the margin.
    pub fn for_the_question(&self) -> u64 {
        let window = u64::from(self.context_window);
        window
            .saturating_sub(u64::from(self.max_output_tokens))
            .saturating_sub(self.margin())
    }

    /// Tokens kept free for what providers wrap around a prompt, and for the estimate's error: a fiftieth of the window.
    pub fn margin(&self) -> u64 {
        u64::from(self.context_window) / 50
    }
}

/// Makes a smaller question of one that turned out too large; `None` if nothing more may go. It is given the question, so
/// that it needn't hold what the prompt holds already.
pub type Shrink = Arc<dyn Fn(&Question, Target) -> Option<Question> + Send + Sync>;

/// How small a question is to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// About half: its provider said that it is too large, so that the estimate was wrong by an unknown factor.
    Half,
    /// As large as a judge of these limits takes, by the estimate of that judge's family.
    Within(Limits),
}

/// A reply's JSON schema: closed objects, every property required, in the order in which they are to be written. Models fill a
/// schema in the order of its text, and a judge that gives its reasons first scores better. Ranges and lengths stand in
/// descriptions alone, because strict providers refuse their keywords.
#[derive(Debug)]
pub struct ReplySchema {
    value: Value,
    /// The same as text, written once for all questions that share it.
    json: Box<RawValue>,
}

/// JSON pointer of the first property that an object of this schema lacks, in the objects below it too.
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
    /// The schema as a value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// JSON pointer of the first property that a reply lacks; `None`: it is whole.
    pub fn lacks(&self, reply: &Value) -> Option<String> {
        lacks(reply, &self.value)
    }

    /// The schema as it goes out.
    pub fn json(&self) -> &RawValue {
        &self.json
    }
}

impl From<Value> for ReplySchema {
    fn from(value: Value) -> Self {
        Self {
            // A value is always written.
            json: to_raw_value(&value).unwrap_or_default(),
            value,
        }
    }
}

/// One question to one model. Cheap to clone: a worker holds a thousand of them.
#[derive(Clone)]
pub struct Question {
    /// The kind's name: chooses the timeout, and is logged.
    pub kind: &'static str,
    /// SHA-256 (hex) of the template before anything was filled in, the schema's version included.
    pub template_hash: String,
    pub criteria_hash: String,
    /// SHA-256 (hex) of the evidence before fencing; with the hashes above it is what the cache key is made of. The text
    /// itself stands in the prompt: held twice, a thousand questions in flight would cost a worker that much more.
    pub evidence_hash: String,
    /// The whole prompt as the model sees it, evidence fenced. One user message: the framework first, for prompt caching.
    pub prompt: PromptText,
    /// The reply's name for providers that want one, `[a-z_]+`.
    pub schema_name: &'static str,
    pub schema: Arc<ReplySchema>,
    /// Checks beyond the schema.
    pub check: Check,
    /// About how many tokens of evidence were left out of the prompt to make it fit; 0 for none.
    pub trimmed_tokens: u64,
    /// What to do when the provider says that it doesn't fit; `None`: it may not be made smaller.
    pub shrink: Option<Shrink>,
    /// Finds what a usable reply should be better at; `None`: what passes is good.
    pub review: Option<Arc<dyn Review>>,
}

impl Question {
    /// A smaller question about the same, with an evidence hash of its own; `None` if there is none.
    pub fn shrink(&self) -> Option<Self> {
        self.shrink
            .as_ref()
            .and_then(|shrink| shrink(self, Target::Half))
    }

    /// The question as a judge of other limits can take it: the same where it fits, else a smaller one; `None` if there is
    /// none.
    pub fn fit_into(&self, limits: &Limits) -> Option<Self> {
        if self.tokens(limits.family) <= limits.for_the_question() {
            return Some(self.clone());
        }
        self.shrink
            .as_ref()
            .and_then(|shrink| shrink(self, Target::Within(*limits)))
    }

    /// About how many tokens it is, the schema that goes along included.
    pub fn tokens(&self, family: ModelFamily) -> u64 {
        self.prompt.tokens(family) + family.tokens(self.schema.json().get())
    }

    /// What is weak about a reply to it.
    pub fn weaknesses(&self, reply: &Value) -> Vec<Weakness> {
        let review = self.review.as_ref();
        review.map_or_else(Vec::new, |review| review.weaknesses(reply, self))
    }

    /// Whether the judgement of a weak reply stands in a second one.
    pub fn keeps_judgement(&self, first: &Value, second: &Value) -> bool {
        let review = self.review.as_ref();
        review.is_none_or(|review| review.keeps_judgement(first, second))
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Prompts are never logged: lengths and hashes are.
        f.debug_struct("Question")
            .field("kind", &self.kind)
            .field("template_hash", &self.template_hash)
            .field("criteria_hash", &self.criteria_hash)
            .field("prompt_bytes", &self.prompt.bytes())
            .finish_non_exhaustive()
    }
}

/// A reply that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The reply's JSON.
    pub value: Value,
    /// The provider entry's name in `llm_providers.yaml`.
    pub provider: String,
    /// The model as the provider reported it.
    pub model: String,
    /// Whether a simulated judge made it.
    pub simulated: bool,
    /// Whether it took the repair turn.
    pub repaired: bool,
    /// Whether it came from the cache, so that nothing was spent.
    pub cached: bool,
    /// Whether the judge that was asked declined, and its fallback gave it.
    pub by_fallback: bool,
    /// About how many tokens of evidence were left out of the question that it answers; 0 for none.
    pub trimmed_tokens: u64,
    /// What it should be better at.
    pub weaknesses: Vec<Weakness>,
    /// Whether it was whole, and yet its provider gave another reason for its end than that the model was done.
    pub odd_finish: bool,
}

/// The end of a question: a reply, or an error that no patience helps.
pub type JudgeAnswer = Result<Reply, JudgeError>;
