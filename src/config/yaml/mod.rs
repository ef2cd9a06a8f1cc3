//! Reads YAML files with `${VARIABLE}`s without I/O. The caller passes text and environment.
//!
//! A file is one document of maps with text keys, lists and plain values. The parser resolves anchors and aliases. Tags (`!x`), merge keys
//! (`<<`), keys that aren't text, duplicate keys, `.inf` and `.nan` are errors. Syntax errors have line and column. An empty file is
//! `null`.

mod place;
mod substitute;

use std::fmt;

use serde_json::{Map, Number, Value};
use serde_yaml_ng::Value as Yaml;

pub use place::{line_of, place_of};

/// Error in a file, shown as `scoring_config.yaml:12:3: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    pub file: String,
    /// From 1.
    pub line: Option<usize>,
    /// From 1.
    pub column: Option<usize>,
    pub message: String,
}

impl FileError {
    /// Returns an error at the deepest existing part of a dotted path (`dimensions.0.max`).
    pub fn at_path(file: &str, text: &str, path: &str, message: impl Into<String>) -> Self {
        let place = place_of(text, path);
        Self {
            file: file.to_owned(),
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            message: message.into(),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for FileError {}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// Not YAML, or not one document.
    #[error("{0}")]
    Syntax(FileError),
    #[error("{0}")]
    Unsupported(FileError),
    #[error("{0}")]
    Substitution(FileError),
    #[error("{at}")]
    Unset { variable: String, at: FileError },
}

impl YamlError {
    pub fn at(&self) -> &FileError {
        match self {
            Self::Syntax(at) | Self::Unsupported(at) | Self::Substitution(at) => at,
            Self::Unset { at, .. } => at,
        }
    }
}

/// Reads a file and substitutes variables in its values, but not in its keys.
///
/// - `${VAR}`: the variable's value, which may be empty. If it is unset, the error has variable, file and line.
/// - `${VAR:-default}`: the default if the variable is unset **or empty**, as in a shell. A default may contain `${..}` and is evaluated
///   only if it is used. It ends at the first `}` that closes no inner `${`.
/// - `$$`: a dollar. Any other `$` is unchanged.
///
/// Values of variables aren't substituted again. Substituted values are text; the reader of a boolean or number field parses them.
pub fn resolve(
    file_name: &str,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Value, YamlError> {
    let file = File {
        name: file_name,
        text,
        env,
    };
    // Some editors write a byte order mark.
    let parsed: Yaml = serde_yaml_ng::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))
        .map_err(|error| file.syntax(&error))?;
    file.value(&parsed, "")
}

struct File<'a> {
    name: &'a str,
    text: &'a str,
    env: &'a dyn Fn(&str) -> Option<String>,
}

impl File<'_> {
    fn value(&self, value: &Yaml, path: &str) -> Result<Value, YamlError> {
        match value {
            Yaml::Null => Ok(Value::Null),
            Yaml::Bool(flag) => Ok(Value::Bool(*flag)),
            Yaml::Number(number) => self.number(number, path),
            Yaml::String(text) => self.text(text, path).map(Value::String),
            Yaml::Sequence(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| self.value(item, &join(path, &index.to_string())))
                .collect(),
            Yaml::Mapping(map) => map
                .iter()
                .map(|(key, value)| {
                    let key = self.key(key, path)?;
                    let value = self.value(value, &join(path, &key))?;
                    Ok((key, value))
                })
                .collect::<Result<Map<_, _>, _>>()
                .map(Value::Object),
            Yaml::Tagged(tagged) => Err(self.unsupported(
                path,
                format!("the tag {} has no meaning here; remove it", tagged.tag),
            )),
        }
    }

    fn key(&self, key: &Yaml, path: &str) -> Result<String, YamlError> {
        let shown = match key {
            Yaml::String(text) if text == "<<" => {
                return Err(self.unsupported(
                    &join(path, text),
                    "merge keys (<<) are not supported; write the keys out",
                ));
            }
            Yaml::String(text) => return Ok(text.clone()),
            Yaml::Null => "null".to_owned(),
            Yaml::Bool(flag) => flag.to_string(),
            Yaml::Number(number) => number.to_string(),
            Yaml::Sequence(_) | Yaml::Mapping(_) | Yaml::Tagged(_) => {
                return Err(self.unsupported(path, "a key must be text"));
            }
        };
        let message = format!("the key {shown} must be text; put it in quotes");
        Err(self.unsupported(&join(path, &shown), message))
    }

    fn number(&self, number: &serde_yaml_ng::Number, path: &str) -> Result<Value, YamlError> {
        let json = number
            .as_u64()
            .map(Number::from)
            .or_else(|| number.as_i64().map(Number::from))
            .or_else(|| number.as_f64().and_then(Number::from_f64));
        json.map(Value::Number).ok_or_else(|| {
            self.unsupported(path, format!("{number} is not a number that can be used"))
        })
    }

    fn text(&self, text: &str, path: &str) -> Result<String, YamlError> {
        substitute::in_text(text, self.env).map_err(|fault| {
            let from = place_of(self.text, path).map_or(1, |(line, _)| line);
            let place = place::of_text(self.text, from, &fault.near);
            let at = FileError {
                file: self.name.to_owned(),
                line: Some(place.map_or(from, |(line, _)| line)),
                column: place.map(|(_, column)| column),
                message: fault.message,
            };
            match fault.unset {
                Some(variable) => YamlError::Unset { variable, at },
                None => YamlError::Substitution(at),
            }
        })
    }

    fn unsupported(&self, path: &str, message: impl Into<String>) -> YamlError {
        YamlError::Unsupported(FileError::at_path(self.name, self.text, path, message))
    }

    fn syntax(&self, error: &serde_yaml_ng::Error) -> YamlError {
        let place = error.location();
        YamlError::Syntax(FileError {
            file: self.name.to_owned(),
            line: place.as_ref().map(serde_yaml_ng::Location::line),
            column: place.as_ref().map(serde_yaml_ng::Location::column),
            message: format!("not readable as YAML: {error}"),
        })
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

#[cfg(test)]
mod tests;
