//! Recorded answers of a `test-results.jsonl`, found by `test_id`. A question may have only one answer; recorded failures don't count. All stay in
//! memory.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

use super::{Agent, AgentAnswer, AgentFault, LARGEST};
use crate::report::line_reader::LineReader;
use crate::score::parse_json;
use crate::suite::run::{AgentQuestion, Stopped};

pub(super) struct Recorded {
    name: String,
    by_id: HashMap<String, Answer>,
}

struct Answer {
    /// Line in the file, from 1.
    line: u64,
    /// `Err`: a recorded failure.
    answer: Result<AgentAnswer, String>,
}

#[derive(Deserialize)]
struct RecordedLine {
    #[serde(alias = "id")]
    test_id: Value,
    #[serde(flatten)]
    answer: AgentAnswer,
    #[serde(default)]
    agent_error: Option<String>,
}

impl Recorded {
    /// Reads a file. A line replaces an earlier failure, because a resumed run appends the retry.
    pub(super) fn open(path: &Path) -> Result<Self, Stopped> {
        let name = path.display().to_string();
        let bad = |reason: String| {
            Stopped::Usage(format!(
                "--agent-results {name}: {reason}; give a file like the test-results.jsonl of a run: one JSON object a \
                 line with test_id, generated_sql, actual_results, success"
            ))
        };
        let file = File::open(path).map_err(|error| bad(error.to_string()))?;
        let failed = |error: std::io::Error| bad(error.to_string());
        let mut lines = LineReader::new(&file, LARGEST as u64).map_err(failed)?;
        let mut by_id: HashMap<String, Answer> = HashMap::new();
        while let Some((span, text)) = lines.next().map_err(failed)? {
            let line = span.number;
            let text = match text.strip_prefix(b"\xef\xbb\xbf") {
                Some(text) if line == 1 => text.trim_ascii(),
                Some(_) | None => text.trim_ascii(),
            };
            if text.is_empty() {
                continue;
            }
            if by_id.is_empty() && text.starts_with(b"[") {
                return Err(bad("it is a list".to_owned()));
            }
            let (id, answer) = answer(text).map_err(|error| bad(format!("line {line}{error}")))?;
            let is_answer = answer.is_ok();
            let earlier = by_id.insert(id.clone(), Answer { line, answer });
            if let Some(earlier) = earlier.filter(|it| it.answer.is_ok() && is_answer) {
                return Err(bad(format!(
                    "line {line}: {id:?} has an answer in line {} already: keep one of them",
                    earlier.line
                )));
            }
        }
        Ok(Self { name, by_id })
    }

    pub(super) fn unasked(&self, is_asked: impl Fn(&str) -> bool) -> Vec<&str> {
        let names = self.by_id.keys().map(String::as_str);
        let mut unasked: Vec<&str> = names.filter(|name| !is_asked(name)).collect();
        unasked.sort_unstable();
        unasked
    }

    fn answer(&self, test_id: &str) -> Result<AgentAnswer, String> {
        match self.by_id.get(test_id) {
            Some(found) => found.answer.clone(),
            None => Err(format!(
                "{} has no line with test_id {test_id:?}",
                self.name
            )),
        }
    }
}

/// Reads the id and the answer of a line, or its recorded failure. Duplicate fields are an error, also in rows of its results.
fn answer(text: &[u8]) -> Result<(String, Result<AgentAnswer, String>), String> {
    let value = parse_json(text).map_err(|error| format!(": {error}"))?;
    let mut parts = AgentAnswer::FIELDS.iter();
    let has_part = parts.any(|part| value.get(part).is_some());
    let line: RecordedLine = serde_json::from_value(value).map_err(|error| format!(": {error}"))?;
    let id = match line.test_id {
        Value::String(id) => id.trim().to_owned(),
        Value::Number(id) => id.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            return Err(": test_id is no text".to_owned());
        }
    };
    if !has_part && line.agent_error.is_none() {
        return Err(format!(
            " has no field of {}, so it is not an answer",
            AgentAnswer::FIELDS.join(", ")
        ));
    }
    let empty = AgentAnswer::default();
    let answer = match line.agent_error {
        Some(error) => Err(error),
        None if line.answer == empty => Err(format!(
            "the recorded line of {id:?} has no SQL, no results, no success and no error"
        )),
        // As for a live agent: an answer without an error is successful.
        None => Ok(AgentAnswer {
            success: line.answer.success.or(Some(line.answer.error.is_none())),
            ..line.answer
        }),
    };
    Ok((id, answer))
}

#[async_trait]
impl Agent for Recorded {
    async fn ask(&self, question: &AgentQuestion) -> Result<AgentAnswer, AgentFault> {
        self.answer(&question.test_id).map_err(AgentFault::Question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Recorded, Stopped> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("answers.jsonl");
        std::fs::write(&path, text).unwrap();
        Recorded::open(&path)
    }

    #[test]
    fn rejects_empty_line_and_accepts_byte_order_mark() {
        for misspelled in [
            r#"{"test_id":"a","sql":"select 1","results":[1]}"#,
            r#"{"test_id":"a","succes":true}"#,
        ] {
            let error = open(misspelled).err().unwrap().to_string();
            assert!(
                error.contains("line 1 has no field of generated_sql"),
                "{error}"
            );
        }
        let lines = "\u{feff}{\"test_id\":\"a\",\"actual_results\":null}\n{\"test_id\":\"b\",\"success\":true}\n";
        let answers = open(lines).unwrap();
        assert!(answers.answer("a").unwrap_err().contains("no results"));
        assert_eq!(answers.answer("b").unwrap().success, Some(true));
        for (line, success) in [
            (r#"{"test_id":"a","actual_results":[1]}"#, true),
            (r#"{"test_id":"a","actual_results":[1],"error":" "}"#, true),
            (
                r#"{"test_id":"a","actual_results":[1],"error":false}"#,
                true,
            ),
            (r#"{"test_id":"a","error":"no route"}"#, false),
            (r#"{"test_id":"a","error":{"code":7}}"#, false),
        ] {
            let answer = open(line).unwrap().answer("a").unwrap();
            assert_eq!(answer.success, Some(success), "{line}");
            assert_eq!(answer.error.is_none(), success, "{line}");
        }
    }

    #[test]
    fn reports_json_list_and_trims_names() {
        let error = open("\n[{\"test_id\":\"a\",\"success\":true}]");
        let error = error.err().unwrap().to_string();
        assert!(
            error.contains("it is a list; give a file like")
                && error.contains("one JSON object a line"),
            "{error}"
        );
        let answers = open("{\"test_id\":\" a \",\"success\":true}").unwrap();
        assert_eq!(answers.answer("a").unwrap().success, Some(true));
    }

    #[test]
    fn answer_replaces_earlier_failure_by_test_id() {
        let recorded = open(
            "{\"test_id\": \"a\", \"success\": false, \"agent_error\": \"it timed out\"}\n\n{\"id\": 7, \"success\": true}\n\
             {\"test_id\": \"a\", \"generated_sql\": \"new\", \"question\": \"?\"}",
        );
        let recorded = recorded.unwrap();
        let answer = recorded.answer("a").unwrap();
        assert_eq!(answer.generated_sql.as_deref(), Some("new"));
        assert_eq!(recorded.answer("7").unwrap().success, Some(true));
        let missing = recorded.answer("b").unwrap_err();
        assert!(missing.contains("no line with test_id \"b\""), "{missing}");
        assert_eq!(recorded.unasked(|name| name == "a"), ["7"]);
    }

    #[test]
    fn rejects_duplicate_answer_with_its_line() {
        let text =
            "{\"test_id\": \"1\", \"success\": true}\n{\"test_id\": 1, \"success\": false}\n";
        let error = open(text).err().unwrap().to_string();
        assert!(
            error.contains("line 2: \"1\" has an answer in line 1 already"),
            "{error}"
        );
    }

    #[test]
    fn recorded_failure_is_not_an_answer() {
        let recorded =
            open("{\"test_id\": \"a\", \"success\": false, \"agent_error\": \"it timed out\"}");
        assert_eq!(
            recorded.unwrap().answer("a"),
            Err("it timed out".to_owned())
        );
    }

    #[test]
    fn rejects_other_file_with_line() {
        for (text, said) in [
            ("nonsense", "line 1: "),
            ("{\"test_id\": true}", "test_id is no text"),
        ] {
            let error = open(text).err().unwrap().to_string();
            assert!(
                error.contains(said) && error.contains("--agent-results"),
                "{error}"
            );
        }
    }
}
