//! Reads, resolves and validates the YAML files named by the settings.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::AppError;
use crate::clock::{Clock as _, SystemClock};
use crate::config::yaml::{self, FileError};
use crate::config::{self, Settings};
use crate::enqueue::CurrentCriteria;
use crate::job::Kind;
use crate::judge::{Cap, Caps, Providers};
use crate::score::Criteria;

pub(super) struct Files {
    pub(super) criteria: CurrentCriteria,
    pub(super) providers: Providers,
    pub(super) caps: Caps,
}

impl Files {
    pub(super) fn read(settings: &Settings) -> Result<Self, AppError> {
        let providers = read_providers(settings)?;
        Ok(Self {
            criteria: read_criteria(settings)?,
            caps: providers
                .caps()
                .map_err(|error| AppError::Config(error.to_string()))?,
            providers,
        })
    }
}

pub(super) fn read_criteria(settings: &Settings) -> Result<CurrentCriteria, AppError> {
    CurrentCriteria::read(|kind| criteria_of(settings, kind).map(Arc::new))
}

pub fn criteria_of(settings: &Settings, kind: Kind) -> Result<Criteria, AppError> {
    let (path, name, built_in) = config::criteria_file(settings, kind);
    let file = YamlFile::read(path, name, built_in)?;
    let value = file.resolve(settings)?;
    let criteria =
        Criteria::from_value(&value).map_err(|error| file.fault(&error.path, &error.message))?;
    if criteria.kind != kind {
        let said = format!("must be {kind}: the file is named for criteria of that kind");
        return Err(file.fault("kind", &said));
    }
    Ok(criteria)
}

/// Returns the model of a judge's entry, or `None` if there is no such entry or it is incomplete. Errors: the file
/// can't be read or is invalid.
pub fn model_of(settings: &Settings, judge: &str) -> Result<Option<String>, AppError> {
    let spec = read_providers(settings)?.spec(judge);
    Ok(spec.ok().map(|spec| spec.model().to_owned()))
}

/// Returns the only configured real judge, for use if the default one isn't configured.
pub fn only_judge(settings: &Settings) -> Option<String> {
    let providers = read_providers(settings).ok()?;
    providers.check(&settings.default_llm_provider).err()?;
    let mut real = providers.real();
    real.pop().filter(|_| real.is_empty())
}

/// Returns the configured judges with the caps of file and settings. Errors: the file can't be read or is invalid; the
/// error has the line.
pub fn read_providers(settings: &Settings) -> Result<Providers, AppError> {
    let judge = &settings.judge;
    let total = Cap::new(judge.daily_cap_usd, judge.monthly_cap_usd);
    let file = YamlFile::read(
        &settings.llm_providers,
        "llm_providers.yaml",
        config::LLM_PROVIDERS,
    )?;
    let value = file.resolve(settings)?;
    let key_file = |path: &str| {
        std::fs::read_to_string(path)
            .map(|key| key.trim().to_owned())
            .map_err(|error| error.to_string())
    };
    Providers::from_value(&value, &key_file)
        .and_then(|providers| {
            providers.check_dates(SystemClock.now())?;
            Ok(providers.under(total))
        })
        .map_err(|error| file.fault(&error.path, &error.message))
}

struct YamlFile {
    name: String,
    text: String,
}

impl YamlFile {
    fn read(path: &str, built_in_name: &str, built_in: &str) -> Result<Self, AppError> {
        if path.is_empty() {
            return Ok(Self {
                name: format!("{built_in_name} (built in)"),
                text: built_in.to_owned(),
            });
        }
        let text = std::fs::read_to_string(Path::new(path))
            .map_err(|error| AppError::Config(format!("cannot read {path}: {error}")))?;
        Ok(Self {
            name: path.to_owned(),
            text,
        })
    }

    fn resolve(&self, settings: &Settings) -> Result<Value, AppError> {
        yaml::resolve(&self.name, &self.text, &config::env_with_default(settings))
            .map_err(|error| AppError::Config(error.to_string()))
    }

    fn fault(&self, path: &str, message: &str) -> AppError {
        let message = format!("{path}: {message}");
        AppError::Config(FileError::at_path(&self.name, &self.text, path, message).to_string())
    }
}
