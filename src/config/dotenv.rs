//! `.env` in the working folder. The real environment wins, and no line of the file is ever shown.

use std::path::Path;

use super::load::ConfigError;

/// Puts the variables of `.env` into the process's environment, but those that are there already. No file: nothing.
///
/// Call it before any thread runs: the environment belongs to the whole process.
pub fn read_dotenv(path: &Path) -> Result<(), ConfigError> {
    match dotenvy::from_path(path) {
        Ok(()) => Ok(()),
        Err(error) if error.not_found() => Ok(()),
        Err(dotenvy::Error::LineParse(line, _)) => Err(ConfigError::one(format!(
            "{}:{}: not a line of the form NAME=value; quote a value that holds spaces or #",
            path.display(),
            line_number(path, &line)
        ))),
        Err(error) => Err(ConfigError::one(format!(
            "{}: can't be read: {error}",
            path.display()
        ))),
    }
}

fn line_number(path: &Path, faulty: &str) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let first = faulty.lines().next().unwrap_or_default().trim();
    1 + text
        .lines()
        .position(|line| line.trim().ends_with(first)) // the parser may name the value alone
        .unwrap_or_default()
}
