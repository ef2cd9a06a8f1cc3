//! The reply cache: the same question to the same judge under the same criteria is asked once in 24 h.

use async_trait::async_trait;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::entries::spec::Entry;
use super::provider::shape::Rung;
use super::{JudgeSpec, Question};

/// SHA-256 over judge identity, parameters, headers, criteria hash and the question before fencing, hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheKey(pub String);

impl CacheKey {
    /// The key of a question to a judge. Whatever may change who answers, and what, is in it: the wire format, the address,
    /// the parameters, and the headers, by which a gateway may choose a model of its own. The nonce, the key and how many
    /// calls may be in flight are not. A simulated judge is the same wherever it listens: one that is started for a command
    /// takes any free port.
    pub(super) fn new(spec: &JudgeSpec, question: &Question) -> Self {
        let entry = spec.entry();
        let parameters = json!({
            "type": entry.format.family.name,
            "headers": headers(entry),
            "path": entry.path,
            "temperature": entry.temperature,
            "max_output_tokens": entry.max_output_tokens,
            "extra_body": entry.extra_body,
            "structured": entry.structured.map_or("auto", Rung::as_str),
        })
        .to_string();
        let mut hash = Sha256::new();
        let whom = if entry.simulated {
            entry.name.as_str()
        } else {
            entry.base_url.as_str()
        };
        let fixed = [
            whom,
            spec.model(),
            parameters.as_str(),
            question.criteria_hash.as_str(),
            question.template_hash.as_str(),
            question.evidence_hash.as_str(),
        ];
        for part in fixed {
            measured(&mut hash, part);
        }
        Self(hex::encode(hash.finalize()))
    }

    /// The key under which it is remembered that the judge declined a question of one asker. No reply is kept under it, and
    /// no other asker looks there: to everybody else the judge hasn't declined yet.
    pub(super) fn of_refusal(spec: &JudgeSpec, question: &Question, asked_for: Uuid) -> Self {
        Self::of_one_asker("declined", spec, question, asked_for)
    }

    /// The key under which a reply lies that was collected for one asker; nobody else looks there.
    pub(super) fn of_collected(spec: &JudgeSpec, question: &Question, asked_for: Uuid) -> Self {
        Self::of_one_asker("collected", spec, question, asked_for)
    }

    fn of_one_asker(what: &str, spec: &JudgeSpec, question: &Question, asked_for: Uuid) -> Self {
        let mut hash = Sha256::new();
        hash.update(what);
        hash.update(asked_for.as_bytes());
        hash.update(Self::new(spec, question).0);
        Self(hex::encode(hash.finalize()))
    }
}

/// SHA-256 over the names and values of an entry's headers, hex: values may be keys, and stand in no text.
fn headers(entry: &Entry) -> String {
    let mut hash = Sha256::new();
    for (name, value) in &entry.headers {
        // The case of a header's name says nothing.
        measured(&mut hash, &name.to_ascii_lowercase());
        measured(&mut hash, value.expose_secret());
    }
    hex::encode(hash.finalize())
}

/// Adds a text with its length first, so that no two lists of texts read alike.
fn measured(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}

/// What is kept of a reply that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct CachedReply {
    /// The provider entry's name.
    pub provider: String,
    /// The model as reported.
    pub model: String,
    /// The reply's JSON.
    pub reply: Value,
    /// Whether a simulated judge made it.
    pub simulated: bool,
    /// Whether it took a repair turn.
    pub repaired: bool,
}

/// Keeps replies across runs. A failing cache is a miss, never an error: the implementer logs and answers `None`.
#[async_trait]
pub trait ReplyCache: Send + Sync {
    /// Looks up a reply that has not expired.
    async fn get(&self, key: &CacheKey) -> Option<CachedReply>;
    /// Keeps a reply that was asked for `asked_for` for 24 h. Never fails the caller.
    async fn put(&self, key: CacheKey, reply: CachedReply, asked_for: Uuid);
}
