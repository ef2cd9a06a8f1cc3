//! Token prices by model. A model without a price has unknown cost, not zero.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use gavel_rules::config_file::{Lenient, required};
use serde::Deserialize;

use crate::provider::call::Tokens;

pub(super) const AS_OF: &str = "as_of";

/// USD per million tokens. Rates for cached and cache write tokens default to the input's. Date and source are required, so that the price
/// can be verified.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map")]
pub(crate) struct Price {
    #[serde(deserialize_with = "required")]
    input_per_mtok: f64,
    #[serde(default)]
    cached_input_per_mtok: Lenient<f64>,
    #[serde(default)]
    cache_write_input_per_mtok: Lenient<f64>,
    #[serde(deserialize_with = "required")]
    output_per_mtok: f64,
    long_prompt: Option<LongPrompt>,
    /// Date of verification.
    #[serde(deserialize_with = "required")]
    pub(super) as_of: NaiveDate,
    #[serde(rename = "source", deserialize_with = "required")]
    _source: String,
}

/// Rates for all tokens of a call with a longer prompt than `above_input_tokens`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a map")]
struct LongPrompt {
    #[serde(deserialize_with = "required")]
    above_input_tokens: u32,
    #[serde(deserialize_with = "required")]
    input_per_mtok: f64,
    #[serde(default)]
    cached_input_per_mtok: Lenient<f64>,
    #[serde(default)]
    cache_write_input_per_mtok: Lenient<f64>,
    #[serde(deserialize_with = "required")]
    output_per_mtok: f64,
}

impl Price {
    pub(crate) fn cost(&self, tokens: Tokens) -> f64 {
        let long = self.long_prompt.as_ref();
        let long = long.filter(|long| tokens.input > i64::from(long.above_input_tokens));
        let (input, cached, written, output) = match long {
            Some(it) => (
                it.input_per_mtok,
                &it.cached_input_per_mtok,
                &it.cache_write_input_per_mtok,
                it.output_per_mtok,
            ),
            None => (
                self.input_per_mtok,
                &self.cached_input_per_mtok,
                &self.cache_write_input_per_mtok,
                self.output_per_mtok,
            ),
        };
        let all = tokens.input.max(0);
        let from_cache = tokens.cached.clamp(0, all);
        let to_cache = tokens.cache_written.clamp(0, all - from_cache);
        per_million(all - from_cache - to_cache, input)
            + per_million(from_cache, cached.0.unwrap_or(input))
            + per_million(to_cache, written.0.unwrap_or(input))
            + per_million(tokens.output.max(0), output)
    }
}

/// Returns the price of the responding model. A dated snapshot (`gpt-4o-mini-2024-07-18`) has the price of its prefix.
/// A model other than the requested one has its own price or none.
pub(crate) fn price_of<'a>(
    prices: &'a BTreeMap<String, Price>,
    reported: &str,
) -> Option<&'a Price> {
    if let Some(price) = prices.get(reported) {
        return Some(price);
    }
    prices
        .iter()
        .filter(|(name, _)| is_snapshot(reported, name))
        .max_by_key(|(name, _)| name.len())
        .map(|(_, price)| price)
}

fn per_million(tokens: i64, price: f64) -> f64 {
    tokens as f64 * price / 1_000_000.0
}

fn is_snapshot(reported: &str, name: &str) -> bool {
    reported
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|rest| {
            rest.len() >= 4
                && rest
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'-')
        })
}
