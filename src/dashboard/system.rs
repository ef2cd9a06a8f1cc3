//! `/system`: whether the service is well, and what to do where it isn't; versions and licences.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::Deserialize;

use super::frame::Frame;
use super::machinery;
use super::page::{Fault, Page, html};
use super::site::Site;
use super::visitor::Visitor;

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new().route("/system", get(system))
}

#[derive(Debug, Deserialize)]
struct Readiness {
    status: String,
    checks: Option<Vec<Check>>,
}

#[derive(Debug, Deserialize)]
struct Check {
    name: String,
    ok: bool,
    detail: Option<String>,
}

/// What a check says that isn't passed, in the words of the service.
pub(super) async fn faults(
    site: &Site,
    visitor: &Visitor,
    check: &str,
) -> Result<Vec<String>, Fault> {
    let ready: Readiness = site
        .door
        .get(&visitor.caller, "/readyz?verbose=true")
        .await?;
    let checks = ready.checks.unwrap_or_default().into_iter();
    let failed = checks.filter(|found| !found.ok && found.name == check);
    Ok(failed
        .map(|found| found.detail.unwrap_or_default())
        .collect())
}

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    frame: Frame,
    status: String,
    checks: Vec<Check>,
    /// Judges that are set up and no simulation.
    real: Vec<String>,
    settings: Vec<(String, String, String)>,
}

async fn system(State(site): State<Site>, visitor: Visitor) -> Page {
    let ready: Readiness = site
        .door
        .get(&visitor.caller, "/readyz?verbose=true")
        .await?;
    let settings = if visitor.may_admin() {
        site.about
            .settings
            .iter()
            .map(|one| (one.key.clone(), one.value.to_string(), one.origin.clone()))
            .collect()
    } else {
        Vec::new()
    };
    let judges = machinery::judges(&site.door, &visitor.caller).await?;
    let real = judges.into_iter().filter(|j| j.configured && !j.simulated);
    html(&SystemPage {
        real: real.map(|judge| judge.name).collect(),
        frame: Frame::of(&site, visitor, "System", format!("System {}", ready.status)).await,
        status: ready.status,
        checks: ready.checks.unwrap_or_default(),
        settings,
    })
}
