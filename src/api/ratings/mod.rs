//! Human ratings of scores and sessions, and agreement with the judge. Ratings don't change scores.

pub(crate) mod agreement;
pub(crate) mod annotations;
pub(crate) mod calibration;
pub(crate) mod panels;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::ApiJson;
use crate::api::http::extract::{Path, Query};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::score::trust::Given;
use crate::store::{Cursor, NewRating, RatingOf};
use crate::wire::{HumanRating, PageQuery, RatingList, RatingRequest};

pub(crate) const OF_SCORE: &str = "/api/v1/scores/{score_id}/ratings";
pub(crate) const OF_SESSION: &str = "/api/v1/sessions/{session_id}/ratings";

/// Rates a score, with the total that the reviewer would have given.
///
/// Each reviewer has one rating per score; a new one replaces it. In `/api/v1/analytics/agreement` it is compared only with this score.
#[utoipa::path(
    post, path = OF_SCORE, tag = "trust", operation_id = "rate_score",
    request_body(content = RatingRequest, example = json!({"total": 62, "comment": "It never looked at the limits."})),
    responses(
        (status = 200, description = "The rating, in the place of an earlier one", body = HumanRating),
        (status = 201, description = "The rating", body = HumanRating),
        (status = 404, description = "score-not-found"),
    ),
)]
pub(crate) async fn post_rating_of_score(
    api: Authorized,
    id: Path<Uuid>,
    ApiJson(body): ApiJson<RatingRequest>,
) -> Result<Response, ApiError> {
    Ok(answer(rate_score(api, id, body).await?))
}

pub(crate) async fn rate_score(
    api: Authorized,
    Path(id): Path<Uuid>,
    body: RatingRequest,
) -> ApiResult<(HumanRating, bool)> {
    let put = put(&api, RatingOf::Score(id), body).await?;
    put.map(Json).ok_or(ApiError::ScoreNotFound(id))
}

/// Rates a session's investigation, independent of its scores.
///
/// Each reviewer has one rating per session; a new one replaces it. In `/api/v1/analytics/agreement` it is compared with the newest score
/// of the session under each version of the criteria, unless the same reviewer also rated that score.
#[utoipa::path(
    post, path = OF_SESSION, tag = "trust", operation_id = "rate_session",
    request_body(content = RatingRequest, example = json!({"quality": "partially_accurate"})),
    responses(
        (status = 200, description = "The rating, in the place of an earlier one", body = HumanRating),
        (status = 201, description = "The rating", body = HumanRating),
        (status = 404, description = "session-not-found"),
    ),
)]
pub(crate) async fn post_rating_of_session(
    api: Authorized,
    id: Path<Uuid>,
    ApiJson(body): ApiJson<RatingRequest>,
) -> Result<Response, ApiError> {
    Ok(answer(rate_session(api, id, body).await?))
}

pub(crate) async fn rate_session(
    api: Authorized,
    Path(id): Path<Uuid>,
    body: RatingRequest,
) -> ApiResult<(HumanRating, bool)> {
    let put = put(&api, RatingOf::Session(id), body).await?;
    put.map(Json).ok_or(ApiError::SessionNotFound(id))
}

/// Stores a rating. Returns it and whether it is new, or `None` if the subject doesn't exist.
async fn put(
    api: &Authorized,
    of: RatingOf,
    body: RatingRequest,
) -> Result<Option<(HumanRating, bool)>, ApiError> {
    let new = checked(api, of, body)?;
    let stored = api.store.ratings().put(&new).await?;
    Ok(stored.map(|rating| {
        let is_new = rating.rating_id == new.rating_id;
        (rating, is_new)
    }))
}

fn answer(Json((rating, is_new)): Json<(HumanRating, bool)>) -> Response {
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    (status, Json(rating)).into_response()
}

/// Lists the ratings of a score, newest first.
#[utoipa::path(
    get, path = OF_SCORE, tag = "trust",
    params(PageQuery),
    responses(
        (status = 200, description = "The ratings", body = RatingList),
        (status = 404, description = "score-not-found"),
    ),
)]
pub(crate) async fn ratings_of_score(
    state: ApiState,
    Path(id): Path<Uuid>,
    Query(page): Query<PageQuery>,
) -> ApiResult<RatingList> {
    let list = listed(&state, RatingOf::Score(id), page).await?;
    if list.items.is_empty() && state.store.scores().get(id).await?.is_none() {
        return Err(ApiError::ScoreNotFound(id));
    }
    Ok(Json(list))
}

/// Lists the ratings of a session and of its scores, newest first.
#[utoipa::path(
    get, path = OF_SESSION, tag = "trust",
    params(PageQuery),
    responses(
        (status = 200, description = "The ratings", body = RatingList),
        (status = 404, description = "session-not-found"),
    ),
)]
pub(crate) async fn ratings_of_session(
    state: ApiState,
    Path(id): Path<Uuid>,
    Query(page): Query<PageQuery>,
) -> ApiResult<RatingList> {
    let list = listed(&state, RatingOf::Session(id), page).await?;
    if list.items.is_empty() && state.store.sessions().scoring_facts(id).await?.is_none() {
        return Err(ApiError::SessionNotFound(id));
    }
    Ok(Json(list))
}

async fn listed(state: &ApiState, of: RatingOf, page: PageQuery) -> Result<RatingList, ApiError> {
    let (limit, cursor) = (page.limit(), page.cursor.map(Cursor));
    let page = state
        .store
        .ratings()
        .list(of, cursor.as_ref(), limit)
        .await?;
    Ok(RatingList {
        items: page.items,
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    })
}

/// Validates a rating. Returns all errors at once.
fn checked(api: &Authorized, of: RatingOf, request: RatingRequest) -> Result<NewRating, ApiError> {
    let now = api.clock.now();
    let faults = request.faults(now);
    let by = request.by.as_deref().map(str::trim);
    match given(&request) {
        Some(given) if faults.is_empty() => Ok(NewRating {
            rating_id: api.keyed_id.id().map_or_else(Uuid::now_v7, |(id, _)| id),
            of,
            given,
            by: match by {
                Some(by) => by.to_owned(),
                None => api.caller.name()?,
            },
            comment: request.comment.filter(|text| !text.trim().is_empty()),
            at: request.at.unwrap_or(now),
        }),
        Some(_) | None => Err(ApiError::Invalid(faults)),
    }
}

/// Returns the given value, unless there are several or none.
fn given(request: &RatingRequest) -> Option<Given> {
    match (request.total, request.rating, request.quality) {
        (Some(total), None, None) => u8::try_from(total).ok().map(Given::Total),
        (None, Some(word), None) => Some(Given::Rating(word)),
        (None, None, Some(word)) => Some(Given::Quality(word)),
        (Some(_), _, _) | (_, Some(_), _) | (None, None, None) => None,
    }
}
