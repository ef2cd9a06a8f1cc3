//! Loads settings in layers: flags > environment > the file named by `--config` > embedded defaults. All errors are
//! found before anything starts, with the origin of the value and without secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::score::nearest;
use config::{FileFormat, Map, Source as _, Value, ValueKind};
use toml::de::{DeTable, DeValue};

use super::check;
use super::keys::{ALIASES, OTHER_VARIABLES, Shape, defaults, flatten, keys, variable};
use super::settings::{Settings, ShownSetting};

/// Sources of settings in addition to the defaults. Passed in, so that tests don't depend on the environment.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub flags: Vec<Flag>,
    /// Environment with `.env`. An empty variable counts as unset.
    pub env: BTreeMap<String, String>,
    /// File named by `--config` or `GAVEL_CONFIG`.
    pub file: Option<PathBuf>,
}

/// Command line flag that sets a key.
#[derive(Debug, Clone)]
pub struct Flag {
    pub flag: &'static str,
    pub key: &'static str,
    pub value: String,
}

#[derive(Debug, Clone)]
pub struct Loaded {
    pub settings: Settings,
    /// Likely mistakes, to be logged.
    pub warnings: Vec<String>,
    /// All keys in alphabetical order with the origin of their values.
    pub values: Vec<ShownSetting>,
}

/// All errors, one sentence each: key, value, error, remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .faults.join("\n"))]
pub struct ConfigError {
    /// Not empty.
    pub faults: Vec<String>,
}

impl ConfigError {
    pub fn one(fault: impl Into<String>) -> Self {
        Self {
            faults: vec![fault.into()],
        }
    }
}

/// Layer of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Flag(&'static str),
    Variable(String),
    File { path: PathBuf, line: Option<usize> },
    Default,
}

impl Origin {
    /// Returns the place in the format that editors and terminals link.
    fn place(&self) -> String {
        match self {
            Self::Flag(flag) => (*flag).to_owned(),
            Self::Variable(variable) => variable.clone(),
            Self::File {
                path,
                line: Some(line),
            } => format!("{}:{line}", path.display()),
            Self::File { path, line: None } => path.display().to_string(),
            Self::Default => "default".to_owned(),
        }
    }

    /// Returns the name under which the key was set in this layer.
    pub(super) fn name(&self, key: &str) -> String {
        match self {
            Self::Flag(_) | Self::Variable(_) => format!("{} ({key})", self.place()),
            Self::File { .. } => format!("{}: {key}", self.place()),
            Self::Default => format!("{key} (default)"),
        }
    }
}

pub fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
    let keys = keys();
    let mut faults = Vec::new();
    let mut origins = BTreeMap::new();
    let mut layered = defaults().map_err(|error| ConfigError::one(error.to_string()))?;
    let mut values = BTreeMap::new();
    if let Some(path) = &sources.file {
        values = read_file(path, &keys, &mut origins, &mut faults)?;
    }
    let given = from_environment(sources, &keys)
        .into_iter()
        .chain(from_flags(sources));
    for (origin, key, text) in given {
        let Some(shape) = keys.get(&key) else {
            faults.push(format!("{}: no such setting", origin.name(&key)));
            continue;
        };
        match shape.read(&text) {
            Ok(value) => {
                values.insert(key.clone(), value);
                origins.insert(key, origin);
            }
            Err(fault) => faults.push(format!(
                "{}: {:?} {fault}; give {}",
                origin.name(&key),
                check::shown(&key, &text),
                shape.described().trim_end_matches(", without quotes"),
            )),
        }
    }
    for (key, value) in values {
        layered = layered
            .set_override(&key, value)
            .map_err(|error| ConfigError::one(format!("{key}: {error}")))?;
    }
    let origin = |key: &str| origins.get(key).cloned().unwrap_or(Origin::Default);
    let read = layered.build().and_then(|built| {
        let values = shown(built.collect()?, &origin);
        Ok((values, built.try_deserialize::<Settings>()?))
    });
    let (values, mut settings) = match read {
        Ok(read) => read,
        Err(error) => {
            faults.push(error.to_string());
            return Err(ConfigError { faults });
        }
    };
    faults.extend(check::check(&mut settings, &origin));
    if !faults.is_empty() {
        return Err(ConfigError { faults });
    }
    settings.shown.clone_from(&values);
    Ok(Loaded {
        settings,
        warnings: unknown_variables(&sources.env, &keys),
        values,
    })
}

fn shown(table: Map<String, Value>, origin: &dyn Fn(&str) -> Origin) -> Vec<ShownSetting> {
    flatten(table)
        .into_iter()
        .map(|(key, value)| ShownSetting {
            value: check::shown_value(&key, &value),
            origin: origin(&key).place(),
            key,
        })
        .collect()
}

/// Returns the values of the environment. The alias of a key comes before its `GAVEL_` name, so that the latter wins.
fn from_environment(
    sources: &Sources,
    keys: &BTreeMap<String, Shape>,
) -> Vec<(Origin, String, String)> {
    let aliases = ALIASES
        .iter()
        .map(|(name, key)| ((*name).to_owned(), (*key).to_owned()));
    let named = keys.keys().map(|key| (variable(key), key.clone()));
    aliases
        .chain(named)
        .filter_map(|(name, key)| {
            let text = sources.env.get(&name).filter(|text| !text.is_empty())?;
            Some((Origin::Variable(name), key, text.clone()))
        })
        .collect()
}

fn from_flags(sources: &Sources) -> Vec<(Origin, String, String)> {
    sources
        .flags
        .iter()
        .map(|flag| {
            (
                Origin::Flag(flag.flag),
                flag.key.to_owned(),
                flag.value.clone(),
            )
        })
        .collect()
}

fn read_file(
    path: &Path,
    keys: &BTreeMap<String, Shape>,
    origins: &mut BTreeMap<String, Origin>,
    faults: &mut Vec<String>,
) -> Result<BTreeMap<String, ValueKind>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        ConfigError::one(format!(
            "{}: can't be read: {error}; --config (GAVEL_CONFIG) names the settings file",
            path.display()
        ))
    })?;
    let origin = |line| Origin::File {
        path: path.to_owned(),
        line,
    };
    let document = DeTable::parse(&text).map_err(|error| {
        // Without the quoted line, because it may contain a password.
        let line = error.span().map(|span| line_at(&text, span.start));
        let place = origin(line).place();
        ConfigError::one(format!("{place}: not TOML: {}", error.message()))
    })?;
    let table = config::File::from_str(&text, FileFormat::Toml).collect();
    let table = table.map_err(|error| ConfigError::one(format!("{}: {error}", path.display())))?;
    let mut values = BTreeMap::new();
    for (key, value) in flatten(table) {
        let origin = origin(Some(line_at(&text, offset_of(document.get_ref(), &key))));
        let place = origin.place();
        match keys.get(&key) {
            None => faults.push(format!(
                "{place}: unknown key {key}{}",
                did_you_mean(nearest(&key, keys.keys().map(String::as_str)))
            )),
            Some(shape) if !shape.fits(&value) => faults.push(format!(
                "{place}: {key} has the wrong type; give {}",
                shape.described()
            )),
            Some(_) => {
                origins.insert(key.clone(), origin);
                values.insert(key, value);
            }
        }
    }
    Ok(values)
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// Returns the offset of the deepest existing part of a dotted key.
fn offset_of(document: &DeTable<'_>, key: &str) -> usize {
    let (mut table, mut offset) = (document, 0);
    for part in key.split('.') {
        let Some((name, value)) = table.get_key_value(part) else {
            break;
        };
        offset = name.span().start;
        let DeValue::Table(inner) = value.get_ref() else {
            break;
        };
        table = inner;
    }
    offset
}

/// Returns unknown `GAVEL_` variables, which are probably typos.
fn unknown_variables(
    env: &BTreeMap<String, String>,
    keys: &BTreeMap<String, Shape>,
) -> Vec<String> {
    let known: Vec<String> = keys
        .keys()
        .map(|key| variable(key))
        .chain(OTHER_VARIABLES.iter().map(|name| (*name).to_owned()))
        .collect();
    env.keys()
        .filter(|name| name.starts_with("GAVEL_") && !known.contains(name))
        .map(|name| {
            let meant = nearest(name, known.iter().map(String::as_str));
            format!(
                "unknown environment variable {name}{}; it is not read",
                did_you_mean(meant)
            )
        })
        .collect()
}

fn did_you_mean(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

impl Settings {
    pub fn defaults() -> Result<Self, ConfigError> {
        load(&Sources::default()).map(|loaded| loaded.settings)
    }
}
