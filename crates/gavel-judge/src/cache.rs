//! Keys by which the call log is the reply cache: the same question to the same judge under the same criteria is asked once in
//! 24 h.

use chrono::TimeDelta;
use secrecy::ExposeSecret as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::entries::spec::Entry;
use super::provider::shape::Rung;
use super::{JudgeSpec, Question};

/// How long a reply may stand for a call.
pub(super) const KEPT: TimeDelta = TimeDelta::hours(24);
/// The same of a reply that was collected: its call counts as made when its batch was handed over, which takes a day, and the
/// items of a batch that is paused wait for their judge.
pub(super) const COLLECTED_KEPT: TimeDelta = TimeDelta::days(8);

/// Half of a SHA-256 over judge identity, parameters, headers, criteria hash and the question before fencing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheKey(pub Uuid);

impl CacheKey {
    /// The key of a question to a judge. Whatever may change who answers, and what, is in it: the wire format, the address,
    /// the parameters, and the headers, by which a gateway may choose a model of its own. The nonce, the key and how many
    /// calls may be in flight are not. A simulated judge is the same wherever it listens: one that is started for a command
    /// takes any free port.
    pub(super) fn new(spec: &JudgeSpec, question: &Question) -> Self {
        Self(first_half(&digest(spec, question)))
    }

    /// The key of a call in which the judge declined a question of one asker. No other asker looks there: to everybody else the
    /// judge hasn't declined yet.
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
        hash.update(hex::encode(digest(spec, question)));
        Self(first_half(&hash.finalize().into()))
    }
}

fn digest(spec: &JudgeSpec, question: &Question) -> [u8; 32] {
    let entry = spec.entry();
    let parameters = entry.parameters.get_or_init(|| parameters(entry));
    let mut hash = Sha256::new();
    let whom = if entry.simulated {
        entry.name.as_str()
    } else {
        entry.base_url.as_str()
    };
    let fixed = [
        whom,
        spec.model(),
        parameters,
        question.criteria_hash.as_str(),
        question.template_hash.as_str(),
        question.evidence_hash.as_str(),
    ];
    for part in fixed {
        measured(&mut hash, part);
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

fn first_half(digest: &[u8; 32]) -> Uuid {
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(half)
}

/// Adds a text with its length first, so that no two lists of texts read alike.
fn measured(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}
