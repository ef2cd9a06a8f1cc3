//! The kinds' results as reports read them, by what each kind says of itself. Whatever a result lacks is simply not there.

use std::borrow::Cow;

use serde_json::Value;

use super::{Item, Outcome};
use crate::job::FailureClass;
use crate::score::about;
use crate::score::sql_metrics::calibration::Confidence;
use crate::score::sql_metrics::safety::SafetyOutcome;

/// The judge's own words on an item.
pub(super) fn reasoning(item: &Item) -> Option<&str> {
    (about(item.kind).reasoning)(item.result.as_ref()?)
}

/// What a report's reader sees of the whole: PASS, FAIL, INCOMPLETE; SCORED where the kind has nothing to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Pass,
    Fail,
    Incomplete,
    Scored,
}

impl Status {
    pub(super) fn of(item: &Item) -> Self {
        match (item.outcome, item.passed) {
            (Outcome::Incomplete | Outcome::Failed, _) => Self::Incomplete,
            (Outcome::Scored, Some(true)) => Self::Pass,
            (Outcome::Scored, Some(false)) => Self::Fail,
            (Outcome::Scored, None) if item.kind.is_case() => Self::Incomplete,
            (Outcome::Scored, None) => Self::Scored,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Incomplete => "INCOMPLETE",
            Self::Scored => "SCORED",
        }
    }
}

/// Who judged an item: the judge's entry and the model that answered; `None`: nobody.
pub(super) fn judge(item: &Item) -> Option<String> {
    let judge = item.result.as_ref()?.pointer(about(item.kind).judge?)?;
    let entry = text(judge, "provider")?;
    Some(match text(judge, "model") {
        Some(model) => format!("{entry} ({model})"),
        None => entry.to_owned(),
    })
}

/// Whether an item has no score because of its judge, not of itself, its agent or whoever cancelled it.
pub(super) fn is_judge_error(item: &Item) -> bool {
    let Some(error) = item.error.as_ref() else {
        return false;
    };
    let is_judges = match error.class.parse::<FailureClass>() {
        Ok(
            FailureClass::Transient
            | FailureClass::Throttled
            | FailureClass::Exhausted
            | FailureClass::Misconfigured
            | FailureClass::Capability
            | FailureClass::TooLarge
            | FailureClass::Truncated
            | FailureClass::Refused
            | FailureClass::Rejected
            | FailureClass::Unparsable
            | FailureClass::WaitExpired,
        ) => true,
        Ok(FailureClass::BadInput | FailureClass::Internal | FailureClass::Poison) => false,
        // `agent`, `cancelled`, `not_run` and what later versions add.
        Err(_) => false,
    };
    is_judges && Status::of(item) == Status::Incomplete
}

/// The text of a field of the payload.
pub(super) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

/// What a validator's word on the case amounts to, where the case has one.
pub(super) fn safety(item: &Item) -> Option<SafetyOutcome> {
    let flag = |names: [&str; 2]| {
        names
            .into_iter()
            .find_map(|name| item.payload.get(name).and_then(Value::as_bool))
    };
    let safety_valid = flag(["safety_valid", "safetyValid"])?;
    let should_pass = flag(["should_pass", "shouldPass"])?;
    Some(SafetyOutcome::of(safety_valid, should_pass))
}

/// A validator's word as reports call it.
pub(super) fn safety_name(outcome: SafetyOutcome) -> &'static str {
    match outcome {
        SafetyOutcome::TrueNegative => "true negative",
        SafetyOutcome::TruePositive => "true positive",
        SafetyOutcome::FalsePositive => "false positive",
        SafetyOutcome::FalseNegative => "false negative",
    }
}

/// How sure the generator said it was, and how right it was, where both are known.
pub(super) fn calibration(item: &Item) -> Option<(Confidence, f64)> {
    let level = text(&item.payload, "confidence")?.parse().ok()?;
    let correctness = about(item.kind).components.first()?;
    Some((level, correctness.score(item.result.as_ref())?))
}

/// The name that an item is shown by: its own, else a session's id, else its place.
pub(super) fn name(item: &Item) -> String {
    let id = item.id.as_deref().filter(|id| !id.trim().is_empty());
    let id = id.or_else(|| text(&item.payload, "session_id"));
    id.map_or_else(|| format!("item {}", item.item_no), str::to_owned)
}

/// What was asked for, in the words of who asked.
pub(super) fn question(item: &Item) -> &str {
    let fields = about(item.kind).question;
    fields
        .iter()
        .find_map(|name| text(&item.payload, name).filter(|text| !text.trim().is_empty()))
        .unwrap_or_default()
}

/// What the total is held against, where the kind has that.
pub(super) fn threshold(item: &Item) -> Option<f64> {
    item.result.as_ref()?.get("threshold")?.as_f64()
}

/// Why the generated SQL can't be read, where no metric says so itself.
pub(super) fn unreadable(item: &Item) -> Option<&str> {
    let why = parse_error(item)?;
    let is_told = about(item.kind)
        .components
        .iter()
        .any(|part| part.fault(item.result.as_ref()) == Some(why));
    (!is_told).then_some(why)
}

/// Why the generated SQL can't be read: the case is a miss, whatever its metrics say.
pub(super) fn parse_error(item: &Item) -> Option<&str> {
    text(item.result.as_ref()?, "parse_error")
}

/// The parts that an incomplete item lacks, as its body says.
pub(super) fn missing(item: &Item) -> impl Iterator<Item = &'static crate::score::Component> {
    let named = item
        .result
        .as_ref()
        .and_then(|body| body.get("missing")?.as_array());
    let components = about(item.kind).components.iter();
    components
        .filter(move |part| named.is_some_and(|named| named.iter().any(|name| *name == part.name)))
}

/// The class and the words of what keeps an item from a score.
pub(super) fn fault(item: &Item) -> (&str, Cow<'_, str>) {
    let missing: Vec<&str> = missing(item).map(|part| part.title).collect();
    match (&item.error, item.outcome) {
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

/// Why what was generated could not be executed.
pub(super) fn execution_error(item: &Item) -> Option<&str> {
    let field = about(item.kind).execution_error?;
    text(&item.payload, field).filter(|error| !error.trim().is_empty())
}

/// How many rows the generated query gave.
pub(super) fn rows(item: &Item) -> Option<usize> {
    Some(item.payload.get("generated_results")?.as_array()?.len())
}

/// The class of what is incomplete without an error of its own.
pub(super) const INCOMPLETE: &str = "incomplete";

/// What stands where a score would.
pub(super) const NO_SCORE: &str = "no score";

/// A score for people: three digits after the point, no zeros at the end.
pub(super) fn short(score: f64) -> String {
    ((score * 1e3).round() / 1e3).to_string()
}

/// The total for people: a session's is of 100.
pub(super) fn total(item: &Item) -> String {
    let own = match item.kind.is_case() {
        true => item.total,
        false => {
            let score = about(item.kind).components.first();
            score.and_then(|part| part.score(item.result.as_ref()))
        }
    };
    own.map_or_else(|| NO_SCORE.to_owned(), short)
}

/// The components that an item has: title, score for people, and what was said of it.
pub(super) fn breakdown(item: &Item) -> impl Iterator<Item = (&'static str, String, &str)> {
    let result = item.result.as_ref();
    about(item.kind).components.iter().filter_map(move |part| {
        let score = part.score(result);
        let score = score.map_or_else(|| NO_SCORE.to_owned(), short);
        let words = part.words(result).unwrap_or_default();
        (part.is_present(result) || !words.is_empty()).then_some((part.title, score, words))
    })
}

/// The total and its components in one line.
pub(super) fn one_line(item: &Item) -> String {
    let parts: Vec<String> = breakdown(item)
        .map(|(title, score, _)| format!("{title} {score}"))
        .collect();
    let threshold = threshold(item).map_or_else(String::new, |least| {
        format!(" (passes at {})", short(least))
    });
    format!("score {}{threshold}: {}", total(item), parts.join(", "))
}
