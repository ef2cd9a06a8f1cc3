//! GET `/api/v1/scoring/criteria/diff`: text difference of two versions of the criteria.

use std::time::Duration;

use axum::Json;
use serde_json::{Map, Value};
use similar::TextDiff;

use super::named::{CriteriaPair, NamedCriteria, both};
use crate::api::ApiState;
use crate::api::http::extract::Query;
use crate::api::http::problem::{ApiError, ApiResult};
use crate::memory::blocking;
use crate::wire::{CriteriaDiff, DiffPart};

/// Time limit of computing a diff. After that the diff is correct but may not be minimal.
const DIFF_TIMEOUT: Duration = Duration::from_secs(5);
const CONTEXT_LINES: usize = 3;

/// Returns the text difference of two versions of the criteria.
#[utoipa::path(
    get, path = "/api/v1/scoring/criteria/diff", tag = "criteria",
    params(CriteriaPair),
    responses(
        (status = 200, description = "The parts that differ", body = CriteriaDiff),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn diff_criteria(
    state: ApiState,
    Query(pair): Query<CriteriaPair>,
) -> ApiResult<CriteriaDiff> {
    let (a, b) = both(&state, &pair).await?;
    let contents = (content(&state, &a).await?, content(&state, &b).await?);
    let short = (shortened(&a.hash), shortened(&b.hash));
    let parts = blocking(move || parts(contents, &short)).await;
    Ok(Json(CriteriaDiff {
        a: a.hash,
        b: b.hash,
        parts,
    }))
}

fn shortened(hash: &str) -> String {
    hash.chars().take(12).collect()
}

const PROMPTS: [&str; 2] = ["judge_prompt", "answer_prompt"];

fn parts((a, b): (Value, Value), short: &(String, String)) -> Vec<DiffPart> {
    let text = |value: &Value, name: &str| match value.get(name) {
        Some(Value::String(text)) => format!("{}\n", text.trim_end_matches('\n')),
        Some(other) => format!("{other}\n"),
        None => String::new(),
    };
    let settings = |value: &Value| {
        let mut rest = value.clone();
        if let Value::Object(fields) = &mut rest {
            fields.retain(|name, _| !PROMPTS.contains(&name.as_str()));
        }
        format!("{:#}\n", in_order(rest))
    };
    let mut pairs: Vec<(&str, String, String)> = PROMPTS
        .iter()
        .map(|name| (*name, text(&a, name), text(&b, name)))
        .collect();
    pairs.push(("settings", settings(&a), settings(&b)));
    let differing = pairs.into_iter().filter(|(_, a, b)| a != b);
    differing
        .map(|(part, a, b)| {
            let mut config = TextDiff::configure();
            let diff = config.timeout(DIFF_TIMEOUT).diff_lines(&a, &b);
            let heads = (format!("{} {part}", short.0), format!("{} {part}", short.1));
            let unified = diff
                .unified_diff()
                .context_radius(CONTEXT_LINES)
                .header(&heads.0, &heads.1)
                .to_string();
            DiffPart {
                part: part.to_owned(),
                diff: unified,
            }
        })
        .collect()
}

/// Sorts the keys of all objects, because databases change their order.
fn in_order(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            let fields = fields
                .into_iter()
                .map(|(name, field)| (name, in_order(field)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(in_order).collect()),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

async fn content(state: &ApiState, named: &NamedCriteria) -> Result<Value, ApiError> {
    let current = state.enqueue.current_criteria_of(named.kind);
    if current.hash.0 == named.hash {
        return Ok(current.content.clone());
    }
    let stored = state.store.criteria().content(&named.hash).await?;
    stored.ok_or_else(|| ApiError::CriteriaNotFound(named.hash.clone()))
}
