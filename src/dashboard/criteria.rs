//! `/criteria`: the versions, by first use, with what scores came to under each; one version's text, and how it differs from the
//! current one.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::criteria_diff::{self, Drawn};
use super::frame::Frame;
use super::links::query;
use super::page::found;
use super::page::{Page, html};
use super::state::PageState;
use super::user::SessionUser;
use super::words::{self, Moment};
use crate::api::{Params, criteria};
use crate::job::Kind;
use crate::wire::CriteriaVersion;

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/criteria", get(versions))
        .route("/criteria/{hash}", get(version))
}

struct Row {
    hash: String,
    short: String,
    kind: String,
    current: bool,
    first: Option<Moment>,
    scores: String,
    mean: String,
    compare: Option<String>,
}

impl Row {
    fn of(version: CriteriaVersion, current: Option<&str>, now: DateTime<Utc>) -> Self {
        let compared = current.filter(|current| *current != version.criteria_hash);
        Self {
            short: words::short(&version.criteria_hash).to_owned(),
            current: version.is_current,
            first: version
                .first_scored_at
                .or(version.created_at)
                .map(|at| words::moment(at, now)),
            scores: words::grouped(version.scores),
            mean: match (version.mean_total, version.scores) {
                (Some(mean), _) if !version.kind.is_case() => format!("{mean:.1}"),
                (Some(mean), _) => words::percent(mean),
                (None, 0) => "not yet".to_owned(),
                // Means are made of real scores.
                (None, _) => "simulated only".to_owned(),
            },
            compare: compared
                .filter(|_| !version.kind.is_case() && version.scores > 0)
                .map(|current| {
                    format!(
                        "/compare{}",
                        query(&[("a", version.criteria_hash.as_str()), ("b", current)])
                    )
                }),
            kind: version.kind.in_words(),
            hash: version.criteria_hash,
        }
    }
}

#[derive(Template)]
#[template(path = "criteria.html")]
struct CriteriaPage {
    frame: Frame,
    /// What is wrong with the files that are configured; the versions below are those that hold meanwhile.
    faults: Vec<String>,
    rows: Vec<Row>,
}

async fn versions(State(state): State<PageState>, user: SessionUser) -> Page {
    let all = criteria::list(state.api(&user)?).await?;
    let seen = state.whole_infrastructure(&user).await?;
    let faults = seen
        .failed("criteria")
        .filter_map(|check| check.detail.clone());
    let faults = faults.collect();
    let now = state.about.clock.now();
    let current = current_of_sessions(&all.items);
    html(&CriteriaPage {
        frame: Frame::of(&state, user, "Criteria", "Criteria").await,
        faults,
        rows: all
            .items
            .into_iter()
            .map(|version| Row::of(version, current.as_deref(), now))
            .collect(),
    })
}

fn current_of_sessions(versions: &[CriteriaVersion]) -> Option<String> {
    let current = versions.iter().find(|v| v.is_current && !v.kind.is_case());
    current.map(|version| version.criteria_hash.clone())
}

#[derive(Template)]
#[template(path = "criteria_version.html")]
struct VersionPage {
    frame: Frame,
    row: Row,
    prompts: Vec<(String, String)>,
    settings: String,
    current: Option<String>,
    changes: Vec<Drawn>,
}

async fn version(
    State(state): State<PageState>,
    user: SessionUser,
    Path(hash): Path<String>,
) -> Page {
    let api = state.api(&user)?;
    let (detail, all) = tokio::try_join!(
        criteria::read(api, &hash, Kind::Session),
        criteria::list(api),
    )?;
    let now = state.about.clock.now();
    let kind = detail.version.kind;
    let current = all
        .items
        .iter()
        .find(|other| other.is_current && other.kind == kind)
        .map(|other| other.criteria_hash.clone())
        .filter(|current| *current != detail.version.criteria_hash);
    let changes = match &current {
        None => Vec::new(),
        Some(current) => {
            let own = detail.version.criteria_hash.as_str();
            let pair = Params::of(&[("a", own), ("b", current)]);
            let diff = found(criteria::diff::diff(api, pair).await)?;
            diff.map_or_else(Vec::new, criteria_diff::drawn)
        }
    };
    let (prompts, settings) = split(detail.content);
    let title = format!("Criteria {}", words::short(&detail.version.criteria_hash));
    html(&VersionPage {
        frame: Frame::of(&state, user, "Criteria", title).await,
        row: Row::of(detail.version, current.as_deref(), now),
        prompts,
        settings,
        current,
        changes,
    })
}

/// The prompts apart from the rest, which is JSON.
fn split(mut content: Value) -> (Vec<(String, String)>, String) {
    let mut prompts = Vec::new();
    if let Value::Object(members) = &mut content {
        for name in ["judge_prompt", "answer_prompt"] {
            if let Some(Value::String(text)) = members.shift_remove(name) {
                prompts.push((words::heading(name), text));
            }
        }
    }
    let settings = serde_json::to_string_pretty(&content).unwrap_or_default();
    (prompts, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_stand_apart_from_settings() {
        let content = serde_json::json!({"judge_prompt": "Be severe.", "scoring": {"max": 100}});
        let (prompts, settings) = split(content);
        assert_eq!(
            prompts,
            [("Judge prompt".to_owned(), "Be severe.".to_owned())]
        );
        assert!(settings.contains("\"max\": 100") && !settings.contains("severe"));
    }

    #[test]
    fn a_version_says_what_its_mean_is_of() {
        let row = |kind: &str, scores: i64, mean: Option<f64>| {
            let version = serde_json::json!({"criteria_hash": "abcdef0123", "kind": kind, "is_current": false, "scores": scores,
                "mean_total": mean, "created_at": null, "first_scored_at": null});
            let now = "2026-11-23T12:00:00Z".parse().unwrap();
            Row::of(
                serde_json::from_value(version).unwrap(),
                Some("current"),
                now,
            )
        };
        let known = [
            (row("session", 3, Some(70.06)), "70.1", true),
            (row("query", 3, Some(0.5)), "50%", false),
            (row("session", 0, None), "not yet", false),
            (row("session", 7, None), "simulated only", true),
        ];
        for (row, mean, is_compared) in known {
            assert_eq!(
                (row.mean.as_str(), row.compare.is_some()),
                (mean, is_compared)
            );
        }
    }
}
