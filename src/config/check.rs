//! Validates values. An error has the key as it was given, the value, the problem and the remedy.

use std::net::{IpAddr, SocketAddr};

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
    let mut faults = SettingErrors {
        origin,
        found: Vec::new(),
    };
    check_integers(settings, &mut faults);
    numbers(settings, &mut faults);
    texts(settings, &mut faults);
    addresses(settings, &mut faults);
    webhooks(settings, &mut faults);
    faults.found
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

fn webhooks(settings: &Settings, faults: &mut SettingErrors<'_>) {
    const KEY: &str = "webhooks.endpoints";
    let endpoints = &settings.webhooks.endpoints;
    let place = (faults.origin)(KEY).name(KEY);
    let mut add =
        |name: &str, fault: &str| faults.found.push(format!("{place}: {name:?}: {fault}"));
    for (index, new) in endpoints.iter().enumerate() {
        for (field, fault) in webhook_errors(new) {
            add(&new.name, &format!("{field} {fault}"));
        }
        if new.secret.is_none() && new.format == WebhookFormat::Standard {
            add(
                &new.name,
                "secret is missing; make one by: echo whsec_$(openssl rand -base64 32)",
            );
        }
        if endpoints[..index]
            .iter()
            .any(|other| other.name == new.name)
        {
            add(&new.name, "duplicate name; choose different names");
        }
    }
}

/// Returns a value for display, without passwords in URLs and without tokens.
pub(super) fn shown(key: &str, value: &str) -> String {
    match key {
        "database.url" | "redis.url" | "history.base_url" | "agents.sql.url"
        | "agents.docking.url" => redacted_url(value),
        "history.token" | "agents.sql.token" | "agents.docking.token" if value.is_empty() => {
            String::new()
        }
        "history.token" | "agents.sql.token" | "agents.docking.token" => "[hidden]".to_owned(),
        "auth.tokens" => "[hidden]".to_owned(),
        "webhooks.endpoints" => "[hidden]".to_owned(),
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

struct SettingErrors<'a> {
    origin: &'a dyn Fn(&str) -> Origin,
    found: Vec<String>,
}

impl SettingErrors<'_> {
    fn add(&mut self, key: &str, value: &str, fault: &str, remedy: &str) {
        let name = (self.origin)(key).name(key);
        let value = shown(key, value);
        self.found
            .push(format!("{name}: {value:?} {fault}; {remedy}"));
    }

    fn whole(&mut self, key: &str, value: u64, min: u64, max: u64) {
        if !(min..=max).contains(&value) {
            let remedy = format!("give an integer from {min} to {max}");
            self.add(key, &value.to_string(), "is out of range", &remedy);
        }
    }

    fn number(&mut self, key: &str, value: f64, min: f64, max: f64) {
        if !(min..=max).contains(&value) {
            let remedy = format!("give a number from {min} to {max}");
            self.add(key, &value.to_string(), "is out of range", &remedy);
        }
    }
}

fn check_integers(settings: &Settings, faults: &mut SettingErrors<'_>) {
    const YEAR_S: u64 = 31_536_000;
    let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let (http, worker, judge) = (&settings.http, &settings.worker, &settings.judge);
    let database = &settings.database;
    let whole: [(&str, u64, u64, u64); 24] = [
        (
            "memory_budget_bytes",
            settings.memory_budget_bytes,
            64 << 20,
            1 << 40,
        ),
        (
            "database.max_connections",
            database.max_connections.into(),
            1,
            1_000,
        ),
        (
            "database.connect_timeout_s",
            database.connect_timeout_s,
            0,
            3_600,
        ),
        (
            "http.max_connections",
            size(http.max_connections),
            1,
            100_000,
        ),
        ("http.header_timeout_s", http.header_timeout_s, 1, 600),
        ("http.idle_timeout_s", http.idle_timeout_s, 1, 3_600),
        ("http.body_timeout_s", http.body_timeout_s, 1, 600),
        (
            "http.max_body_bytes",
            size(http.max_body_bytes),
            1_024,
            1 << 30,
        ),
        (
            "http.max_batch_bytes",
            size(http.max_batch_bytes),
            1_024,
            1 << 30,
        ),
        ("http.max_json_depth", size(http.max_json_depth), 4, 128),
        ("http.max_wait_s", http.max_wait_s, 0, 600),
        ("http.score_query_wait_s", http.score_query_wait_s, 1, 600),
        ("http.max_streams", size(http.max_streams), 0, 100_000),
        ("http.drain_delay_s", http.drain_delay_s, 0, 3_600),
        ("worker.concurrency", size(worker.concurrency), 1, 10_000),
        ("worker.drain_timeout_s", worker.drain_timeout_s, 0, 86_400),
        (
            "worker.max_attempts",
            u64::try_from(worker.max_attempts).unwrap_or(0),
            1,
            100,
        ),
        ("worker.max_wait_s", worker.max_wait_s, 1, YEAR_S),
        ("worker.bulk_window", size(worker.bulk_window), 1, 1_000_000),
        ("worker.economy_part", size(worker.economy_part), 1, 100_000),
        ("judge.max_retries", judge.max_retries.into(), 0, 10),
        (
            "judge.breaker_failures",
            judge.breaker_failures.into(),
            1,
            1_000,
        ),
        (
            "agents.concurrency",
            size(settings.agents.concurrency),
            1,
            1_000,
        ),
        (
            "auth.sign_in_hours",
            settings.auth.sign_in_hours.into(),
            1,
            720,
        ),
    ];
    for (key, value, min, max) in whole {
        faults.whole(key, value, min, max);
    }
    let kept = &settings.retention;
    for (key, days, least) in [
        ("retention.judge_calls_days", kept.judge_calls_days, 1),
        (
            "retention.webhook_deliveries_days",
            kept.webhook_deliveries_days,
            1,
        ),
        ("retention.jobs_days", kept.jobs_days, 0),
        ("retention.sessions_days", kept.sessions_days, 0),
    ] {
        faults.whole(key, days.into(), least, 36_500);
    }
}

fn numbers(settings: &Settings, faults: &mut SettingErrors<'_>) {
    let (worker, judge) = (&settings.worker, &settings.judge);
    let numbers = [
        ("worker.lease_s", worker.lease_s, 0.5, 3_600.0),
        (
            "worker.economy_poll_s",
            worker.economy_poll_s,
            0.05,
            3_600.0,
        ),
        ("judge.retry_base_s", judge.retry_base_s, 0.0, 60.0),
        (
            "judge.breaker_cooldown_s",
            judge.breaker_cooldown_s,
            0.1,
            3_600.0,
        ),
        ("judge.max_slot_wait_s", judge.max_slot_wait_s, 0.0, 60.0),
        ("judge.daily_cap_usd", judge.daily_cap_usd, 0.0, 1e9),
        ("judge.monthly_cap_usd", judge.monthly_cap_usd, 0.0, 1e9),
        (
            "history.requests_per_second",
            settings.history.requests_per_second,
            if settings.history.requests_per_second == 0.0 {
                0.0
            } else {
                0.001
            },
            10_000.0,
        ),
        ("history.timeout_s", settings.history.timeout_s, 0.1, 300.0),
        ("agents.timeout_s", settings.agents.timeout_s, 0.1, 3_600.0),
        (
            "webhooks.mean_drop",
            settings.webhooks.mean_drop,
            0.001,
            1.0,
        ),
    ];
    for (key, value, min, max) in numbers {
        faults.number(key, value, min, max);
    }
}

fn texts(settings: &Settings, faults: &mut SettingErrors<'_>) {
    let judge = &settings.default_llm_provider;
    if judge.is_empty() || judge.contains(char::is_whitespace) {
        faults.add(
            "default_llm_provider",
            judge,
            "is not the name of a judge",
            "give an entry of llm_providers.yaml, or entry:model",
        );
    }
    if settings.data_dir.trim().is_empty() {
        faults.add(
            "data_dir",
            &settings.data_dir,
            "is empty",
            "name a folder, such as ./gavel-data",
        );
    }
    let health = &settings.worker.health_bind;
    if !health.is_empty() && health.parse::<std::net::SocketAddr>().is_err() {
        faults.add(
            "worker.health_bind",
            health,
            "is not an address",
            "give an IP address and a port, such as 127.0.0.1:9465 (port 0: any free one), or leave it empty for none",
        );
    }
    let queue = &settings.redis.queue;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if queue.is_empty() || queue.len() > 64 || !queue.chars().all(plain) {
        faults.add(
            "redis.queue",
            queue,
            "can't be part of a key",
            "use 1 to 64 letters, digits, dots, dashes and underscores",
        );
    }
    if !matches!(settings.log.format.as_str(), "text" | "json") {
        faults.add(
            "log.format",
            &settings.log.format,
            "is not a log format",
            "give text or json",
        );
    }
}

fn addresses(settings: &Settings, faults: &mut SettingErrors<'_>) {
    if settings.bind.parse::<SocketAddr>().is_err() {
        faults.add(
            "bind",
            &settings.bind,
            "is not an address with a port",
            "give one such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080",
        );
    }
    let url =
        |faults: &mut SettingErrors<'_>, key: &str, value: &str, schemes: &[&str], remedy: &str| {
            let known = schemes.iter().any(|scheme| {
                value
                    .strip_prefix(scheme)
                    .is_some_and(|rest| !rest.is_empty())
            });
            if !value.is_empty() && !known {
                faults.add(key, value, "is not a valid address", remedy);
            }
        };
    url(
        faults,
        "database.url",
        &settings.database.url,
        &["postgres://", "postgresql://"],
        "give postgres://user:password@host:5432/name, or leave it empty and use `gavel up`, which keeps SQLite in data_dir",
    );
    url(
        faults,
        "redis.url",
        &settings.redis.url,
        &[
            "redis://",
            "rediss://",
            "redis+cluster://",
            "rediss+cluster://",
            "redis+sentinel://",
            "rediss+sentinel://",
        ],
        "give redis://host:6379/0, redis+cluster://host:6379,host2:6379 or redis+sentinel://host:26379,host2:26379/mymaster; rediss for TLS",
    );
    url(
        faults,
        "history.base_url",
        &settings.history.base_url,
        &["http://", "https://"],
        "give https://tarsy.example.com, without /api/v1 and without credentials, or leave it empty",
    );
    for (key, agent) in [
        ("agents.sql.url", &settings.agents.sql),
        ("agents.docking.url", &settings.agents.docking),
    ] {
        url(
            faults,
            key,
            &agent.url,
            &["http://", "https://"],
            "give the URL for questions, such as http://localhost:8087/ask, or leave it empty",
        );
    }
    for host in &settings.http.allowed_hosts {
        if host.contains("://") || host.contains('/') {
            faults.add(
                "http.allowed_hosts",
                host,
                "is not a host",
                "give names as in a Host header, such as gavel.example.com",
            );
        }
    }
    for network in &settings.http.trusted_proxies {
        if parse_network(network).is_none() {
            faults.add(
                "http.trusted_proxies",
                network,
                "is not a network",
                "give an address with the length of its prefix, such as 10.0.0.0/8",
            );
        }
    }
}

/// Parses a network `address/bits`, or a single address.
pub fn parse_network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(address)
}
