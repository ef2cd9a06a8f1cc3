//! What a kind says of itself: the form of its payload, the parts of its score, how its items are shown. Whatever is outside of its folder
//! goes by this, and by [`super::Scorable`].

use std::time::Duration;

use serde_json::Value;

use super::reading::Spelling;
use super::{Fault, Field, Scorable, about};
use gavel_wire::Kind;

/// A payload that was read, or all of its faults.
pub type ReadCase = Result<Box<dyn Scorable>, Vec<Fault>>;

/// A kind, described.
pub struct About {
    /// What its items are called where people read them.
    pub title: &'static str,
    /// What the items of a suite hold, beside the kind's name in a list to choose from.
    pub items: &'static str,
    /// Reads and checks a payload: every fault, each with its JSON pointer.
    pub(super) read: fn(&Value) -> ReadCase,
    pub(super) criteria: CriteriaForm,
    /// Its built-in criteria: the file's name and its text.
    pub built_in_criteria: (&'static str, &'static str),
    /// The payload's fields, in the order of a report.
    pub fields: &'static [Field],
    pub(super) spelling: Spelling,
    /// The field that names an item.
    pub name: &'static str,
    /// The fields that hold what was asked for, the best first.
    pub question: &'static [&'static str],
    /// Fields that no other kind has: the first item of a suite tells its kind by them.
    pub distinctive: &'static [&'static str],
    pub sides: Sides,
    /// The field that says why what was generated could not be executed.
    pub execution_error: Option<&'static str>,
    /// The fields that stand in a line of `evaluation-results.jsonl` under their own names, in this order, beside the result under
    /// [`Self::LINE_RESULT`], as the origin of these files has it; empty: payload and result stand there whole.
    pub line_fields: &'static [&'static str],
    /// Whether an agent may be asked for the answer of a case that has none.
    pub asks_agents: bool,
    /// Whether reports group its items by difficulty and by agent.
    pub is_grouped: bool,
    pub is_in_percent: bool,
    pub has_threshold: bool,
    pub deadline: Option<Duration>,
    /// The parts of its score, in the order of its rules. A session's is its score from 0 to 100, all others go from 0 to 1.
    pub components: &'static [Component],
    /// Its own columns of a report.
    pub columns: &'static [Column],
    /// JSON pointers to the total and the verdict of a result.
    pub(super) verdict: (&'static str, &'static str),
    /// JSON pointer to who judged; `None`: that stands with the score.
    pub(super) judge: Option<&'static str>,
    /// Whether a result was computed without any judge.
    pub is_computed: fn(&Value) -> bool,
    pub reasoning: fn(&Value) -> Option<&str>,
    /// Writes the time of its errors into a result: no rule knows it.
    pub stamp: fn(&mut Value, &str),
    /// Two sample payloads with the same fields in the same order.
    pub samples: fn() -> [Value; 2],
}

/// What criteria of a kind hold beside `kind`, `scoring` and `judge_prompt`.
pub(crate) struct CriteriaForm {
    pub(crate) keys: &'static [&'static str],
    /// The placeholders of `judge_prompt`: each stands in it exactly once.
    pub(crate) placeholders: &'static [&'static str],
    /// Those of `answer_prompt`, by which answers that aren't SQL are compared; empty: criteria of the kind have no such prompt.
    pub(crate) answer_placeholders: &'static [&'static str],
    /// Whether they have `dimensions` and `judge.trim`.
    pub(crate) is_of_session: bool,
}

/// The fields of a payload that are held against each other.
#[derive(Debug, Clone, Copy)]
pub struct Sides {
    /// The generated query.
    pub generated: &'static str,
    /// The query that is right.
    pub expected: &'static str,
    /// What the generated query gave.
    pub generated_rows: &'static str,
    /// What the right one gives.
    pub expected_rows: &'static str,
}

impl About {
    /// The result's name in a line of a kind with [`Self::line_fields`].
    pub const LINE_RESULT: &'static str = "qas_evaluation";

    /// The kind whose lines other programs write.
    pub fn kind_of_foreign_lines() -> Kind {
        let mut kinds = Kind::ALL.iter().copied();
        let found = kinds.find(|kind| !about(*kind).line_fields.is_empty());
        found.unwrap_or(Kind::UNNAMED)
    }

    /// Total and verdict of a result that isn't incomplete.
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

    /// Who judged, as the entry and the model that answered; `None`: nobody, or it stands elsewhere (sessions).
    pub fn judge_of(&self, result: &Value) -> Option<String> {
        let judge = result.pointer(self.judge?)?;
        let entry = judge.get("provider")?.as_str()?;
        Some(match judge.get("model").and_then(Value::as_str) {
            Some(model) => format!("{entry} ({model})"),
            None => entry.to_owned(),
        })
    }

    /// What the total is held against, where the kind has that.
    pub fn threshold_of(&self, result: &Value) -> Option<f64> {
        result.get("threshold")?.as_f64()
    }

    /// Why what was generated can't be read: the case is a miss, whatever its components say.
    pub fn parse_error_of<'a>(&self, result: &'a Value) -> Option<&'a str> {
        result.get("parse_error")?.as_str()
    }

    /// The component of this name.
    pub fn component(&self, name: &str) -> Option<&'static Component> {
        self.components.iter().find(|part| part.name == name)
    }

    /// The names of columns that a component compared, as `matched`, `missing` and `extra`; `None` where the kind compares none.
    pub fn columns_in<'a>(&self, result: Option<&'a Value>) -> Option<&'a Value> {
        let mut components = self.components.iter();
        let component = components.find(|part| part.details == Details::Columns)?;
        component.find(result)?.get("details")
    }

    /// The components that an incomplete result lacks, as it says.
    pub fn missing_in(&self, result: &Value) -> Vec<&'static Component> {
        let named = result.get("missing").and_then(Value::as_array);
        let is_named =
            |part: &&Component| named?.iter().any(|name| *name == part.name).then_some(());
        let components = self.components.iter();
        components.filter(|part| is_named(part).is_some()).collect()
    }
}

/// A part of a kind's score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Component {
    /// Its name in results.
    pub name: &'static str,
    /// Its name in a report's text.
    pub title: &'static str,
    /// The head of its column in tables.
    pub column: &'static str,
    /// Where its object stands in a result, or the score itself.
    pub(super) at: &'static str,
    /// Where its words stand; empty: within its object.
    pub(super) words: &'static str,
    /// Whether its score counts beside an error: of a query whose execution failed it is a real 0, which its total holds too.
    pub(super) counts_with_error: bool,
    pub(super) details: Details,
}

/// What a component's details hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Details {
    /// Words beside its score.
    Words,
    /// The judge's reasons, which are those of the whole case.
    Reasons,
    /// The names of columns: `matched`, `missing`, `extra`.
    Columns,
}

/// Where within a component's object its words may stand, the best first.
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

    /// What it is worth, for people and for means; none where it is absent, wasn't run or failed, whose 0.0 in a result stands for an error.
    pub fn score(&self, result: Option<&Value>) -> Option<f64> {
        let found = self.find(result)?;
        let score = found.as_f64().or_else(|| found.get("score")?.as_f64());
        let failed = found.get("error").is_some_and(|error| !error.is_null());
        score.filter(|score| score.is_finite() && (self.counts_with_error || !failed))
    }

    /// The share of the total that it makes, 0-1; none where the kind weighs nothing.
    pub fn weight(&self, result: Option<&Value>) -> Option<f64> {
        self.find(result)?.get("weight")?.as_f64()
    }

    /// Whether its words are the judge's reasons for the whole case.
    pub fn gives_reasons(&self) -> bool {
        self.details == Details::Reasons
    }

    /// Whether the result has it, and not as null.
    pub fn is_present(&self, result: Option<&Value>) -> bool {
        self.find(result).is_some_and(|found| !found.is_null())
    }

    pub fn words<'a>(&self, result: Option<&'a Value>) -> Option<&'a str> {
        let found = if self.words.is_empty() {
            let object = self.find(result)?;
            let at = |at: &str| object.pointer(at).and_then(Value::as_str);
            // What a person should see goes before the outcome's name.
            let severe = at("/details/severity").and_then(|_| at("/details/message"));
            severe.or_else(|| WORDS.iter().find_map(|words| at(words)))
        } else {
            result?.pointer(self.words).and_then(Value::as_str)
        };
        found.filter(|words| !words.is_empty())
    }

    /// Why it has no score, or stands at 0.0: an error's message.
    pub fn fault<'a>(&self, result: Option<&'a Value>) -> Option<&'a str> {
        self.find(result)?.pointer("/error/message")?.as_str()
    }
}

/// A column of a report: its name, how wide a sheet shows it (characters), and what stands in it.
#[derive(Debug, Clone, Copy)]
pub struct Column(pub &'static str, pub u16, pub Origin);

/// How the status column is called: sheets colour its cells.
pub const STATUS: &str = "Score Status";

/// Where a column's value comes from.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    ItemNo,
    Id,
    /// The first of these fields of the payload that is there.
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
