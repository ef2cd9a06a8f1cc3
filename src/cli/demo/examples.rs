//! The example sessions, parsed like files.

use super::super::import::{self, FileSession};
use super::super::outcome::CliError;
use crate::history::examples::SESSIONS;

pub(super) fn sessions() -> Result<Vec<FileSession>, CliError> {
    let mut sessions = Vec::new();
    for (name, text) in SESSIONS {
        sessions.extend(import::parse(name, text.as_bytes(), None)?);
    }
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_files_are_embedded_and_valid() {
        let embedded = sessions().unwrap();
        let on_disk = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/sessions"))
            .unwrap()
            .filter(|entry| {
                entry
                    .as_ref()
                    .is_ok_and(|e| e.path().extension().is_some_and(|x| x == "json"))
            })
            .count();
        assert_eq!(
            embedded.len(),
            on_disk,
            "a file of examples/sessions isn't embedded"
        );
        assert!(
            embedded
                .iter()
                .any(|s| s.input.status.as_deref() == Some("in_progress"))
        );
    }
}
