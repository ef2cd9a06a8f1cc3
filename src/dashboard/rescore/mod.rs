//! `/rescore`: scores the sessions that a filter matches again, or under other criteria. Shows a plan first (number of sessions, cost,
//! duration) and runs it after a confirmation. Validation errors are shown in the form, which keeps its input.

mod plan;
mod request;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::TryFutureExt as _;
use uuid::Uuid;

use super::address::Address;
use super::criteria::called_by_hash;
use super::form::Form;
use super::frame::Frame;
use super::page::{Page, PageError, html, redirect, with_status};
use super::state::PageState;
use super::user::SessionUser;
use crate::api::{problem, rescore};
use crate::wire::{Batch, RescorePlan, RescoreRequest};
use plan::PlanPage;
use request::{FormError, body, form_errors, is_filter};

/// Fields that show their errors. Errors of other fields are shown above the form.
const FIELDS: [&str; 9] = [
    "purpose",
    "repeats",
    "judge",
    "economy",
    "force",
    "max",
    "sample",
    "budget_usd",
    "name",
];

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/rescore", get(show_form).post(plan))
        .route("/rescore/go", post(start))
}

struct Juror {
    name: String,
    simulated: bool,
}

#[derive(Template)]
#[template(path = "rescore.html")]
struct RescoreForm {
    frame: Frame,
    /// Input of the form or parameters of the address.
    filled: Vec<(String, String)>,
    jurors: Vec<Juror>,
    form_errors: Vec<FormError>,
    /// Display name of the criteria in the address. Empty without criteria.
    criteria: String,
}

impl RescoreForm {
    async fn read(
        state: &PageState,
        user: SessionUser,
        filled: Vec<(String, String)>,
        form_errors: Vec<FormError>,
    ) -> Result<Self, PageError> {
        let named = filled.iter().find(|(name, _)| name == "with");
        let named = named.map_or("", |(_, value)| value.as_str());
        let criteria = match named {
            "" => String::new(),
            hash => called_by_hash(state, &user, hash).await?,
        };
        let known = state.infrastructure(&user).await?.judges;
        let configured = known.into_iter().filter(|judge| judge.configured);
        let juror = |judge: crate::wire::Judge| Juror {
            name: judge.name,
            simulated: judge.simulated,
        };
        Ok(Self {
            jurors: configured.map(juror).collect(),
            frame: Frame::load(state, user, "Rescore", "Score many sessions").await,
            filled,
            form_errors,
            criteria,
        })
    }

    fn filters(&self) -> impl Iterator<Item = &(String, String)> {
        let filled = self.filled.iter();
        filled.filter(|(name, value)| is_filter(name) && !value.trim().is_empty())
    }

    fn value(&self, name: &str) -> &str {
        let mut filled = self.filled.iter();
        let found = filled.find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    fn holds(&self, name: &str, value: &str) -> bool {
        let mut filled = self.filled.iter();
        filled.any(|(key, held)| key == name && held == value)
    }

    fn errors_of(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self
            .form_errors
            .iter()
            .filter(move |fault| fault.field == name);
        found.map(|fault| fault.message.as_str())
    }

    fn is_wrong(&self, name: &str) -> bool {
        self.errors_of(name).next().is_some()
    }

    /// Errors of fields that don't show them.
    fn other_errors(&self) -> impl Iterator<Item = &FormError> {
        let form_errors = self.form_errors.iter();
        form_errors.filter(|fault| !FIELDS.contains(&fault.field.as_str()))
    }

    /// ARIA attributes of an invalid field.
    fn marks(&self, name: &str) -> String {
        if !self.is_wrong(name) {
            return String::new();
        }
        format!(r#" aria-invalid="true" aria-describedby="{name}-fault""#)
    }
}

async fn show_form(
    State(state): State<PageState>,
    user: SessionUser,
    Address(filled): Address<Vec<(String, String)>>,
) -> Page {
    // An unknown filter is an error, because ignoring it would score all sessions.
    let strange = filled.iter().map(|(name, _)| name.as_str());
    let strange =
        strange.filter(|name| !is_filter(name) && !FIELDS.contains(name) && *name != "with");
    if let Some(name) = strange.into_iter().next() {
        let message = "is not a filter of this page: remove it from the query string";
        return Err(problem::of_field(name, message).into());
    }
    html(&RescoreForm::read(&state, user, filled, Vec::new()).await?)
}

/// Renders the form again with its errors. Any other problem has its own page.
async fn show_errors(state: &PageState, form: Form, fault: PageError) -> Page {
    let Some(form_errors) = form_errors(fault.problem()) else {
        return Err(fault);
    };
    let filled = form.rest();
    let page = RescoreForm::read(state, form.user, filled, form_errors).await?;
    with_status(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

async fn plan(State(state): State<PageState>, form: Form) -> Page {
    match planned(&state, &form).await {
        Ok(plan) => {
            let user = form.user.clone();
            let frame = Frame::load(&state, user, "Rescore", "Score many sessions").await;
            let key = Uuid::new_v4().to_string();
            let criteria = called_by_hash(&state, &form.user, &plan.criteria_hash).await?;
            html(&PlanPage::new(frame, &form, (plan, criteria), key))
        }
        Err(fault) => show_errors(&state, form, fault).await,
    }
}

async fn planned(state: &PageState, form: &Form) -> Result<RescorePlan, PageError> {
    let body = RescoreRequest {
        dry_run: true,
        ..body(form)?
    };
    let plan = |api, body| rescore::plan(api, body).map_ok(Json);
    form.post(state, rescore::RESCORE, body, plan).await
}

async fn start(State(state): State<PageState>, form: Form) -> Page {
    match started(&state, &form).await {
        Ok(batch) => redirect(form.user.fragment, &format!("/batches/{}", batch.batch_id)),
        Err(fault) => show_errors(&state, form, fault).await,
    }
}

async fn started(state: &PageState, form: &Form) -> Result<Batch, PageError> {
    let begin = |api, body| rescore::begin(api, body).map_ok(Json);
    form.post(state, rescore::RESCORE, body(form)?, begin).await
}
