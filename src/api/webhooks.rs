//! Webhooks: endpoints, delivery log, and redelivery. Requires admin, because the server sends requests to the URL.
//! Workers send the events.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::ApiJson;
use crate::api::http::extract::{Path, Query, QueryPart};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::config::webhook_errors;
use crate::outbound::secret_of;
use crate::store::{Cursor, DeliveryFilter, DeliveryRow, WebhookEndpoint};
use crate::wire::{
    DeliveryState, NewWebhook, PageQuery, RequestFault, Webhook, WebhookCreated, WebhookDeliveries,
    WebhookDelivery, Webhooks,
};

pub(crate) const WEBHOOKS: &str = "/api/v1/webhooks";
pub(crate) const DELETE: &str = "/api/v1/webhooks/{webhook_id}/delete";
pub(crate) const RESEND: &str = "/api/v1/webhooks/deliveries/{delivery_id}/resend";

impl From<WebhookEndpoint> for Webhook {
    fn from(row: WebhookEndpoint) -> Self {
        Self {
            webhook_id: row.endpoint_id,
            name: row.name,
            url: row.url,
            events: row.events,
            format: row.format,
            from_settings: row.from_settings,
            created_by: row.created_by,
            created_at: row.created_at,
        }
    }
}

impl From<DeliveryRow> for WebhookDelivery {
    fn from(row: DeliveryRow) -> Self {
        Self {
            delivery_id: row.delivery_id,
            webhook_id: row.endpoint_id,
            webhook: row.endpoint,
            event: row.event,
            happened_at: row.happened_at,
            data: row.data,
            next_attempt_at: (row.state == DeliveryState::Pending).then_some(row.due_at),
            state: row.state,
            attempts: row.attempts,
            ended_at: row.ended_at,
            status: row.status,
            error: row.error,
        }
    }
}

/// Lists webhooks, including those in the workers' settings.
#[utoipa::path(
    get, path = WEBHOOKS, tag = "webhooks",
    responses(
        (status = 200, description = "The webhooks", body = Webhooks),
    ),
)]
pub(crate) async fn list_webhooks(state: ApiState) -> ApiResult<Webhooks> {
    let endpoints = state.store.webhooks().endpoints().await?;
    Ok(Json(Webhooks {
        items: endpoints.into_iter().map(Webhook::from).collect(),
        next_cursor: None,
    }))
}

/// Creates a webhook for future events. The secret is only in this response.
#[utoipa::path(
    post, path = WEBHOOKS, tag = "webhooks",
    request_body(content = NewWebhook, example = json!({"name": "on-call", "url": "https://hooks.example.com/gavel", "events": ["job.failed", "batch.mean_dropped"]})),
    responses(
        (status = 201, description = "The webhook, with its secret", body = WebhookCreated),
    ),
)]
pub(crate) async fn add_webhook(
    api: Authorized,
    body: ApiJson<NewWebhook>,
) -> Result<Response, ApiError> {
    Ok((StatusCode::CREATED, add(api, body).await?).into_response())
}

pub(crate) async fn add(
    api: Authorized,
    ApiJson(mut new): ApiJson<NewWebhook>,
) -> ApiResult<WebhookCreated> {
    let faults: Vec<RequestFault> = webhook_errors(&new)
        .into_iter()
        .map(|(field, message)| RequestFault::new(field, message))
        .collect();
    if !faults.is_empty() {
        return Err(ApiError::Invalid(faults));
    }
    // 244 bits of system randomness.
    let random = [Uuid::new_v4(), Uuid::new_v4()]
        .map(Uuid::into_bytes)
        .concat();
    let secret = new.secret.get_or_insert_with(|| secret_of(&random)).clone();
    let (by, now) = (api.caller.name()?, api.clock.now());
    let added = api.store.webhooks().add(&new, &by, now).await?;
    let added = added.ok_or_else(|| {
        ApiError::fault(
            "/name",
            "is used by another webhook: choose a different name",
        )
    })?;
    tracing::info!(webhook = added.name, "webhook created");
    Ok(Json(WebhookCreated {
        webhook: added.into(),
        secret,
    }))
}

/// Deletes a webhook with its delivery log. Deliveries in progress may still arrive.
#[utoipa::path(
    post, path = DELETE, tag = "webhooks",
    responses(
        (status = 200, description = "The deleted webhook", body = Webhook),
        (status = 404, description = "webhook-not-found"),
    ),
)]
pub(crate) async fn delete_webhook(api: Authorized, Path(id): Path<Uuid>) -> ApiResult<Webhook> {
    let endpoints = api.store.webhooks().endpoints().await?;
    let found = endpoints
        .into_iter()
        .find(|endpoint| endpoint.endpoint_id == id);
    let found = found.ok_or(ApiError::WebhookNotFound("webhook", id))?;
    api.store.webhooks().remove(id).await?;
    tracing::info!(webhook = found.name, "webhook deleted");
    Ok(Json(found.into()))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct DeliveriesQuery {
    /// Deliveries of one webhook
    webhook_id: Option<Uuid>,
    /// By state
    pub(crate) state: Option<DeliveryState>,
}

impl QueryPart for DeliveriesQuery {}

/// Lists deliveries, newest first.
#[utoipa::path(
    get, path = "/api/v1/webhooks/deliveries", tag = "webhooks",
    params(DeliveriesQuery, PageQuery),
    responses(
        (status = 200, description = "The deliveries", body = WebhookDeliveries),
    ),
)]
pub(crate) async fn list_deliveries(
    state: ApiState,
    Query((query, page)): Query<(DeliveriesQuery, PageQuery)>,
) -> ApiResult<WebhookDeliveries> {
    let filter = DeliveryFilter {
        endpoint_id: query.webhook_id,
        state: query.state,
    };
    let (limit, cursor) = (page.limit(), page.cursor.map(Cursor));
    let page = state
        .store
        .webhooks()
        .deliveries(filter, cursor.as_ref(), limit)
        .await?;
    Ok(Json(WebhookDeliveries {
        items: page.items.into_iter().map(WebhookDelivery::from).collect(),
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    }))
}

/// Reads a delivery.
#[utoipa::path(
    get, path = "/api/v1/webhooks/deliveries/{delivery_id}", tag = "webhooks",
    responses(
        (status = 200, description = "The delivery", body = WebhookDelivery),
        (status = 404, description = "webhook-not-found"),
    ),
)]
pub(crate) async fn get_delivery(
    state: ApiState,
    Path(id): Path<Uuid>,
) -> ApiResult<WebhookDelivery> {
    delivery(&state, id).await
}

async fn delivery(state: &ApiState, id: Uuid) -> ApiResult<WebhookDelivery> {
    let found = state.store.webhooks().delivery(id).await?;
    let found = found.ok_or(ApiError::WebhookNotFound("delivery", id))?;
    Ok(Json(found.into()))
}

/// Sends a delivery again immediately with the same id, in any state. A failure is retried like the first delivery.
#[utoipa::path(
    post, path = RESEND, tag = "webhooks",
    responses(
        (status = 202, description = "The delivery, pending", body = WebhookDelivery),
        (status = 404, description = "webhook-not-found"),
    ),
)]
pub(crate) async fn resend_delivery(api: Authorized, id: Path<Uuid>) -> Result<Response, ApiError> {
    Ok((StatusCode::ACCEPTED, resend(api, id).await?).into_response())
}

pub(crate) async fn resend(api: Authorized, Path(id): Path<Uuid>) -> ApiResult<WebhookDelivery> {
    let now = api.clock.now();
    api.store.webhooks().resend(id, now).await?;
    delivery(&api, id).await
}
