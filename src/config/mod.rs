//! Settings and the files they name. Reads the environment and files, decides nothing.

mod settings;
pub mod yaml;

pub use settings::{
    AuthSettings, DatabaseSettings, HttpSettings, JudgeSettings, LogSettings, RedisSettings,
    RetentionSettings, ScoringSettings, Settings, WorkerSettings,
};
