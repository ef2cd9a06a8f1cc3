//! Static description of a kind: form of its payload, components of its score, columns of its reports. Code outside of a kind's folder uses
//! only this and [`super::Scorable`].

use std::time::Duration;

use serde_json::Value;

use super::reading::Spelling;
use super::{Fault, Field, Scorable, about};
use gavel_wire::Kind;

pub type ReadCase = Result<Box<dyn Scorable>, Vec<Fault>>;

pub struct About {
    pub title: &'static str,
    /// Short description of a suite's items, shown in lists of kinds.
    pub items: &'static str,
    /// Parses and validates a payload. Returns every error, each with its JSON pointer.
    pub(super) read: fn(&Value) -> ReadCase,
    pub(super) criteria: CriteriaForm,
    /// Built-in criteria: file name and content.
    pub built_in_criteria: (&'static str, &'static str),
    /// Payload fields, in report order.
    pub fields: &'static [Field],
    pub(super) spelling: Spelling,
    /// Field with the item's name.
    pub name: &'static str,
    pub question: &'static [&'static str],
    /// Fields unique to this kind. The first item of a suite is classified by them.
    pub distinctive: &'static [&'static str],
    pub sides: Sides,
    /// Field with the error from executing the generated query.
    pub execution_error: Option<&'static str>,
    /// Payload fields written to a line of `evaluation-results.jsonl` under their own names, in this order, next to the result under
    /// [`Self::LINE_RESULT`]. This is the format of the original tool. Empty: the line contains the complete payload and result.
    pub line_fields: &'static [&'static str],
    /// Whether an agent can be called to fill in a missing answer.
    pub asks_agents: bool,
    /// Whether reports group items by difficulty and by agent.
    pub is_grouped: bool,
    pub is_in_percent: bool,
    pub has_threshold: bool,
    pub deadline: Option<Duration>,
    /// Components of the score, in rule order. A session's score is from 0 to 100, all others from 0 to 1.
    pub components: &'static [Component],
    pub columns: &'static [Column],
    /// JSON pointers to the total and the verdict of a result.
    pub(super) verdict: (&'static str, &'static str),
    /// JSON pointer to the judge's name; `None` if it is stored with the score instead.
    pub(super) judge: Option<&'static str>,
    /// Whether a result was computed without a judge.
    pub is_computed: fn(&Value) -> bool,
    pub reasoning: fn(&Value) -> Option<&str>,
    /// Two payloads, one JSON object a line.
    pub(super) samples: &'static str,
}

/// Criteria keys of a kind in addition to `kind`, `scoring` and `judge_prompt`.
pub(crate) struct CriteriaForm {
    pub(crate) keys: &'static [&'static str],
    /// Placeholders of `judge_prompt`, each required exactly once.
    pub(crate) placeholders: &'static [&'static str],
    /// Placeholders of `answer_prompt`, which compares answers that aren't SQL. Empty if the kind has no such prompt.
    pub(crate) answer_placeholders: &'static [&'static str],
    /// Whether the keys `dimensions` and `judge.trim` are allowed.
    pub(crate) is_of_session: bool,
}

impl CriteriaForm {
    pub(crate) const OF_CASE: Self = Self {
        keys: &[],
        placeholders: &[],
        answer_placeholders: &[],
        is_of_session: false,
    };
}

/// Payload fields of the generated and the expected side.
#[derive(Debug, Clone, Copy)]
pub struct Sides {
    pub generated: &'static str,
    pub expected: &'static str,
    pub generated_rows: &'static str,
    pub expected_rows: &'static str,
}

impl About {
    /// Values shared by several kinds. A kind sets its name, criteria, fields, components and columns.
    pub(super) const DEFAULT: Self = Self {
        title: "",
        items: "",
        read: |_| {
            Err(vec![Fault {
                pointer: String::new(),
                message: "a session is no case: it is scored by its id".to_owned(),
            }])
        },
        criteria: CriteriaForm::OF_CASE,
        built_in_criteria: ("", ""),
        fields: &[],
        spelling: Spelling::Snake,
        name: "id",
        question: &[],
        distinctive: &[],
        sides: Sides {
            generated: "generated_sql",
            expected: "expected_sql",
            generated_rows: "actual_results",
            expected_rows: "expected_results",
        },
        execution_error: None,
        line_fields: &[],
        asks_agents: false,
        is_grouped: false,
        is_in_percent: false,
        has_threshold: false,
        deadline: None,
        components: &[],
        columns: &[],
        verdict: ("/total", "/passed"),
        judge: Some("/judge"),
        is_computed: |result| result.get("judge").is_some_and(Value::is_null),
        reasoning: |_| None,
        samples: "",
    };

    /// Key of the result in a line of a kind with [`Self::line_fields`].
    pub const LINE_RESULT: &'static str = "qas_evaluation";

    /// The kind with `evaluation-results.jsonl` lines that other programs write.
    pub fn kind_of_foreign_lines() -> Kind {
        let mut kinds = Kind::ALL.iter().copied();
        let found = kinds.find(|kind| !about(*kind).line_fields.is_empty());
        found.unwrap_or(Kind::UNNAMED)
    }

    /// Returns the total and verdict of a result; both `None` if it is incomplete.
    pub fn verdict_of(&self, result: &Value) -> (Option<f64>, Option<bool>) {
        if result.get("status").and_then(Value::as_str) == Some("incomplete") {
            return (None, None);
        }
        let (total, passed) = self.verdict;
        let at = |pointer: &str| result.pointer(pointer);
        (
            at(total).and_then(Value::as_f64),
            at(passed).and_then(Value::as_bool),
        )
    }

    /// Returns the provider entry and model that judged. `None` without a judge, and for sessions, which store it elsewhere.
    pub fn judge_of(&self, result: &Value) -> Option<String> {
        let judge = result.pointer(self.judge?)?;
        let entry = judge.get("provider")?.as_str()?;
        Some(match judge.get("model").and_then(Value::as_str) {
            Some(model) => format!("{entry} ({model})"),
            None => entry.to_owned(),
        })
    }

    /// Returns the pass threshold of the total, if the kind has one.
    pub fn threshold_of(&self, result: &Value) -> Option<f64> {
        result.get("threshold")?.as_f64()
    }

    /// Returns the parse error of the generated query. With one, the case fails regardless of its components.
    pub fn parse_error_of<'a>(&self, result: &'a Value) -> Option<&'a str> {
        result.get("parse_error")?.as_str()
    }

    pub fn samples(&self) -> Vec<Value> {
        let lines = self.samples.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    pub fn component(&self, name: &str) -> Option<&'static Component> {
        self.components.iter().find(|part| part.name == name)
    }

    /// Returns the column names that a component compared, as `matched`, `missing` and `extra`; `None` if the kind compares no columns.
    pub fn columns_in<'a>(&self, result: Option<&'a Value>) -> Option<&'a Value> {
        let mut components = self.components.iter();
        let component = components.find(|part| part.details == Details::Columns)?;
        component.find(result)?.get("details")
    }

    pub fn missing_in(&self, result: &Value) -> Vec<&'static Component> {
        let named = result.get("missing").and_then(Value::as_array);
        let is_named =
            |part: &&Component| named?.iter().any(|name| *name == part.name).then_some(());
        let components = self.components.iter();
        components.filter(|part| is_named(part).is_some()).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    pub name: &'static str,
    /// Name in a report's text.
    pub title: &'static str,
    /// Column header in tables.
    pub column: &'static str,
    /// JSON pointer to its object in a result, or to the score itself.
    pub(super) at: &'static str,
    /// JSON pointer to its text; empty if the text is within its object.
    pub(super) words: &'static str,
    /// Whether its score counts despite an error. A query that failed to execute has a real 0, which its total includes.
    pub(super) counts_with_error: bool,
    pub(super) details: Details,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Details {
    Words,
    /// The judge's reasons for the case.
    Reasons,
    /// Column names: `matched`, `missing`, `extra`.
    Columns,
}

/// Keys of the text in a component's object, in order of preference.
const WORDS: [&str; 5] = [
    "/details/reasoning",
    "/error/message",
    "/details/explanation",
    "/details/outcome",
    "/details/message",
];

impl Component {
    pub(super) const fn new(
        name: &'static str,
        title: &'static str,
        column: &'static str,
        at: &'static str,
    ) -> Self {
        Self {
            name,
            title,
            column,
            at,
            words: "",
            counts_with_error: false,
            details: Details::Words,
        }
    }

    fn find<'a>(&self, result: Option<&'a Value>) -> Option<&'a Value> {
        result?.pointer(self.at)
    }

    /// Returns its score. `None` if it is absent, wasn't run or failed; the 0.0 in the result then marks an error.
    pub fn score(&self, result: Option<&Value>) -> Option<f64> {
        let found = self.find(result)?;
        let score = found.as_f64().or_else(|| found.get("score")?.as_f64());
        let failed = found.get("error").is_some_and(|error| !error.is_null());
        score.filter(|score| score.is_finite() && (self.counts_with_error || !failed))
    }

    /// Returns its weight in the total, 0-1; `None` if the kind has no weights.
    pub fn weight(&self, result: Option<&Value>) -> Option<f64> {
        self.find(result)?.get("weight")?.as_f64()
    }

    pub fn gives_reasons(&self) -> bool {
        self.details == Details::Reasons
    }

    pub fn is_present(&self, result: Option<&Value>) -> bool {
        self.find(result).is_some_and(|found| !found.is_null())
    }

    pub fn words<'a>(&self, result: Option<&'a Value>) -> Option<&'a str> {
        let found = if self.words.is_empty() {
            let object = self.find(result)?;
            let at = |at: &str| object.pointer(at).and_then(Value::as_str);
            // Messages with a severity come before the outcome's name.
            let severe = at("/details/severity").and_then(|_| at("/details/message"));
            severe.or_else(|| WORDS.iter().find_map(|words| at(words)))
        } else {
            result?.pointer(self.words).and_then(Value::as_str)
        };
        found.filter(|words| !words.is_empty())
    }

    /// Returns the error message that explains a missing score or a 0.0.
    pub fn fault<'a>(&self, result: Option<&'a Value>) -> Option<&'a str> {
        self.find(result)?.pointer("/error/message")?.as_str()
    }
}

/// Report column: name, width in a sheet (characters), and source of its values.
#[derive(Debug, Clone, Copy)]
pub struct Column(pub &'static str, pub u16, pub Origin);

/// Name of the status column, so that sheets can colour its cells.
pub const STATUS: &str = "Score Status";

#[derive(Debug, Clone, Copy)]
pub enum Origin {
    ItemNo,
    Id,
    Payload(&'static [&'static str]),
    Total,
    Status,
    Threshold,
    Score(usize),
    Words(usize),
    Reasoning,
    ParseError,
    Faults,
    Safety,
    Outcome,
    ErrorClass,
    ErrorMessage,
    Simulated,
    TokensIn,
    TokensOut,
    /// USD.
    Cost,
    JobId,
}
