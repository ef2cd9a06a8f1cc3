//! Tests of writing, tearing and reopening a run's folder.

use chrono::DateTime;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::job::{Kind, Usage};

fn header() -> RunHeader {
    RunHeader {
        run_id: Uuid::nil(),
        gavel: "0".to_owned(),
        started_at: DateTime::UNIX_EPOCH,
        suite: SuiteRef {
            path: PathBuf::from("suite.jsonl"),
            sha256: "00".to_owned(),
            items: 3,
        },
        kind: Kind::Query,
        options: RunOptions::default(),
        only: None,
        gates: crate::suite::run::thresholds::Gates::default(),
        judged_by: None,
        label: Label::default(),
    }
}

fn item(item_no: u64, passed: Option<bool>) -> Item {
    Item {
        item_no,
        kind: Kind::Query,
        id: None,
        payload: json!({"prompt": "é"}),
        outcome: match passed {
            Some(_) => Outcome::Scored,
            None => Outcome::Incomplete,
        },
        total: passed.map(|_| 0.5),
        passed,
        result: None,
        error: None,
        simulated: false,
        usage: Usage::default(),
        job_id: None,
    }
}

#[test]
fn reopens_folder_and_last_line_of_item_wins() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let folder = RunFolder::create(&path, &header()).unwrap();
    folder.keep(&item(1, None)).unwrap();
    folder.keep(&item(0, Some(false))).unwrap();
    folder.keep(&item(1, Some(true))).unwrap();
    drop(folder);
    let folder = RunFolder::open(&path).unwrap();
    assert_eq!(folder.header(), &header());
    assert_eq!(folder.lines(), 2);
    let done = folder.done(1).unwrap();
    assert_eq!((done.outcome, done.lines), (Outcome::Scored, 2));
    assert_eq!(folder.done(2), None);
    assert_eq!(passed_items(&path).unwrap(), BTreeSet::from([1]));
}

#[test]
fn drops_torn_last_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let folder = RunFolder::create(&path, &header()).unwrap();
    folder.keep(&item(0, Some(true))).unwrap();
    drop(folder);
    let results = path.join(RESULTS);
    let whole = std::fs::read(&results).unwrap();
    let torn = line::write(&item(1, Some(true)));
    for length in 1..torn.len() {
        let mut bytes = whole.clone();
        bytes.extend_from_slice(&torn.as_bytes()[..length]);
        std::fs::write(&results, &bytes).unwrap();
        let folder = RunFolder::open(&path).unwrap();
        assert_eq!((folder.lines(), folder.done(1)), (1, None), "{length}");
        assert_eq!(std::fs::read(&results).unwrap(), whole, "{length}");
    }
}

#[test]
fn malformed_line_in_the_middle_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let folder = RunFolder::create(&path, &header()).unwrap();
    folder.keep(&item(0, Some(true))).unwrap();
    drop(folder);
    let results = path.join(RESULTS);
    let whole = std::fs::read_to_string(&results).unwrap();
    std::fs::write(&results, format!("{{\"a\": 1}}\n{whole}")).unwrap();
    let error = RunFolder::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("evaluation-results.jsonl, line 1: "),
        "{error}"
    );
}

#[test]
fn run_is_locked_and_used_folder_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let folder = RunFolder::create(&path, &header()).unwrap();
    let second = RunFolder::open(&path).unwrap_err().to_string();
    assert!(
        second.contains("another process is at this run"),
        "{second}"
    );
    drop(folder);
    assert!(RunFolder::open(&path).is_ok());
    let again = RunFolder::create(&path, &header()).unwrap_err().to_string();
    assert!(again.contains("--resume"), "{again}");
    let none = RunFolder::open(dir.path()).unwrap_err().to_string();
    assert!(none.contains("no run.json"), "{none}");
}

#[test]
fn stored_answers_are_found_but_not_failures() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let question = |item_no| AgentQuestion::example(item_no, "How many?");
    let answer = AgentAnswer {
        generated_sql: Some("select 'é'".to_owned()),
        actual_results: json!([[1]]),
        ..AgentAnswer::default()
    };
    let folder = RunFolder::create(&path, &header()).unwrap();
    folder
        .keep_answer(&question(0), Err("it timed out"))
        .unwrap();
    folder.keep_answer(&question(1), Ok(&answer)).unwrap();
    folder
        .keep_answer(&question(2), Ok(&AgentAnswer::default()))
        .unwrap();
    let check = |folder: &RunFolder| {
        assert_eq!(folder.answer(0), Ok(None));
        assert_eq!(folder.answer(1), Ok(Some(answer.clone())));
        assert_eq!(folder.answer(2), Ok(Some(AgentAnswer::default())));
    };
    check(&folder);
    drop(folder);
    check(&RunFolder::open(&path).unwrap());
}

#[test]
fn runs_in_the_same_second_get_separate_folders() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("runs");
    let names: BTreeSet<String> = std::thread::scope(|scope| {
        let begin = || RunFolder::create_below(&root, &header()).unwrap();
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
        let runs = runs.into_iter().map(|run| run.join().unwrap());
        let name = |run: RunFolder| run.path().file_name().unwrap().to_str().unwrap().to_owned();
        runs.map(name).collect()
    });
    let numbered = (2..=8).map(|n| format!("run-19700101T000000Z-{n}"));
    let expected: BTreeSet<String> = std::iter::once("run-19700101T000000Z".to_owned())
        .chain(numbered)
        .collect();
    assert_eq!(names, expected);
}

#[test]
fn concurrent_runs_in_one_folder_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let made: Vec<bool> = std::thread::scope(|scope| {
        let begin = || RunFolder::create(&path, &header()).is_ok();
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
}
