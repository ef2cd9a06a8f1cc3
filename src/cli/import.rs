//! Session files: one session, a list of them, or one per line. Looks no deeper than `session_id`: the service checks
//! the rest, and names each fault by its JSON pointer.

use std::path::Path;

use futures::stream::{self, StreamExt as _};
use serde_json::Value;
use uuid::Uuid;

use super::outcome::CliError;
use super::output;
use super::progress::Progress;
use crate::client::{Client, ClientError, text};

/// Sessions on their way in at once.
const AT_ONCE: usize = 8;

/// One session of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileSession {
    /// Its id.
    pub(super) session_id: Uuid,
    /// The body to put.
    pub(super) body: Value,
    /// Where it stands, for messages: the file, and the place in it.
    pub(super) place: String,
}

/// What an import did.
#[derive(Debug, Default)]
pub(super) struct Imported {
    /// What each put answered, with the id.
    pub(super) put: Vec<(Uuid, Value)>,
    /// How many were refused; each was named on stderr.
    pub(super) refused: usize,
}

/// Reads the sessions of a file; `-` is stdin.
pub(super) fn read(path: &Path) -> Result<Vec<FileSession>, CliError> {
    let name = path.display().to_string();
    let bytes = if name == "-" {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    let bytes = bytes.map_err(|error| CliError::usage(format!("{name}: can't be read: {error}")))?;
    parse(&name, &bytes)
}

/// Takes the sessions of a text apart.
pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<Vec<FileSession>, CliError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let documents = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Array(items)) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| (format!("{name}, item {}", index + 1), item))
            .collect(),
        Ok(one) => vec![(name.to_owned(), one)],
        Err(whole) => lines(name, bytes, &whole)?,
    };
    documents
        .into_iter()
        .map(|(place, document)| session(place, document))
        .collect()
}

fn lines(
    name: &str,
    bytes: &[u8],
    whole: &serde_json::Error,
) -> Result<Vec<(String, Value)>, CliError> {
    let fault = |place: String, error: &serde_json::Error| {
        CliError::usage(format!(
            "{place}: not JSON: {error}; a file holds one session, a list of sessions, or one session per line"
        ))
    };
    let mut documents = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(document) => documents.push((format!("{name}:{}", index + 1), document)),
            // The first line alone isn't JSON: the file is a broken document, not lines.
            Err(_) if documents.is_empty() => return Err(fault(name.to_owned(), whole)),
            Err(error) => return Err(fault(format!("{name}:{}", index + 1), &error)),
        }
    }
    Ok(documents)
}

fn session(place: String, document: Value) -> Result<FileSession, CliError> {
    let Value::Object(mut body) = document else {
        return Err(CliError::usage(format!("{place}: a session is a JSON object")));
    };
    let id = body.remove("session_id").unwrap_or_default();
    let session_id = id.as_str().and_then(|id| id.parse().ok()).ok_or_else(|| {
        CliError::usage(format!(
            "{place}: session_id must be a UUID in quotes, but it is {}",
            if id.is_null() { "missing".to_owned() } else { id.to_string() }
        ))
    })?;
    Ok(FileSession {
        session_id,
        body: Value::Object(body),
        place,
    })
}

/// Puts sessions, some at a time; what the service refuses is named on stderr and counted.
pub(super) async fn put(client: &Client, sessions: &[FileSession]) -> Result<Imported, CliError> {
    let progress = Progress::new("sessions imported", sessions.len());
    let mut answers = stream::iter(sessions)
        .map(|session| async move {
            let answer = client.put_session(session.session_id, &session.body).await;
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
    /// How many puts had this outcome: `new`, `updated` or `unchanged`.
    pub(super) fn count(&self, outcome: &str) -> usize {
        self.put
            .iter()
            .filter(|(_, answer)| text(answer, "/outcome") == outcome)
            .count()
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::expect_used,
        reason = "a test may fail loudly"
    )]

    use super::*;

    const ONE: &str = r#"{"session_id": "01890000-0000-7000-8000-000000000001", "status": "completed"}"#;

    #[test]
    fn a_file_holds_one_session_a_list_or_one_per_line() {
        let list = format!("[{ONE},{ONE}]");
        let by_line = format!("{ONE}\n\n{ONE}\n");
        for (text, count) in [(ONE, 1), (list.as_str(), 2), (by_line.as_str(), 2)] {
            let sessions = parse("a.json", text.as_bytes()).unwrap();
            assert_eq!(sessions.len(), count, "{text}");
            assert!(sessions[0].body.get("session_id").is_none());
            assert_eq!(text_of(&sessions[0].body), "completed");
        }
    }

    fn text_of(body: &Value) -> &str {
        text(body, "/status")
    }

    #[test]
    fn a_fault_is_named_by_its_place() {
        for (text, part) in [
            ("{\"session_id\": 1}", "a.json: session_id must be a UUID in quotes, but it is 1"),
            ("[{}]", "a.json, item 1: session_id must be a UUID in quotes, but it is missing"),
            ("{\n  broken\n}", "a.json: not JSON: key must be a string at line 2"),
            ("[1]", "a.json, item 1: a session is a JSON object"),
        ] {
            let fault = parse("a.json", text.as_bytes()).expect_err("faulty").message;
            assert!(fault.contains(part), "{part} not in {fault}");
        }
        let broken_line = format!("{ONE}\n{{nope\n");
        let fault = parse("a.json", broken_line.as_bytes()).expect_err("faulty").message;
        assert!(fault.starts_with("a.json:2: not JSON"), "{fault}");
    }
}
