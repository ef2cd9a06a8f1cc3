//! Costs of judge calls by day, judge, model or suite, for known prices.

use axum::Json;
use axum::extract::State;
use chrono::{Days, NaiveDate, NaiveTime};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::ApiState;
use crate::api::http::params::Params;
use crate::api::http::problem::ApiError;
use crate::store::UsageSum;
use crate::wire::{BatchCostList, CostFigures, CostItem, CostList, UsageBy};

/// Default number of days.
const DAYS: u64 = 30;
const MOST_DAYS: i64 = 3_660;
const MOST_BATCHES: u32 = 10_000;

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(costs))
        .routes(routes!(batch_costs))
}

impl From<&UsageSum> for CostFigures {
    fn from(sum: &UsageSum) -> Self {
        Self {
            calls: sum.calls,
            failed_calls: sum.failed_calls,
            tokens_in: sum.tokens_in,
            tokens_in_cached: sum.tokens_in_cached,
            tokens_out: sum.tokens_out,
            cost_usd: sum.known_cost_usd(),
            unpriced_calls: sum.unpriced_calls,
        }
    }
}

/// Sums up the costs of judge calls by day, judge or model.
///
/// A call, including retries and repairs, counts on the UTC day of sending. Cached replies are no calls. The sums
/// remain after the calls' rows are deleted. Calls of simulated judges have no price and count as unpriced.
#[utoipa::path(
    get, path = "/api/v1/analytics/costs", tag = "analytics",
    params(
        ("by" = Option<UsageBy>, Query, description = "Grouping of the lines; default day"),
        ("from" = Option<NaiveDate>, Query, description = "First day of UTC, YYYY-MM-DD; default: 30 days up to `to`"),
        ("to" = Option<NaiveDate>, Query, description = "Last day of UTC, included; default today"),
    ),
    responses(
        (status = 200, description = "The bill", body = CostList),
    ),
)]
async fn costs(State(state): State<ApiState>, params: Params) -> Result<Json<CostList>, ApiError> {
    Ok(Json(read(&state, params).await?))
}

pub(crate) async fn read(state: &ApiState, mut params: Params) -> Result<CostList, ApiError> {
    let by = params.take::<UsageBy>("by").unwrap_or(UsageBy::Day);
    let (from, to) = days(state, &mut params);
    params.finish()?;
    let sums = state.store.budgets().usage(from, to, by).await?;
    let mut total = UsageSum::default();
    for sum in &sums {
        total.add(sum);
    }
    let item = |sum: UsageSum| CostItem {
        figures: CostFigures::from(&sum),
        day: sum.day,
        judge: sum.judge,
        model: sum.model,
    };
    Ok(CostList {
        by,
        from,
        to,
        items: sums.into_iter().map(item).collect(),
        total: CostFigures::from(&total),
        next_cursor: None,
    })
}

/// Sums up the costs of batches by name, so that a nightly suite is one row.
///
/// All costs of a batch, including retries, count on the UTC day of its request. Batches without a name are one row per
/// kind. Runs of simulated judges have no price and count as unpriced.
#[utoipa::path(
    get, path = "/api/v1/analytics/costs/batches", tag = "analytics",
    params(
        ("from" = Option<NaiveDate>, Query, description = "First day of UTC, YYYY-MM-DD; default: 30 days up to `to`"),
        ("to" = Option<NaiveDate>, Query, description = "Last day of UTC, included; default today"),
        ("limit" = Option<u32>, Query, description = "How many lines, 1-500; default 50", minimum = 1, maximum = 500),
    ),
    responses(
        (status = 200, description = "Costs of judge calls", body = BatchCostList),
    ),
)]
async fn batch_costs(
    State(state): State<ApiState>,
    params: Params,
) -> Result<Json<BatchCostList>, ApiError> {
    Ok(Json(of_batches(&state, params).await?))
}

pub(crate) async fn of_batches(
    state: &ApiState,
    mut params: Params,
) -> Result<BatchCostList, ApiError> {
    let (from, to) = days(state, &mut params);
    let limit = params.limit();
    params.finish()?;
    let after = to.checked_add_days(Days::new(1)).unwrap_or(to);
    let midnight = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc();
    let time = (midnight(from), midnight(after));
    let found = state
        .store
        .batches()
        .count_between(time, MOST_BATCHES + 1)
        .await?;
    let costs = state
        .store
        .batches()
        .costs(time, MOST_BATCHES, limit + 1)
        .await?;
    let mut warnings = Vec::new();
    if found > i64::from(MOST_BATCHES) {
        warnings.push(format!(
            "only the newest {MOST_BATCHES} batches of these days are counted; name fewer days"
        ));
    }
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    if costs.len() > shown {
        warnings.push(format!("only the {limit} most expensive names are listed"));
    }
    let items = costs.into_iter().take(shown);
    Ok(BatchCostList {
        from,
        to,
        items: items.collect(),
        batches: found.min(i64::from(MOST_BATCHES)),
        warnings,
        next_cursor: None,
    })
}

/// Returns the first and last day of the query, both inclusive. Errors are collected in `params`.
pub(crate) fn days(state: &ApiState, params: &mut Params) -> (NaiveDate, NaiveDate) {
    let (from, to) = (day(params, "from"), day(params, "to"));
    let to = to.unwrap_or_else(|| state.clock.now().date_naive());
    let from = from.unwrap_or_else(|| to.checked_sub_days(Days::new(DAYS - 1)).unwrap_or(to));
    let days = (to - from).num_days();
    if days < 0 {
        params.fault("from", format!("{from} is after to, {to}"));
    } else if days >= MOST_DAYS {
        let fault = format!("is {days} days before to; at most {MOST_DAYS} are summed up at once");
        params.fault("from", fault);
    }
    (from, to)
}

fn day(params: &mut Params, name: &'static str) -> Option<NaiveDate> {
    let text = params.text(name)?;
    let day = NaiveDate::parse_from_str(&text, "%Y-%m-%d").ok();
    if day.is_none() {
        let fault = format!("{text:?} is not a day; give one such as 2026-01-31");
        params.fault(name, fault);
    }
    day
}
