//! Judge specification: an entry of `llm_providers.yaml` and one of its models. No I/O.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use super::cap::Cap;
use super::prices::{Price, price_of};
use crate::provider::WireFormat;
use crate::provider::call::Tokens;
use crate::provider::shape::Rung;
use crate::question::Limits;
use crate::tokens::ModelFamily;

/// Validated entry with its resolved key, and the model to call. Debug output doesn't contain the key.
#[derive(Debug, Clone)]
pub struct JudgeSpec {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) entry: Arc<Entry>,
}

impl JudgeSpec {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn entry_name(&self) -> &str {
        &self.entry.name
    }

    pub fn model(&self) -> &str {
        &self.model
    }

    pub fn simulated(&self) -> bool {
        self.entry.simulated
    }

    /// `None` without a cap.
    pub fn max_concurrency(&self) -> Option<u32> {
        Some(self.entry.max_concurrency).filter(|cap| *cap > 0)
    }

    pub fn limits(&self) -> Limits {
        Limits {
            context_window: self.entry.context_window,
            max_output_tokens: self.entry.max_output_tokens,
            family: ModelFamily::from_name(&self.model),
        }
    }

    /// Returns the price of a batch call relative to a regular one, or `None` without a batch endpoint.
    pub fn batch_price_factor(&self) -> Option<f64> {
        self.entry.batch_price_factor
    }

    pub fn cost_usd(&self, tokens_in: i64, tokens_out: i64) -> Option<f64> {
        let tokens = Tokens {
            input: tokens_in,
            cached: 0,
            cache_written: 0,
            output: tokens_out,
        };
        price_of(&self.entry.prices, &self.model).map(|price| price.cost(tokens))
    }

    /// Returns the timeout of a call by question kind: 180 s for sessions, 30 s for others, unless the entry sets one.
    pub fn timeout(&self, kind: &str) -> Duration {
        self.entry.timeout.unwrap_or(match kind {
            "session" => Duration::from_secs(180),
            _ => Duration::from_secs(30),
        })
    }

    /// Returns whether the model should have a price and has none. Simulated judges and entries for any model need none.
    pub fn misses_price(&self) -> bool {
        let entry = &self.entry;
        !entry.any_model && !entry.simulated && price_of(&entry.prices, &self.model).is_none()
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// Key in the header that the entry names.
    Key,
    None,
}

pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) format: &'static WireFormat,
    pub(crate) base_url: String,
    pub(crate) path: String,
    pub(crate) model: String,
    pub(crate) models: Vec<String>,
    pub(crate) any_model: bool,
    pub(crate) key: Option<SecretString>,
    pub(super) key_optional: bool,
    pub(crate) hint: Option<String>,
    pub(crate) auth: Auth,
    pub(crate) auth_header: String,
    pub(crate) auth_prefix: String,
    /// Secret, because header values may be keys.
    pub(crate) headers: BTreeMap<String, SecretString>,
    pub(crate) extra_body: Map<String, Value>,
    pub(crate) prices: BTreeMap<String, Price>,
    /// Price of a batch call relative to a regular one. `None` without a batch endpoint.
    pub(crate) batch_price_factor: Option<f64>,
    pub(crate) max_concurrency: u32,
    pub(crate) requests_per_minute: Option<u32>,
    pub(crate) tokens_per_minute: Option<u32>,
    pub(crate) context_window: u32,
    pub(crate) max_output_tokens: u32,
    pub(crate) temperature: Option<f64>,
    pub(crate) timeout: Option<Duration>,
    /// Fixed output mode. `None` uses the schema, with fallback to weaker modes if the server rejects it.
    pub(crate) structured: Option<Rung>,
    pub(crate) simulated: bool,
    /// Fallback judge: `entry` or `entry:model`.
    pub(crate) fallback: Option<String>,
    pub(super) cap: Cap,
    /// Parameters that can change an answer, serialised for cache keys on first use.
    pub(crate) parameters: OnceLock<String>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("base_url", &self.base_url)
            .field("model", &self.model)
            .field("auth", &self.auth)
            .field("has_key", &self.key.is_some())
            .finish_non_exhaustive()
    }
}

impl Entry {
    pub(super) fn lists(&self, model: &str) -> bool {
        self.model == model || self.models.iter().any(|other| other == model)
    }

    /// Returns how to add a key if the entry needs one and has none.
    pub(super) fn missing_key(&self) -> Option<String> {
        let needs = self.auth == Auth::Key && !self.key_optional && self.key.is_none();
        needs.then(|| {
            self.hint.clone().unwrap_or_else(|| {
                format!(
                    "give entry {:?} of llm_providers.yaml a key (key or key_file), or set auth: none",
                    self.name
                )
            })
        })
    }

    /// Redacts the secrets of this entry in an error. Very short ones stay, because a header value such as `1` would blank the text.
    pub(crate) fn redact(&self, text: String) -> String {
        self.redact_from(text, 4, 4)
    }

    /// Redacts the secrets of this entry in a model's reply. Shorter ones stay, because a header value or the key of a local server may be
    /// a common term, and replacing it would change an answer.
    pub(crate) fn redact_reply(&self, text: String) -> String {
        self.redact_from(text, 8, 16)
    }

    fn redact_from(&self, text: String, shortest_key: usize, shortest_header: usize) -> String {
        let key = self.key.iter().map(|key| (key, shortest_key));
        let headers = self.headers.values().map(|value| (value, shortest_header));
        key.chain(headers).fold(text, |text, (secret, shortest)| {
            let secret = secret.expose_secret().trim();
            if secret.len() >= shortest && text.contains(secret) {
                text.replace(secret, "[redacted]")
            } else {
                text
            }
        })
    }
}
