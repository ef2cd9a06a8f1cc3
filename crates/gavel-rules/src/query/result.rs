//! A case's score as returned to clients: the `score` object of the original tool, with details.

use serde::Serialize;
use serde_json::{Value, json};

use super::computed::{Computed, Settled};
use super::grading::Grading;
use super::{COMPONENT_WEIGHT, QueryCase};
use crate::JudgedBy;
use crate::opinion::JudgeOpinion;
use query_shape::sql::SqlError;

const SHOWN_NAMES: usize = 100;
/// Maximum size of a complete row in details, bytes of JSON. A longer row is shown as cut text.
const SHOWN_ROW: usize = 4 * 1024;

/// Score of a generated query: four components of a quarter each, three of them computed.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct QueryScore {
    /// The sum of the weighted components, 0-1, unrounded; null while one is missing.
    pub total_score: Option<f64>,
    /// Whether the query executed and the total reaches the threshold.
    pub is_successful: bool,
    /// Pass threshold of the total, 0-1.
    pub threshold: f64,
    /// `incomplete`: the judge's component failed or wasn't run, or a text can't be parsed.
    pub status: QueryStatus,
    /// Missing components: `semantic_similarity`, `llm_grading`. Omitted if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<&'static str>,
    /// Index in `accepted` of the right answer used; null: the expected query.
    pub accepted: Option<usize>,
    /// The four components.
    pub components: QueryComponents,
    /// The judge; null if no judge was needed or the judge failed.
    pub judge: Option<JudgedBy>,
}

/// Whether a score has all its components.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryStatus {
    /// All components are present.
    Complete,
    /// A component is missing.
    Incomplete,
}

/// Components of a query's score.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct QueryComponents {
    /// Share of the expected columns that are present. Details: `matched`, `missing` and `extra` names.
    pub schema_match: QueryComponent,
    /// 0.4 tables + 0.3 filters + 0.3 aggregations. Details: `tables`, `filters`, `aggregations`, `filter_columns` and `filter_literals`,
    /// each with `score`, `matched`, `missing` and `extra`; `approximate` if a KQL query didn't parse. The score is null if SQL doesn't
    /// parse.
    pub semantic_similarity: QueryComponent,
    /// Share of the first 100 expected rows that are among all generated rows. Details: `matched` of `compared`; `matched_in_all`,
    /// `precision`, `recall` and `f1` of all rows; the counts `expected_rows` and `generated_rows`; `ordered`; up to five `missing_rows`
    /// and `extra_rows`; `columns_by_values`, pairs of `expected` and `generated` columns matched by values under another name; `cut_short`
    /// if the search was stopped early.
    pub results_match: QueryComponent,
    /// The judge's grade. Details: `outcome` (graded, identical, failed, not_run) and `reasoning`.
    pub llm_grading: QueryComponent,
}

/// Component of a score.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct QueryComponent {
    /// 0-1; null if missing.
    pub score: Option<f64>,
    /// The score times the weight.
    pub weighted_score: Option<f64>,
    /// Weight in the total.
    pub weight: f64,
    /// Details of the component.
    #[schema(value_type = Object)]
    pub details: Value,
    /// Reason why the score is missing, or 0 regardless of the details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ComponentError>,
}

/// Error of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ComponentError {
    /// `execution_error`, `syntax`, `hidden_tables`, `too_deep`, `too_long`, `not_run`, or the class of the judge's error.
    pub class: String,
    /// Error message.
    pub message: String,
}

impl ComponentError {
    fn new(class: &str, message: &str) -> Self {
        Self {
            class: class.to_owned(),
            message: message.to_owned(),
        }
    }
}

pub(super) fn components(
    case: &QueryCase,
    computed: &Computed,
    grading: &Grading,
) -> QueryComponents {
    QueryComponents {
        schema_match: component(Some(computed.schema.score), schema(computed)),
        semantic_similarity: QueryComponent {
            error: computed.semantic.as_ref().err().map(|unread| {
                let message = match unread.error == SqlError::Empty {
                    true => format!("the {} query is empty", unread.which),
                    false => format!("the {} query: {}", unread.which, unread.error),
                };
                ComponentError::new(unread.error.class(), &message)
            }),
            ..component(computed.semantic_score, semantic(computed))
        },
        results_match: QueryComponent {
            error: case
                .generated_error
                .as_ref()
                .map(|message| ComponentError::new("execution_error", message)),
            ..component(Some(computed.results_score), results(case, computed))
        },
        llm_grading: graded(grading),
    }
}

fn component(score: Option<f64>, details: Value) -> QueryComponent {
    QueryComponent {
        score,
        weighted_score: score.map(|score| score * COMPONENT_WEIGHT),
        weight: COMPONENT_WEIGHT,
        details,
        error: None,
    }
}

fn semantic(computed: &Computed) -> Value {
    let found = computed.semantic.as_ref().ok();
    serde_json::to_value(found).unwrap_or_default()
}

fn schema(computed: &Computed) -> Value {
    let shown = |names: &[String]| -> Vec<String> {
        let names = names.iter().take(SHOWN_NAMES);
        names.map(|name| cut(name).to_owned()).collect()
    };
    json!({
        "matched": shown(&computed.schema.matched),
        "missing": shown(&computed.schema.missing),
        "extra": shown(&computed.schema.extra),
    })
}

fn results(case: &QueryCase, computed: &Computed) -> Value {
    let found = &computed.results;
    let shown = |places: &[usize], rows: &[Value]| -> Vec<Value> {
        let rows = places.iter().filter_map(|at| rows.get(*at));
        rows.map(shown_row).collect()
    };
    let expected = &case.right(computed.accepted).result.rows;
    json!({
        "matched": found.matched,
        "compared": found.compared,
        "matched_in_all": found.matched_in_all,
        "precision": found.precision,
        "recall": found.recall,
        "f1": found.f1,
        "expected_rows": found.expected_rows,
        "generated_rows": found.generated_rows,
        "ordered": computed.ordered,
        "columns_by_values": computed.by_values.iter().take(SHOWN_NAMES).collect::<Vec<_>>(),
        "missing_rows": shown(&found.missing, expected),
        "extra_rows": shown(&found.extra, &case.generated.result.rows),
        "cut_short": found.cut_short,
    })
}

fn shown_row(row: &Value) -> Value {
    let text = row.to_string();
    if text.len() <= SHOWN_ROW {
        row.clone()
    } else {
        Value::String(format!("{}…", cut(&text)))
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_ROW)]
}

fn graded(grading: &Grading) -> QueryComponent {
    let (outcome, reasoning, error) = match grading {
        Grading::Asked(JudgeOpinion::Replied { reasons, .. }) => {
            ("graded", Some(reasons.as_str()), None)
        }
        Grading::Settled(Settled::Nothing) => (
            "no_query",
            Some("No query was generated: no judge was asked"),
            None,
        ),
        Grading::Settled(Settled::Identical) => (
            "identical",
            Some("Queries are identical but for white space and comments: no judge was asked"),
            None,
        ),
        Grading::Asked(JudgeOpinion::Failed(error)) => {
            let error = ComponentError::new(error.class_name(), &error.message);
            ("failed", None, Some(error))
        }
        Grading::Asked(JudgeOpinion::NotRun) => {
            let error = ComponentError::new("not_run", "no judge was asked");
            ("not_run", None, Some(error))
        }
    };
    QueryComponent {
        error,
        ..component(
            grading.score(),
            json!({ "outcome": outcome, "reasoning": reasoning }),
        )
    }
}
