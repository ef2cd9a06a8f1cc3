//! Token prices by model. A model without a price has unknown cost, not zero.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use serde_json::Value;

use super::read::{Fields, ProvidersError};
use crate::provider::call::Tokens;

const RATES: [&str; 4] = [
    "input_per_mtok",
    "cached_input_per_mtok",
    "cache_write_input_per_mtok",
    "output_per_mtok",
];
const KEYS: &[&str] = &[
    RATES[0],
    RATES[1],
    RATES[2],
    RATES[3],
    LONG_PROMPT,
    AS_OF,
    "source",
];
pub(super) const AS_OF: &str = "as_of";
const LONG_PROMPT: &str = "long_prompt";
const LONG_PROMPT_KEYS: &[&str] = &[RATES[0], RATES[1], RATES[2], RATES[3], "above_input_tokens"];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Price {
    rates: Rates,
    long_prompt: Option<LongPrompt>,
    /// Date of verification.
    pub(super) as_of: NaiveDate,
}

/// USD per million tokens. The cached and cache write rates default to `input`.
#[derive(Debug, Clone, PartialEq)]
struct Rates {
    input: f64,
    cached_input: f64,
    cache_write_input: f64,
    output: f64,
}

/// Rates for all tokens of a call with a longer prompt than `above_input_tokens`.
#[derive(Debug, Clone, PartialEq)]
struct LongPrompt {
    above_input_tokens: i64,
    rates: Rates,
}

impl Price {
    pub(crate) fn cost(&self, tokens: Tokens) -> f64 {
        let rates = match &self.long_prompt {
            Some(long) if tokens.input > long.above_input_tokens => &long.rates,
            Some(_) | None => &self.rates,
        };
        let input = tokens.input.max(0);
        let cached = tokens.cached.clamp(0, input);
        let written = tokens.cache_written.clamp(0, input - cached);
        let fresh = input - cached - written;
        per_million(fresh, rates.input)
            + per_million(cached, rates.cached_input)
            + per_million(written, rates.cache_write_input)
            + per_million(tokens.output.max(0), rates.output)
    }
}

impl Rates {
    fn read(fields: &Fields<'_>) -> Result<Self, ProvidersError> {
        let needed = |key: &str| {
            fields
                .number(key)?
                .ok_or_else(|| fields.error(key, "is missing; USD per million tokens"))
        };
        let [input, cached_input, cache_write_input, output] = RATES;
        let input = needed(input)?;
        Ok(Self {
            input,
            cached_input: fields.number(cached_input)?.unwrap_or(input),
            cache_write_input: fields.number(cache_write_input)?.unwrap_or(input),
            output: needed(output)?,
        })
    }
}

impl LongPrompt {
    fn read(path: &str, value: &Value) -> Result<Self, ProvidersError> {
        const ABOVE: &str = "above_input_tokens";
        let fields = Fields::new(path, value, LONG_PROMPT_KEYS)?;
        let above = fields
            .count(ABOVE)?
            .ok_or_else(|| fields.error(ABOVE, "is missing; tokens of a prompt"))?;
        Ok(Self {
            above_input_tokens: i64::from(above),
            rates: Rates::read(&fields)?,
        })
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

pub(super) fn read(
    path: &str,
    value: Option<&Value>,
) -> Result<BTreeMap<String, Price>, ProvidersError> {
    let Some(value) = value else {
        return Ok(BTreeMap::new());
    };
    let Value::Object(models) = value else {
        return Err(ProvidersError {
            path: path.to_owned(),
            message: "expected a map of prices by model".to_owned(),
        });
    };
    let mut prices = BTreeMap::new();
    for (model, value) in models {
        let fields = Fields::new(&format!("{path}.{model}"), value, KEYS)?;
        let rates = Rates::read(&fields)?;
        // Date and source are required, so that the price can be verified.
        let as_of = day(&fields)?;
        fields.required("source")?;
        let long_prompt = fields
            .raw(LONG_PROMPT)
            .map(|value| LongPrompt::read(&fields.path(LONG_PROMPT), value))
            .transpose()?;
        let price = Price {
            rates,
            long_prompt,
            as_of,
        };
        prices.insert(model.clone(), price);
    }
    Ok(prices)
}

fn day(fields: &Fields<'_>) -> Result<NaiveDate, ProvidersError> {
    let text = fields.required(AS_OF)?;
    let day = NaiveDate::parse_from_str(text.trim(), "%Y-%m-%d");
    day.map_err(|_| {
        fields.error(
            AS_OF,
            format!(
                "{text:?} is not a date; give a day on which the price was valid, as 2026-01-31"
            ),
        )
    })
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
