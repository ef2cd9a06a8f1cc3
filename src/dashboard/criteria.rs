//! `/criteria`: criteria versions by first use, with the mean of their scores; the text of a version and its diff to the current one.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use futures::TryFutureExt as _;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::confirm::{self, Confirmation, is_sure};
use super::criteria_diff::{self, ChangedPart};
use super::form::Form;
use super::frame::Frame;
use super::links::{query, segment};
use super::page::{Page, PageError, error_html, found, html, is_fixable, redirect, with_status};
use super::state::PageState;
use super::user::SessionUser;
use super::words::{self, Timestamp};
use crate::api::criteria::named::CriteriaPair;
use crate::api::{ApiJson, Path, Query, criteria, problem};
use crate::job::Kind;
use crate::wire::{CriteriaVersion, NameRequest};

/// Fields with long texts, which have their own sections.
const PROMPTS: [&str; 2] = ["judge_prompt", "answer_prompt"];
const CONSEQUENCE: &str = "New requests of this kind are judged by them, in all processes within 5 s, until others are made current; \
    scores that there are stay, as scores of other criteria.";

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/criteria", get(versions))
        .route("/criteria/{hash}", get(version))
        .route("/criteria/{hash}/edit", get(edit).post(store))
        .route("/criteria/{hash}/name", post(name))
        .route("/criteria/{hash}/current", post(make_current))
}

/// Display name of a version: its name or the time of its first use, and the short hash.
pub(super) fn called(version: &CriteriaVersion) -> String {
    let short = words::short(&version.criteria_hash);
    let at = version.first_scored_at.or(version.created_at);
    match (&version.name, at) {
        (Some(name), _) => format!("{name} ({short})"),
        (None, Some(at)) => format!("of {} ({short})", at.format("%Y-%m-%d")),
        (None, None) => format!("not used yet ({short})"),
    }
}

/// Like [`called`], by hash. A hash that isn't stored is returned unchanged.
pub(super) async fn called_by_hash(
    state: &PageState,
    user: &SessionUser,
    hash: &str,
) -> Result<String, PageError> {
    let read = criteria::read(&state.api(user)?, hash, Kind::Session).await;
    let stored = found(read)?;
    Ok(stored.map_or_else(|| hash.to_owned(), |stored| called(&stored.version)))
}

struct CriteriaListRow {
    hash: String,
    short: String,
    name: String,
    note: String,
    kind: Kind,
    judge: String,
    current: bool,
    chosen: Option<(String, Timestamp)>,
    first: Option<Timestamp>,
    scores: String,
    mean: String,
    compare: Option<String>,
}

impl CriteriaListRow {
    fn new(version: CriteriaVersion, current: Option<&str>, now: DateTime<Utc>) -> Self {
        let compared = current.filter(|current| *current != version.criteria_hash);
        Self {
            short: words::short(&version.criteria_hash).to_owned(),
            mean: version.mean_in_words(),
            name: version.name.unwrap_or_default(),
            note: version.note.unwrap_or_default(),
            judge: version.judge,
            current: version.is_current,
            chosen: version
                .made_current
                .map(|made| (made.by, words::timestamp(made.at, now))),
            first: version.first_scored_at.map(|at| words::timestamp(at, now)),
            scores: words::grouped(version.scores),
            compare: compared
                .filter(|_| !version.kind.is_case() && version.scores > 0)
                .map(|current| {
                    format!(
                        "/compare{}",
                        query(&[("a", version.criteria_hash.as_str()), ("b", current)])
                    )
                }),
            kind: version.kind,
            hash: version.criteria_hash,
        }
    }
}

#[derive(Template)]
#[template(path = "criteria.html")]
struct CriteriaPage {
    frame: Frame,
    /// Errors in the configured criteria files. Until they are fixed, the listed versions stay in effect.
    file_errors: Vec<String>,
    rows: Vec<CriteriaListRow>,
}

async fn versions(State(state): State<PageState>, user: SessionUser) -> Page {
    let Json(all) = criteria::list_criteria(state.api(&user)?).await?;
    let seen = state.infrastructure_with_readiness(&user).await?;
    let file_errors = seen
        .failed("criteria")
        .filter_map(|check| check.detail.clone());
    let file_errors = file_errors.collect();
    let now = state.about.clock.now();
    let current = current_of_sessions(&all.items);
    html(&CriteriaPage {
        frame: Frame::load(&state, user, "Criteria", "Criteria").await,
        file_errors,
        rows: all
            .items
            .into_iter()
            .map(|version| CriteriaListRow::new(version, current.as_deref(), now))
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
    row: CriteriaListRow,
    prompts: Vec<(String, String)>,
    settings: String,
    current: Option<String>,
    changes: Vec<ChangedPart>,
    key: String,
}

async fn version(
    State(state): State<PageState>,
    user: SessionUser,
    Path(hash): Path<String>,
) -> Page {
    let api = state.api(&user)?;
    let (detail, Json(all)) = tokio::try_join!(
        criteria::read(&api, &hash, Kind::Session),
        criteria::list_criteria(api.clone()),
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
            let pair = CriteriaPair {
                a: current.clone(),
                b: detail.version.criteria_hash.clone(),
            };
            let diff = found(criteria::diff::diff_criteria(api, Query(pair)).await)?;
            diff.map_or_else(Vec::new, |Json(diff)| criteria_diff::changed_parts(diff))
        }
    };
    let (prompts, settings) = split(detail.content);
    let title = format!("Criteria {}", words::short(&detail.version.criteria_hash));
    html(&VersionPage {
        frame: Frame::load(&state, user, "Criteria", title).await,
        row: CriteriaListRow::new(detail.version, current.as_deref(), now),
        prompts,
        settings,
        current,
        changes,
        key: uuid::Uuid::new_v4().to_string(),
    })
}

/// Editor of a copied version, or of a rejected one as typed.
#[derive(Template)]
#[template(path = "criteria_edit.html")]
struct EditPage {
    frame: Frame,
    hash: String,
    name: String,
    note: String,
    /// Field, heading and text of each prompt.
    prompts: Vec<(&'static str, String, String)>,
    settings: String,
    error_html: String,
}

async fn edit(State(state): State<PageState>, user: SessionUser, Path(hash): Path<String>) -> Page {
    let detail = criteria::read(&state.api(&user)?, &hash, Kind::Session).await?;
    let (texts, settings) = split(detail.content);
    let texts = texts.into_iter().filter_map(|(heading, text)| {
        let field = PROMPTS.iter().find(|it| words::heading(it) == heading)?;
        Some((*field, heading, text))
    });
    html(&EditPage {
        frame: Frame::load(&state, user, "Criteria", "Edit criteria").await,
        hash: detail.version.criteria_hash,
        name: String::new(),
        note: String::new(),
        prompts: texts.collect(),
        settings,
        error_html: String::new(),
    })
}

/// Stores the edited text as a new version, which isn't current.
async fn store(State(state): State<PageState>, Path(hash): Path<String>, form: Form) -> Page {
    match stored(&state, &form, &hash).await {
        Ok(new) => redirect(form.user.fragment, &format!("/criteria/{new}")),
        Err(fault) if is_fixable(fault.problem()) && !form.user.fragment => {
            let text = |name: &str| form.text(name).unwrap_or_default().to_owned();
            let prompts = PROMPTS.into_iter().filter_map(|field| {
                let typed = form.text(field)?.to_owned();
                Some((field, words::heading(field), typed))
            });
            let page = EditPage {
                prompts: prompts.collect(),
                hash,
                name: text("name"),
                note: text("note"),
                settings: text("settings"),
                error_html: error_html(fault.problem()),
                frame: Frame::load(&state, form.user, "Criteria", "Edit criteria").await,
            };
            with_status(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(fault) => Err(fault),
    }
}

#[derive(Deserialize)]
struct NamedJudge {
    scoring: ScoringBy,
}

#[derive(Deserialize)]
struct ScoringBy {
    llm_provider: String,
}

/// Stores an edited copy of the version `copied`. Rejects an unchanged copy and one for a judge that isn't configured, because they
/// can't be previewed.
async fn stored(state: &PageState, form: &Form, copied: &str) -> Result<String, PageError> {
    let settings = form.text("settings").unwrap_or("{}");
    let mut content: Map<String, Value> = serde_json::from_str(settings).map_err(|error| {
        let fault = format!("is no JSON object: {error}");
        problem::of_field("settings", &fault)
    })?;
    for field in PROMPTS {
        if let Some((_, text)) = form.pairs().find(|(name, _)| name == field) {
            // Browsers send CRLF line ends.
            content.insert(field.to_owned(), text.replace("\r\n", "\n").into());
        }
    }
    let api = state.api(&form.user)?;
    let before = criteria::read(&api, copied, Kind::Session).await?;
    if before.content == Value::Object(content.clone()) {
        let fault = "is unchanged: edit a prompt or a setting first";
        return Err(problem::of_field("settings", fault).into());
    }
    // Malformed content is rejected below with the position of the error.
    let named_judge = NamedJudge::deserialize(&Value::Object(content.clone())).ok();
    if let Some(NamedJudge { scoring }) = named_judge
        && let Err(problem) = api.enqueue.check_judge(&scoring.llm_provider)
    {
        return Err(problem::of_field("scoring/llm_provider", &problem.named).into());
    }
    let add = |api, definition| criteria::add(api, definition).map_ok(Json);
    let added = form
        .post(state, criteria::CRITERIA, Value::Object(content), add)
        .await?;
    let is_named = ["name", "note"].into_iter().any(|field| form.ticked(field));
    if is_named {
        named(state, form, &added.criteria_hash).await?;
    }
    Ok(added.criteria_hash)
}

async fn named(state: &PageState, form: &Form, hash: &str) -> Result<CriteriaVersion, PageError> {
    let text = |field| form.text(field).map(str::to_owned);
    let body = NameRequest {
        name: text("name"),
        note: text("note"),
    };
    let name = |api, (hash, body)| criteria::name_criteria(api, hash, ApiJson(body));
    form.post(state, criteria::NAME, (Path(hash.to_owned()), body), name)
        .await
}

async fn name(State(state): State<PageState>, Path(hash): Path<String>, form: Form) -> Page {
    named(&state, &form, &hash).await?;
    redirect(form.user.fragment, &format!("/criteria/{}", segment(&hash)))
}

async fn make_current(
    State(state): State<PageState>,
    Path(hash): Path<String>,
    form: Form,
) -> Page {
    if form.user.may_admin() && !is_sure(&form) {
        let confirmation = Confirmation {
            title: "Make these criteria current?".to_owned(),
            consequence: CONSEQUENCE.to_owned(),
            button: "Make them current",
            stops: false,
            part: "Criteria",
        };
        let action = format!("/criteria/{}/current", segment(&hash));
        return confirm::show(&state, &form, action, confirmation).await;
    }
    let (route, act) = (criteria::CURRENT, criteria::post_current);
    form.post(&state, route, Path(hash.clone()), act).await?;
    redirect(form.user.fragment, &format!("/criteria/{}", segment(&hash)))
}

/// Splits criteria into their prompts and the remaining fields as JSON.
fn split(mut content: Value) -> (Vec<(String, String)>, String) {
    let mut prompts = Vec::new();
    if let Value::Object(members) = &mut content {
        for name in PROMPTS {
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
    fn splits_prompts_from_settings() {
        let content = serde_json::json!({"judge_prompt": "Be severe.", "scoring": {"max": 100}});
        let (prompts, settings) = split(content);
        assert_eq!(
            prompts,
            [("Judge prompt".to_owned(), "Be severe.".to_owned())]
        );
        assert!(settings.contains("\"max\": 100") && !settings.contains("severe"));
    }

    #[test]
    fn version_mean_names_its_scores() {
        let row = |kind: &str, scores: i64, real: i64, mean: Option<f64>| {
            let version = serde_json::json!({"criteria_hash": "abcdef0123", "kind": kind, "is_current": false, "scores": scores, "real_scores": real,
                "mean_total": mean, "created_at": null, "first_scored_at": null});
            let now = "2026-11-23T12:00:00Z".parse().unwrap();
            CriteriaListRow::new(
                serde_json::from_value(version).unwrap(),
                Some("current"),
                now,
            )
        };
        let known = [
            (row("session", 3, 3, Some(70.06)), "70.1", true),
            (row("query", 3, 3, Some(0.5)), "50%", false),
            (row("query", 24, 2, Some(1.0)), "100% of 2", false),
            (row("session", 0, 0, None), "not yet", false),
            (row("session", 7, 0, None), "simulated", true),
        ];
        for (row, mean, is_compared) in known {
            assert_eq!(
                (row.mean.as_str(), row.compare.is_some()),
                (mean, is_compared)
            );
        }
    }
}
