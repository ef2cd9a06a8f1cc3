//! `/system`: health with remedies, versions, settings and licences.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::frame::Frame;
use super::infrastructure::{Alert, Infrastructure, alert, trouble};
use super::page::{Page, html};
use super::state::PageState;
use super::status_bar::StatusBar;
use super::user::SessionUser;
use crate::wire::{Check, Judge};

pub(super) fn routes() -> Router<PageState> {
    Router::new().route("/system", get(system))
}

struct BlockedJudge {
    name: String,
    why: String,
    remedy: &'static str,
    colour: &'static str,
}

fn blocked_judges(judges: &[Judge]) -> Vec<BlockedJudge> {
    let blocked_judges = judges.iter().filter_map(|judge| {
        let why = trouble(judge)?;
        let (remedy, colour) = match alert(judge)? {
            Alert::Paused => ("Its jobs wait until you resume it, in", "waiting"),
            Alert::Capped => (
                "Its jobs wait until the cap's day or month is over, or the cap is raised:",
                "waiting",
            ),
            Alert::Slow => (
                "Its jobs wait and resume automatically. Until when:",
                "waiting",
            ),
            Alert::Unset => ("Its jobs wait until it is set up:", "failed"),
            Alert::Refused => (
                "Its jobs wait until you correct its key, model or address and restart the workers, or top up its quota and resume it, in",
                "failed",
            ),
            Alert::Silent => ("Its jobs wait. Why, and what to do:", "failed"),
        };
        Some(BlockedJudge {
            name: judge.name.clone(),
            why,
            remedy,
            colour,
        })
    });
    blocked_judges.collect()
}

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    frame: Frame,
    verdict: String,
    checks: Vec<Check>,
    /// Stopped or failing judges, each with reason and remedy. They don't affect readiness, because jobs wait for them.
    blocked_judges: Vec<BlockedJudge>,
    real: Vec<String>,
    settings: Vec<(String, String, String)>,
}

/// Summary of the health: readiness, missing workers, and reasons why jobs of judges wait.
fn verdict(status: &str, workers: &Check, judges: &[Judge]) -> String {
    let mut said = vec![status.to_owned()];
    if !workers.ok {
        said.push("no worker is running".to_owned());
    }
    let mut found: BTreeMap<Alert, BTreeSet<&str>> = BTreeMap::new();
    for judge in judges {
        if let Some(alert) = alert(judge) {
            // A model requested by name is reported under its judge's entry.
            found.entry(alert).or_default().insert(judge.entry());
        }
    }
    for (alert, entries) in found {
        let what = match (alert, entries.len()) {
            (Alert::Silent, 1) => "a judge doesn't answer".to_owned(),
            (Alert::Silent, n) => format!("{n} judges don't answer"),
            (Alert::Unset, 1) => "a judge isn't set up".to_owned(),
            (Alert::Unset, n) => format!("{n} judges aren't set up"),
            (Alert::Refused, 1) => "a judge rejects calls".to_owned(),
            (Alert::Refused, n) => format!("{n} judges reject calls"),
            (Alert::Slow, 1) => "a judge limits our rate".to_owned(),
            (Alert::Slow, n) => format!("{n} judges limit our rate"),
            (Alert::Capped, 1) => "a judge has reached its cap".to_owned(),
            (Alert::Capped, n) => format!("{n} judges have reached their cap"),
            (Alert::Paused, 1) => "a judge is paused".to_owned(),
            (Alert::Paused, n) => format!("{n} judges are paused"),
        };
        said.push(what);
    }
    said.join(", ")
}

fn workers(status_bar: &StatusBar) -> Check {
    let ok = status_bar.workers > 0;
    let silent = match status_bar.silent {
        0 => None,
        n if n == status_bar.workers => Some(
            "No heartbeat for some seconds; after a minute without one, workers count as gone."
                .to_owned(),
        ),
        n => Some(format!(
            "{n} of {} sent no heartbeat for some seconds.",
            status_bar.workers
        )),
    };
    Check {
        name: "workers".to_owned(),
        ok,
        detail: match ok {
            true => silent,
            false => Some(
                "No worker is running: start one with the same settings as this server (gavel worker). If this server is gavel up, restart it."
                    .to_owned(),
            ),
        },
    }
}

async fn system(State(state): State<PageState>, user: SessionUser) -> Page {
    let Infrastructure {
        judges, readiness, ..
    } = state.infrastructure_with_readiness(&user).await?;
    let settings = if user.may_admin() {
        state
            .about
            .settings
            .iter()
            .map(|one| (one.key.clone(), one.value.to_string(), one.origin.clone()))
            .collect()
    } else {
        Vec::new()
    };
    let status_bar = state.status_bar(&user).await;
    let mut checks = readiness.checks.unwrap_or_default();
    let workers = match checks.iter().position(|check| check.name == "workers") {
        Some(at) => checks.remove(at),
        None => workers(&status_bar),
    };
    let verdict = verdict(readiness.status.as_str(), &workers, &judges);
    checks.push(workers);
    let blocked_judges = blocked_judges(&judges);
    let real = judges.into_iter().filter(|j| j.configured && !j.simulated);
    html(&SystemPage {
        real: real.map(|judge| judge.name).collect(),
        frame: Frame::load(&state, user, "System", format!("System {verdict}")).await,
        verdict,
        blocked_judges,
        checks,
        settings,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::infrastructure;
    use super::*;

    fn judge(name: &str, reason: Option<&str>) -> Judge {
        let hold = reason.map(|reason| infrastructure::tests::hold(reason, ""));
        infrastructure::tests::judge(name, &json!({"kinds": ["session"], "hold": hold}))
    }

    fn status_bar(there: usize, silent: usize) -> StatusBar {
        StatusBar {
            workers: there,
            silent,
            ..StatusBar::default()
        }
    }

    fn page(status_bar: &StatusBar, judges: &[Judge]) -> String {
        let workers = workers(status_bar);
        let page = SystemPage {
            frame: Frame::bare(),
            verdict: verdict("ok", &workers, judges),
            checks: vec![
                Check {
                    name: "database".to_owned(),
                    ok: false,
                    detail: Some("start <b>it</b>".to_owned()),
                },
                workers,
            ],
            blocked_judges: blocked_judges(judges),
            real: Vec::new(),
            settings: Vec::new(),
        };
        page.render().unwrap()
    }

    #[test]
    fn failed_checks_show_remedies() {
        let well = page(&status_bar(2, 0), &[judge("gpt", None)]);
        assert!(
            well.contains("System: ok<") && well.contains("not ok"),
            "{well}"
        );
        assert!(
            well.contains("OPENAI_API_KEY") && !well.contains("<b>it"),
            "{well}"
        );
        assert!(well.contains("Settings are shown to tokens with the scope admin."));
        let alone = page(&status_bar(0, 0), &[]);
        assert!(
            alone.contains("System: ok, no worker is running<"),
            "{alone}"
        );
        assert!(alone.contains("(gavel worker)"), "{alone}");
        let late = page(&status_bar(2, 1), &[]);
        assert!(
            late.contains("System: ok<") && late.contains("1 of 2 sent no heartbeat"),
            "{late}"
        );
    }

    #[test]
    fn verdict_counts_judges_by_entry() {
        let judges = [
            judge("<i>gpt</i>", Some("misconfigured")),
            judge("<i>gpt</i>:mini", Some("misconfigured")),
            judge("a", Some("paused")),
            judge("b", Some("paused")),
            judge("c", Some("budget")),
            judge("d", Some("throttled")),
        ];
        let text = page(&status_bar(1, 0), &judges);
        assert!(
            text.contains(
                "System: ok, a judge rejects calls, a judge limits our rate, a judge has reached its cap, 2 judges are paused<"
            ),
            "{text}"
        );
        assert!(text.contains("until you resume it") && text.contains("/queue"));
        assert!(!text.contains("<i>gpt"), "{text}");
    }
}
