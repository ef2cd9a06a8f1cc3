//! Folder of a run: its header (`run.json`), the agents' answers (`test-results.jsonl`) and the scores (`evaluation-results.jsonl`), one
//! line per answer or score. A killed run resumes from it, and reports are built from it.

mod header;
mod label;

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agents::{AgentAnswer, AgentName};
use super::work::AgentQuestion;
use crate::report::line_reader::{LineReader, LineSpan};
use crate::report::{Item, Outcome, ReportError, ResultLines, Source as _, line};

pub use header::{Bench, RunHeader, RunOptions, SuiteRef};
pub use label::Label;

const HEADER: &str = "run.json";
const ANSWERS: &str = "test-results.jsonl";
pub const RESULTS: &str = "evaluation-results.jsonl";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// Not a usable folder; the user must choose another folder or argument.
    #[error("{0}")]
    Unfit(String),
    #[error("{path}: {reason}")]
    Io { path: String, reason: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    pub outcome: Outcome,
    pub lines: u32,
}

/// Folder of a run, locked by this process.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    header: RunHeader,
    done: Mutex<HashMap<u64, Done>>,
    results: Mutex<File>,
    answers: Answers,
    lock: File,
    /// Folders created by this process for the run, the deepest first; `None`: the run existed before.
    made: Option<Vec<PathBuf>>,
}

#[derive(Serialize, Deserialize)]
struct AnswerLine {
    test_id: Value,
    item_no: u64,
    question: String,
    agent_used: AgentName,
    #[serde(flatten)]
    answer: AgentAnswer,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_error: Option<String>,
}

#[derive(Debug)]
struct Answers {
    file: Mutex<File>,
    places: Mutex<HashMap<u64, LineSpan>>,
}

impl RunFolder {
    /// Creates the folder of a new run. An existing folder must be empty. Errors: `Unfit`: it isn't empty. `Io`.
    pub fn create(path: &Path, header: &RunHeader) -> Result<Self, FolderError> {
        let made = make_dirs(path)?;
        Self::begin(path, made, header)
    }

    /// Creates the folder of a new run below `root`: `run-20260101T120000Z` by start time, with a number appended if it exists. Runs that
    /// start in the same second get separate folders.
    pub fn create_below(root: &Path, header: &RunHeader) -> Result<Self, FolderError> {
        let mut made = make_dirs(root)?;
        let name = format!("run-{}", header.started_at.format("%Y%m%dT%H%M%SZ"));
        let mut path = root.join(&name);
        let mut n = 1_u64;
        loop {
            match std::fs::create_dir(&path) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    n += 1;
                    path = root.join(format!("{name}-{n}"));
                }
                Err(error) => return Err(io(&path, &error)),
            }
        }
        made.insert(0, path.clone());
        Self::begin(&path, made, header)
    }

    fn begin(path: &Path, made: Vec<PathBuf>, header: &RunHeader) -> Result<Self, FolderError> {
        let taken = || {
            FolderError::Unfit(format!(
                "{}: this folder isn't empty; name another one, or resume its run with --resume",
                path.display()
            ))
        };
        let mut entries = std::fs::read_dir(path).map_err(|error| io(path, &error))?;
        if entries.next().is_some() {
            return Err(taken());
        }
        let text = serde_json::to_string_pretty(header)
            .map_err(|error| io(path, &std::io::Error::other(error)))?;
        let file = path.join(HEADER);
        // Another run may have started here since the check.
        let mut written = File::create_new(&file).map_err(|error| {
            if error.kind() == ErrorKind::AlreadyExists {
                taken()
            } else {
                io(&file, &error)
            }
        })?;
        written
            .write_all((text + "\n").as_bytes())
            .map_err(|error| io(&file, &error))?;
        drop(written);
        Self::open(path).map(|folder| Self {
            made: Some(made),
            ..folder
        })
    }

    /// Opens the folder of an earlier run to resume it. Drops a torn last line. Errors: `Unfit`: no run, a run locked by another process,
    /// or a malformed line. `Io`.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let header = Self::header_of(path)?;
        let lock = lock(&path.join(HEADER))?;
        let (results, done) = open_lines(
            &path.join(RESULTS),
            |text, _, done: &mut HashMap<u64, Done>| {
                note(done, &line::read(text, 0)?);
                Ok(())
            },
        )?;
        let (answers, places) = open_lines(
            &path.join(ANSWERS),
            |text, place, places: &mut HashMap<u64, LineSpan>| {
                let line: AnswerLine =
                    serde_json::from_slice(text).map_err(|error| error.to_string())?;
                match line.agent_error {
                    None => places.insert(line.item_no, place),
                    Some(_) => places.remove(&line.item_no),
                };
                Ok(())
            },
        )?;
        Ok(Self {
            path: path.to_owned(),
            header,
            done: Mutex::new(done),
            results: Mutex::new(results),
            answers: Answers {
                file: Mutex::new(answers),
                places: Mutex::new(places),
            },
            lock,
            made: None,
        })
    }

    pub fn header_of(path: &Path) -> Result<RunHeader, FolderError> {
        let file = path.join(HEADER);
        let text = std::fs::read_to_string(&file).map_err(|error| {
            if error.kind() != ErrorKind::NotFound {
                return io(&file, &error);
            }
            FolderError::Unfit(format!(
                "{}: no {HEADER}; name the folder of a run, such as reports/evaluation-runs/run-20260101T120000Z",
                path.display()
            ))
        })?;
        serde_json::from_str(&text).map_err(|error| {
            FolderError::Unfit(format!(
                "{}: is not the header of a run of this version: {error}",
                file.display()
            ))
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn header(&self) -> &RunHeader {
        &self.header
    }

    pub fn done(&self, item_no: u64) -> Option<Done> {
        held(&self.done).get(&item_no).copied()
    }

    pub fn lines(&self) -> u64 {
        held(&self.done).len() as u64
    }

    /// Writes the line of an item. Once this returns, a killed process doesn't lose it.
    pub fn keep(&self, item: &Item) -> Result<(), FolderError> {
        let mut text = line::write(item);
        text.push('\n');
        append(&self.results, &text).map_err(|error| io(&self.path.join(RESULTS), &error))?;
        note(&mut held(&self.done), item);
        Ok(())
    }

    /// Returns whether this process created the folder and hasn't written to it.
    pub fn is_untouched(&self) -> bool {
        self.made.is_some() && self.lines() == 0 && held(&self.answers.places).is_empty()
    }

    /// Deletes the run and the folders created for it, but no foreign files.
    pub fn discard(self) -> Result<(), FolderError> {
        for name in [RESULTS, ANSWERS, HEADER] {
            let path = self.path.join(name);
            std::fs::remove_file(&path).map_err(|error| io(&path, &error))?;
        }
        // Locked until here, so that no other process could resume the run.
        drop(self.lock);
        for dir in self.made.unwrap_or_default() {
            match std::fs::remove_dir(&dir) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => break,
                Err(error) => return Err(io(&dir, &error)),
            }
        }
        Ok(())
    }

    pub fn has_answer(&self, item_no: u64) -> bool {
        held(&self.answers.places).contains_key(&item_no)
    }

    pub fn moved(mut self, suite: PathBuf) -> Self {
        self.header.suite.path = suite;
        self
    }

    pub fn answer(&self, item_no: u64) -> Result<Option<AgentAnswer>, FolderError> {
        let Some(place) = held(&self.answers.places).get(&item_no).copied() else {
            return Ok(None);
        };
        let path = self.path.join(ANSWERS);
        let text = place.read(&held(&self.answers.file));
        let text = text.map_err(|error| io(&path, &error))?;
        serde_json::from_slice::<AnswerLine>(&text)
            .map(|line| Some(line.answer))
            .map_err(|error| io(&path, &error.into()))
    }

    pub fn keep_answer(
        &self,
        question: &AgentQuestion,
        said: Result<&AgentAnswer, &str>,
    ) -> Result<(), FolderError> {
        let path = self.path.join(ANSWERS);
        let line = AnswerLine {
            test_id: question.given_id(),
            item_no: question.item_no,
            question: question.text.clone(),
            agent_used: question.agent,
            answer: match said {
                Ok(answer) => answer.clone(),
                Err(_) => AgentAnswer {
                    success: Some(false),
                    ..AgentAnswer::default()
                },
            },
            agent_error: said.err().map(str::to_owned),
        };
        let mut text = serde_json::to_string(&line).map_err(|error| io(&path, &error.into()))?;
        text.push('\n');
        let place = append(&self.answers.file, &text).map_err(|error| io(&path, &error))?;
        let mut places = held(&self.answers.places);
        match line.agent_error {
            None => places.insert(question.item_no, place),
            Some(_) => places.remove(&question.item_no),
        };
        Ok(())
    }
}

/// Stores the outcome of an item's new line.
fn note(done: &mut HashMap<u64, Done>, item: &Item) {
    let lines = done.get(&item.item_no).map_or(0, |done| done.lines) + 1;
    let outcome = item.outcome;
    done.insert(item.item_no, Done { outcome, lines });
}

/// Locks the run for this process. The kernel releases the lock however the process ends.
fn lock(path: &Path) -> Result<File, FolderError> {
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| io(path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(FolderError::Unfit(format!(
            "{}: another process is at this run; wait for its end",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(io(path, &error)),
    }
}

/// Opens a file of lines for reading and appending and truncates a torn last line. Calls `visit` for each complete line with its position
/// and the accumulated value.
fn open_lines<T: Default>(
    path: &Path,
    visit: impl Fn(&[u8], LineSpan, &mut T) -> Result<(), String>,
) -> Result<(File, T), FolderError> {
    let failed = |error: std::io::Error| io(path, &error);
    let file = File::options()
        .create(true)
        .read(true)
        .append(true)
        .open(path)
        .map_err(failed)?;
    let mut lines = LineReader::new(&file, u64::MAX).map_err(failed)?;
    let (mut end, mut gathered) = (0, T::default());
    while let Some((span, text)) = lines.next().map_err(failed)? {
        if !text.ends_with(b"\n") {
            break;
        }
        visit(text, span, &mut gathered).map_err(|reason| {
            FolderError::Unfit(format!(
                "{}, line {}: {reason}",
                path.display(),
                span.number
            ))
        })?;
        end = span.end();
    }
    file.set_len(end).map_err(failed)?;
    Ok((file, gathered))
}

/// Appends a line in one write and returns its position. The line number isn't counted.
fn append(file: &Mutex<File>, text: &str) -> std::io::Result<LineSpan> {
    let mut file = held(file);
    let offset = file.seek(SeekFrom::End(0))?;
    file.write_all(text.as_bytes())?;
    Ok(LineSpan {
        number: 0,
        offset,
        length: text.len() as u64,
    })
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn io(path: &Path, error: &std::io::Error) -> FolderError {
    FolderError::Io {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

/// Returns the items of a run with a pass as last line.
pub fn passed_items(path: &Path) -> Result<BTreeSet<u64>, FolderError> {
    let unfit = |error: ReportError| FolderError::Unfit(error.to_string());
    let mut passed = BTreeSet::new();
    let lines = ResultLines::open(&path.join(RESULTS)).map_err(unfit)?;
    lines
        .each(&mut |item| {
            if item.passed == Some(true) {
                passed.insert(item.item_no);
            }
            Ok(())
        })
        .map_err(unfit)?;
    Ok(passed)
}

/// Creates a folder and its parents. Returns the created ones, the deepest first.
fn make_dirs(path: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let made = path.ancestors().take_while(missing).map(Path::to_owned);
    let made: Vec<PathBuf> = made.collect();
    std::fs::create_dir_all(path).map_err(|error| io(path, &error))?;
    Ok(made)
}

#[cfg(test)]
mod tests;
