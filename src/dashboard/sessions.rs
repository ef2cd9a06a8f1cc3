//! `/sessions`: filtered and paginated list of sessions. The filters are in the address. Each row has a score button.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use futures::TryFutureExt as _;
use serde::Deserialize;
use uuid::Uuid;

use super::address::{Address, Filled};
use super::confirm::{self, Confirmation, is_sure};
use super::form::Form;
use super::frame::Frame;
use super::page::found;
use super::page::{Page, PageError, error_html, html, is_fixable, with_status};
use super::session_item::{Badge, by_ids, item, why_not};
use super::state::PageState;
use super::user::SessionUser;
use super::words::{self, Timestamp};
use crate::api::{Path, Query, read_query, scores, sessions};
use crate::wire::{PageQuery, Problem, ScoreRequest, SessionFilter, SessionItem, SessionSort};

const ROWS: u32 = 50;

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/sessions", get(list))
        .route("/sessions/rows", get(rows))
        .route("/sessions/{id}/score-now", axum::routing::post(score_now))
}

#[derive(Template)]
#[template(path = "session_row.html")]
pub(super) struct SessionListRow {
    pub(super) item: SessionItem,
    pub(super) finished: Option<Timestamp>,
    pub(super) scored: Option<Timestamp>,
    pub(super) badge: Badge,
    pub(super) may_score: bool,
    pub(super) why_not: String,
    pub(super) form_token: String,
    pub(super) key: String,
}

impl SessionListRow {
    fn new(item: SessionItem, user: &SessionUser, now: DateTime<Utc>) -> Self {
        Self {
            finished: item.completed_at.map(|at| words::timestamp(at, now)),
            scored: item
                .score
                .as_ref()
                .map(|s| words::timestamp(s.scored_at, now)),
            badge: Badge::new(item.session_id, item.score.as_ref()),
            may_score: user.may_enqueue(),
            why_not: why_not(item.scorable, item.status),
            form_token: user.form_token.clone(),
            key: Uuid::new_v4().to_string(),
            item,
        }
    }

    /// Message shown when the session's scoring has finished.
    fn finished_text(&self) -> String {
        let what = self.item.alert_type.as_deref().unwrap_or("A session");
        match self.badge.total {
            Some((total, word)) => format!("{what}: {total} / 100 {word}"),
            None if self.item.failed.is_some() => format!("{what}: scoring failed"),
            None => format!("{what}: not scored"),
        }
    }
}

#[derive(Template)]
#[template(path = "sessions.html")]
struct SessionsPage {
    frame: Frame,
    filter: Filled,
    rows: Vec<SessionListRow>,
    /// Whether the page isn't full although there are more: the API limits the number of sessions scanned per page.
    short: bool,
    next: Option<String>,
    first: Option<String>,
    error_html: String,
}

impl SessionsPage {
    /// Whether a filter under "More filters" is set.
    fn has_more(&self) -> bool {
        let first = ["q", "scored", "rating", "criteria"];
        self.filter.set().any(|(name, _)| !first.contains(&name))
    }

    fn matching(&self) -> String {
        match (self.rows.len(), &self.next, &self.first) {
            (1, None, None) => "the matching one".to_owned(),
            (n, None, None) => format!("all {n} that match"),
            (n, Some(_), None) if !self.short => format!("all that match, more than {n}"),
            (_, _, _) => "all that match".to_owned(),
        }
    }
}

async fn show_errors(
    state: &PageState,
    user: SessionUser,
    filter: Filled,
    problem: &Problem,
) -> Page {
    let page = SessionsPage {
        frame: Frame::load(state, user, "Sessions", "Sessions").await,
        filter,
        rows: Vec::new(),
        short: false,
        next: None,
        first: None,
        error_html: error_html(problem),
    };
    with_status(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

async fn list(State(state): State<PageState>, user: SessionUser, filter: Filled) -> Page {
    let read = async {
        let (filters, sort, mut page): (SessionFilter, SessionSort, PageQuery) =
            read_query(filter.pairs())?;
        page.limit = Some(ROWS);
        sessions::list_sessions(state.api(&user)?, Query((filters, sort, page))).await
    };
    let Json(found) = match read.await {
        Ok(found) => found,
        Err(error) => {
            let fault = PageError::from(error);
            return match is_fixable(fault.problem()) {
                true => show_errors(&state, user, filter, fault.problem()).await,
                false => Err(fault),
            };
        }
    };
    let now = state.about.clock.now();
    let rows: Vec<SessionListRow> = found
        .items
        .into_iter()
        .map(|item| SessionListRow::new(item, &user, now))
        .collect();
    let moves = rows.iter().any(|row| row.item.active_job.is_some());
    let page = |cursor: &str| format!("/sessions{}", filter.page(cursor));
    html(&SessionsPage {
        short: rows.len() < ROWS as usize && found.next_cursor.is_some(),
        next: found.next_cursor.as_deref().map(page),
        first: (!filter.of("cursor").is_empty()).then(|| page("")),
        frame: Frame::load(&state, user, "Sessions", "Sessions")
            .await
            .moving(moves),
        filter,
        rows,
        error_html: String::new(),
    })
}

#[derive(Debug, Deserialize)]
struct Wanted {
    /// Comma-separated session ids.
    ids: String,
}

#[derive(Template)]
#[template(path = "session_rows.html")]
struct SessionListRows {
    rows: Vec<SessionListRow>,
    /// Deleted sessions. Their rows are removed.
    gone: Vec<Uuid>,
}

async fn rows(
    State(state): State<PageState>,
    user: SessionUser,
    Address(wanted): Address<Wanted>,
) -> Page {
    // Without ids the API would list all sessions.
    let mut gone: Vec<Uuid> = wanted.ids.split(',').flat_map(str::parse).collect();
    if gone.is_empty() {
        return html(&SessionListRows { rows: vec![], gone });
    }
    let found = by_ids(&state, &user, gone.clone(), PageQuery::first(ROWS)).await?;
    let is_whole = found.next_cursor.is_none();
    gone.retain(|id| is_whole && found.items.iter().all(|item| item.session_id != *id));
    let now = state.about.clock.now();
    let rows = found.items.into_iter();
    html(&SessionListRows {
        rows: rows
            .map(|item| SessionListRow::new(item, &user, now))
            .collect(),
        gone,
    })
}

/// Requests a score. Returns the row for htmx, otherwise redirects back.
async fn score_now(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    if form.ticked("force") && form.user.may_enqueue() && !is_sure(&form) {
        let score = found(scores::current(state.api(&form.user)?, Path(id)).await)?;
        let confirmation = Confirmation {
            title: "Score this session again?".to_owned(),
            consequence: score.as_ref().map_or_else(String::new, super::score::again),
            button: "Score again",
            stops: false,
            part: "Sessions",
        };
        let action = format!("/sessions/{id}/score-now");
        return confirm::show(&state, &form, action, confirmation).await;
    }
    let body = ScoreRequest {
        force_rescore: form.ticked("force"),
        ..ScoreRequest::default()
    };
    let ask = |api, (id, body)| scores::ask(api, id, Ok(body)).map_ok(|_| Json(()));
    form.post(&state, scores::SCORE, (Path(id), body), ask)
        .await?;
    match form.text("piece").filter(|_| form.user.fragment) {
        Some("row") => {
            if let Some(item) = item(&state, &form.user, id).await? {
                return html(&SessionListRow::new(
                    item,
                    &form.user,
                    state.about.clock.now(),
                ));
            }
        }
        Some("state") => return super::session::scoring_status(&state, &form.user, id).await,
        Some(_) | None => {}
    }
    form.back_to(&format!("/sessions/{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::session_item;
    use serde_json::{Value, json};

    const BAD: &str = "<script>alert(1)</script>";

    fn row(change: &Value) -> SessionListRow {
        let mut item = session_item(change);
        item["alert_type"] = BAD.into();
        item["agent"] = BAD.into();
        item["tags"] = json!([BAD, "b", "c", "d", "e", "f", "g"]);
        let now = "2026-11-23T12:00:00Z".parse().unwrap();
        SessionListRow::new(
            serde_json::from_value(item).unwrap(),
            &SessionUser::without_tokens(),
            now,
        )
    }

    fn score(total: u8) -> Value {
        json!({"score": {"score_id": "01938c4e-7a10-7c3e-9b41-2f6d8e0a1c02", "total_score": total, "rating": "adequate", "criteria_hash": "abcdef0123",
            "is_current_criteria": false, "simulated": true, "scored_at": "2026-11-23T11:30:00Z", "scored_triggered_by": BAD}})
    }

    fn rendered(change: &Value) -> String {
        let mut row = row(change);
        row.may_score = true;
        row.render().unwrap()
    }

    #[test]
    fn row_shows_status_and_matching_action() {
        let unscorable = json!({"status": "in_progress", "scorable": false});
        let mut scored = score(71);
        let known = [
            (
                rendered(&json!({})),
                ["Not scored", ">Score<span class=\"wide\"> session</span><"],
            ),
            (
                rendered(
                    &json!({"active_job": {"job_id": Uuid::nil(), "state": "running", "href": "/"}}),
                ),
                ["scoring", "Scoring </span>…"],
            ),
            (
                rendered(
                    &json!({"active_job": {"job_id": Uuid::nil(), "state": "waiting", "href": "/"}}),
                ),
                ["waiting", "Scoring </span>…"],
            ),
            (
                rendered(&json!({"failed": "too_large"})),
                ["scoring failed", ">Try<span class=\"wide\"> again</span><"],
            ),
            (
                rendered(&unscorable),
                ["only sessions that have ended", "disabled"],
            ),
            (
                rendered(&scored),
                ["adequate", ">Score<span class=\"wide\"> again</span><"],
            ),
            (rendered(&scored), ["outdated", "simulated"]),
        ];
        for (text, parts) in known {
            for part in parts {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(
                !text.contains("<script>") && text.contains("and 2 more"),
                "{text}"
            );
        }
        let mut reader = row(&scored);
        reader.may_score = false;
        let reader = reader.render().unwrap();
        assert!(
            !reader.contains("<form") && !reader.contains("<button"),
            "{reader}"
        );
        scored["failed"] = "transient".into();
        assert_eq!(
            row(&scored).finished_text(),
            format!("{BAD}: 71 / 100 adequate")
        );
    }

    #[test]
    fn empty_list_explains_import_or_offers_to_clear_filters() {
        let page = |filter: Filled| SessionsPage {
            frame: Frame::bare(),
            filter,
            rows: Vec::new(),
            short: false,
            next: None,
            first: None,
            error_html: String::new(),
        };
        let none = page(Filled::default()).render().unwrap();
        assert!(none.contains("No sessions yet") && none.contains("PUT /api/v1/sessions/ID"));
        let narrowed = Filled::new("q", BAD);
        let narrowed = page(narrowed).render().unwrap();
        assert!(
            narrowed.contains("No matching sessions") && narrowed.contains("Clear the filters")
        );
        assert!(!narrowed.contains(BAD), "{narrowed}");
    }

    #[test]
    fn shows_known_number_of_matches() {
        let page = |rows: usize, next: bool, short: bool| {
            let page = SessionsPage {
                frame: Frame::bare(),
                filter: Filled::default(),
                rows: (0..rows).map(|_| row(&json!({}))).collect(),
                short,
                next: next.then(|| "/sessions?cursor=x".to_owned()),
                first: None,
                error_html: String::new(),
            };
            page.matching()
        };
        assert_eq!(page(1, false, false), "the matching one");
        assert_eq!(page(3, false, false), "all 3 that match");
        assert_eq!(page(50, true, false), "all that match, more than 50");
        assert_eq!(page(3, true, true), "all that match");
    }
}
