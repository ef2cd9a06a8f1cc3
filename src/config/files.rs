//! The two YAML files that settings name, as text, and the variables that may stand in them. Reads them, parses nothing.

use super::load::ConfigError;
use super::settings::Settings;

/// A file's text and what to call it in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// Its path, or `built-in …`.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// The criteria file: the one that `scoring_config` names, else the one that is built in.
pub fn scoring_config(settings: &Settings) -> Result<SourceText, ConfigError> {
    text_of(
        &settings.scoring_config,
        "scoring_config.yaml",
        include_str!("../../config/scoring_config.yaml"),
        "scoring_config (--scoring-config, GAVEL_SCORING_CONFIG)",
    )
}

/// The judges' file: the one that `llm_providers` names, else the one that is built in.
pub fn llm_providers(settings: &Settings) -> Result<SourceText, ConfigError> {
    text_of(
        &settings.llm_providers,
        "llm_providers.yaml",
        include_str!("../../config/llm_providers.yaml"),
        "llm_providers (--llm-providers, GAVEL_LLM_PROVIDERS)",
    )
}

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

fn text_of(path: &str, name: &str, built_in: &str, key: &str) -> Result<SourceText, ConfigError> {
    if path.is_empty() {
        return Ok(SourceText {
            name: format!("built-in {name}"),
            text: built_in.to_owned(),
        });
    }
    let text = std::fs::read_to_string(path).map_err(|error| {
        ConfigError::one(format!(
            "{path}: can't be read: {error}; {key} names this file"
        ))
    })?;
    Ok(SourceText {
        name: path.to_owned(),
        text,
    })
}
