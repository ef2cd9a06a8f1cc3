//! Filter of sessions: a query of lists and exports, part of a rescore's body, and flags of commands. A new filter is a field
//! here and a condition in the store.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Rating, RequestFault, Scored, SessionStatus};

const MAX_IDS: usize = 100_000;
const CRITERIA_FORMS: &str =
    "must be any, current, not_current, or a hash of 64 hex digits, at least its first 8";

/// Filter of sessions, combined by AND. Empty: all sessions.
#[derive(
    Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, utoipa::IntoParams,
)]
#[into_params(parameter_in = Query)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct SessionFilter {
    /// Part of an alert type, agent or author, or start of an id or an external id. Case-insensitive except for external ids
    #[cfg_attr(feature = "clap", arg(long = "search", value_name = "TEXT"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Status of the session
    #[cfg_attr(feature = "clap", arg(long, value_name = "STATUS", value_parser = crate::choice::<SessionStatus>(SessionStatus::ALL.iter().map(|it| it.as_str()))))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SessionStatus>,
    /// By score: yes (has one), no (has none), running (has an active job) or failed (its newest job failed, even if there is an
    /// older score)
    #[cfg_attr(feature = "clap", arg(long, value_name = "SCORED", value_parser = crate::choice::<Scored>(Scored::ALL.iter().map(|it| it.as_str()))))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scored: Option<Scored>,
    /// Rating of the current score
    #[cfg_attr(feature = "clap", arg(long, value_name = "RATING", value_parser = crate::choice::<Rating>(Rating::ALL.iter().map(|it| it.as_str()))))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating: Option<Rating>,
    /// Minimum current score, 0-100
    #[param(maximum = 100)]
    #[schema(maximum = 100)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_score: Option<u8>,
    /// Maximum current score, 0-100
    #[param(maximum = 100)]
    #[schema(maximum = 100)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_score: Option<u8>,
    /// Criteria of the current score: any (default), current, not_current, 64 hex digits, or a prefix of at least 8
    #[param(pattern = "^([0-9A-Fa-f]{8,64}|any|current|not_current)$")]
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|any|current|not_current)$")]
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria: Option<String>,
    /// The current score has other criteria than these: current, 64 hex digits, or a prefix of at least 8
    #[param(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria_not: Option<String>,
    /// Tool listed as missing by the current score, in any spelling
    #[cfg_attr(feature = "clap", arg(long, value_name = "TOOL"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_tool: Option<String>,
    /// Tag of the session
    #[cfg_attr(feature = "clap", arg(long, value_name = "TAG"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Exact name of the agent
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Exact alert type
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_type: Option<String>,
    /// Only sessions with a human rating of them or of one of their scores
    #[cfg_attr(feature = "clap", arg(long))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rated: bool,
    /// Completed (if not completed, created) at or after: a time (RFC 3339) or a date
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::time::of_flag))]
    #[serde(
        deserialize_with = "crate::time::or_date",
        skip_serializing_if = "Option::is_none"
    )]
    pub from: Option<DateTime<Utc>>,
    /// Completed (if not completed, created) before: a time (RFC 3339) or a date
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::time::of_flag))]
    #[serde(
        deserialize_with = "crate::time::or_date",
        skip_serializing_if = "Option::is_none"
    )]
    pub to: Option<DateTime<Utc>>,
    /// Ids of sessions, 1-100,000, separated by commas in a query. Ids without a stored session are ignored
    #[param(style = Form, explode = false, min_items = 1, max_items = 100_000)]
    #[schema(min_items = 1, max_items = 100_000)]
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(
        deserialize_with = "at_least_one",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub ids: Vec<Uuid>,
}

/// Rejects an empty list, which would select all sessions.
fn at_least_one<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Uuid>, D::Error> {
    match Option::<Vec<Uuid>>::deserialize(deserializer)? {
        Some(ids) if ids.is_empty() => Err(serde::de::Error::custom(
            "names no session: name at least one, or omit it to select by the other filters",
        )),
        ids => Ok(ids.unwrap_or_default()),
    }
}

impl SessionFilter {
    /// Checks the values. Pointers are relative to the filter.
    pub fn faults(&self) -> Vec<RequestFault> {
        let mut faults = Vec::new();
        let mut check = |fits: bool, name: &str, message: &str| {
            if !fits {
                faults.push(RequestFault::new(name, message));
            }
        };
        for (name, text) in [
            ("q", &self.q),
            ("missing_tool", &self.missing_tool),
            ("tag", &self.tag),
            ("agent", &self.agent),
            ("alert_type", &self.alert_type),
        ] {
            let text = text.as_deref();
            check(text != Some(""), name, "is empty: omit it");
            let has_controls = text.is_some_and(|text| text.chars().any(char::is_control));
            check(!has_controls, name, "contains control characters");
        }
        for (name, score) in [("min_score", self.min_score), ("max_score", self.max_score)] {
            check(score <= Some(100), name, "must be 0-100");
        }
        for (name, criteria) in [
            ("criteria", &self.criteria),
            ("criteria_not", &self.criteria_not),
        ] {
            let fits = criteria.as_deref().is_none_or(is_criteria);
            check(fits, name, CRITERIA_FORMS);
        }
        let not_current = self.criteria.as_deref() == Some("not_current");
        let is_single = !not_current || self.criteria_not.is_none();
        check(
            is_single,
            "criteria_not",
            "is not for criteria not_current: omit one of them",
        );
        let scores = self.min_score.zip(self.max_score);
        let ordered = scores.is_none_or(|(least, most)| least <= most);
        check(ordered, "min_score", "must not be more than max_score");
        let times = self.from.zip(self.to);
        let ordered = times.is_none_or(|(from, to)| from <= to);
        check(ordered, "from", "must not be later than to");
        let count = self.ids.len();
        let message = format!("contains {count} ids; at most {MAX_IDS}");
        check(count <= MAX_IDS, "ids", &message);
        faults
    }
}

pub(crate) fn is_criteria(text: &str) -> bool {
    let is_hash = (8..=64).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit());
    is_hash || matches!(text, "any" | "current" | "not_current")
}
