//! Queries that several routes share, and the text form of queries.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::session_filter::is_criteria;
use crate::{RequestFault, text_enum};

/// Position and size of a page of a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct PageQuery {
    /// Page size; default 50
    #[param(minimum = 1, maximum = 500)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl PageQuery {
    /// Returns the first page with `limit` items.
    pub fn first(limit: u32) -> Self {
        Self {
            limit: Some(limit),
            cursor: None,
        }
    }

    /// Returns the page size, 50 by default.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(50)
    }
}

/// Size of a list without pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct LimitQuery {
    /// Maximum number of items; default 50
    #[param(minimum = 1, maximum = 500)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

impl LimitQuery {
    /// Returns the maximum number of items, 50 by default.
    pub fn limit(self) -> u32 {
        self.limit.unwrap_or(50)
    }
}

text_enum! {
    pub enum SessionOrder {
        /// By completion (else creation), newest first.
        Newest = "newest",
        /// By current score, lowest first; sessions without one aren't listed.
        LowestScore = "lowest_score",
        /// By current score, highest first; sessions without one aren't listed.
        HighestScore = "highest_score",
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct SessionSort {
    /// `newest` (completed or created; default), `lowest_score` or `highest_score`. The last two list only sessions with a score
    #[param(inline)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<SessionOrder>,
}

/// Selection of scores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct ScoreSelection {
    /// Criteria of the scores: `any`, `current`, 64 hex digits, or a prefix of at least 8
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria: Option<String>,
    /// Only sessions completed (if not completed, created) at or after this time, RFC 3339
    #[serde(
        deserialize_with = "crate::time::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub from: Option<DateTime<Utc>>,
    /// Only sessions completed (if not completed, created) before this time, RFC 3339
    #[serde(
        deserialize_with = "crate::time::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub to: Option<DateTime<Utc>>,
}

impl ScoreSelection {
    /// Checks the values.
    pub fn faults(&self) -> Vec<RequestFault> {
        let mut faults = Vec::new();
        let is_known = |text: &str| text != "not_current" && is_criteria(text);
        if !self.criteria.as_deref().is_none_or(is_known) {
            faults.push(RequestFault::new("criteria", CRITERIA_FORMS));
        }
        let times = self.from.zip(self.to);
        if times.is_some_and(|(from, to)| from >= to) {
            faults.push(RequestFault::new("from", "is not before to"));
        }
        faults
    }
}

const CRITERIA_FORMS: &str =
    "must be any, current, or a hash of 64 hex digits, at least its first 8";

/// Returns the parameters of a query as text. Lists are joined by commas.
pub fn pairs(query: &impl Serialize) -> Vec<(String, String)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(query) else {
        return Vec::new();
    };
    let text = |value: Value| match &value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items = items.iter().map(|item| item.as_str().unwrap_or_default());
            items.collect::<Vec<_>>().join(",")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    };
    let fields = fields.into_iter();
    fields.map(|(name, value)| (name, text(value))).collect()
}
