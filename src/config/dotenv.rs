//! Reads `.env` in the working folder. The real environment wins. Errors don't quote lines of the file.

use std::path::Path;

use super::load::ConfigError;

/// Adds the variables of `.env` to the environment of the process unless they are set. A missing file is ignored.
///
/// Must be called before any thread starts, because the environment is global.
pub fn read_dotenv(path: &Path) -> Result<(), ConfigError> {
    match dotenvy::from_path(path) {
        Ok(()) => Ok(()),
        Err(error) if error.not_found() => Ok(()),
        Err(dotenvy::Error::LineParse(line, _)) => Err(ConfigError::one(format!(
            "{}:{}: not a line of the form NAME=value; quote a value that contains spaces or #",
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
        .position(|line| line.trim().ends_with(first)) // the parser may report only the value
        .unwrap_or_default()
}
