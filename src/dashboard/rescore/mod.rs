//! `/rescore`: score what a filter finds again, or under other criteria. Always plans first: how many, what it costs, how long; then
//! asks, then does it. What was filled in wrongly is told in the form, with all that was filled in.

mod plan;
mod request;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use uuid::Uuid;

use super::address::Address;
use super::form::Form;
use super::frame::Frame;
use super::machinery::judges;
use super::page::{Page, go, html, with_status};
use super::site::Site;
use super::visitor::Visitor;
use crate::api::Problem;
use crate::wire::{Batch, RescorePlan};
use plan::PlanPage;
use request::{FieldFault, body, faults, is_filter};

/// The fields that tell their own faults; those of others stand above the form.
const TOLD: [&str; 9] = [
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

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/rescore", get(ask).post(plan))
        .route("/rescore/go", post(start))
}

/// A judge that can sit in a jury.
struct Juror {
    name: String,
    simulated: bool,
}

/// The form.
#[derive(Template)]
#[template(path = "rescore.html")]
struct Ask {
    frame: Frame,
    /// What was filled in, or stands in the address.
    filled: Vec<(String, String)>,
    jurors: Vec<Juror>,
    faults: Vec<FieldFault>,
}

impl Ask {
    async fn read(
        site: &Site,
        visitor: Visitor,
        filled: Vec<(String, String)>,
        faults: Vec<FieldFault>,
    ) -> Result<Self, Box<Problem>> {
        let known = judges(&site.door, &visitor.caller).await?;
        let configured = known.into_iter().filter(|judge| judge.configured);
        let juror = |judge: crate::wire::Judge| Juror {
            name: judge.name,
            simulated: judge.simulated,
        };
        Ok(Self {
            jurors: configured.map(juror).collect(),
            frame: Frame::of(site, visitor, "Sessions", "Score many sessions").await,
            filled,
            faults,
        })
    }

    /// What says which sessions.
    fn filters(&self) -> impl Iterator<Item = &(String, String)> {
        let filled = self.filled.iter();
        filled.filter(|(name, value)| is_filter(name) && !value.trim().is_empty())
    }

    /// What was filled into a field; empty: nothing.
    fn value(&self, name: &str) -> &str {
        let mut filled = self.filled.iter();
        let found = filled.find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// Whether a field holds this, among others.
    fn holds(&self, name: &str, value: &str) -> bool {
        let mut filled = self.filled.iter();
        filled.any(|(key, held)| key == name && held == value)
    }

    /// What is wrong with a field.
    fn faults_of(&self, name: &str) -> impl Iterator<Item = &str> {
        let told = self.faults.iter().filter(move |fault| fault.field == name);
        told.map(|fault| fault.message.as_str())
    }

    /// Whether a field is to be mended.
    fn is_wrong(&self, name: &str) -> bool {
        self.faults_of(name).next().is_some()
    }

    /// What is wrong elsewhere.
    fn other_faults(&self) -> impl Iterator<Item = &FieldFault> {
        let faults = self.faults.iter();
        faults.filter(|fault| !TOLD.contains(&fault.field.as_str()))
    }

    /// The attributes by which a field that is wrong says so.
    fn marks(&self, name: &str) -> String {
        if !self.is_wrong(name) {
            return String::new();
        }
        format!(r#" aria-invalid="true" aria-describedby="{name}-fault""#)
    }
}

/// Asks what to score, starting from the list's filters.
async fn ask(
    State(site): State<Site>,
    visitor: Visitor,
    Address(filled): Address<Vec<(String, String)>>,
) -> Page {
    // What is passed over here would be scored: everything, where a filter was meant.
    let strange = filled.iter().map(|(name, _)| name.as_str());
    let strange =
        strange.filter(|name| !is_filter(name) && !TOLD.contains(name) && *name != "with");
    if let Some(name) = strange.into_iter().next() {
        let message = "narrows nothing here: correct the address behind the question mark";
        return Err(Box::new(Problem::of_field(name, message)).into());
    }
    html(&Ask::read(&site, visitor, filled, Vec::new()).await?)
}

/// The form once more, with what is wrong in it; another problem is a page of its own.
async fn ask_again(site: &Site, form: Form, problem: Box<Problem>) -> Page {
    let Some(faults) = faults(&problem) else {
        return Err(problem.into());
    };
    let filled = form.rest();
    let page = Ask::read(site, form.visitor, filled, faults).await?;
    with_status(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

async fn plan(State(site): State<Site>, form: Form) -> Page {
    match planned(&site, &form).await {
        Ok(plan) => {
            let visitor = form.visitor.clone();
            let frame = Frame::of(&site, visitor, "Sessions", "Score many sessions").await;
            let key = Uuid::new_v4().to_string();
            html(&PlanPage::of(frame, &form, plan, key))
        }
        Err(problem) => ask_again(&site, form, problem).await,
    }
}

async fn planned(site: &Site, form: &Form) -> Result<RescorePlan, Box<Problem>> {
    let mut body = body(form)?;
    body.insert("dry_run".to_owned(), true.into());
    let caller = &form.visitor.caller;
    let done = site.door.post(caller, "/api/v1/rescore", None, &body);
    done.await?.json()
}

async fn start(State(site): State<Site>, form: Form) -> Page {
    match started(&site, &form).await {
        Ok(batch) => go(form.visitor.piece, &format!("/batches/{}", batch.batch_id)),
        Err(problem) => ask_again(&site, form, problem).await,
    }
}

async fn started(site: &Site, form: &Form) -> Result<Batch, Box<Problem>> {
    let body = body(form)?;
    let caller = &form.visitor.caller;
    let done = site.door.post(caller, "/api/v1/rescore", form.key(), &body);
    done.await?.json()
}
