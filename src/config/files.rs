//! The two YAML files that settings name: the built-in copies, and the variables that may stand in them. Parses nothing.

use super::settings::Settings;
use crate::job::Kind;

/// The criteria file of a kind: the path that the settings give it (empty: the built-in one), its name, and the built-in text.
pub fn criteria_file(settings: &Settings, kind: Kind) -> (&str, &'static str, &'static str) {
    match kind {
        Kind::Session => (
            &settings.scoring_config,
            "scoring_config.yaml",
            include_str!("../../config/scoring_config.yaml"),
        ),
        Kind::Query => (
            &settings.criteria.query,
            "query.yaml",
            include_str!("../../config/criteria/query.yaml"),
        ),
        Kind::Qas => (
            &settings.criteria.qas,
            "qas.yaml",
            include_str!("../../config/criteria/qas.yaml"),
        ),
        Kind::SqlMetrics => (
            &settings.criteria.sql_metrics,
            "query_correctness.yaml",
            include_str!("../../config/criteria/query_correctness.yaml"),
        ),
    }
}

/// The judges' file that is used where `llm_providers` is empty.
pub const LLM_PROVIDERS: &str = include_str!("../../config/llm_providers.yaml");

/// What `${NAME}` stands for in those files: `settings.substitutions`, then the environment, and for
/// DEFAULT_LLM_PROVIDER the setting of that name.
pub fn env_with_default(
    settings: &Settings,
) -> impl Fn(&str) -> Option<String> + Send + Sync + 'static {
    let overrides = settings.substitutions.clone();
    let default_judge = settings.default_llm_provider.clone();
    move |name| {
        if let Some(value) = overrides.get(name) {
            return Some(value.clone());
        }
        if name == "DEFAULT_LLM_PROVIDER" {
            // The setting has seen the environment already, flags and GAVEL_DEFAULT_LLM_PROVIDER included.
            return Some(default_judge.clone());
        }
        std::env::var(name).ok()
    }
}
