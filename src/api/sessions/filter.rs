//! Session filters, shared by all routes that select sessions.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::api::criteria::named::{FORMS, is_name};
use crate::api::http::params::Params;
use crate::score::session::Rating;
use crate::store::{SessionFilter, SessionOrder};
use crate::wire::{Scored, SessionStatus};

const MAX_IDS: usize = 500;

/// Query parameters of the list of sessions, for the document.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct SessionQuery {
    /// Part of an alert type, agent or author, or a prefix of an id or `external_id`. Case-insensitive except for `external_id`.
    q: Option<String>,
    status: Option<SessionStatus>,
    /// `yes`: has a score; `no`: has none; `running`: has an active job; `failed`: its newest job failed.
    #[param(pattern = "^(yes|no|running|failed)$")]
    scored: Option<String>,
    /// Rating of the current score.
    rating: Option<Rating>,
    /// Minimum current score, 0-100.
    #[param(maximum = 100)]
    min_score: Option<u8>,
    /// Maximum current score, 0-100.
    #[param(maximum = 100)]
    max_score: Option<u8>,
    /// Criteria of the current score: `current`, `not_current`, 64 hex digits, or a prefix of at least 8.
    criteria: Option<String>,
    /// Tool listed as missing by the current score, in any spelling.
    missing_tool: Option<String>,
    tag: Option<String>,
    /// Exact agent name.
    agent: Option<String>,
    /// Exact alert type.
    alert_type: Option<String>,
    /// `true`: only sessions with a human rating of them or of a score.
    rated: Option<bool>,
    /// Completed (if not completed, created) at or after this time, RFC 3339.
    from: Option<DateTime<Utc>>,
    /// Completed (if not completed, created) before this time, RFC 3339.
    to: Option<DateTime<Utc>>,
    /// Comma-separated ids, at most 500.
    ids: Option<String>,
    /// `newest` (completed or created; default), `lowest_score` or `highest_score`. The last two list only sessions with a score.
    #[param(inline)]
    sort: Option<SessionOrder>,
    /// Page size, 1-500; default 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// Parses the filters of a query. Errors are collected in `params`. A hash may still be a prefix.
pub(crate) fn session_filter(params: &mut Params, current_criteria: &str) -> SessionFilter {
    let ratings = Rating::ALL.iter().map(|rating| (rating.as_str(), *rating));
    let ratings: Vec<_> = ratings.collect();
    let mut filter = SessionFilter {
        q: params.text("q"),
        status: params.take("status"),
        scored: choice(params, "scored", &SCORED),
        rating: choice(params, "rating", &ratings),
        min_score: params.whole("min_score", 0..=100),
        max_score: params.whole("max_score", 0..=100),
        missing_tool: params.text("missing_tool"),
        tag: params.text("tag"),
        agent: params.text("agent"),
        alert_type: params.text("alert_type"),
        rated: params.flag("rated"),
        from: params.time("from"),
        to: params.time("to"),
        ids: ids(params),
        ..SessionFilter::default()
    };
    match params.text("criteria").as_deref() {
        None => {}
        Some("current") => filter.criteria_hash = Some(current_criteria.to_owned()),
        Some("not_current") => filter.criteria_not = Some(current_criteria.to_owned()),
        Some(hash) if is_name(hash) => filter.criteria_hash = Some(hash.to_ascii_lowercase()),
        Some(_) => params.fault("criteria", format!("must be not_current, {FORMS}")),
    }
    let scores = filter.min_score.zip(filter.max_score);
    if scores.is_some_and(|(least, most)| least > most) {
        params.fault("min_score", "must not be more than max_score".to_owned());
    }
    let times = filter.from.zip(filter.to);
    if times.is_some_and(|(from, to)| from > to) {
        params.fault("from", "must not be later than to".to_owned());
    }
    filter
}

const SCORED: [(&str, Scored); 4] = [
    ("yes", Scored::Yes),
    ("no", Scored::No),
    ("running", Scored::Running),
    ("failed", Scored::Failed),
];
fn choice<T: Copy>(params: &mut Params, name: &'static str, known: &[(&str, T)]) -> Option<T> {
    let text = params.text(name)?;
    let found = known.iter().find(|(word, _)| *word == text);
    if found.is_none() {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        params.fault(name, format!("must be one of {}", words.join(", ")));
    }
    found.map(|(_, value)| *value)
}

fn ids(params: &mut Params) -> Vec<Uuid> {
    let Some(text) = params.text("ids") else {
        return Vec::new();
    };
    let ids: Result<Vec<Uuid>, _> = text.split(',').map(|id| id.trim().parse()).collect();
    match ids {
        Ok(ids) if ids.len() <= MAX_IDS => ids,
        Ok(ids) => {
            params.fault("ids", format!("holds {} ids; at most {MAX_IDS}", ids.len()));
            Vec::new()
        }
        Err(error) => {
            params.fault("ids", format!("must be UUIDs separated by commas: {error}"));
            Vec::new()
        }
    }
}
