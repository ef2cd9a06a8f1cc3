//! The kinds' bodies as reports read them: which components there are, what each is worth, what was said of it. Whatever a body lacks is
//! simply not there.

use std::borrow::Cow;

use serde_json::Value;

use super::{Item, Outcome};
use crate::job::{FailureClass, Kind};
use crate::score::sql_metrics::calibration::Confidence;
use crate::score::sql_metrics::safety::SafetyOutcome;

/// A part of a kind's score.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Component {
    /// Its name in bodies.
    pub(super) name: &'static str,
    /// Its name in a report's text.
    pub(super) title: &'static str,
    /// Its column.
    pub(super) column: &'static str,
    /// Where its object stands, or the score itself.
    at: &'static str,
    /// Where its words stand; empty: within its object.
    words: &'static str,
}

const QUERY: &[Component] = &[
    part(
        "schema_match",
        "Schema",
        "Schema Match Score",
        "/components/schema_match",
    ),
    part(
        "semantic_similarity",
        "Semantic",
        "Semantic Similarity Score",
        "/components/semantic_similarity",
    ),
    part(
        "results_match",
        "Results",
        "Results Match Score",
        "/components/results_match",
    ),
    part(
        "llm_grading",
        "LLM",
        "LLM Grading Score",
        "/components/llm_grading",
    ),
];
const QAS: &[Component] = &[
    Component {
        words: "/breakdown/semantic_explanation",
        ..part("semantic", "Semantic", "Semantic Score", "/semantic_score")
    },
    Component {
        words: "/breakdown/execution_explanation",
        ..part(
            "execution",
            "Execution",
            "Execution Score",
            "/execution_score",
        )
    },
    Component {
        words: "/breakdown/datatype_explanation",
        ..part("datatype", "Datatype", "Datatype Score", "/datatype_score")
    },
];
const SQL_METRICS: &[Component] = &[
    part(
        "query_correctness",
        "Correctness",
        "Query Correctness Score",
        "/metrics/query_correctness",
    ),
    part(
        "table_accuracy",
        "Tables",
        "Table Accuracy Score",
        "/metrics/table_accuracy",
    ),
    part(
        "safety_validation",
        "Safety",
        "Safety Validation Score",
        "/metrics/safety_validation",
    ),
    part(
        "validation_accuracy",
        "Validation",
        "Validation Accuracy Score",
        "/metrics/validation_accuracy",
    ),
];
const SESSION: &[Component] = &[part(
    "total_score",
    "Score of 100",
    "Session Score",
    "/total_score",
)];

const fn part(
    name: &'static str,
    title: &'static str,
    column: &'static str,
    at: &'static str,
) -> Component {
    Component {
        name,
        title,
        column,
        at,
        words: "",
    }
}

/// The components of a kind, in the order of its rules. A session's is its score from 0 to 100, all others go from 0 to 1.
pub(super) fn components(kind: Kind) -> &'static [Component] {
    match kind {
        Kind::Query => QUERY,
        Kind::Qas => QAS,
        Kind::SqlMetrics => SQL_METRICS,
        Kind::Session => SESSION,
    }
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
    fn of<'a>(&self, item: &'a Item) -> Option<&'a Value> {
        item.result.as_ref()?.pointer(self.at)
    }

    /// What it is worth, for people and for means; none where it is absent, wasn't run or failed, whose 0.0 in a body stands for an error.
    /// Of a query whose execution failed the score is a real 0, which its total holds too.
    pub(super) fn score(&self, item: &Item) -> Option<f64> {
        let found = self.of(item)?;
        let score = found.as_f64().or_else(|| found.get("score")?.as_f64());
        let is_real = item.kind == Kind::Query || !self.is_error(item);
        score.filter(|score| is_real && score.is_finite())
    }

    /// Whether the body has it, be it without a score.
    pub(super) fn is_there(&self, item: &Item) -> bool {
        self.of(item).is_some()
    }

    /// Whether it couldn't be computed, or its judge failed.
    fn is_error(&self, item: &Item) -> bool {
        let error = self.of(item).and_then(|found| found.get("error"));
        error.is_some_and(|error| !error.is_null())
    }

    /// What was said of it.
    pub(super) fn words<'a>(&self, item: &'a Item) -> Option<&'a str> {
        let body = item.result.as_ref()?;
        let found = if self.words.is_empty() {
            let object = body.pointer(self.at)?;
            // What a person should see goes before the outcome's name.
            let severe = text(object.get("details").unwrap_or(&Value::Null), "severity");
            let alert = severe.and_then(|_| object.pointer("/details/message"));
            let words = || {
                WORDS
                    .iter()
                    .find_map(|at| object.pointer(at).and_then(Value::as_str))
            };
            alert.and_then(Value::as_str).or_else(words)
        } else {
            body.pointer(self.words).and_then(Value::as_str)
        };
        found.filter(|words| !words.is_empty())
    }

    /// Why it has no score, or stands at 0.0: an error's message.
    pub(super) fn fault<'a>(&self, item: &'a Item) -> Option<&'a str> {
        self.of(item)?.pointer("/error/message")?.as_str()
    }
}

/// The judge's own words on an item.
pub(super) fn reasoning(item: &Item) -> Option<&str> {
    let judged = match item.kind {
        Kind::Query => QUERY.last(),
        Kind::Qas => QAS.first(),
        Kind::SqlMetrics => SQL_METRICS.first(),
        Kind::Session => {
            let body = item.result.as_ref()?;
            return text(body, "score_reasoning");
        }
    };
    judged?.words(item)
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
            (Outcome::Scored, None) => match item.kind {
                Kind::Session => Self::Scored,
                Kind::Query | Kind::Qas | Kind::SqlMetrics => Self::Incomplete,
            },
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
    let at = match item.kind {
        Kind::Query | Kind::Qas => "/judge",
        Kind::SqlMetrics => "/metrics/query_correctness/details/judge",
        // A session's judge stands with its score.
        Kind::Session => return None,
    };
    let judge = item.result.as_ref()?.pointer(at)?;
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
    if item.kind != Kind::SqlMetrics {
        return None;
    }
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
    if item.kind != Kind::SqlMetrics {
        return None;
    }
    let level = text(&item.payload, "confidence")?.parse().ok()?;
    Some((level, SQL_METRICS.first()?.score(item)?))
}

/// The name that an item is shown by: its own, else a session's id, else its place.
pub(super) fn name(item: &Item) -> String {
    let id = item.id.as_deref().filter(|id| !id.trim().is_empty());
    let id = id.or_else(|| text(&item.payload, "session_id"));
    id.map_or_else(|| format!("item {}", item.item_no), str::to_owned)
}

/// What was asked for, in the words of who asked.
pub(super) fn question(item: &Item) -> &str {
    let fields: &[&str] = match item.kind {
        Kind::Query => &["prompt", "generated_kql"],
        Kind::Qas => &["question"],
        Kind::SqlMetrics => &["generated_sql", "generatedSql"],
        Kind::Session => &["session_id"],
    };
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
    let is_told = components(item.kind)
        .iter()
        .any(|part| part.fault(item) == Some(why));
    (!is_told).then_some(why)
}

/// Why the generated SQL can't be read: the case is a miss, whatever its metrics say.
pub(super) fn parse_error(item: &Item) -> Option<&str> {
    text(item.result.as_ref()?, "parse_error")
}

/// The parts that an incomplete item lacks, as its body says.
pub(super) fn missing(item: &Item) -> impl Iterator<Item = &'static Component> {
    let named = item
        .result
        .as_ref()
        .and_then(|body| body.get("missing")?.as_array());
    components(item.kind)
        .iter()
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
    let field = match item.kind {
        Kind::Query => "generated_error",
        Kind::Qas => "error",
        Kind::SqlMetrics | Kind::Session => return None,
    };
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
    let own = match item.kind {
        Kind::Session => SESSION.first().and_then(|part| part.score(item)),
        Kind::Query | Kind::Qas | Kind::SqlMetrics => item.total,
    };
    own.map_or_else(|| NO_SCORE.to_owned(), short)
}

/// The components that an item has: title, score for people, and what was said of it.
pub(super) fn breakdown(item: &Item) -> impl Iterator<Item = (&'static str, String, &str)> {
    components(item.kind).iter().filter_map(|part| {
        let found = part.of(item)?;
        let score = part.score(item);
        let score = score.map_or_else(|| NO_SCORE.to_owned(), short);
        let words = part.words(item).unwrap_or_default();
        (!found.is_null() || !words.is_empty()).then_some((part.title, score, words))
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
