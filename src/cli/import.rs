//! Imports session files. Files are checked here, so that errors are reported before any session is stored.

use std::io::Read as _;
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

const MAX_CONCURRENT_PUTS: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileSession {
    pub(super) session_id: Uuid,
    pub(super) input: SessionInput,
    /// File and position in it, for messages.
    pub(super) place: String,
}

#[derive(Debug, Default)]
pub(super) struct Imported {
    pub(super) put: Vec<(Uuid, SessionPut)>,
    /// Number of rejected sessions; each was reported on stderr.
    pub(super) rejected: usize,
}

#[derive(Debug, Default)]
pub(super) struct FileSessions {
    pub(super) sessions: Vec<FileSession>,
    /// Number of files that can't be imported; each was reported on stderr.
    pub(super) unread: usize,
}

/// Reads and checks the sessions of files. `-` is stdin; a folder means its session files. An invalid file is reported and skipped, unless
/// it is the only one: then it is an error.
pub(super) fn read(
    paths: &[PathBuf],
    format: Option<SessionFormat>,
) -> Result<FileSessions, CliError> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(files_in(path)?),
            false => files.push(path.clone()),
        }
    }
    let mut read = FileSessions::default();
    for file in &files {
        match read_file(file, format) {
            Ok(sessions) => read.sessions.extend(sessions),
            Err(error) if files.len() == 1 => return Err(error),
            Err(error) => {
                read.unread += 1;
                output::note(&error.to_string());
            }
        }
    }
    Ok(read)
}

/// Session files in a folder, by name. Includes archives of Inspect logs, so that their error shows the remedy.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let failed = |error| CliError::unreadable(folder.display(), error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_log = path.extension().is_some_and(|end| end == "eval");
        if is_log || matches!(Format::of_path(&path), Some(Format::Json | Format::Jsonl)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path, format: Option<SessionFormat>) -> Result<Vec<FileSession>, CliError> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read = match name.as_str() {
        "-" => std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map(|_| bytes),
        _ => std::fs::read(path),
    };
    let bytes = read.map_err(|error| CliError::unreadable(&name, error))?;
    parse(&name, &bytes, format)
}

pub(super) fn parse(
    name: &str,
    bytes: &[u8],
    format: Option<SessionFormat>,
) -> Result<Vec<FileSession>, CliError> {
    let sessions = parse_session_file(name, bytes, format).map_err(CliError::usage)?;
    let sessions = sessions.into_iter().map(|input| {
        let session_id = input.session_id.unwrap_or_default(); // required by the parser
        FileSession {
            session_id,
            input,
            place: format!("{name}: session {session_id}"),
        }
    });
    Ok(sessions.collect())
}

/// Stores sessions in batches. Rejected ones are reported on stderr and counted.
pub(super) async fn put(client: &Client, sessions: &[FileSession]) -> Result<Imported, CliError> {
    let progress = Progress::new("sessions imported", sessions.len());
    let mut answers = stream::iter(sessions)
        .map(async |session| {
            let answer = client.put_session(session.session_id, &session.input);
            (session, answer.await)
        })
        .buffered(MAX_CONCURRENT_PUTS);
    let mut imported = Imported::default();
    while let Some((session, answer)) = answers.next().await {
        progress.one(answer.is_ok());
        match answer {
            Ok(answer) => imported.put.push((session.session_id, answer)),
            Err(ClientError::Refused(problem)) if matches!(problem.status, 400 | 413 | 422) => {
                imported.rejected += 1;
                output::note(&format!("{}: {problem}", session.place));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(imported)
}

impl Imported {
    pub(super) fn count(&self, outcome: PutOutcome) -> usize {
        let put = self.put.iter();
        put.filter(|(_, answer)| answer.outcome == outcome).count()
    }
}
