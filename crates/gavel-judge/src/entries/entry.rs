//! Parses and validates one entry of `llm_providers.yaml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use gavel_rules::FileError;
use gavel_rules::config_file::{Lenient, Scalar, decode, join};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::cap::Cap;
use super::prices::Price;
use super::spec::{Auth, Entry};
use crate::provider::shape::Rung;
use crate::provider::{FORMATS, WireFormat};

const HEADER_NAME: &str = "expected a header's name";

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a map")]
struct EntryFields {
    #[serde(rename = "type")]
    format: Lenient<String>,
    base_url: Lenient<Address>,
    custom_base_url: Lenient<Address>,
    path: Lenient<String>,
    model: Lenient<String>,
    models: Option<Vec<Lenient<String>>>,
    key: Lenient<Secret>,
    key_file: Lenient<String>,
    hint: Lenient<String>,
    auth: Lenient<Auth>,
    auth_header: Lenient<String>,
    /// `""` is a valid setting (Azure) and differs from an absent one.
    auth_prefix: Option<String>,
    headers: Option<BTreeMap<String, Lenient<Secret>>>,
    extra_body: Option<Map<String, Value>>,
    prices: Option<BTreeMap<String, Price>>,
    batch_price_factor: Lenient<f64>,
    max_concurrency: Lenient<u32>,
    requests_per_minute: Lenient<Positive>,
    tokens_per_minute: Lenient<Positive>,
    context_window: Lenient<Positive>,
    max_output_tokens: Lenient<Positive>,
    temperature: Lenient<Temperature>,
    timeout_s: Lenient<Timeout>,
    structured: Lenient<String>,
    simulated: Lenient<bool>,
    fallback: Lenient<String>,
    daily_cap_usd: Lenient<f64>,
    monthly_cap_usd: Lenient<f64>,
}

struct Positive(u32);

impl Scalar for Positive {
    fn parse(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number| *number > 0);
        number
            .map(Self)
            .ok_or_else(|| "expected an integer of at least 1".to_owned())
    }
}

impl Entry {
    pub(super) fn read(
        name: &str,
        value: &Value,
        key_file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, FileError> {
        if name.is_empty() || name.contains([':', ',', '/', ' ']) {
            let message = "an entry's name is not empty and has no colon, comma, slash or space";
            return Err(FileError::new(name, message));
        }
        let fields: EntryFields = decode(name, value)?;
        let error = |key: &str, message: String| FileError::new(join(name, key), message);
        let missing = |key: &str| error(key, "is missing or empty".to_owned());
        let formats = FORMATS.map(|format| (format.name, format));
        let format = fields.format.0.ok_or_else(|| {
            let known = FORMATS.map(|format| format.name).join(", ");
            error("type", format!("is missing; known: {known}"))
        })?;
        let format = choice(&format, &formats).map_err(|message| error("type", message))?;
        let is_custom = fields.custom_base_url.0.is_some();
        let address = fields.custom_base_url.0.or(fields.base_url.0);
        let Address(base_url) = address.ok_or_else(|| missing("base_url"))?;
        let models = fields.models.into_iter().flatten();
        let mut models: Vec<String> = models.filter_map(|model| model.0).collect();
        let any_model = models.iter().any(|model| model == "*");
        models.retain(|model| model != "*");
        let auth_header = fields.auth_header.or(format.auth_header.to_owned());
        if !is_header_name(&auth_header) {
            return Err(error("auth_header", HEADER_NAME.to_owned()));
        }
        let given = fields.headers.unwrap_or_default();
        if let Some(header) = given.keys().find(|header| !is_header_name(header)) {
            return Err(error(&join("headers", header), HEADER_NAME.to_owned()));
        }
        // An empty variable omits its header, because servers reject an empty organisation.
        let headers = given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.0?.0)))
            .collect();
        Ok(Self {
            name: name.to_owned(),
            format,
            base_url,
            path: fields.path.or(format.path.to_owned()),
            model: fields.model.0.ok_or_else(|| missing("model"))?,
            models,
            any_model,
            key: match (fields.key.0, fields.key_file.0) {
                (Some(Secret(key)), _) => Some(key),
                (None, Some(path)) => {
                    let key = read_key(&path, key_file);
                    Some(key.map_err(|message| error("key_file", message))?)
                }
                (None, None) => None,
            },
            key_optional: is_custom,
            hint: fields.hint.0,
            auth: fields.auth.or(Auth::Key),
            auth_header,
            auth_prefix: fields.auth_prefix.unwrap_or(format.auth_prefix.to_owned()),
            headers,
            extra_body: fields.extra_body.unwrap_or_default(),
            prices: fields.prices.unwrap_or_default(),
            batch_price_factor: batch_price_factor(fields.batch_price_factor.0, format)
                .map_err(|message| error("batch_price_factor", message))?
                .filter(|_| !is_custom),
            max_concurrency: fields.max_concurrency.or(64),
            requests_per_minute: fields.requests_per_minute.0.map(|it| it.0),
            tokens_per_minute: fields.tokens_per_minute.0.map(|it| it.0),
            context_window: fields.context_window.or(Positive(128_000)).0,
            max_output_tokens: fields.max_output_tokens.or(Positive(8192)).0,
            temperature: fields.temperature.or(Temperature(Some(0.0))).0,
            timeout: fields.timeout_s.0.map(|Timeout(given)| given),
            structured: structured(fields.structured.or("auto".to_owned()), format)
                .map_err(|message| error("structured", message))?,
            simulated: fields.simulated.or(false),
            fallback: fields.fallback.0,
            cap: Cap::new(fields.daily_cap_usd.or(0.0), fields.monthly_cap_usd.or(0.0)),
            parameters: OnceLock::new(),
        })
    }
}

fn structured(text: String, format: &WireFormat) -> Result<Option<Rung>, String> {
    let rungs = format.ladder.iter().map(|(rung, _)| *rung);
    let rungs = rungs.filter(|rung| *rung != Rung::Prompt);
    let rungs = rungs.map(|rung| (rung.as_str(), Some(rung)));
    let rungs: Vec<_> = std::iter::once(("auto", None)).chain(rungs).collect();
    choice(&text, &rungs)
}

fn choice<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{text:?} is unknown; known: {}", known.join(", "))
    })
}

/// Address without trailing slashes. Checks for common typos; the HTTP client parses it in full.
struct Address(String);

impl Scalar for Address {
    fn parse(url: &str) -> Result<Self, String> {
        let rest = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"))
            .ok_or_else(|| "expected an address that starts with http:// or https://".to_owned())?;
        let host = rest.split('/').next().unwrap_or_default();
        if host.is_empty() || rest.contains(char::is_whitespace) {
            return Err("expected an address with a host and no spaces".to_owned());
        }
        if host.contains('@') {
            return Err("an address must not contain a password; use key or headers".to_owned());
        }
        Ok(Self(url.trim_end_matches('/').to_owned()))
    }
}

impl Scalar for Auth {
    fn parse(text: &str) -> Result<Self, String> {
        choice(text, &[("bearer", Self::Key), ("none", Self::None)])
    }
}

/// `none` omits the temperature.
struct Temperature(Option<f64>);

impl Scalar for Temperature {
    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) if (0.0..=2.0).contains(&number) => Ok(Self(Some(number))),
            Err(_) if text == "none" => Ok(Self(None)),
            Ok(_) | Err(_) => Err("expected a number of 0-2, or none".to_owned()),
        }
    }
}

struct Timeout(Duration);

impl Scalar for Timeout {
    fn parse(text: &str) -> Result<Self, String> {
        let seconds = text.parse().ok();
        let seconds = seconds.filter(|seconds| *seconds > 0.0 && *seconds <= 3600.0);
        seconds
            .map(|seconds| Self(Duration::from_secs_f64(seconds)))
            .ok_or_else(|| "expected more than 0 and at most 3600 seconds".to_owned())
    }
}

/// Text of a header. Line breaks are rejected, because every call would fail with an obscure error.
struct Secret(SecretString);

impl Scalar for Secret {
    fn parse(text: &str) -> Result<Self, String> {
        if text.bytes().any(|byte| !(0x20..0x7f).contains(&byte)) {
            return Err("contains a character that is invalid in HTTP headers".to_owned());
        }
        Ok(Self(SecretString::from(text.to_owned())))
    }
}

fn read_key(
    path: &str,
    key_file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<SecretString, String> {
    let text = key_file(path).map_err(|reason| format!("could not read {path:?}: {reason}"))?;
    match text.trim() {
        "" => Err(format!("{path:?} is empty")),
        text => Secret::parse(text).map(|Secret(key)| key),
    }
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Validated for every address but applied only to `base_url`, because custom servers have no discounted batches.
fn batch_price_factor(given: Option<f64>, format: &WireFormat) -> Result<Option<f64>, String> {
    if given.is_some() && format.batches.is_none() {
        let others = FORMATS.into_iter().filter(|other| other.batches.is_some());
        let others: Vec<&str> = others.map(|other| other.name).collect();
        let (own, others) = (format.name, others.join(" or "));
        return Err(format!(
            "{own} has no batch endpoint here; omit it, or use type {others}"
        ));
    }
    match given {
        Some(factor) if factor <= 0.0 || factor > 1.0 => {
            Err("expected a number above 0 and at most 1".to_owned())
        }
        given => Ok(given),
    }
}
