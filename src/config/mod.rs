//! Settings and the files that they name.

mod check;
mod dotenv;
mod files;
mod keys;
mod load;
mod settings;
#[cfg(test)]
mod tests;
pub mod yaml;

pub use check::{parse_network, webhook_errors};
pub use dotenv::read_dotenv;
pub use files::{LLM_PROVIDERS, criteria_file, env_with_default, judge_variables};
pub use keys::DEFAULT_TOML;
pub use load::{ConfigError, Flag, Loaded, Sources, load};
pub use settings::{
    AgentSettings, AgentsSettings, AuthSettings, Confidential, DatabaseSettings, HttpSettings,
    JudgeSettings, LogSettings, ProxySettings, RedisSettings, RetentionSettings, ScoringSettings,
    Settings, ShownSetting, WebhooksSettings, WorkerSettings, redacted_url,
};
