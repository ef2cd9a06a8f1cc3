//! What tokens cost, by model. A model without a price is unpriced, never free.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ProvidersError;
use super::read::Fields;

const KEYS: &[&str] = &[
    "input_per_mtok",
    "cached_input_per_mtok",
    "output_per_mtok",
    "as_of",
    "source",
];

/// One model's price, USD per million tokens.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::judge) struct Price {
    pub(in crate::judge) input_per_mtok: f64,
    /// Equal to the input's price where the file names none.
    pub(in crate::judge) cached_input_per_mtok: f64,
    pub(in crate::judge) output_per_mtok: f64,
}

impl Price {
    /// USD of one call; `cached` tokens are part of `input`.
    pub(in crate::judge) fn cost(&self, input: i64, cached: i64, output: i64) -> f64 {
        let cached = cached.clamp(0, input.max(0));
        let fresh = input.max(0) - cached;
        (per_million(fresh, self.input_per_mtok) + per_million(cached, self.cached_input_per_mtok))
            + per_million(output.max(0), self.output_per_mtok)
    }
}

/// The price of the model that answered. A dated snapshot (`gpt-4o-mini-2024-07-18`) has the price of the name that it
/// begins with; another model than the one that was asked has its own price, or none.
pub(in crate::judge) fn price_of<'a>(
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

/// Reads an entry's `prices:`.
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
        let needed = |key: &str| {
            fields
                .number(key)?
                .ok_or_else(|| fields.fault(key, "is missing; USD per million tokens"))
        };
        let input_per_mtok = needed("input_per_mtok")?;
        // A price that nobody can trace is a price that nobody can check.
        fields.required("as_of")?;
        fields.required("source")?;
        prices.insert(
            model.clone(),
            Price {
                input_per_mtok,
                cached_input_per_mtok: fields
                    .number("cached_input_per_mtok")?
                    .unwrap_or(input_per_mtok),
                output_per_mtok: needed("output_per_mtok")?,
            },
        );
    }
    Ok(prices)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a call's tokens are far below 2^52"
)]
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
