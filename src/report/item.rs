//! Evaluated item, and access to its result by the rules of its kind. Missing parts of a result are `None`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::job::{FailureClass, Kind, Usage};
use crate::score::about::Component;
use crate::score::sql_metrics::calibration::Confidence;
use crate::score::sql_metrics::safety::SafetyOutcome;
use crate::score::{About, about};
use crate::wire::ItemPart;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Index in the suite, from 0.
    pub item_no: u64,
    pub kind: Kind,
    pub id: Option<String>,
    pub payload: Value,
    pub outcome: Outcome,
    /// 0-1; `None` if any part is missing.
    pub total: Option<f64>,
    /// `None`: unknown.
    pub passed: Option<bool>,
    pub result: Option<Value>,
    pub error: Option<ItemError>,
    pub simulated: bool,
    pub usage: Usage,
    pub job_id: Option<Uuid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Scored,
    /// Some parts are missing: the judge failed or wasn't used (`--no-judge`), or a part couldn't be computed.
    Incomplete,
    /// No score: its agent or job failed, or it was cancelled.
    Failed,
}

impl Outcome {
    /// Returns the outcome of a case with a result: incomplete without a total.
    pub fn from_total(total: Option<f64>) -> Self {
        match total {
            Some(_) => Self::Scored,
            None => Self::Incomplete,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scored => "scored",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemError {
    /// A job's error class, or `agent`, `not_run`, `cancelled`.
    pub class: String,
    pub message: String,
}

/// Status shown in reports: PASS, FAIL, INCOMPLETE; SCORED if the kind has no threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Pass,
    Fail,
    Incomplete,
    Scored,
}

impl Status {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Incomplete => "INCOMPLETE",
            Self::Scored => "SCORED",
        }
    }
}

/// Class of an incomplete item without an error.
pub(super) const INCOMPLETE: &str = "incomplete";
pub(super) const NO_SCORE: &str = "no score";

impl Item {
    pub(super) fn about(&self) -> &'static About {
        about(self.kind)
    }

    pub(super) fn status(&self) -> Status {
        match (self.outcome, self.passed) {
            (Outcome::Incomplete | Outcome::Failed, _) => Status::Incomplete,
            (Outcome::Scored, Some(true)) => Status::Pass,
            (Outcome::Scored, Some(false)) => Status::Fail,
            (Outcome::Scored, None) if self.kind.is_case() => Status::Incomplete,
            (Outcome::Scored, None) => Status::Scored,
        }
    }

    /// Returns the total of a scored item, as used by comparisons.
    pub fn measured(&self) -> Option<f64> {
        self.total
            .filter(|total| self.outcome == Outcome::Scored && total.is_finite())
    }

    /// Returns the judge's entry and model; `None`: no judge, or a session, which stores it elsewhere.
    pub fn judge(&self) -> Option<String> {
        self.about().judge_of(self.result.as_ref()?)
    }

    pub fn reasoning(&self) -> Option<&str> {
        (self.about().reasoning)(self.result.as_ref()?)
    }

    /// Returns whether it has no score because of its judge, rather than its content, its agent or a cancellation.
    pub(super) fn is_judge_error(&self) -> bool {
        // Others, such as `agent` and `cancelled`, are no classes of a job.
        let class = self.error.as_ref().map(|error| error.class.parse());
        let is_judges = class.is_some_and(|class| {
            use FailureClass::{BadInput, Internal, Poison};
            class.is_ok_and(|class| !matches!(class, BadInput | Internal | Poison))
        });
        is_judges && self.status() == Status::Incomplete
    }

    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.payload.get(field).and_then(Value::as_str)
    }

    pub(super) fn safety(&self) -> Option<SafetyOutcome> {
        let flag = |names: [&str; 2]| {
            let mut names = names.into_iter();
            names.find_map(|name| self.payload.get(name).and_then(Value::as_bool))
        };
        let safety_valid = flag(["safety_valid", "safetyValid"])?;
        let should_pass = flag(["should_pass", "shouldPass"])?;
        Some(SafetyOutcome::from_flags(safety_valid, should_pass))
    }

    /// Returns the generator's confidence and the actual score, if both exist.
    pub(super) fn calibration(&self) -> Option<(Confidence, f64)> {
        let level = self.text("confidence")?.parse().ok()?;
        let correctness = self.about().components.first()?;
        Some((level, correctness.score(self.result.as_ref())?))
    }

    /// Returns its name, otherwise the session's id, otherwise its position.
    pub fn name(&self) -> String {
        let id = self.id.as_deref().filter(|id| !id.trim().is_empty());
        let id = id.or_else(|| self.text("session_id"));
        id.map_or_else(|| format!("item {}", self.item_no), str::to_owned)
    }

    pub fn question(&self) -> &str {
        let mut fields = self.about().question.iter();
        fields
            .find_map(|name| self.text(name).filter(|text| !text.trim().is_empty()))
            .unwrap_or_default()
    }

    /// Returns the pass threshold of the total, 0-1, if the kind has one.
    pub fn threshold(&self) -> Option<f64> {
        self.about().threshold_of(self.result.as_ref()?)
    }

    /// Returns why the generated SQL is unreadable, unless a metric reports it.
    pub fn unreadable(&self) -> Option<&str> {
        let why = self.parse_error()?;
        let mut parts = self.about().components.iter();
        let is_said = parts.any(|part| part.fault(self.result.as_ref()) == Some(why));
        (!is_said).then_some(why)
    }

    pub(super) fn parse_error(&self) -> Option<&str> {
        self.about().parse_error_of(self.result.as_ref()?)
    }

    /// Returns the missing components that prevent a score.
    pub fn missing(&self) -> Vec<&'static Component> {
        let result = self.result.as_ref();
        result.map_or_else(Vec::new, |result| self.about().missing_in(result))
    }

    /// Returns class and message of the error that prevents a score.
    pub(super) fn fault(&self) -> (&str, Cow<'_, str>) {
        let missing: Vec<&str> = self.missing().iter().map(|part| part.title).collect();
        match (&self.error, self.outcome) {
            (Some(error), _) => (&error.class, Cow::Borrowed(&error.message)),
            (None, Outcome::Failed) => ("failed", Cow::Borrowed("it has no score")),
            (None, Outcome::Incomplete | Outcome::Scored) if missing.is_empty() => {
                (INCOMPLETE, Cow::Borrowed("it has no score"))
            }
            (None, Outcome::Incomplete | Outcome::Scored) => (
                INCOMPLETE,
                Cow::Owned(format!("missing: {}", missing.join(", "))),
            ),
        }
    }

    pub fn execution_error(&self) -> Option<&str> {
        let field = self.about().execution_error?;
        self.text(field).filter(|error| !error.trim().is_empty())
    }

    /// Formats the total; for sessions it is out of 100.
    pub(super) fn shown_total(&self) -> String {
        let own = match self.kind.is_case() {
            true => self.total,
            false => {
                let score = self.about().components.first();
                score.and_then(|part| part.score(self.result.as_ref()))
            }
        };
        own.map_or_else(|| NO_SCORE.to_owned(), short)
    }

    /// Returns the components of its score in the order of the kind's rules; empty without a result.
    pub fn components(&self) -> impl Iterator<Item = (&'static Component, Option<f64>)> {
        let result = self.result.as_ref();
        let known: &[Component] = match result {
            Some(_) => self.about().components,
            None => &[],
        };
        known.iter().map(move |part| (part, part.score(result)))
    }

    pub fn parts(&self) -> Vec<ItemPart> {
        let words = |part: &Component| part.words(self.result.as_ref()).map(str::to_owned);
        self.components()
            .map(|(part, score)| ItemPart {
                name: part.name.to_owned(),
                title: part.title.to_owned(),
                score,
                words: words(part),
            })
            .collect()
    }

    /// Returns its components: title, formatted score, and the judge's text.
    pub(super) fn breakdown(&self) -> impl Iterator<Item = (&'static str, String, &str)> {
        let result = self.result.as_ref();
        self.components().filter_map(move |(part, score)| {
            let score = score.map_or_else(|| NO_SCORE.to_owned(), short);
            let words = part.words(result).unwrap_or_default();
            (part.is_present(result) || !words.is_empty()).then_some((part.title, score, words))
        })
    }

    pub(super) fn scores(&self) -> String {
        let parts = self.breakdown();
        let parts = parts.map(|(title, score, _)| format!("{title} {score}"));
        parts.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn one_line(&self) -> String {
        let threshold = self.threshold().map_or_else(String::new, |least| {
            format!(" (passes at {})", short(least))
        });
        let total = self.shown_total();
        format!("score {total}{threshold}: {}", self.scores())
    }
}

/// Formats a score with three decimals, without trailing zeros.
pub(super) fn short(score: f64) -> String {
    ((score * 1e3).round() / 1e3).to_string()
}
