//! Recorded answers of a `test-results.jsonl`, found by `test_id`. A question may have only one answer; recorded failures don't count.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::{Agent, AgentAnswer, AgentFault, LARGEST};
use crate::report::line_reader::{LineReader, LineSpan};
use crate::score::parse_json;
use crate::suite::run::{AgentQuestion, Stopped};

pub(super) struct Recorded {
    name: String,
    file: Mutex<File>,
    places: HashMap<String, AnswerSpan>,
}

#[derive(Debug, Clone, Copy)]
struct AnswerSpan {
    span: LineSpan,
    is_answer: bool,
}

/// The fields needed to find a line's question and whether it is an answer.
#[derive(Deserialize)]
struct Head {
    #[serde(alias = "id")]
    test_id: Value,
    #[serde(default)]
    agent_error: Option<String>,
    #[serde(flatten)]
    rest: HashMap<String, IgnoredAny>,
}

impl Head {
    /// Returns whether the line has a part of an answer or an error.
    fn has_answer(&self) -> bool {
        self.agent_error.is_some()
            || AgentAnswer::FIELDS
                .iter()
                .any(|part| self.rest.contains_key(*part))
    }
}

#[derive(Deserialize)]
struct RecordedLine {
    #[serde(flatten)]
    answer: AgentAnswer,
    #[serde(default)]
    agent_error: Option<String>,
}

impl Recorded {
    /// Opens a file and indexes its answers. A line replaces an earlier failure, because a resumed run appends the retry.
    pub(super) fn open(path: &Path) -> Result<Self, Stopped> {
        let name = path.display().to_string();
        let bad = |reason: String| {
            Stopped::usage(format!(
                "--agent-results {name}: {reason}; give a file like the test-results.jsonl of a run: one JSON object a \
                 line with test_id, generated_sql, actual_results, success"
            ))
        };
        let file = File::open(path).map_err(|error| bad(error.to_string()))?;
        let failed = |error: std::io::Error| bad(error.to_string());
        let mut lines = LineReader::new(&file, LARGEST as u64).map_err(failed)?;
        let mut places: HashMap<String, AnswerSpan> = HashMap::new();
        while let Some((span, text)) = lines.next().map_err(failed)? {
            let number = span.number;
            let line = without_bom(span, text);
            if line.trim_ascii().is_empty() {
                continue;
            }
            if places.is_empty() && line.trim_ascii_start().starts_with(b"[") {
                return Err(bad("it is a list".to_owned()));
            }
            let head: Head =
                line_of(line).map_err(|error| bad(format!("line {number}: {error}")))?;
            let (has_answer, is_answer) = (head.has_answer(), head.agent_error.is_none());
            let id = match head.test_id {
                Value::String(id) => id.trim().to_owned(),
                Value::Number(id) => id.to_string(),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                    return Err(bad(format!("line {number}: test_id is no text")));
                }
            };
            if !has_answer {
                return Err(bad(format!(
                    "line {number} has no field of {}, so it is not an answer",
                    AgentAnswer::FIELDS.join(", ")
                )));
            }
            let earlier = places.insert(id.clone(), AnswerSpan { span, is_answer });
            if let Some(earlier) = earlier.filter(|it| it.is_answer && is_answer) {
                return Err(bad(format!(
                    "line {number}: {id:?} has an answer in line {} already: keep one of them",
                    earlier.span.number
                )));
            }
        }
        Ok(Self {
            name,
            places,
            file: Mutex::new(file),
        })
    }

    pub(super) fn unasked(&self, is_asked: impl Fn(&str) -> bool) -> Vec<&str> {
        let names = self.places.keys().map(String::as_str);
        let mut unasked: Vec<&str> = names.filter(|name| !is_asked(name)).collect();
        unasked.sort_unstable();
        unasked
    }

    fn answer(&self, test_id: &str) -> Result<AgentAnswer, String> {
        let Some(place) = self.places.get(test_id) else {
            return Err(format!(
                "{} has no line with test_id {test_id:?}",
                self.name
            ));
        };
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let text = place.span.read(&file);
        let text = text.map_err(|error| format!("{}: {error}", self.name))?;
        let line: RecordedLine = line_of(without_bom(place.span, &text))
            .map_err(|error| format!("{}: the line of {test_id:?}: {error}", self.name))?;
        match line.agent_error {
            None => {
                let answer = line.answer;
                let says = answer.generated_sql.is_some()
                    || !answer.actual_results.is_null()
                    || answer.error.is_some()
                    || answer.success.is_some()
                    || answer.api_success.is_some();
                if !says {
                    return Err(format!(
                        "{}: the line of {test_id:?} has no SQL, no results, no success and no error",
                        self.name
                    ));
                }
                Ok(AgentAnswer {
                    // As for a live agent: an answer without an error is successful.
                    success: answer.success.or(Some(answer.error.is_none())),
                    ..answer
                })
            }
            Some(error) => Err(error),
        }
    }
}

/// Parses a line. Duplicate fields are an error, also in rows of its results.
fn line_of<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    let value = parse_json(line).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Removes a byte order mark at the start of the file.
fn without_bom(span: LineSpan, line: &[u8]) -> &[u8] {
    let marked = line.strip_prefix(b"\xef\xbb\xbf");
    marked.filter(|_| span.number == 1).unwrap_or(line)
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
