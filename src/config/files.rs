//! The two YAML files named by settings: the built-in copies, and the variables allowed in them.

use super::settings::Settings;
use crate::job::Kind;
use crate::score::about;

/// Returns the configured path of a kind's criteria file (empty: built-in), its name, and the built-in text.
pub fn criteria_file(settings: &Settings, kind: Kind) -> (&str, &'static str, &'static str) {
    let (name, built_in) = about(kind).built_in_criteria;
    let path = match kind.is_case() {
        false => &settings.scoring_config,
        true => settings.criteria.get(&kind).map_or("", String::as_str),
    };
    (path, name, built_in)
}

/// Returns the variables for judge and model in the built-in criteria file of a kind.
pub fn judge_variables(kind: Kind) -> [String; 2] {
    let prefix = match kind.is_case() {
        false => "SCORING".to_owned(),
        true => kind.as_str().to_uppercase(),
    };
    ["PROVIDER", "MODEL"].map(|what| format!("{prefix}_LLM_{what}"))
}

/// Built-in judges' file, used if `llm_providers` is empty.
pub const LLM_PROVIDERS: &str = include_str!("../../config/llm_providers.yaml");

/// Returns the lookup of `${NAME}` in these files: `settings.substitutions`, then the environment. DEFAULT_LLM_PROVIDER is the setting of
/// that name.
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
            // The setting already includes the environment, flags and GAVEL_DEFAULT_LLM_PROVIDER.
            return Some(default_judge.clone());
        }
        std::env::var(name).ok()
    }
}
