//! What may be done about a batch, with a question before what costs money or loses work.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::batches::items;
use super::super::form::{Form, segment};
use super::super::frame::Frame;
use super::super::page::{Page, go, html, is_mendable, refusal, with_status};
use super::super::site::Site;
use super::super::visitor::Visitor;
use super::{Asked, BatchPage, Refused};
use crate::wire::Batch;

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/batches/{id}/pause", post(pause))
        .route("/batches/{id}/resume", post(resume))
        .route("/batches/{id}/cancel", get(ask_cancel).post(cancel))
        .route("/batches/{id}/retry-errors", get(ask_retry).post(retry))
        .route("/batches/{id}/budget", post(budget))
}

async fn pause(State(site): State<Site>, Path(id): Path<String>, form: Form) -> Page {
    act(&site, &id, "pause", &form, &json!({})).await
}

async fn resume(State(site): State<Site>, Path(id): Path<String>, form: Form) -> Page {
    act(&site, &id, "resume", &form, &json!({})).await
}

async fn cancel(State(site): State<Site>, Path(id): Path<String>, form: Form) -> Page {
    act(&site, &id, "cancel", &form, &json!({})).await
}

async fn retry(State(site): State<Site>, Path(id): Path<String>, form: Form) -> Page {
    act(&site, &id, "retry-errors", &form, &json!({})).await
}

async fn budget(State(site): State<Site>, Path(id): Path<String>, form: Form) -> Page {
    match set_budget(&site, &id, &form).await {
        Err(fault) if is_mendable(fault.problem()) && !form.visitor.piece => {
            let refused = Refused {
                typed: form.text("budget_usd").unwrap_or_default().to_owned(),
                says: refusal(fault.problem()),
            };
            let mut page = BatchPage::read(&site, form.visitor, id, &Asked::default()).await?;
            page.body.refused = Some(refused);
            with_status(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        done => done,
    }
}

async fn set_budget(site: &Site, id: &str, form: &Form) -> Page {
    let budget = form.read::<f64>("budget_usd", "an amount of US dollars, such as 12.5")?;
    act(site, id, "budget", form, &json!({"budget_usd": budget})).await
}

async fn act(site: &Site, id: &str, verb: &str, form: &Form, body: &Value) -> Page {
    let path = format!("/api/v1/batches/{}/{verb}", segment(id));
    let caller = &form.visitor.caller;
    site.door.post(caller, &path, form.key(), body).await?;
    let home = format!("/batches/{}", segment(id));
    go(form.visitor.piece, form.back().unwrap_or(&home))
}

/// A question before what costs money or loses data.
#[derive(Template)]
#[template(path = "batch_ask.html")]
struct Ask {
    frame: Frame,
    batch: Batch,
    question: String,
    consequence: String,
    verb: &'static str,
    button: &'static str,
    danger: bool,
    /// Whether there is nothing that it would do.
    is_idle: bool,
    form_token: String,
    key: String,
}

async fn ask(
    site: &Site,
    visitor: Visitor,
    id: &str,
    make: impl FnOnce(Batch, &Visitor, Frame) -> Ask,
) -> Page {
    let path = format!("/api/v1/batches/{}", segment(id));
    let batch: Batch = site.door.get(&visitor.caller, &path).await?;
    let frame = Frame::of(site, visitor.clone(), "Batches", batch.title()).await;
    html(&make(batch, &visitor, frame))
}

async fn ask_cancel(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    ask(&site, visitor, &id, |batch, visitor, frame| {
        let open = batch.progress.total - batch.progress.done;
        Ask {
            frame,
            question: format!("Cancel {}?", batch.title()),
            consequence: format!(
                "{} will never be scored, but for what somebody asked for by itself; what was scored until now stays. A cancelled \
                 batch can't be resumed.",
                items(open)
            ),
            is_idle: open == 0,
            verb: "cancel",
            button: "Cancel the batch",
            danger: true,
            form_token: visitor.form_token.clone(),
            key: Uuid::new_v4().to_string(),
            batch,
        }
    })
    .await
}

async fn ask_retry(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    ask(&site, visitor, &id, |batch, visitor, frame| Ask {
        frame,
        question: format!("Queue the failed items of {} again?", batch.title()),
        consequence: format!(
            "{} failed. Each is sent to its judge once more, which is paid for; so far the batch cost {}.",
            items(batch.counts.failed),
            batch.cost()
        ),
        is_idle: batch.counts.failed == 0,
        verb: "retry-errors",
        button: "Queue them again",
        danger: false,
        form_token: visitor.form_token.clone(),
        key: Uuid::new_v4().to_string(),
        batch,
    })
    .await
}
