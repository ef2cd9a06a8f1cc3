//! Validates values. An error has the key as it was given, the value, the problem and the remedy.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use config::ValueKind;
use ipnet::IpNet;
use serde_json::Value;

use super::load::Origin;
use super::settings::{Settings, redacted_url};
use crate::outbound;
use crate::wire::{NewWebhook, WebhookFormat};

/// Validates every value and returns all errors. Replaces `localhost` in `bind` by its address.
pub(super) fn check(settings: &mut Settings, origin: &dyn Fn(&str) -> Origin) -> Vec<String> {
    if let Some(port) = settings.bind.strip_prefix("localhost:") {
        settings.bind = format!("127.0.0.1:{port}");
    }
    let mut checks = Checks {
        origin,
        errors: Vec::new(),
    };
    check_numbers(settings, &mut checks);
    check_texts(settings, &mut checks);
    check_addresses(settings, &mut checks);
    check_webhooks(settings, &mut checks);
    checks.errors
}

/// Returns the errors of a webhook: field and remedy. Never contains the secret.
pub fn webhook_errors(new: &NewWebhook) -> Vec<(&'static str, String)> {
    let mut faults = Vec::new();
    let characters = new.name.chars().count();
    if !(1..=80).contains(&characters) || new.name.chars().any(char::is_control) {
        faults.push((
            "name",
            "must be 1 to 80 characters, without control characters".to_owned(),
        ));
    }
    if let Err(fault) = outbound::check_url(&new.url) {
        faults.push(("url", fault.to_owned()));
    }
    if new
        .secret
        .as_deref()
        .is_some_and(|secret| outbound::key_of(secret).is_none())
    {
        let fault =
            "must be whsec_ and the Base64 of 24 to 64 bytes; omit it to let the API generate one";
        faults.push(("secret", fault.to_owned()));
    }
    if new.events.is_empty() {
        faults.push((
            "events",
            "is empty: name events, or omit it for all".to_owned(),
        ));
    }
    faults
}

fn check_webhooks(settings: &Settings, checks: &mut Checks<'_>) {
    const KEY: &str = "webhooks.endpoints";
    let endpoints = &settings.webhooks.endpoints;
    let place = (checks.origin)(KEY).name(KEY);
    for (index, new) in endpoints.iter().enumerate() {
        let errors = webhook_errors(new).into_iter();
        let mut errors: Vec<String> = errors
            .map(|(field, fault)| format!("{field} {fault}"))
            .collect();
        if new.secret.is_none() && new.format == WebhookFormat::Standard {
            errors.push(
                "secret is missing; make one by: echo whsec_$(openssl rand -base64 32)".to_owned(),
            );
        }
        if endpoints[..index]
            .iter()
            .any(|other| other.name == new.name)
        {
            errors.push("duplicate name; choose different names".to_owned());
        }
        let errors = errors
            .iter()
            .map(|error| format!("{place}: {:?}: {error}", new.name));
        checks.errors.extend(errors);
    }
}

/// Returns a value for display, without passwords in URLs and without tokens.
pub(super) fn shown(key: &str, value: &str) -> String {
    match key.rsplit(['.', '_']).next() {
        Some("tokens" | "endpoints") => "[hidden]".to_owned(),
        Some("token") if !value.is_empty() => "[hidden]".to_owned(),
        Some("url") => redacted_url(value),
        _ => value.to_owned(),
    }
}

pub(super) fn shown_value(key: &str, value: &ValueKind) -> Value {
    match value {
        ValueKind::String(text) => shown(key, text).into(),
        ValueKind::Array(items) => items
            .iter()
            .map(|item| shown_value(key, &item.kind))
            .collect(),
        ValueKind::Boolean(switch) => (*switch).into(),
        ValueKind::I64(number) => (*number).into(),
        ValueKind::U64(number) => (*number).into(),
        ValueKind::Float(number) => (*number).into(),
        // A webhook is shown by name only, because secret and URL are confidential.
        ValueKind::Table(table) => table
            .get("name")
            .map_or(Value::Null, |name| name.to_string().into()),
        ValueKind::Nil | ValueKind::I128(_) | ValueKind::U128(_) => value.to_string().into(),
    }
}

struct Checks<'a> {
    origin: &'a dyn Fn(&str) -> Origin,
    errors: Vec<String>,
}

impl Checks<'_> {
    /// Adds an error, with its remedy, unless the value is valid.
    fn require(&mut self, is_valid: bool, key: &str, value: &str, error: &str) {
        if !is_valid {
            let name = (self.origin)(key).name(key);
            let value = shown(key, value);
            self.errors.push(format!("{name}: {value:?} {error}"));
        }
    }

    fn range<T: PartialOrd + Display>(
        &mut self,
        key: &str,
        value: T,
        range: RangeInclusive<T>,
        noun: &str,
    ) {
        let (min, max) = (range.start(), range.end());
        let error = format!("is out of range; give {noun} from {min} to {max}");
        self.require(range.contains(&value), key, &value.to_string(), &error);
    }

    /// Requires a URL with one of these schemes, or an empty text.
    fn url(&mut self, key: &str, value: &str, schemes: &[&str], remedy: &str) {
        let is_known = value
            .split_once("://")
            .is_some_and(|(scheme, rest)| schemes.contains(&scheme) && !rest.is_empty());
        let error = format!("is not a valid address; {remedy}");
        self.require(value.is_empty() || is_known, key, value, &error);
    }
}

/// Checks the ranges of settings `group.field`.
macro_rules! ranges {
    ($settings:ident, $checks:ident, $noun:literal: $($group:ident.$field:ident in $range:expr;)*) => {$(
        let key = concat!(stringify!($group), ".", stringify!($field));
        $checks.range(key, $settings.$group.$field, $range, $noun);
    )*};
}

fn check_numbers(settings: &Settings, checks: &mut Checks<'_>) {
    const YEAR_S: u64 = 31_536_000;
    let memory = settings.memory_budget_bytes;
    checks.range(
        "memory_budget_bytes",
        memory,
        64 << 20..=1 << 40,
        "an integer",
    );
    ranges! { settings, checks, "an integer":
        database.max_connections in 1..=1_000;
        database.connect_timeout_s in 0..=3_600;
        http.max_connections in 1..=100_000;
        http.max_body_bytes in 1_024..=1 << 30;
        http.max_batch_bytes in 1_024..=1 << 30;
        http.header_timeout_s in 1..=600;
        http.idle_timeout_s in 1..=3_600;
        http.body_timeout_s in 1..=600;
        http.max_json_depth in 4..=128;
        http.max_wait_s in 0..=600;
        http.score_query_wait_s in 1..=600;
        http.max_streams in 0..=100_000;
        http.drain_delay_s in 0..=3_600;
        worker.concurrency in 1..=10_000;
        worker.drain_timeout_s in 0..=86_400;
        worker.max_wait_s in 1..=YEAR_S;
        worker.economy_part in 1..=100_000;
        judge.max_retries in 0..=10;
        judge.breaker_failures in 1..=1_000;
        agents.concurrency in 1..=1_000;
        auth.sign_in_hours in 1..=720;
        retention.judge_calls_days in 1..=36_500;
        retention.webhook_deliveries_days in 1..=36_500;
        retention.jobs_days in 0..=36_500;
        retention.sessions_days in 0..=36_500;
    }
    ranges! { settings, checks, "a number":
        worker.lease_s in 0.5..=3_600.0;
        worker.economy_poll_s in 0.05..=3_600.0;
        judge.retry_base_s in 0.0..=60.0;
        judge.breaker_cooldown_s in 0.1..=3_600.0;
        judge.max_slot_wait_s in 0.0..=60.0;
        judge.daily_cap_usd in 0.0..=1e9;
        judge.monthly_cap_usd in 0.0..=1e9;
        history.timeout_s in 0.1..=300.0;
        agents.timeout_s in 0.1..=3_600.0;
        webhooks.mean_drop in 0.001..=1.0;
    }
    // 0: no limit.
    if settings.history.requests_per_second != 0.0 {
        ranges! { settings, checks, "a number": history.requests_per_second in 0.001..=10_000.0; }
    }
}

fn check_texts(settings: &Settings, checks: &mut Checks<'_>) {
    let judge = &settings.default_llm_provider;
    checks.require(
        !judge.is_empty() && !judge.contains(char::is_whitespace),
        "default_llm_provider",
        judge,
        "is not the name of a judge; give an entry of llm_providers.yaml, or entry:model",
    );
    let data_dir = &settings.data_dir;
    let error = "is empty; name a folder, such as ./gavel-data";
    checks.require(!data_dir.trim().is_empty(), "data_dir", data_dir, error);
    let health = &settings.worker.health_bind;
    checks.require(
        health.is_empty() || health.parse::<SocketAddr>().is_ok(),
        "worker.health_bind",
        health,
        "is not an address; give an IP address and a port, such as 127.0.0.1:9465 (port 0: any free one), or leave it empty for none",
    );
    let queue = &settings.redis.queue;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    checks.require(
        (1..=64).contains(&queue.len()) && queue.chars().all(plain),
        "redis.queue",
        queue,
        "can't be part of a key; use 1 to 64 letters, digits, dots, dashes and underscores",
    );
    let format = &settings.log.format;
    let error = "is not a log format; give text or json";
    checks.require(
        matches!(format.as_str(), "text" | "json"),
        "log.format",
        format,
        error,
    );
}

fn check_addresses(settings: &Settings, checks: &mut Checks<'_>) {
    checks.require(
        settings.bind.parse::<SocketAddr>().is_ok(),
        "bind",
        &settings.bind,
        "is not an address with a port; give one such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080",
    );
    checks.url(
        "database.url",
        &settings.database.url,
        &["postgres", "postgresql"],
        "give postgres://user:password@host:5432/name, or leave it empty and use `gavel up`, which keeps SQLite in data_dir",
    );
    checks.url(
        "redis.url",
        &settings.redis.url,
        &["redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"],
        "give redis://host:6379/0, redis+cluster://host:6379,host2:6379 or redis+sentinel://host:26379,host2:26379/mymaster; rediss for TLS",
    );
    checks.url(
        "history.base_url",
        &settings.history.base_url,
        &["http", "https"],
        "give https://tarsy.example.com, without /api/v1 and without credentials, or leave it empty",
    );
    for (key, agent) in [
        ("agents.sql.url", &settings.agents.sql),
        ("agents.docking.url", &settings.agents.docking),
    ] {
        let remedy =
            "give the URL for questions, such as http://localhost:8087/ask, or leave it empty";
        checks.url(key, &agent.url, &["http", "https"], remedy);
    }
    for host in &settings.http.allowed_hosts {
        let error = "is not a host; give names as in a Host header, such as gavel.example.com";
        checks.require(!host.contains('/'), "http.allowed_hosts", host, error);
    }
    for network in &settings.http.trusted_proxies {
        let is_network = parse_network(network).is_some();
        let error =
            "is not a network; give an address with the length of its prefix, such as 10.0.0.0/8";
        checks.require(is_network, "http.trusted_proxies", network, error);
    }
}

/// Parses a network `address/bits`, or a single address.
pub fn parse_network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(address)
}
