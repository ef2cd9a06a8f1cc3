//! Parses and validates one entry of `llm_providers.yaml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use super::cap::Cap;
use super::prices;
use super::read::{Fields, ProvidersError};
use super::spec::{Auth, Entry};
use crate::provider::shape::Rung;
use crate::provider::{FORMATS, WireFormat};

const KEYS: &[&str] = &[
    "type",
    "base_url",
    "custom_base_url",
    "path",
    "model",
    "models",
    "key",
    "key_file",
    "hint",
    "auth",
    "auth_header",
    "auth_prefix",
    "headers",
    "extra_body",
    "prices",
    "batch_price_factor",
    "max_concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "context_window",
    "max_output_tokens",
    "temperature",
    "timeout_s",
    "structured",
    "simulated",
    "fallback",
    "daily_cap_usd",
    "monthly_cap_usd",
];

impl Entry {
    pub(super) fn read(
        name: &str,
        value: &Value,
        key_file: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ProvidersError> {
        if name.is_empty() || name.contains([':', ',', '/', ' ']) {
            return Err(ProvidersError {
                path: name.to_owned(),
                message: "an entry's name is not empty and has no colon, comma, slash or space"
                    .to_owned(),
            });
        }
        let fields = Fields::new(name, value, KEYS)?;
        let formats = FORMATS.map(|format| (format.name, format));
        let format = fields.choice("type", &formats)?.ok_or_else(|| {
            let known = FORMATS.map(|format| format.name).join(", ");
            fields.error("type", format!("is missing; known: {known}"))
        })?;
        let custom = fields.text("custom_base_url")?;
        let (base_url_key, base_url) = match &custom {
            Some(url) => ("custom_base_url", url.clone()),
            None => ("base_url", fields.required("base_url")?),
        };
        plausible_url(&base_url).map_err(|message| fields.error(base_url_key, message))?;
        let mut models = fields.texts("models")?;
        let any_model = models.iter().any(|model| model == "*");
        models.retain(|model| model != "*");
        Ok(Self {
            name: name.to_owned(),
            format,
            base_url: base_url.trim_end_matches('/').to_owned(),
            path: fields
                .text("path")?
                .unwrap_or_else(|| format.path.to_owned()),
            model: fields.required("model")?,
            models,
            any_model,
            key: read_key(&fields, key_file)?,
            key_optional: custom.is_some(),
            hint: fields.text("hint")?,
            auth: fields
                .choice("auth", &[("bearer", Auth::Key), ("none", Auth::None)])?
                .unwrap_or(Auth::Key),
            auth_header: auth_header(&fields, format)?,
            auth_prefix: auth_prefix(&fields, format)?,
            headers: headers(&fields)?,
            extra_body: extra_body(&fields)?,
            prices: prices::read(&fields.path("prices"), fields.raw("prices"))?,
            batch_price_factor: batch_price_factor(&fields, format, custom.as_deref())?,
            max_concurrency: fields.count("max_concurrency")?.unwrap_or(64),
            requests_per_minute: positive(&fields, "requests_per_minute")?,
            tokens_per_minute: positive(&fields, "tokens_per_minute")?,
            context_window: positive(&fields, "context_window")?.unwrap_or(128_000),
            max_output_tokens: positive(&fields, "max_output_tokens")?.unwrap_or(8192),
            temperature: temperature(&fields)?,
            timeout: timeout(&fields)?,
            structured: structured(&fields, format)?,
            simulated: fields.flag("simulated")?.unwrap_or(false),
            fallback: fields.text("fallback")?,
            cap: Cap::new(
                fields.number("daily_cap_usd")?.unwrap_or(0.0),
                fields.number("monthly_cap_usd")?.unwrap_or(0.0),
            ),
            parameters: OnceLock::new(),
        })
    }
}

/// Catches common typos. The HTTP client parses the URL in full.
fn plausible_url(url: &str) -> Result<(), String> {
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
    Ok(())
}

fn read_key(
    fields: &Fields<'_>,
    key_file: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Option<SecretString>, ProvidersError> {
    if let Some(key) = fields.text("key")? {
        return clean_key(fields, "key", &key).map(Some);
    }
    let Some(path) = fields.text("key_file")? else {
        return Ok(None);
    };
    let text = key_file(&path)
        .map_err(|reason| fields.error("key_file", format!("could not read {path:?}: {reason}")))?;
    if text.trim().is_empty() {
        return Err(fields.error("key_file", format!("{path:?} is empty")));
    }
    clean_key(fields, "key_file", &text).map(Some)
}

/// Rejects line breaks, because the key is sent in a header and every call would fail with an obscure error.
fn clean_key(fields: &Fields<'_>, at: &str, key: &str) -> Result<SecretString, ProvidersError> {
    let key = key.trim();
    if key.bytes().any(|byte| !(0x20..0x7f).contains(&byte)) {
        return Err(fields.error(at, "contains a character that is invalid in HTTP headers"));
    }
    Ok(SecretString::from(key.to_owned()))
}

fn auth_header(fields: &Fields<'_>, format: &WireFormat) -> Result<String, ProvidersError> {
    let name = fields
        .text("auth_header")?
        .unwrap_or_else(|| format.auth_header.to_owned());
    if is_header_name(&name) {
        Ok(name)
    } else {
        Err(fields.error("auth_header", "expected a header's name"))
    }
}

fn headers(fields: &Fields<'_>) -> Result<BTreeMap<String, SecretString>, ProvidersError> {
    let mut headers = BTreeMap::new();
    for (name, value) in fields.text_map("headers")? {
        let at = format!("headers.{name}");
        if !is_header_name(&name) {
            return Err(fields.error(&at, "expected a header's name"));
        }
        let value = clean_key(fields, &at, &value)?;
        // An empty variable omits its header, because servers reject an empty organisation.
        if !value.expose_secret().is_empty() {
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn auth_prefix(fields: &Fields<'_>, format: &WireFormat) -> Result<String, ProvidersError> {
    // `auth_prefix: ""` is a valid setting (Azure) and differs from an absent one.
    match fields.raw("auth_prefix") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(fields.error("auth_prefix", "expected text")),
        None => Ok(format.auth_prefix.to_owned()),
    }
}

fn extra_body(fields: &Fields<'_>) -> Result<Map<String, Value>, ProvidersError> {
    match fields.raw("extra_body") {
        None => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map.clone()),
        Some(_) => Err(fields.error("extra_body", "expected a map of request fields")),
    }
}

/// Validated for every address but applied only to `base_url`, because custom servers have no discounted batches.
fn batch_price_factor(
    fields: &Fields<'_>,
    format: &WireFormat,
    custom_base_url: Option<&str>,
) -> Result<Option<f64>, ProvidersError> {
    const KEY: &str = "batch_price_factor";
    let given = fields.number(KEY)?;
    if given.is_some() && format.batches.is_none() {
        let others = FORMATS.into_iter().filter(|other| other.batches.is_some());
        let others: Vec<&str> = others.map(|other| other.name).collect();
        let (own, others) = (format.name, others.join(" or "));
        let message = format!("{own} has no batch endpoint here; omit it, or use type {others}");
        return Err(fields.error(KEY, message));
    }
    match given {
        Some(factor) if factor <= 0.0 || factor > 1.0 => {
            Err(fields.error(KEY, "expected a number above 0 and at most 1"))
        }
        given => Ok(given.filter(|_| custom_base_url.is_none())),
    }
}

fn structured(fields: &Fields<'_>, format: &WireFormat) -> Result<Option<Rung>, ProvidersError> {
    let rungs = format.ladder.iter().map(|(rung, _)| *rung);
    let rungs = rungs.filter(|rung| *rung != Rung::Prompt);
    let rungs = rungs.map(|rung| (rung.as_str(), Some(rung)));
    let words: Vec<_> = std::iter::once(("auto", None)).chain(rungs).collect();
    Ok(fields.choice("structured", &words)?.flatten())
}

fn positive(fields: &Fields<'_>, key: &str) -> Result<Option<u32>, ProvidersError> {
    match fields.count(key)? {
        Some(0) => Err(fields.error(key, "expected an integer of at least 1")),
        given => Ok(given),
    }
}

fn temperature(fields: &Fields<'_>) -> Result<Option<f64>, ProvidersError> {
    if fields.text("temperature")?.as_deref() == Some("none") {
        return Ok(None);
    }
    match fields.number("temperature")? {
        Some(number) if number > 2.0 => {
            Err(fields.error("temperature", "expected a number of 0-2, or none"))
        }
        given => Ok(Some(given.unwrap_or(0.0))),
    }
}

fn timeout(fields: &Fields<'_>) -> Result<Option<Duration>, ProvidersError> {
    match fields.number("timeout_s")? {
        None => Ok(None),
        Some(seconds) if seconds > 0.0 && seconds <= 3600.0 => {
            Ok(Some(Duration::from_secs_f64(seconds)))
        }
        Some(_) => Err(fields.error("timeout_s", "expected more than 0 and at most 3600 seconds")),
    }
}
