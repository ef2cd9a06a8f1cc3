//! Actions on a batch. Actions that cost money or discard work need a confirmation.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use uuid::Uuid;

use super::super::batches::{BatchView as _, items};
use super::super::form::Form;
use super::super::frame::Frame;
use super::super::page::{Page, error_html, html, is_fixable, with_status};
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::{BatchPage, BatchParams, RejectedBudget};
use crate::api::{ApiJson, Path, batches};
use crate::wire::{Batch, BudgetBody};

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/batches/{id}/pause", post(pause))
        .route("/batches/{id}/resume", post(resume))
        .route("/batches/{id}/cancel", get(confirm_cancel).post(cancel))
        .route("/batches/{id}/retry-errors", get(confirm_retry).post(retry))
        .route("/batches/{id}/budget", post(budget))
}

async fn pause(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    form.post(&state, batches::PAUSE, Path(id), batches::pause_batch)
        .await?;
    form.back_to(&home(id))
}

async fn resume(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    form.post(&state, batches::RESUME, Path(id), batches::resume_batch)
        .await?;
    form.back_to(&home(id))
}

async fn cancel(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    form.post(&state, batches::CANCEL, Path(id), batches::cancel_batch)
        .await?;
    form.back_to(&home(id))
}

async fn retry(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    form.post(&state, batches::RETRY, Path(id), batches::retry_errors)
        .await?;
    form.back_to(&home(id))
}

async fn budget(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    match set_budget(&state, id, &form).await {
        Err(fault) if is_fixable(fault.problem()) && !form.user.fragment => {
            let rejected = RejectedBudget {
                typed: form.text("budget_usd").unwrap_or_default().to_owned(),
                message: error_html(fault.problem()),
            };
            let mut page = BatchPage::read(&state, form.user, id, &BatchParams::default()).await?;
            page.body.rejected = Some(rejected);
            with_status(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        done => done,
    }
}

async fn set_budget(state: &PageState, id: Uuid, form: &Form) -> Page {
    let budget = form.read::<f64>("budget_usd", "an amount of US dollars, such as 12.5")?;
    let body = BudgetBody { budget_usd: budget };
    let set = |api, (id, body)| batches::change_budget(api, id, ApiJson(body));
    form.post(state, batches::BUDGET, (Path(id), body), set)
        .await?;
    form.back_to(&home(id))
}

fn home(id: Uuid) -> String {
    format!("/batches/{id}")
}

#[derive(Template)]
#[template(path = "batch_ask.html")]
struct ConfirmationPage {
    frame: Frame,
    batch: Batch,
    question: String,
    consequence: String,
    verb: &'static str,
    button: &'static str,
    danger: bool,
    /// Whether the action would have no effect.
    is_idle: bool,
    form_token: String,
    key: String,
}

async fn show_confirmation(
    state: &PageState,
    user: SessionUser,
    id: Uuid,
    make: impl FnOnce(Batch, &SessionUser, Frame) -> ConfirmationPage,
) -> Page {
    let batch = batches::read(state.api(&user)?, Path(id)).await?;
    let frame = Frame::load(state, user.clone(), "Batches", batch.title()).await;
    html(&make(batch, &user, frame))
}

async fn confirm_cancel(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
) -> Page {
    show_confirmation(&state, user, id, |batch, user, frame| {
        let open = batch.progress.total - batch.progress.done;
        ConfirmationPage {
            frame,
            question: format!("Cancel {}?", batch.title()),
            consequence: format!(
                "{} will not be scored, except individually requested ones. Existing scores stay. A cancelled \
                 batch can't be resumed.",
                items(open)
            ),
            is_idle: open == 0,
            verb: "cancel",
            button: "Cancel the batch",
            danger: true,
            form_token: user.form_token.clone(),
            key: Uuid::new_v4().to_string(),
            batch,
        }
    })
    .await
}

async fn confirm_retry(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
) -> Page {
    show_confirmation(&state, user, id, |batch, user, frame| ConfirmationPage {
        frame,
        question: format!("Queue the failed items of {} again?", batch.title()),
        consequence: format!(
            "{} failed. Each is sent to its judge again, which costs money; so far the batch cost {}.",
            items(batch.counts.failed),
            batch.cost()
        ),
        is_idle: batch.counts.failed == 0,
        verb: "retry-errors",
        button: "Queue them again",
        danger: false,
        form_token: user.form_token.clone(),
        key: Uuid::new_v4().to_string(),
        batch,
    })
    .await
}
