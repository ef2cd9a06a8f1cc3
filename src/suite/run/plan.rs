//! Plan of a run: reads the suite once before any item runs. Determines kind, size, digest and all errors of the suite.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::agents::AgentName;
use super::work::{QUESTION_FIELDS, Work};
use crate::job::Kind;
use crate::report::line::id_of;
use crate::score::{Field, about, kind_of};
use crate::suite::{Columns, Format, Limits, ReadOptions, SuiteError, SuiteRow, read};
use crate::wire::words;

const MOST_FAULTS: usize = 20;
/// Field with the judge of an item.
const JUDGE: &str = "model";

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub kind: Kind,
    /// SHA-256 of the file, 64 hex digits.
    pub sha256: String,
    pub items: u64,
    pub questions: Vec<(u64, AgentName)>,
    /// Items with judge metrics, without questions that an agent must answer first.
    pub judged: Vec<u64>,
    pub names: HashMap<String, u64>,
    pub judges: BTreeSet<String>,
    pub leaves_judge: bool,
}

/// Invalid suite, with at least one error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BadSuite {
    /// At most 20.
    pub faults: Vec<SuiteError>,
    pub more: u64,
}

impl std::fmt::Display for BadSuite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (nth, fault) in self.faults.iter().enumerate() {
            let gap = if nth == 0 { "" } else { "\n  " };
            write!(f, "{gap}{fault}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl From<SuiteError> for BadSuite {
    fn from(fault: SuiteError) -> Self {
        Self {
            faults: vec![fault],
            more: 0,
        }
    }
}

impl Plan {
    /// Reads the first `limit` items of a suite. `kind`: `None` guesses it from the fields of the first item.
    pub fn read(path: &Path, kind: Option<Kind>, limit: Option<u64>) -> Result<Self, BadSuite> {
        let sha256 = digest(path)?;
        let kind = match kind {
            Some(kind) => kind,
            None => guess(path)?,
        };
        let mut plan = Self {
            kind,
            sha256,
            items: 0,
            questions: Vec::new(),
            judged: Vec::new(),
            names: HashMap::new(),
            judges: BTreeSet::new(),
            leaves_judge: false,
        };
        let mut bad = BadSuite::default();
        let read = read_rows(path, kind, limit, &mut |row| {
            let work = row.map_err(|fault| vec![fault]).and_then(|row| {
                let (item_no, line) = (row.item_no, row.line);
                let own = about(kind).name;
                let is_own = row.fields.contains_key(own) || !row.fields.contains_key("id");
                let column = if is_own { own } else { "id" };
                match row.fields.get(JUDGE).and_then(Value::as_str) {
                    Some(judge) if !judge.trim().is_empty() => {
                        // Checked first, to allocate only once per name.
                        if !plan.judges.contains(judge.trim()) {
                            plan.judges.insert(judge.trim().to_owned());
                        }
                    }
                    Some(_) | None => plan.leaves_judge = true,
                }
                let work = Work::read(kind, row)?;
                unique(kind, &work, (line, column), &mut plan.names)?;
                Ok((item_no, work))
            });
            match work {
                Ok((item_no, Work::Question(question))) => {
                    plan.questions.push((item_no, question.agent));
                }
                Ok((item_no, Work::Case { is_judged, .. })) => {
                    plan.judged.extend(is_judged.then_some(item_no));
                }
                Err(faults) => bad.add(faults),
            }
            plan.items += 1;
            ControlFlow::Continue(())
        });
        if let Err(fault) = read {
            bad.add(vec![fault]);
        }
        match bad.faults.is_empty() {
            true => Ok(plan),
            false => Err(bad),
        }
    }

    /// Returns whether this is the name of an item, or the position (`#3`) of an unnamed one.
    pub fn has(&self, paired_by: &str) -> bool {
        let place = paired_by
            .strip_prefix('#')
            .and_then(|place| place.parse().ok());
        let are_unnamed = (self.names.len() as u64) < self.items;
        let is_place =
            place.is_some_and(|place: u64| are_unnamed && (1..=self.items).contains(&place));
        self.names.contains_key(paired_by) || is_place
    }

    pub fn agents(&self, wanted: impl Fn(u64) -> bool) -> BTreeSet<AgentName> {
        let of_wanted = |(item_no, agent): &(u64, AgentName)| wanted(*item_no).then_some(*agent);
        self.questions.iter().filter_map(of_wanted).collect()
    }
}

impl BadSuite {
    fn add(&mut self, faults: Vec<SuiteError>) {
        for fault in faults {
            if self.faults.len() < MOST_FAULTS {
                self.faults.push(fault);
            } else {
                self.more += 1;
            }
        }
    }
}

/// Rejects duplicate names, because comparisons and files of answers pair items by name.
fn unique(
    kind: Kind,
    work: &Work,
    (line, column): (u64, &str),
    names: &mut HashMap<String, u64>,
) -> Result<(), Vec<SuiteError>> {
    let id = match work {
        Work::Question(question) => Some(question.test_id.clone()),
        Work::Case { payload, .. } => id_of(kind, payload),
    };
    let Some(id) = id else { return Ok(()) };
    let Some(first) = names.get(&id) else {
        names.insert(id, line);
        return Ok(());
    };
    let message = format!(
        "{id:?} is the name of row {first} too: give each its own, or leave one of the two out"
    );
    Err(vec![SuiteError {
        line: Some(line),
        column: Some(column.to_owned()),
        message,
    }])
}

type VisitRow<'a> = dyn FnMut(Result<SuiteRow, SuiteError>) -> ControlFlow<()> + 'a;

/// Calls `visit` with the first `limit` rows of a suite, until it breaks.
pub(super) fn read_rows(
    path: &Path,
    kind: Kind,
    limit: Option<u64>,
    visit: &mut VisitRow<'_>,
) -> Result<(), SuiteError> {
    let also = match about(kind).asks_agents {
        true => QUESTION_FIELDS,
        false => &[],
    };
    let mut left = limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(());
    }
    read_file(path, Columns::OfKind(kind), also, &mut |row| {
        left -= 1;
        match (visit(row), left) {
            (ControlFlow::Continue(()), 1..) => ControlFlow::Continue(()),
            (ControlFlow::Continue(()) | ControlFlow::Break(()), _) => ControlFlow::Break(()),
        }
    })
}

fn read_file(
    path: &Path,
    columns: Columns,
    also: &[Field],
    visit: &mut VisitRow<'_>,
) -> Result<(), SuiteError> {
    let format = Format::of_path(path).ok_or_else(|| {
        SuiteError::whole(
            "its name does not end in one of .json, .jsonl (.ndjson), .csv and .xlsx: the ending selects the format",
        )
    })?;
    let reading = ReadOptions {
        format,
        columns,
        also,
        limits: Limits::default(),
    };
    read(BufReader::new(open(path)?), &reading, visit)
}

/// Opens a suite. It is read several times from its start, so pipes and devices are rejected.
fn open(path: &Path) -> Result<File, SuiteError> {
    let failed = |error: std::io::Error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            SuiteError::whole("no such file")
        } else {
            unreadable(&error)
        }
    };
    // Checked before opening, because opening a pipe blocks until it has a writer.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(SuiteError::whole(
            "it is no regular file, and a suite is read more than once: write it into a file first",
        ));
    }
    File::open(path).map_err(failed)
}

fn unreadable(error: &std::io::Error) -> SuiteError {
    SuiteError::whole(format!("it can't be read: {error}"))
}

/// Returns the SHA-256 of a suite's file, 64 hex digits.
pub fn digest(path: &Path) -> Result<String, SuiteError> {
    let mut file = open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut buffer).map_err(|error| unreadable(&error))?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
    }
    Ok(hex::encode(hasher.finalize()))
}

/// Guesses the kind from the fields of the first item. Accepts columns of all kinds, so that an error in the file isn't reported as a
/// column of another kind.
fn guess(path: &Path) -> Result<Kind, SuiteError> {
    let mut first = None;
    read_file(path, Columns::OfCases, QUESTION_FIELDS, &mut |row| {
        first = Some(row);
        ControlFlow::Break(())
    })?;
    match first {
        None => Ok(Kind::UNNAMED),
        Some(row) => kind_of(&row?.fields).ok_or_else(|| {
            let fields = distinguishing_fields().map(|(kind, field)| format!("{field} ({kind})"));
            let fields: Vec<_> = fields.collect();
            SuiteError::whole(format!(
                "its first item has no field that determines its kind, such as {}: give --kind {}",
                words::one_of(fields),
                words::one_of(distinguishing_fields().map(|(kind, _)| kind.as_str())),
            ))
        }),
    }
}

fn distinguishing_fields() -> impl Iterator<Item = (Kind, &'static str)> {
    let kinds = Kind::ALL.iter().copied();
    kinds.filter_map(|kind| Some((kind, *about(kind).distinctive.first()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn suite(name: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    #[test]
    fn guesses_kind_from_fields() {
        for (fields, kind) in [
            (
                json!({"generated_kql": "T", "expected_kql": "T"}),
                Some(Kind::Query),
            ),
            (
                json!({"id": "1", "question": "?", "agent": "sql"}),
                Some(Kind::Qas),
            ),
            (
                json!({"question": "?", "generated_sql": "select 1"}),
                Some(Kind::Qas),
            ),
            (json!({"generatedSql": "select 1"}), Some(Kind::SqlMetrics)),
            (json!({"name": "x"}), None),
        ] {
            assert_eq!(kind_of(fields.as_object().unwrap()), kind, "{fields}");
        }
    }

    #[test]
    fn table_error_is_not_reported_as_other_kinds_column() {
        for (text, said) in [
            (
                "id,generated_sql,expectedsql\na,select 1,select 1\n",
                "row 1, column expectedsql: is no field; did you mean `expected_sql`?",
            ),
            (
                "id,generated_sql,expected_sql\na,select 1\n",
                "row 2: has 2 cells where the header has 3",
            ),
            (
                "id,generated_sql,expected_sql\na,\"select 1,select 1\n",
                "row 2: has an unclosed quote",
            ),
        ] {
            let (_dir, path) = suite("suite.csv", text);
            let bad = Plan::read(&path, None, None).unwrap_err().to_string();
            assert!(bad.starts_with(said), "{bad}");
        }
        for names in ["generated_sql,expected_sql", "generatedSql,expectedSql"] {
            let text = format!("id,{names}\na,select 1,select 1\n");
            let (_dir, path) = suite("suite.csv", &text);
            let plan = Plan::read(&path, None, None).unwrap();
            assert_eq!((plan.kind, plan.items), (Kind::SqlMetrics, 1), "{names}");
        }
    }

    #[test]
    fn reports_missing_file_and_unknown_extension() {
        let missing = Plan::read(Path::new("nowhere.jsonl"), None, None).unwrap_err();
        assert_eq!(missing.to_string(), "no such file");
        let (_dir, path) = suite("suite.txt", "{}");
        let bad = Plan::read(&path, Some(Kind::Query), None)
            .unwrap_err()
            .to_string();
        assert!(bad.contains("does not end in one of .json"), "{bad}");
    }

    #[test]
    #[cfg(unix)]
    fn rejects_irregular_files_before_reading() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder.jsonl");
        std::fs::create_dir(&folder).unwrap();
        let endless = dir.path().join("endless.jsonl");
        symlink("/dev/zero", &endless).unwrap();
        for path in [folder, endless] {
            let bad = Plan::read(&path, None, None).unwrap_err().to_string();
            assert!(bad.contains("no regular file"), "{bad}");
        }
    }

    #[test]
    fn rejects_duplicate_name_with_its_row() {
        let line = json!({"id": "a", "generated_sql": "select 1", "expected_sql": "select 1"});
        let (_dir, path) = suite("suite.jsonl", &format!("{line}\n{line}\n"));
        let bad = Plan::read(&path, None, None).unwrap_err().to_string();
        assert!(
            bad.starts_with("row 2, column id: \"a\" is the name of row 1 too"),
            "{bad}"
        );
        let plan = Plan::read(&path, None, Some(1)).unwrap();
        assert_eq!((plan.kind, plan.items), (Kind::SqlMetrics, 1));
    }

    #[test]
    fn number_and_its_digits_are_the_same_name() {
        for second in [json!(1), json!("1"), json!(" 1 ")] {
            let line = |id: &serde_json::Value| json!({"id": id, "generated_sql": "select 1", "expected_sql": "select 1"});
            let text = format!("{}\n{}\n", line(&json!(1)), line(&second));
            let (_dir, path) = suite("suite.jsonl", &text);
            let bad = Plan::read(&path, None, None).unwrap_err().to_string();
            assert!(
                bad.starts_with("row 2, column id: \"1\" is the name of row 1 too"),
                "{bad}"
            );
        }
    }

    #[test]
    fn reports_twenty_errors_and_counts_the_rest() {
        let lines: String = (0..30)
            .map(|_| "{\"id\": \"x\", \"question\": \"?\", \"agent\": \"robot\", \"expected_answer_type\": \"number\"}\n")
            .collect();
        let (_dir, path) = suite("suite.jsonl", &lines);
        let bad = Plan::read(&path, None, None).unwrap_err();
        assert_eq!((bad.faults.len(), bad.more), (20, 10));
        assert!(bad.to_string().ends_with("and 10 more"));
    }
}
