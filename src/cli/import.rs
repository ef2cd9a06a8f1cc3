//! Session files on their way into the service. The file is checked here, so that a fault is named before anything is put.

use std::path::{Path, PathBuf};

use futures::stream::{self, StreamExt as _};
use uuid::Uuid;

use super::outcome::CliError;
use super::output;
use super::progress::Progress;
use crate::client::{Client, ClientError};
use crate::history::ingest::{SessionInput, parse_session_file};
use crate::suite::Format;
use crate::wire::{PutOutcome, SessionFormat, SessionPut};

const AT_ONCE: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileSession {
    pub(super) session_id: Uuid,
    pub(super) input: SessionInput,
    /// Where it stands, for messages: the file, and the place in it.
    pub(super) place: String,
}

/// What an import did.
#[derive(Debug, Default)]
pub(super) struct Imported {
    pub(super) put: Vec<(Uuid, SessionPut)>,
    /// How many were refused; each was named on stderr.
    pub(super) refused: usize,
}

/// Reads and checks the sessions of files; `-` is stdin, and a folder stands for the files of JSON in it. One fault, and nothing is
/// taken.
pub(super) fn read(
    paths: &[PathBuf],
    format: Option<SessionFormat>,
) -> Result<Vec<FileSession>, CliError> {
    let mut sessions = Vec::new();
    for path in paths {
        if path.is_dir() {
            for file in files_in(path)? {
                sessions.extend(read_file(&file, format)?);
            }
        } else {
            sessions.extend(read_file(path, format)?);
        }
    }
    Ok(sessions)
}

/// The files of JSON in a folder, by name.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let failed = |error| CliError::usage(format!("{}: can't be read: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if matches!(Format::of_path(&path), Some(Format::Json | Format::Jsonl)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path, format: Option<SessionFormat>) -> Result<Vec<FileSession>, CliError> {
    let name = path.display().to_string();
    let text = if name == "-" {
        std::io::read_to_string(std::io::stdin().lock())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|error| CliError::usage(format!("{name}: can't be read: {error}")))?;
    parse(&name, &text, format)
}

/// Takes the sessions of a text apart.
pub(super) fn parse(
    name: &str,
    text: &str,
    format: Option<SessionFormat>,
) -> Result<Vec<FileSession>, CliError> {
    let sessions = parse_session_file(name, text, format)
        .map_err(|faults| CliError::usage(faults.to_string()))?;
    let sessions = sessions.into_iter().map(|input| {
        let session_id = input.session_id.unwrap_or_default(); // the parser asks for it
        FileSession {
            session_id,
            input,
            place: format!("{name}: session {session_id}"),
        }
    });
    Ok(sessions.collect())
}

/// Puts sessions, some at a time; what the service refuses is named on stderr and counted.
pub(super) async fn put(client: &Client, sessions: &[FileSession]) -> Result<Imported, CliError> {
    let progress = Progress::new("sessions imported", sessions.len());
    let mut answers = stream::iter(sessions)
        .map(|session| async move {
            let answer = client.put_session(session.session_id, &session.input).await;
            (session, answer)
        })
        .buffered(AT_ONCE);
    let mut imported = Imported::default();
    while let Some((session, answer)) = answers.next().await {
        progress.one(answer.is_ok());
        match answer {
            Ok(answer) => imported.put.push((session.session_id, answer)),
            Err(ClientError::Refused(problem)) if matches!(problem.status, 400 | 413 | 422) => {
                imported.refused += 1;
                output::note(&format!("{}: {problem}", session.place));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(imported)
}

impl Imported {
    pub(super) fn count(&self, outcome: PutOutcome) -> usize {
        self.put
            .iter()
            .filter(|(_, answer)| answer.outcome == outcome)
            .count()
    }
}
