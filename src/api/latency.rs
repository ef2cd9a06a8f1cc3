//! How quickly judges answered.

use axum::Json;
use axum::extract::State;
use chrono::NaiveDate;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ApiState;
use super::costs::days;
use super::params::Params;
use super::problem::{ApiError, Problem};
use crate::store::JudgeLatency;

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(latency))
}

/// How quickly a judge answered: figures of calls with a good reply, each rounded up by a fifth at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct LatencyItem {
    /// The judge's name.
    pub(super) judge: String,
    /// Calls with a good reply.
    pub(super) calls: i64,
    /// Half of them took at most so long, milliseconds.
    pub(super) p50_ms: u64,
    /// 90 of 100 took at most so long, milliseconds.
    pub(super) p90_ms: u64,
    /// 99 of 100 took at most so long, milliseconds.
    pub(super) p99_ms: u64,
}

impl From<JudgeLatency> for LatencyItem {
    fn from(latency: JudgeLatency) -> Self {
        let ms = |took: std::time::Duration| u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Self {
            judge: latency.judge,
            calls: latency.calls,
            p50_ms: ms(latency.p50),
            p90_ms: ms(latency.p90),
            p99_ms: ms(latency.p99),
        }
    }
}

/// How quickly judges answered on some days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct LatencyList {
    /// The first day.
    pub(super) from: NaiveDate,
    /// The last day, included.
    pub(super) to: NaiveDate,
    /// A line for each judge that answered, by name.
    pub(super) items: Vec<LatencyItem>,
    /// Always null: there is one page.
    pub(super) next_cursor: Option<String>,
}

/// Says how quickly judges answered: what half, 90 and 99 of 100 of their good replies took at most.
///
/// A call counts on the day of UTC on which it was sent, from the sending to the whole reply. Calls without a good reply don't count. The
/// figures outlive the calls' own rows; of calls before this was counted there are none.
#[utoipa::path(
    get, path = "/api/v1/analytics/latency", tag = "analytics",
    params(
        ("from" = Option<NaiveDate>, Query, description = "First day of UTC, YYYY-MM-DD; default: 30 days up to `to`"),
        ("to" = Option<NaiveDate>, Query, description = "Last day of UTC, included; default today"),
    ),
    responses(
        (status = 200, description = "The figures", body = LatencyList),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn latency(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Json<LatencyList>, ApiError> {
    let (from, to) = days(&state, &mut params);
    params.finish()?;
    let found = state.store.latencies(from, to).await?;
    Ok(Json(LatencyList {
        from,
        to,
        items: found.into_iter().map(LatencyItem::from).collect(),
        next_cursor: None,
    }))
}
