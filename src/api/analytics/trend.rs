//! Trend of scores, separate for each version of the criteria.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Counted, Selection, Unnamed, selection};
use crate::api::ApiState;
use crate::api::http::params::Params;
use crate::api::http::problem::ApiError;
use crate::score::analysis::Histogram;
use crate::store::{By, ScoreFilter};
use crate::wire::{Period, Trend, TrendItem};

/// Default number of periods, including the current one.
const PERIODS: u32 = 30;
const MOST_DAYS: i64 = 3_660;

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(trend))
}

/// Returns the trend of current scores, by session time and by criteria. Default: the last 30 periods. If they have no
/// scores, a warning explains how to query earlier ones.
#[utoipa::path(
    get, path = "/api/v1/analytics/trend", tag = "analytics",
    params(Selection, ("every" = Option<Period>, Query, description = "Length of a period; default day")),
    responses(
        (status = 200, description = "The trend", body = Trend),
        (status = 404, description = "criteria-not-found"),
    ),
)]
async fn trend(State(state): State<ApiState>, params: Params) -> Result<Json<Trend>, ApiError> {
    Ok(Json(read(&state, params).await?))
}

pub(crate) async fn read(state: &ApiState, mut params: Params) -> Result<Trend, ApiError> {
    let every = params.take::<Period>("every").unwrap_or(Period::Day);
    let chosen = selection(&mut params, Unnamed::Any);
    let to = chosen.to;
    let end = to.unwrap_or_else(|| state.clock.now());
    let first = every.back(end.date_naive(), PERIODS - 1);
    let given = chosen.from;
    let from = given.unwrap_or_else(|| first.and_time(NaiveTime::MIN).and_utc());
    let days = (end - from).num_days();
    if days > MOST_DAYS {
        params.fault(
            "from",
            format!("is {days} days back; the maximum is {MOST_DAYS}"),
        );
    }
    params.finish()?;
    let filter = ScoreFilter {
        from: Some(from),
        ..chosen.filter(state).await?
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
    Ok(Trend {
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
    })
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
