//! Trend of scores, separate for each version of the criteria.

use std::collections::BTreeMap;

use axum::Json;
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use serde::Deserialize;

use super::{Counted, filter};
use crate::api::ApiState;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::score::analysis::Histogram;
use crate::store::{By, ScoreFilter};
use crate::wire::{Period, ScoreSelection, Trend, TrendItem};

/// Default number of periods, including the current one.
const PERIODS: u32 = 30;
const MOST_DAYS: i64 = 3_660;

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct TrendQuery {
    /// Length of a period; default day
    pub(crate) every: Option<Period>,
}

impl QueryPart for TrendQuery {}

/// Returns the trend of current scores, by session time and by criteria. Default: the last 30 periods. If they have no
/// scores, a warning explains how to query earlier ones.
#[utoipa::path(
    get, path = "/api/v1/analytics/trend", tag = "analytics",
    params(ScoreSelection, TrendQuery),
    responses(
        (status = 200, description = "The trend", body = Trend),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn trend(
    state: ApiState,
    Query((selection, query)): Query<(ScoreSelection, TrendQuery)>,
) -> ApiResult<Trend> {
    let every = query.every.unwrap_or(Period::Day);
    let (given, to) = (selection.from, selection.to);
    let end = to.unwrap_or_else(|| state.clock.now());
    let first = every.back(end.date_naive(), PERIODS - 1);
    let from = given.unwrap_or_else(|| first.and_time(NaiveTime::MIN).and_utc());
    let days = (end - from).num_days();
    if days > MOST_DAYS {
        let message = format!("is {days} days back; the maximum is {MOST_DAYS}");
        return Err(ApiError::fault("/from", message));
    }
    let filter = ScoreFilter {
        from: Some(from),
        ..filter(&state, selection, None).await?
    };
    let by = match every {
        Period::Day | Period::Week => By::Day,
        Period::Month => By::Month,
    };
    let totals = state
        .store
        .analytics()
        .totals_over_time(&filter, by)
        .await?;
    let counted = Counted::from_totals(&totals);
    let mut lines: BTreeMap<(NaiveDate, &str), Histogram> = BTreeMap::new();
    for count in totals
        .iter()
        .filter(|count| count.made_by == counted.made_by)
    {
        if let Some(day) = count.day {
            let line = (every.begin(day), count.criteria_hash.as_str());
            lines
                .entry(line)
                .or_default()
                .add(count.total, count.scores);
        }
    }
    let current = state.enqueue.current_criteria();
    let current = current.hash.0.as_str();
    let item = |((period, criteria_hash), histogram): ((NaiveDate, &str), Histogram)| TrendItem {
        period,
        is_current: criteria_hash == current,
        criteria_hash: criteria_hash.to_owned(),
        scores: histogram.scores(),
        mean: histogram.mean(),
        median: histogram.median(),
    };
    Ok(Json(Trend {
        every,
        from,
        to,
        items: lines.into_iter().map(item).collect(),
        scores: counted.scores,
        simulated: counted.is_simulated(),
        warnings: match (counted.scores, given) {
            (0, None) => vec![no_recent_scores(every, to)],
            (0, Some(_)) | (1.., _) => counted.warnings(),
        },
        next_cursor: None,
    }))
}

/// Returns the warning for a default range without scores, with a query for earlier ones.
fn no_recent_scores(every: Period, to: Option<DateTime<Utc>>) -> String {
    let every = every.as_str();
    let looked_at = match to {
        None => format!("the last {PERIODS} {every}s"),
        Some(_) => format!("the {PERIODS} {every}s up to then"),
    };
    format!(
        "no session of {looked_at} has a score: for older sessions set a start time (from, or --days on the \
         command line), or longer periods (every)"
    )
}
