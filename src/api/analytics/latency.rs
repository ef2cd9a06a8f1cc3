//! Latency of judges.

use axum::Json;

use super::costs::DaysQuery;
use crate::api::ApiState;
use crate::api::http::extract::Query;
use crate::api::http::problem::ApiResult;
use crate::wire::LatencyList;

/// Returns the latency of judges: the 50th, 90th and 99th percentile of calls with a valid reply.
///
/// A call counts on the UTC day of sending. Latency is from sending to the complete reply. Calls without a valid reply
/// don't count. The data remains after the calls' rows are deleted.
#[utoipa::path(
    get, path = "/api/v1/analytics/latency", tag = "analytics",
    params(DaysQuery),
    responses(
        (status = 200, description = "The figures", body = LatencyList),
    ),
)]
pub(crate) async fn latency(
    state: ApiState,
    Query(days): Query<DaysQuery>,
) -> ApiResult<LatencyList> {
    let (from, to) = days.range(&state)?;
    Ok(Json(LatencyList {
        from,
        to,
        items: state.store.analytics().latencies(from, to).await?,
        next_cursor: None,
    }))
}
