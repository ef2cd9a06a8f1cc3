//! What judge calls came to, by day, judge or model: the bill as far as prices are known.

use axum::Json;
use axum::extract::State;
use chrono::{Days, NaiveDate};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ApiState;
use super::params::Params;
use super::problem::{ApiError, Problem};
use crate::store::{UsageBy, UsageSum};

/// How many days are summed up if no first one is given.
const DAYS: u64 = 30;
/// The most days that are summed up at once.
const MOST_DAYS: i64 = 3_660;

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(costs))
}

/// What some calls came to.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct CostFigures {
    /// Calls, retries and repairs included.
    pub(super) calls: i64,
    /// Those without a good reply.
    pub(super) failed_calls: i64,
    /// Prompt tokens, cached ones included.
    pub(super) tokens_in: i64,
    /// Those of them that a provider read from its prompt cache.
    pub(super) tokens_in_cached: i64,
    /// Tokens of the replies.
    pub(super) tokens_out: i64,
    /// USD of the calls whose price is known; null if that is none of them.
    pub(super) cost_usd: Option<f64>,
    /// Calls whose price is unknown: what they cost comes on top.
    pub(super) unpriced_calls: i64,
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

/// One line of the bill.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct CostItem {
    /// The day of UTC; `by=day` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) day: Option<NaiveDate>,
    /// The judge's name; `by=judge` and `by=model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) judge: Option<String>,
    /// The model that answered, or that was asked where none did; `by=model` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// What its calls came to.
    #[serde(flatten)]
    pub(super) figures: CostFigures,
}

/// The bill of some days.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct CostList {
    /// What each line is of.
    pub(super) by: UsageBy,
    /// The first day.
    pub(super) from: NaiveDate,
    /// The last day, included.
    pub(super) to: NaiveDate,
    /// The lines, sorted; days without calls have none.
    pub(super) items: Vec<CostItem>,
    /// All of them together.
    pub(super) total: CostFigures,
    /// Always null: there is one page.
    pub(super) next_cursor: Option<String>,
}

/// Sums up what judge calls came to, by day, judge or model.
///
/// A call counts on the day of UTC on which it was sent, retries and repairs included; what the cache answered made no call. The
/// sums outlive the calls' own rows. Calls of simulated judges have no price, and are shown as unpriced.
#[utoipa::path(
    get, path = "/api/v1/analytics/costs", tag = "analytics",
    params(
        ("by" = Option<UsageBy>, Query, description = "What each line is of; default day"),
        ("from" = Option<NaiveDate>, Query, description = "First day of UTC, YYYY-MM-DD; default: 30 days up to `to`"),
        ("to" = Option<NaiveDate>, Query, description = "Last day of UTC, included; default today"),
    ),
    responses(
        (status = 200, description = "The bill", body = CostList),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn costs(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Json<CostList>, ApiError> {
    let by = params.take::<UsageBy>("by").unwrap_or(UsageBy::Day);
    let (from, to) = (day(&mut params, "from"), day(&mut params, "to"));
    let to = to.unwrap_or_else(|| state.clock.now().date_naive());
    let from = from.unwrap_or_else(|| to.checked_sub_days(Days::new(DAYS - 1)).unwrap_or(to));
    let days = (to - from).num_days();
    if days < 0 {
        params.fault("from", format!("{from} is after to, {to}"));
    } else if days >= MOST_DAYS {
        let fault = format!("is {days} days before to; at most {MOST_DAYS} are summed up at once");
        params.fault("from", fault);
    }
    params.finish()?;
    let sums = state.store.usage(from, to, by).await?;
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

fn day(params: &mut Params, name: &'static str) -> Option<NaiveDate> {
    let text = params.text(name)?;
    let day = NaiveDate::parse_from_str(&text, "%Y-%m-%d").ok();
    if day.is_none() {
        let fault = format!("{text:?} is not a day; give one such as 2026-01-31");
        params.fault(name, fault);
    }
    day
}
