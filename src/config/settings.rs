//! Typed settings. `config/default.toml` documents each key; comments here only add facts about types.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::Deserialize;

use crate::job::Kind;
use crate::wire::NewWebhook;

/// All settings, from the layers flags > environment > `--config` file > embedded defaults.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub bind: String,
    pub data_dir: String,
    pub memory_budget_bytes: u64,
    pub default_llm_provider: String,
    pub scoring_config: String,
    pub llm_providers: String,
    /// By kind, without `session`; empty: the embedded files.
    pub criteria: BTreeMap<Kind, String>,
    pub database: DatabaseSettings,
    pub redis: RedisSettings,
    pub http: HttpSettings,
    pub auth: AuthSettings,
    pub worker: WorkerSettings,
    pub judge: JudgeSettings,
    pub scoring: ScoringSettings,
    pub history: HistorySettings,
    pub agents: AgentsSettings,
    pub webhooks: WebhooksSettings,
    pub retention: RetentionSettings,
    pub log: LogSettings,
    /// Values of `${NAME}` in criteria and judges' files that override the environment (`gavel demo` sets its simulator). Not a key of a
    /// file.
    #[serde(skip)]
    pub substitutions: BTreeMap<String, String>,
    /// Restricts criteria made current in the browser to simulated (`true`) or real (`false`) judges. Not a key of a file.
    #[serde(skip)]
    pub only_simulated: Option<bool>,
    /// All keys with the origin of their values, without secrets. Empty if the settings weren't loaded in layers.
    #[serde(skip)]
    pub shown: Vec<ShownSetting>,
}

impl Settings {
    /// Notes for display that a command has overridden a setting.
    pub fn overruled(&mut self, key: &str, value: impl Into<serde_json::Value>, by: &str) {
        if let Some(shown) = self.shown.iter_mut().find(|shown| shown.key == key) {
            shown.value = value.into();
            by.clone_into(&mut shown.origin);
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSettings {
    /// `postgres://..`; `up` and `demo` use SQLite in the data folder instead.
    pub url: Confidential,
    pub password_file: String,
    pub max_connections: u32,
    pub connect_timeout_s: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    /// `redis://..`, `redis+cluster://..` or `redis+sentinel://..`; `rediss` for TLS.
    pub url: Confidential,
    pub queue: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    pub max_connections: usize,
    pub header_timeout_s: u64,
    pub idle_timeout_s: u64,
    pub body_timeout_s: u64,
    pub max_body_bytes: usize,
    pub max_batch_bytes: usize,
    pub max_json_depth: usize,
    pub max_wait_s: u64,
    pub score_query_wait_s: u64,
    pub max_streams: usize,
    pub drain_delay_s: u64,
    pub allowed_hosts: Vec<String>,
    pub trusted_proxies: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthSettings {
    /// `name:scope,scope:token` each.
    pub tokens: Vec<Confidential>,
    pub tokens_file: String,
    pub insecure_no_auth: bool,
    pub sign_in_hours: u32,
    pub proxy: ProxySettings,
}

/// Permissions from the group header of a trusted proxy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxySettings {
    pub groups_header: String,
    /// `group:scope` each.
    pub groups: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    pub health_bind: String,
    pub concurrency: usize,
    /// Heartbeats are sent every third of it.
    pub lease_s: f64,
    pub drain_timeout_s: u64,
    pub max_wait_s: u64,
    pub economy_part: usize,
    pub economy_poll_s: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeSettings {
    pub max_retries: u32,
    pub retry_base_s: f64,
    pub breaker_failures: u32,
    pub breaker_cooldown_s: f64,
    pub max_slot_wait_s: f64,
    pub daily_cap_usd: f64,
    pub monthly_cap_usd: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoringSettings {
    pub score_only_completed: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistorySettings {
    pub base_url: Confidential,
    pub token: Confidential,
    pub requests_per_second: f64,
    pub timeout_s: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentsSettings {
    pub timeout_s: f64,
    pub concurrency: usize,
    pub sql: AgentSettings,
    pub docking: AgentSettings,
}

/// One agent, and the paths of the parts of its answers: names and list indexes joined by dots.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    pub url: Confidential,
    pub token: Confidential,
    pub sql_path: String,
    pub results_path: String,
    pub success_path: String,
    pub error_path: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhooksSettings {
    pub endpoints: Vec<NewWebhook>,
    pub allow_private: bool,
    pub mean_drop: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    pub judge_calls_days: u32,
    pub webhook_deliveries_days: u32,
    pub jobs_days: u32,
    pub sessions_days: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    pub format: String,
    pub filter: String,
}

/// URL with a password, or token. Its debug output hides it, because that may be logged.
#[derive(Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Confidential(String);

impl fmt::Debug for Confidential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl Deref for Confidential {
    type Target = String;

    fn deref(&self) -> &String {
        &self.0
    }
}

impl DerefMut for Confidential {
    fn deref_mut(&mut self) -> &mut String {
        &mut self.0
    }
}

impl From<String> for Confidential {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// Setting for display, without passwords and tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownSetting {
    /// Dotted, such as `http.port`.
    pub key: String,
    /// Text, number, boolean or list of texts. Its JSON is valid TOML.
    pub value: serde_json::Value,
    /// The flag, the variable, the file and its line, or `default`.
    pub origin: String,
}

/// Returns a URL without password and query.
pub fn redacted_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.contains('@') {
            "[hidden]".to_owned()
        } else {
            url.to_owned()
        };
    };
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    // A password may contain an unescaped slash, so everything before the last @ is hidden.
    match rest.rsplit_once('@') {
        Some((user, host)) => {
            let name = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}:***@{host}")
        }
        None => format!("{scheme}://{rest}"),
    }
}
