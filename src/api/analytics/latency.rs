//! Latency of judges.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::costs::days;
use crate::api::ApiState;
use crate::api::http::params::Params;
use crate::api::http::problem::ApiError;
use crate::wire::LatencyList;

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(latency))
}

/// Returns the latency of judges: the 50th, 90th and 99th percentile of calls with a valid reply.
///
/// A call counts on the UTC day of sending. Latency is from sending to the complete reply. Calls without a valid reply
/// don't count. The data remains after the calls' rows are deleted. Older releases recorded none.
#[utoipa::path(
    get, path = "/api/v1/analytics/latency", tag = "analytics",
    params(
        ("from" = Option<NaiveDate>, Query, description = "First day of UTC, YYYY-MM-DD; default: 30 days up to `to`"),
        ("to" = Option<NaiveDate>, Query, description = "Last day of UTC, included; default today"),
    ),
    responses(
        (status = 200, description = "The figures", body = LatencyList),
    ),
)]
async fn latency(
    State(state): State<ApiState>,
    params: Params,
) -> Result<Json<LatencyList>, ApiError> {
    Ok(Json(read(&state, params).await?))
}

pub(crate) async fn read(state: &ApiState, mut params: Params) -> Result<LatencyList, ApiError> {
    let (from, to) = days(state, &mut params);
    params.finish()?;
    Ok(LatencyList {
        from,
        to,
        items: state.store.analytics().latencies(from, to).await?,
        next_cursor: None,
    })
}
