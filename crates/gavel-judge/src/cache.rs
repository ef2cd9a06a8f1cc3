//! Cache keys of the call log. The same question with the same criteria is put to a judge once in 24 h.

use chrono::TimeDelta;
use secrecy::ExposeSecret as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::entries::spec::Entry;
use super::provider::shape::Rung;
use super::{JudgeSpec, Question};

/// Lifetime of a cached reply.
pub(super) const KEPT: TimeDelta = TimeDelta::hours(24);
/// Lifetime of a collected reply. Its call counts from the submission of the batch, which may last a day, and items of a paused batch wait
/// for their judge.
pub(super) const COLLECTED_KEPT: TimeDelta = TimeDelta::days(8);

/// First half of a SHA-256 over judge, parameters, headers, criteria hash and the question before fencing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheKey(pub Uuid);

impl CacheKey {
    /// Returns the key of a question to a judge. It covers everything that may change the answer: wire format, address, parameters, and
    /// headers, because a gateway may choose a model by them. It excludes the nonce, the API key and the concurrency. A simulated judge is
    /// identified by its name, because its port may change.
    pub(super) fn new(spec: &JudgeSpec, question: &Question) -> Self {
        Self(first_half(&digest(spec, question)))
    }

    /// Returns the key of a declined call of one job. Other jobs ignore it.
    pub(super) fn of_declined(spec: &JudgeSpec, question: &Question, asked_for: Uuid) -> Self {
        Self::of_one_asker("declined", spec, question, asked_for)
    }

    /// Returns the key of a reply collected for one job. Other jobs ignore it.
    pub(super) fn of_collected(spec: &JudgeSpec, question: &Question, asked_for: Uuid) -> Self {
        Self::of_one_asker("collected", spec, question, asked_for)
    }

    fn of_one_asker(what: &str, spec: &JudgeSpec, question: &Question, asked_for: Uuid) -> Self {
        let mut hash = Sha256::new();
        hash.update(what);
        hash.update(asked_for.as_bytes());
        hash.update(hex::encode(digest(spec, question)));
        Self(first_half(&hash.finalize().into()))
    }
}

fn digest(spec: &JudgeSpec, question: &Question) -> [u8; 32] {
    let entry = spec.entry();
    let parameters = entry.parameters.get_or_init(|| parameters(entry));
    let mut hash = Sha256::new();
    let identity = if entry.simulated {
        entry.name.as_str()
    } else {
        entry.base_url.as_str()
    };
    let fixed = [
        identity,
        spec.model(),
        parameters,
        question.criteria_hash.as_str(),
        question.template_hash.as_str(),
        question.evidence_hash.as_str(),
    ];
    for part in fixed {
        hash_with_length(&mut hash, part);
    }
    hash.finalize().into()
}

fn parameters(entry: &Entry) -> String {
    json!({
        "type": entry.format.name,
        "headers": headers(entry),
        "path": entry.path,
        "temperature": entry.temperature,
        "max_output_tokens": entry.max_output_tokens,
        "extra_body": entry.extra_body,
        "structured": entry.structured.map_or("auto", Rung::as_str),
    })
    .to_string()
}

/// Returns a SHA-256 in hex over header names and values, because values may be secrets.
fn headers(entry: &Entry) -> String {
    let mut hash = Sha256::new();
    for (name, value) in &entry.headers {
        // Header names are case-insensitive.
        hash_with_length(&mut hash, &name.to_ascii_lowercase());
        hash_with_length(&mut hash, value.expose_secret());
    }
    hex::encode(hash.finalize())
}

fn first_half(digest: &[u8; 32]) -> Uuid {
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(half)
}

/// Hashes a text with its length, so that different lists can't have the same hash.
fn hash_with_length(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}
