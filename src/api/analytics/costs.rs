//! Costs of judge calls by day, judge, model or suite, for known prices.

use axum::Json;
use chrono::{Days, NaiveDate, NaiveTime};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::api::ApiState;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::store::UsageSum;
use crate::wire::{BatchCostList, CostFigures, CostItem, CostList, LimitQuery, UsageBy};

/// Default number of days.
const DAYS: u64 = 30;
const MOST_DAYS: i64 = 3_660;
const MOST_BATCHES: u32 = 10_000;

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct UsageQuery {
    /// Grouping of the lines; default day
    pub(crate) by: Option<UsageBy>,
}

impl QueryPart for UsageQuery {}

/// A range of days.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct DaysQuery {
    /// First day of UTC, YYYY-MM-DD; default: 30 days up to `to`
    #[serde(deserialize_with = "day")]
    pub(crate) from: Option<NaiveDate>,
    /// Last day of UTC, included; default today
    #[serde(deserialize_with = "day")]
    pub(crate) to: Option<NaiveDate>,
}

impl QueryPart for DaysQuery {}

fn day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NaiveDate>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let day = NaiveDate::parse_from_str(&text, "%Y-%m-%d");
    let message = || format!("{text:?} is not a day; give one such as 2026-01-31");
    day.map(Some).map_err(|_| D::Error::custom(message()))
}

impl DaysQuery {
    /// Returns the first and last day, both inclusive.
    pub(crate) fn range(self, state: &ApiState) -> Result<(NaiveDate, NaiveDate), ApiError> {
        let to = self.to.unwrap_or_else(|| state.clock.now().date_naive());
        let first = || to.checked_sub_days(Days::new(DAYS - 1)).unwrap_or(to);
        let from = self.from.unwrap_or_else(first);
        match (to - from).num_days() {
            ..0 => Err(ApiError::fault(
                "/from",
                format!("{from} is after to, {to}"),
            )),
            0..MOST_DAYS => Ok((from, to)),
            days => {
                let fault =
                    format!("is {days} days before to; at most {MOST_DAYS} are summed up at once");
                Err(ApiError::fault("/from", fault))
            }
        }
    }
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
    params(UsageQuery, DaysQuery),
    responses(
        (status = 200, description = "The bill", body = CostList),
    ),
)]
pub(crate) async fn costs(
    state: ApiState,
    Query((query, days)): Query<(UsageQuery, DaysQuery)>,
) -> ApiResult<CostList> {
    let by = query.by.unwrap_or(UsageBy::Day);
    let (from, to) = days.range(&state)?;
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
    Ok(Json(CostList {
        by,
        from,
        to,
        items: sums.into_iter().map(item).collect(),
        total: CostFigures::from(&total),
        next_cursor: None,
    }))
}

/// Sums up the costs of batches by name, so that a nightly suite is one row.
///
/// All costs of a batch, including retries, count on the UTC day of its request. Batches without a name are one row per
/// kind. Runs of simulated judges have no price and count as unpriced.
#[utoipa::path(
    get, path = "/api/v1/analytics/costs/batches", tag = "analytics",
    params(DaysQuery, LimitQuery),
    responses(
        (status = 200, description = "Costs of judge calls", body = BatchCostList),
    ),
)]
pub(crate) async fn batch_costs(
    state: ApiState,
    Query((days, limit)): Query<(DaysQuery, LimitQuery)>,
) -> ApiResult<BatchCostList> {
    let (from, to) = days.range(&state)?;
    let limit = limit.limit();
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
    Ok(Json(BatchCostList {
        from,
        to,
        items: items.collect(),
        batches: found.min(i64::from(MOST_BATCHES)),
        warnings,
        next_cursor: None,
    }))
}
