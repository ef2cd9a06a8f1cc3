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
    verdict: String,
    checks: Vec<Check>,
    /// Judges that let nothing through or fail, each with why. The service is ready all the same: jobs wait for them.
    troubled: Vec<(String, String)>,
    /// Judges that are set up and no simulation.
    real: Vec<String>,
    settings: Vec<(String, String, String)>,
}

/// How the service is: its own word, and whether a judge keeps jobs waiting.
fn verdict(status: &str, troubled: &[(String, String)]) -> String {
    match troubled {
        [] => status.to_owned(),
        [_] => format!("{status}, a judge doesn't answer"),
        [_, _, ..] => format!("{status}, {} judges don't answer", troubled.len()),
    }
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
    let troubled: Vec<(String, String)> = judges
        .iter()
        .filter_map(|judge| judge.stopped().or_else(|| judge.failing()))
        .collect();
    let real = judges.into_iter().filter(|j| j.configured && !j.simulated);
    html(&SystemPage {
        real: real.map(|judge| judge.name).collect(),
        frame: Frame::of(
            &site,
            visitor,
            "System",
            format!("System {}", verdict(&ready.status, &troubled)),
        )
        .await,
        verdict: verdict(&ready.status, &troubled),
        troubled,
        checks: ready.checks.unwrap_or_default(),
        settings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(troubled: Vec<(String, String)>) -> String {
        let page = SystemPage {
            frame: Frame::bare(),
            verdict: verdict("ok", &troubled),
            checks: vec![Check {
                name: "database".to_owned(),
                ok: false,
                detail: Some("start <b>it</b>".to_owned()),
            }],
            troubled,
            real: Vec::new(),
            settings: Vec::new(),
        };
        page.render().unwrap()
    }

    #[test]
    fn what_is_not_well_stands_with_its_remedy() {
        let well = page(Vec::new());
        assert!(
            well.contains("System: ok<") && well.contains("not ok"),
            "{well}"
        );
        assert!(
            well.contains("OPENAI_API_KEY") && !well.contains("<b>it"),
            "{well}"
        );
        assert!(well.contains("Settings are shown to tokens with the scope admin."));
        let judge = page(vec![("<i>gpt</i>".to_owned(), "failing".to_owned())]);
        assert!(
            judge.contains("System: ok, a judge doesn&#39;t answer"),
            "{judge}"
        );
        assert!(judge.contains("failing") && judge.contains("/queue") && !judge.contains("<i>gpt"));
    }
}
