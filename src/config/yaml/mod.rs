//! Reads YAML files with `${VARIABLE}`s without I/O. The caller passes text and environment.
//!
//! A file is one document of maps, lists and plain values. Keys are text. The parser resolves anchors and aliases. Tags of an application
//! (`!x`), merge keys (`<<`), duplicate keys, `.inf` and `.nan` are errors. An empty file is `null`.

mod parse;
mod substitute;

use std::fmt;

use serde_json::Value;

use self::parse::{Position, Yaml, parse, position};

/// Error in a file, shown as `scoring_config.yaml:12:3: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    pub file: String,
    /// Line and column, both from 1.
    pub position: Option<(usize, usize)>,
    pub message: String,
}

impl FileError {
    /// Returns an error at the deepest existing part of a dotted path (`dimensions.0.max`).
    pub fn at_path(file: &str, text: &str, path: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            position: parse(text).ok().and_then(|parsed| parsed.find(path)),
            message: message.into(),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for FileError {}

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
) -> Result<Value, FileError> {
    let error = |position, message| FileError {
        file: file_name.to_owned(),
        position,
        message,
    };
    let parsed = parse(text).map_err(|fault| {
        let message = format!("not readable as YAML: {fault}");
        error(fault.location().as_ref().map(position), message)
    })?;
    substituted(parsed, (1, 1), env).map_err(|(after, fault)| {
        let found = find_text(text, after, &fault.near).unwrap_or(after);
        error(Some(found), fault.message)
    })
}

/// Substitutes variables in all texts. An error has the position of the item or key with the text.
fn substituted(
    value: Yaml,
    at: Position,
    env: substitute::Env<'_>,
) -> Result<Value, (Position, substitute::SubstituteError)> {
    Ok(match value {
        Yaml::Plain(Value::String(text)) => {
            let text = substitute::in_text(&text, env).map_err(|fault| (at, fault))?;
            Value::String(text)
        }
        Yaml::Plain(value) => value,
        Yaml::List(items) => items
            .into_iter()
            .map(|(at, item)| substituted(item, at, env))
            .collect::<Result<_, _>>()?,
        Yaml::Map(entries) => entries
            .into_iter()
            .map(|(at, key, value)| Ok((key, substituted(value, at, env)?)))
            .collect::<Result<_, _>>()?,
    })
}

/// Returns the first position of `piece` in or after the line of `after`.
fn find_text(text: &str, (first_line, _): Position, piece: &str) -> Option<Position> {
    let mut lines = (1..).zip(text.lines()).skip(first_line - 1);
    lines.find_map(|(number, line)| {
        let (before, _) = line.split_once(piece)?;
        Some((number, before.chars().count() + 1))
    })
}

#[cfg(test)]
mod tests;
