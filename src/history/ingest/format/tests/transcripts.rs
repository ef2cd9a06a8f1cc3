//! Files in `tests/transcripts`, written by the tools that `index.tsv` names. Their texts hold markers: `MARK-Q` the question, `MARK-T`
//! thinking, `MARK-A1` the arguments of the first call, `MARK-R1` its result, `MARK-E` an error, `MARK-F` the final answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::super::super::{SessionInput, parse_session_file};
use crate::score::session::Message;

const FEATURES: [&str; 9] = [
    "text",
    "thinking",
    "call",
    "arguments",
    "result",
    "error",
    "parallel calls",
    "missing ids",
    "images",
];

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/"))
}

/// Each file with its content and its sessions.
fn files() -> Vec<(String, String, Vec<SessionInput>)> {
    let index = std::fs::read_to_string(root().join("tests/transcripts/index.tsv")).unwrap();
    let names = index
        .lines()
        .skip(1)
        .map(|line| line.split('\t').next().unwrap());
    let read = names.map(|name| {
        let bytes = std::fs::read(root().join("tests/transcripts").join(name)).unwrap();
        let sessions = parse_session_file(name, &bytes, None);
        let sessions = sessions.unwrap_or_else(|error| panic!("{error}"));
        (name.to_owned(), String::from_utf8(bytes).unwrap(), sessions)
    });
    read.collect()
}

fn markers(text: &str) -> BTreeSet<String> {
    let found = text.split("MARK-").skip(1);
    let name = |rest: &str| {
        rest.chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect()
    };
    found.map(name).collect()
}

/// Arguments, result and error of a message with a call.
fn parts(message: &Message) -> (&str, Option<&str>, Option<&str>) {
    let content = message.content.as_str();
    let split = |mark| content.split_once(mark);
    match (split("Result:\n"), split("Error:\n")) {
        (Some((arguments, result)), _) => (arguments, Some(result), None),
        (None, Some((arguments, error))) => (arguments, None, Some(error)),
        (None, None) => (content, None, None),
    }
}

fn holds(text: &str, marker: &str) -> bool {
    markers(text).contains(marker)
}

/// The features that a file's sessions show.
fn features(name: &str, sessions: &[SessionInput]) -> BTreeSet<&'static str> {
    let messages: Vec<&Message> = sessions.iter().flat_map(|it| &it.conversation).collect();
    let finals = sessions
        .iter()
        .filter_map(|it| it.final_analysis.as_deref());
    let has_final = finals.clone().any(|text| holds(text, "F"));
    let with_role = |role: &str, marker: &str| {
        let mut said = messages.iter().filter(|message| message.role == role);
        said.any(|message| holds(&message.content, marker))
    };
    let called = |marker: &str| {
        let mut calls = messages
            .iter()
            .filter(|message| message.tool_name.is_some());
        calls
            .find(|message| holds(parts(message).0, marker))
            .copied()
    };
    let returned = |call: Option<&Message>, marker: &str, other: &str| {
        let result = call.and_then(|call| parts(call).1);
        result.is_some_and(|result| holds(result, marker) && !holds(result, other))
    };
    let paired = returned(called("A1"), "R1", "R2") && returned(called("A2"), "R2", "R1");
    let failed = |message: &&&Message| parts(message).2.is_some_and(|error| holds(error, "E"));
    let pictured = |message: &&&Message| {
        message.role == "user"
            && ["image", "inline_data", "inlineData"]
                .iter()
                .any(|it| message.content.contains(it))
    };
    let without_ids = ["no-ids", "ids-null", "ids-missing", "legacy"]
        .iter()
        .any(|it| name.contains(it));
    let shown = [
        with_role("user", "Q") && has_final,
        with_role("thinking", "T"),
        called("A1").is_some(),
        called("A1").is_some_and(|call| parts(call).0.starts_with("Arguments: ")),
        returned(called("A1"), "R1", "R2"),
        messages.iter().find(failed).is_some(),
        paired,
        paired && without_ids,
        messages.iter().find(pictured).is_some(),
    ];
    let shown = FEATURES.into_iter().zip(shown);
    shown
        .filter(|(_, shown)| *shown)
        .map(|(feature, _)| feature)
        .collect()
}

#[test]
fn all_texts_of_tools_are_read() {
    for (name, content, sessions) in files() {
        let read = markers(&serde_json::to_string(&sessions).unwrap());
        let written = markers(&content);
        let lost: Vec<_> = written.difference(&read).collect();
        assert!(lost.is_empty(), "{name}: {lost:?}");
        for message in sessions.iter().flat_map(|session| &session.conversation) {
            assert!(
                !message.content.starts_with('['),
                "{name}: {}",
                message.content
            );
            let is_thought = holds(&message.content, "T") && message.tool_name.is_none();
            assert!(
                !is_thought || message.role == "thinking",
                "{name}: {message:?}"
            );
        }
        for conclusion in sessions
            .iter()
            .filter_map(|it| it.final_analysis.as_deref())
        {
            assert!(!holds(conclusion, "T"), "{name}: {conclusion}");
        }
    }
}

#[test]
fn each_call_appears_once() {
    for (name, _, sessions) in files() {
        for session in &sessions {
            let mut calls: Vec<String> = Vec::new();
            for message in session
                .conversation
                .iter()
                .filter(|it| it.tool_name.is_some())
            {
                let arguments = markers(parts(message).0);
                calls.extend(arguments.into_iter().filter(|it| it.starts_with('A')));
            }
            let once: BTreeSet<&String> = calls.iter().collect();
            assert_eq!(once.len(), calls.len(), "{name}: {calls:?}");
        }
    }
}

#[test]
fn each_result_has_its_own_call() {
    for (name, _, sessions) in files() {
        for message in sessions.iter().flat_map(|session| &session.conversation) {
            let (arguments, result, _) = parts(message);
            let numbers = |text: &str, letter: char| -> BTreeSet<String> {
                let numbers = markers(text).into_iter();
                numbers
                    .filter_map(|it| it.strip_prefix(letter).map(str::to_owned))
                    .collect()
            };
            let (called, returned) = (
                numbers(arguments, 'A'),
                numbers(result.unwrap_or_default(), 'R'),
            );
            if !called.is_empty() && !returned.is_empty() {
                assert_eq!(called, returned, "{name}: {message:?}");
            }
        }
    }
}

#[test]
fn table_of_dialects_in_docs_matches_files() {
    let mut shown: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (name, _, sessions) in files() {
        let dialect = name.split('/').next().unwrap().to_owned();
        shown
            .entry(dialect)
            .or_default()
            .extend(features(&name, &sessions));
    }
    let rows = shown.iter().map(|(dialect, shown)| {
        let cells = FEATURES.map(|feature| if shown.contains(feature) { "yes" } else { "-" });
        format!("| {dialect} | {} |", cells.join(" | "))
    });
    let rows: Vec<String> = rows.collect();
    let docs = std::fs::read_to_string(root().join("docs/sessions.md")).unwrap();
    let missing: Vec<_> = rows
        .iter()
        .filter(|row| !docs.contains(row.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/sessions.md lacks:\n{}",
        rows.join("\n")
    );
}
