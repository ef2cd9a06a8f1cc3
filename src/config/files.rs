//! The two YAML files that settings name: the built-in copies, and the variables that may stand in them. Parses nothing.

use super::settings::Settings;
use crate::job::Kind;
use crate::score::about;

/// The criteria file of a kind: the path that the settings give it (empty: the built-in one), its name, and the built-in text.
pub fn criteria_file(settings: &Settings, kind: Kind) -> (&str, &'static str, &'static str) {
    let (name, built_in) = about(kind).built_in_criteria;
    let path = match kind.is_case() {
        false => &settings.scoring_config,
        true => settings.criteria.get(&kind).map_or("", String::as_str),
    };
    (path, name, built_in)
}

/// The variables that name judge and model in the built-in criteria file of a kind.
pub fn judge_variables(kind: Kind) -> [String; 2] {
    let prefix = match kind.is_case() {
        false => "SCORING".to_owned(),
        true => kind.as_str().to_uppercase(),
    };
    ["PROVIDER", "MODEL"].map(|what| format!("{prefix}_LLM_{what}"))
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
