//! A QAS case as its payload has it: read and checked, every fault at once.

use std::borrow::Cow;

use serde_json::Value;

use super::answer::{self, AnswerType, ComparisonForm};
use super::table::AnswerTable;
use crate::Fault;
use crate::Field;
use crate::reading::{LONGEST_TEXT, ObjectReader, Spelling};
use query_shape::sql::Dialect;
use row_match::MAX_ROWS;

/// What a case must reach to pass, where it doesn't say.
pub const THRESHOLD: f64 = 0.7;

/// The payload's fields, in the order of a report.
pub const FIELDS: &[Field] = &[
    Field::text("test_id"),
    Field::text("question"),
    Field::text("agent_used"),
    Field::text("category"),
    Field::text("difficulty"),
    Field::text("expected_sql"),
    Field::text("generated_sql"),
    Field::text("expected_answer_type"),
    Field::json("expected_results"),
    Field::json("actual_results"),
    Field::flag("success"),
    Field::text("error"),
    Field::json("tables_involved"),
    Field::text("expected_api"),
    Field::flag("api_success"),
    Field::json("threshold"),
    Field::text("dialect"),
];

/// The fields that hold an answer. Without any of them nobody has answered.
const ANSWERS: [&str; 5] = [
    "generated_sql",
    "actual_results",
    "success",
    "error",
    "api_success",
];

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    Sql,
    Docking,
}

/// How hard a question is. It plays no part in the score; reports group by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difficulty {
    Easy,
    Medium,
    Hard,
}

/// One question, the answer that is right, and the one that an agent gave.
#[derive(Debug, Clone, PartialEq)]
pub struct QasCase {
    pub test_id: Option<String>,
    pub question: String,
    /// Who answered; `sql` where nothing is said.
    pub agent: Agent,
    pub expected_sql: Option<String>,
    /// The agent's query; none if it wrote none.
    pub generated_sql: Option<String>,
    pub answer_type: AnswerType,
    /// The answer that is right; none: nobody knows.
    pub expected: Option<Value>,
    /// The agent's answer; none if it gave none.
    pub actual: Option<Value>,
    /// Whether the agent's run succeeded; where nothing is said, one with an `error` didn't.
    pub success: Option<bool>,
    pub error: Option<String>,
    pub api_success: Option<bool>,
    /// What the total is held against, 0-1.
    pub threshold: f64,
    pub dialect: Dialect,
}

impl QasCase {
    /// Whether the answer is an error: the case's own `error` once more, or an object that says `error` and nothing else, or a
    /// tool's result of MCP with `isError`. What a text means is not guessed.
    pub(super) fn answers_with_an_error(&self) -> bool {
        let Some(actual) = &self.actual else {
            return false;
        };
        let actual = answer::opened(actual).unwrap_or(Cow::Borrowed(actual));
        let members = actual.as_object().filter(|members| members.len() == 1);
        let is_error = |said: &Value| match said.as_str() {
            Some(text) => !text.trim().is_empty(),
            None => said.is_object(),
        };
        let is_own =
            |error: &String| answer::single(&actual).as_str().map(str::trim) == Some(error.trim());
        members
            .and_then(|members| members.get("error"))
            .is_some_and(is_error)
            || actual.get("content").is_some() && actual.get("isError") == Some(&true.into())
            || self.error.as_ref().is_some_and(is_own)
    }

    pub fn read(payload: &Value) -> Result<Self, Vec<Fault>> {
        const AGENTS: [(&str, Agent); 2] = [("sql", Agent::Sql), ("docking", Agent::Docking)];
        let mut reading = ObjectReader::begin(payload, FIELDS, Spelling::Snake)?;
        let test_id = reading.name("test_id");
        let question = reading.solid_text("question");
        if question.is_none() {
            reading.missing("question", "what the agent was asked");
        }
        let agent = reading.choice("agent_used", &AGENTS).unwrap_or(Agent::Sql);
        check_what_reports_show(&mut reading);
        let (expected_sql, generated_sql) = (
            reading.solid_text("expected_sql"),
            reading.solid_text("generated_sql"),
        );
        let answer_type = reading.choice("expected_answer_type", &AnswerType::NAMES);
        let (expected, actual) = match answer_type {
            Some(wanted) => (
                expected(&mut reading, wanted),
                answer(&mut reading, "actual_results", wanted),
            ),
            None => {
                let names: Vec<&str> = AnswerType::NAMES.iter().map(|(name, _)| *name).collect();
                reading.missing(
                    "expected_answer_type",
                    &format!("one of {}", names.join(", ")),
                );
                (None, None)
            }
        };
        let error = reading.solid_text("error");
        let success = reading.boolean("success");
        let success = success.or(error.is_some().then_some(false));
        let api_success = reading.boolean("api_success");
        if agent == Agent::Docking && success.is_none() && api_success.is_none() {
            reading.missing(
                "api_success",
                "for agent docking api_success or success, true or false,",
            );
        }
        // A question that nobody has answered is no answer of 0.
        let is_answered = ANSWERS
            .iter()
            .any(|name| payload.get(name).is_some_and(|value| !value.is_null()));
        if agent == Agent::Sql && !is_answered {
            reading.missing(
                "generated_sql",
                "an answer of the agent (this, actual_results or error; gavel evaluate FILE asks agents)",
            );
        }
        let threshold = reading.share("threshold").unwrap_or(THRESHOLD);
        let dialect = reading.dialect("dialect");
        reading.check_expected_sql(expected_sql.as_deref(), dialect);
        reading.finish()?;
        // Whatever is missing here was told as a fault.
        let (Some(question), Some(answer_type)) = (question, answer_type) else {
            return Err(Vec::new());
        };
        Ok(Self {
            test_id,
            question,
            agent,
            expected_sql,
            generated_sql,
            answer_type,
            expected,
            actual,
            success,
            error,
            api_success,
            threshold,
            dialect,
        })
    }
}

fn check_what_reports_show(reading: &mut ObjectReader<'_>) {
    const DIFFICULTIES: [(&str, Difficulty); 3] = [
        ("easy", Difficulty::Easy),
        ("medium", Difficulty::Medium),
        ("hard", Difficulty::Hard),
    ];
    reading.text("category");
    reading.choice("difficulty", &DIFFICULTIES);
    reading.texts("tables_involved");
    if let Some(found) = reading.value("expected_api")
        && !found.value.is_object()
    {
        reading.text("expected_api");
    }
}

/// The expected answer: it must be of the type that is asked for, or every agent would be held against nonsense.
fn expected(reading: &mut ObjectReader<'_>, wanted: AnswerType) -> Option<Value> {
    let value = answer(reading, "expected_results", wanted)?;
    let (is_of_type, what) = match wanted.comparison() {
        ComparisonForm::Numbers => (answer::number(&value).is_some(), "one number"),
        ComparisonForm::Booleans => (
            answer::boolean(&value).is_some(),
            "true, false, yes, no, 1 or 0",
        ),
        ComparisonForm::Tables => (
            AnswerTable::of(&value).is_some(),
            "a list, or an object of columns and rows,",
        ),
        ComparisonForm::Texts => (true, "text"),
    };
    if !is_of_type {
        let message = format!(
            "doesn't fit expected_answer_type: {what} is expected; correct it, name another type, or leave it out where the answer isn't known"
        );
        reading.fault(reading.pointer("expected_results"), message);
        return None;
    }
    Some(value)
}

/// An answer that can be compared in bounded time: a table within the limits of tables, anything else of at most 64 KiB. What is
/// in a text is read here, unless texts are compared.
fn answer(reading: &mut ObjectReader<'_>, name: &str, wanted: AnswerType) -> Option<Value> {
    let found = reading.value(name)?;
    let value = match wanted.comparison() {
        ComparisonForm::Texts => Ok(Cow::Borrowed(found.value)),
        ComparisonForm::Numbers | ComparisonForm::Booleans | ComparisonForm::Tables => {
            answer::opened(found.value)
        }
    };
    let value = match value {
        Ok(value) => value,
        Err(error) => {
            reading.fault(found.pointer, error.to_string());
            return None;
        }
    };
    let fault = match wanted.comparison() {
        ComparisonForm::Tables => AnswerTable::of(&value)
            .and_then(|table| table.table().err())
            .map(|error| format!("can't be compared: {error}")),
        ComparisonForm::Texts => {
            let bytes = answer::text(&value).len();
            let message =
                format!("is {bytes} bytes long; at most {LONGEST_TEXT} are taken: shorten it");
            (bytes > LONGEST_TEXT).then_some(message)
        }
        ComparisonForm::Numbers | ComparisonForm::Booleans => {
            let rows = value.as_array().map_or(0, Vec::len);
            (rows > MAX_ROWS).then(|| {
                format!("has {rows} entries; at most {MAX_ROWS} are taken: leave some out")
            })
        }
    };
    if let Some(message) = fault {
        reading.fault(found.pointer, message);
        return None;
    }
    Some(value.into_owned())
}
