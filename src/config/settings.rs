//! Every setting, typed. `config/default.toml` documents each; this file only says what shape it has.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use crate::job::Kind;
use crate::wire::NewWebhook;

/// All settings, after the layers flags > environment > `--config` file > embedded defaults.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Address of the API.
    pub bind: String,
    /// Where embedded set-ups keep their data.
    pub data_dir: String,
    /// For what is read, compared and reported at once.
    pub memory_budget_bytes: u64,
    /// The judge that criteria name by `${DEFAULT_LLM_PROVIDER}`.
    pub default_llm_provider: String,
    /// Path of the criteria file; empty: the embedded one.
    pub scoring_config: String,
    /// Path of `llm_providers.yaml`; empty: the embedded one.
    pub llm_providers: String,
    /// Paths of the criteria files of the kinds other than `session`; empty: the embedded ones.
    pub criteria: BTreeMap<Kind, String>,
    pub database: DatabaseSettings,
    pub redis: RedisSettings,
    pub http: HttpSettings,
    /// Who may do what.
    pub auth: AuthSettings,
    pub worker: WorkerSettings,
    pub judge: JudgeSettings,
    pub scoring: ScoringSettings,
    /// Where sessions come from.
    pub history: HistorySettings,
    /// Agents that suites are run against.
    pub agents: AgentsSettings,
    /// Who is told of what.
    pub webhooks: WebhooksSettings,
    /// How long things are kept.
    pub retention: RetentionSettings,
    pub log: LogSettings,
    /// Values that `${NAME}` gets in the criteria and judges' files before the environment is asked (`gavel demo`
    /// names its simulator so). Not a key of any file.
    #[serde(skip)]
    pub substitutions: BTreeMap<String, String>,
    /// Whether criteria that were made current in the browser count only if their judge is simulated, or only if it is not.
    #[serde(skip)]
    pub only_simulated: Option<bool>,
    /// Every key with where its value came from, as it may be shown. Empty where the settings weren't loaded in layers.
    #[serde(skip)]
    pub shown: Vec<ShownSetting>,
}

impl Settings {
    /// Says of a setting that a command has changed it, wherever settings are shown.
    pub fn overruled(&mut self, key: &str, value: impl Into<serde_json::Value>, by: &str) {
        if let Some(shown) = self.shown.iter_mut().find(|shown| shown.key == key) {
            shown.value = value.into();
            by.clone_into(&mut shown.origin);
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSettings {
    /// `postgres://…`; `up` and `demo` use SQLite in the data folder instead.
    pub url: String,
    /// Path of a file with the role's password; empty: the address's.
    pub password_file: String,
    /// The most sessions with Postgres of one process.
    pub max_connections: u32,
    /// How long to try at start.
    pub connect_timeout_s: u64,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    /// `redis://…`, `redis+cluster://…` or `redis+sentinel://…`; `rediss` for TLS.
    pub url: String,
    /// The queue's name: part of every key.
    pub queue: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    /// Most connections with a request under way at once.
    pub max_connections: usize,
    /// How long a connection may take for its first request's head, seconds.
    pub header_timeout_s: u64,
    /// How long a connection may be silent between two requests, seconds.
    pub idle_timeout_s: u64,
    /// How long a body may be silent, seconds.
    pub body_timeout_s: u64,
    /// Largest body, bytes.
    pub max_body_bytes: usize,
    /// Largest batch, bytes.
    pub max_batch_bytes: usize,
    /// Deepest JSON.
    pub max_json_depth: usize,
    /// Longest `Prefer: wait`, seconds.
    pub max_wait_s: u64,
    /// How long POST `/api/score-query` waits for its job, seconds.
    pub score_query_wait_s: u64,
    /// Most streams of events at once.
    pub max_streams: usize,
    /// How long a stopping API goes on answering, seconds.
    pub drain_delay_s: u64,
    /// Host headers that are answered, beside loopback names and the bind address; empty on a public bind with tokens: any.
    pub allowed_hosts: Vec<String>,
    /// Networks whose `X-Forwarded-User` is believed; empty: this host without tokens, nobody with them.
    pub trusted_proxies: Vec<String>,
}

/// Who may do what.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthSettings {
    /// `name:scope,scope:token` each; scopes are read, enqueue, admin.
    pub tokens: Vec<String>,
    /// A file with one such line each; empty: none.
    pub tokens_file: String,
    /// Whether a bind beyond loopback without tokens is allowed.
    pub insecure_no_auth: bool,
    /// How long a browser stays signed in, hours.
    pub sign_in_hours: u32,
    /// Who may do what by the word of a trusted proxy.
    pub proxy: ProxySettings,
}

/// Who may do what by the word of a trusted proxy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxySettings {
    /// The header that names a user's groups, separated by commas.
    pub groups_header: String,
    /// `group:scope` each; empty: no one comes in by groups.
    pub groups: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// Address of a worker's own port for health and metrics; empty: none.
    pub health_bind: String,
    /// Judge calls at once, 1-10,000.
    pub concurrency: usize,
    /// How long a lease lasts, seconds; heartbeats come every third of it.
    pub lease_s: f64,
    /// How long a drain lets running jobs finish, seconds; then they go back to the queue.
    pub drain_timeout_s: u64,
    /// Runs in the lane `suspect` that may end with the worker's death.
    pub max_attempts: i32,
    /// Longest time in state waiting, seconds.
    pub max_wait_s: u64,
    /// Bulk ids per lane that wait in the queue.
    pub bulk_window: usize,
    /// Questions in one part that is handed to a provider's batch endpoint.
    pub economy_part: usize,
    /// How long between two looks at a provider's batches, seconds.
    pub economy_poll_s: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeSettings {
    /// Retries after the first call.
    pub max_retries: u32,
    /// The first delay, seconds; each further one doubles.
    pub retry_base_s: f64,
    /// Transient failures in a row that open the breaker.
    pub breaker_failures: u32,
    /// How long the breaker stays open, seconds.
    pub breaker_cooldown_s: f64,
    /// Longest wait that is spent in the worker's slot, seconds.
    pub max_slot_wait_s: f64,
    /// What all judges together may cost in a day of UTC, USD; 0: no cap.
    pub daily_cap_usd: f64,
    /// The same for a month.
    pub monthly_cap_usd: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoringSettings {
    /// Whether only sessions that ended `completed` are scored, as the origin does.
    pub score_only_completed: bool,
}

/// Where sessions come from.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistorySettings {
    /// A TARSy's address; empty: none.
    pub base_url: String,
    /// Its bearer token; empty: none.
    pub token: String,
    /// HTTP requests a second; 0: as fast as it goes.
    pub requests_per_second: f64,
    /// How long one request may take, seconds.
    pub timeout_s: f64,
}

/// Agents that suites are run against.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentsSettings {
    /// How long one question may take, seconds.
    pub timeout_s: f64,
    /// Questions asked at once, of all agents together.
    pub concurrency: usize,
    /// Who answers questions of agent `sql`.
    pub sql: AgentSettings,
    /// Who answers questions of agent `docking`.
    pub docking: AgentSettings,
}

/// One agent, and where in its answers the parts stand: names and list places joined by dots.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// Where questions are posted to; empty: there is no such agent.
    pub url: String,
    /// Its bearer token; empty: none.
    pub token: String,
    /// The generated SQL.
    pub sql_path: String,
    pub results_path: String,
    /// Whether it went well.
    pub success_path: String,
    /// What went wrong.
    pub error_path: String,
}

/// Who is told of what.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhooksSettings {
    /// Where events are sent.
    pub endpoints: Vec<NewWebhook>,
    /// Whether receivers may be on loopback and in private networks.
    pub allow_private: bool,
    /// By how much a mean must be lower than the one before, 0-1.
    pub mean_drop: f64,
}

/// How long things are kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    /// Judge calls with their replies, days.
    pub judge_calls_days: u32,
    /// Deliveries of webhooks that have ended, days.
    pub webhook_deliveries_days: u32,
    /// Jobs and batches that have ended, days; 0: for ever.
    pub jobs_days: u32,
    /// Sessions with all that was made of them, days; 0: for ever.
    pub sessions_days: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// `text` or `json`.
    pub format: String,
    /// A tracing filter, e.g. `info,gavel=debug`.
    pub filter: String,
}

// Passwords and tokens reach neither a log nor a debug print.

impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseSettings")
            .field("url", &redacted_url(&self.url))
            .field("password_file", &self.password_file)
            .field("max_connections", &self.max_connections)
            .field("connect_timeout_s", &self.connect_timeout_s)
            .finish()
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("url", &redacted_url(&self.url))
            .field("queue", &self.queue)
            .finish()
    }
}

impl fmt::Debug for AuthSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthSettings")
            .field("tokens", &format_args!("[{} hidden]", self.tokens.len()))
            .field("tokens_file", &self.tokens_file)
            .field("insecure_no_auth", &self.insecure_no_auth)
            .field("sign_in_hours", &self.sign_in_hours)
            .field("proxy", &self.proxy)
            .finish()
    }
}

impl fmt::Debug for HistorySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistorySettings")
            .field("base_url", &redacted_url(&self.base_url))
            .field("token", &(!self.token.is_empty()).then_some("hidden"))
            .field("requests_per_second", &self.requests_per_second)
            .field("timeout_s", &self.timeout_s)
            .finish()
    }
}

impl fmt::Debug for AgentSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSettings")
            .field("url", &redacted_url(&self.url))
            .field("token", &(!self.token.is_empty()).then_some("hidden"))
            .field("sql_path", &self.sql_path)
            .field("results_path", &self.results_path)
            .field("success_path", &self.success_path)
            .field("error_path", &self.error_path)
            .finish()
    }
}

/// One setting as it may be shown: passwords and tokens are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownSetting {
    /// Such as `http.port`, dotted.
    pub key: String,
    /// The value: a text, a number, a switch, or a list of texts. Its JSON is TOML too.
    pub value: serde_json::Value,
    /// The flag, the variable, the file and its line, or `default`.
    pub origin: String,
}

/// An address without its user's password and its query.
pub fn redacted_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return if url.contains('@') {
            "[hidden]".to_owned()
        } else {
            url.to_owned()
        };
    };
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    // A password may hold an unescaped slash: what stands before the last @ is never shown.
    match rest.rsplit_once('@') {
        Some((user, host)) => {
            let name = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}:***@{host}")
        }
        None => format!("{scheme}://{rest}"),
    }
}
