//! `/webhooks`, for admins: endpoints, delivery log, and resending. The secret of a new webhook is shown once, in the response to its form.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde_json::Map;
use uuid::Uuid;

use super::address::Filled;
use super::confirm::{self, Confirmation, is_sure};
use super::form::Form;
use super::frame::Frame;
use super::page::{Page, PageError, error_html, html, is_fixable, redirect, with_status};
use super::state::PageState;
use super::user::SessionUser;
use super::words::{self, Timestamp};
use crate::api::{ApiJson, Path, Query, read_query, typed, webhooks};
use crate::wire::{
    DeliveryState, NewWebhook, Webhook, WebhookCreated, WebhookDelivery, WebhookEvent,
    WebhookFormat,
};

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/webhooks", get(show).post(add))
        .route("/webhooks/{id}/delete", post(delete))
        .route("/webhooks/deliveries/{id}/resend", post(resend))
}

struct DeliveryLine {
    delivery: WebhookDelivery,
    happened: Timestamp,
    next: Option<Timestamp>,
    colour: &'static str,
}

impl DeliveryLine {
    fn new(delivery: WebhookDelivery, now: DateTime<Utc>) -> Self {
        Self {
            happened: words::timestamp(delivery.happened_at, now),
            next: delivery.next_attempt_at.map(|at| words::timestamp(at, now)),
            colour: match delivery.state {
                DeliveryState::Pending => "waiting",
                DeliveryState::Delivered => "succeeded",
                DeliveryState::Failed => "failed",
            },
            delivery,
        }
    }
}

#[derive(Default)]
struct Done {
    created: Option<WebhookCreated>,
    error_html: String,
    name: String,
    url: String,
}

#[derive(Template)]
#[template(path = "webhooks.html")]
struct WebhooksPage {
    frame: Frame,
    done: Done,
    webhooks: Vec<Webhook>,
    rows: Vec<DeliveryLine>,
    asked: Filled,
    older: Option<String>,
}

impl WebhooksPage {
    async fn read(
        state: &PageState,
        user: SessionUser,
        asked: Filled,
        done: Done,
    ) -> Result<Self, super::page::PageError> {
        let (mut webhooks, mut rows, mut older) = (Vec::new(), Vec::new(), None);
        if user.may_admin() {
            let api = state.api(&user)?;
            webhooks = webhooks::list_webhooks(api.clone()).await?.0.items;
            let chosen = Query(read_query(asked.pairs())?);
            let Json(found) = webhooks::list_deliveries(api, chosen).await?;
            let now = state.about.clock.now();
            rows = found
                .items
                .into_iter()
                .map(|delivery| DeliveryLine::new(delivery, now))
                .collect();
            let at = |cursor: String| format!("/webhooks{}", asked.page(&cursor));
            older = found.next_cursor.map(at);
        }
        Ok(Self {
            frame: Frame::load(state, user, "System", "Webhooks").await,
            done,
            webhooks,
            rows,
            asked,
            older,
        })
    }
}

async fn show(State(state): State<PageState>, user: SessionUser, asked: Filled) -> Page {
    html(&WebhooksPage::read(&state, user, asked, Done::default()).await?)
}

async fn add(State(state): State<PageState>, form: Form) -> Page {
    let text = |name: &str| form.text(name).unwrap_or_default();
    let mut done = Done::default();
    let status = match added(&state, &form).await {
        Ok(created) => {
            done.created = Some(created);
            StatusCode::OK
        }
        Err(fault) if is_fixable(fault.problem()) => {
            done.error_html = error_html(fault.problem());
            (done.name, done.url) = (text("name").to_owned(), text("url").to_owned());
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Err(fault) => return Err(fault),
    };
    with_status(
        status,
        &WebhooksPage::read(&state, form.user, Filled::default(), done).await?,
    )
}

async fn added(state: &PageState, form: &Form) -> Result<WebhookCreated, PageError> {
    let text = |name: &str| form.text(name).unwrap_or_default();
    let mut fields = Map::new();
    for name in ["name", "url"] {
        fields.insert(name.to_owned(), text(name).into());
    }
    fields.insert("format".to_owned(), form.text("format").into());
    let events: Vec<&str> = form.all("events").collect();
    // No selected event means all.
    if !events.is_empty() {
        fields.insert("events".to_owned(), events.into());
    }
    let new: NewWebhook = typed("", fields.into())?;
    let add = |api, new| webhooks::add(api, ApiJson(new));
    form.post(state, webhooks::WEBHOOKS, new, add).await
}

async fn delete(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    if form.user.may_admin() && !is_sure(&form) {
        let confirmation = Confirmation {
            title: "Delete this webhook?".to_owned(),
            consequence: "It gets no more events, not even pending ones, and its deliveries are removed from the log.".to_owned(),
            button: "Delete it",
            stops: true,
            part: "System",
        };
        return confirm::show(
            &state,
            &form,
            format!("/webhooks/{id}/delete"),
            confirmation,
        )
        .await;
    }
    form.post(&state, webhooks::DELETE, Path(id), webhooks::delete_webhook)
        .await?;
    redirect(form.user.fragment, "/webhooks")
}

async fn resend(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    form.post(&state, webhooks::RESEND, Path(id), webhooks::resend)
        .await?;
    redirect(form.user.fragment, "/webhooks")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhook_names_are_escaped() {
        let webhook = |from_settings: bool| Webhook {
            webhook_id: uuid::Uuid::nil(),
            name: "<b>ops".to_owned(),
            url: "https://hooks.example.com/<i>".to_owned(),
            events: vec![WebhookEvent::JobFailed],
            format: WebhookFormat::Standard,
            from_settings,
            created_by: "ann".to_owned(),
            created_at: DateTime::UNIX_EPOCH,
        };
        let delivery = WebhookDelivery {
            delivery_id: uuid::Uuid::nil(),
            webhook_id: uuid::Uuid::nil(),
            webhook: "<b>ops".to_owned(),
            event: WebhookEvent::JobFailed,
            happened_at: DateTime::UNIX_EPOCH,
            data: json!({}),
            state: DeliveryState::Failed,
            attempts: 10,
            next_attempt_at: None,
            ended_at: None,
            status: Some(500),
            error: Some("it answered <500>".to_owned()),
        };
        let page = WebhooksPage {
            frame: Frame::bare(),
            done: Done::default(),
            webhooks: vec![webhook(true), webhook(false)],
            rows: vec![DeliveryLine::new(delivery, DateTime::UNIX_EPOCH)],
            asked: Filled::default(),
            older: None,
        };
        let text = page.render().unwrap();
        assert!(
            !text.contains("<b>ops") && !text.contains("<i>") && !text.contains("<500>"),
            "{text}"
        );
        assert_eq!(
            [">Delete<", ">Send again<"].map(|word| text.matches(word).count()),
            [2, 1],
            "{text}"
        );
    }
}
