//! `/sessions/{id}`: alert and final analysis, then the conversation, the technical details, or the score history.

mod scoring_status;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::Method;
use axum::routing::{get, post};
use uuid::Uuid;

use super::confirm::{self, Confirmation, is_sure};
use super::conversation::{Case, PageRange, ShownMessage, Start, TABLE_PAGE_SIZE, shown_messages};
use super::form::Form;
use super::frame::Frame;
use super::links::MESSAGES;
use super::page::{Page, PageError, html, redirect};
use super::score::{ScoreDetail, Version};
use super::state::PageState;
use super::user::SessionUser;
use super::words::{self, Timestamp};
use crate::api::{self, Path};
use crate::wire::Session;
pub(super) use scoring_status::{LEFT, scoring_status};
use scoring_status::{ScoringStatus, Subject, subject};

const DELETED: &str =
    "Its messages, scores, ratings, jobs and judge calls go with it. It can't be undone.";
const MAX_SCORES: usize = 100;
/// Maximum number of tags and tools shown.
const MAX_NAMES: usize = 20;
/// Maximum length of a table cell, characters.
const MAX_CELL_CHARS: usize = 40;

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/sessions/{id}", get(conversation))
        .route("/sessions/{id}/technical", get(technical))
        .route("/sessions/{id}/score", get(score))
        .route("/sessions/{id}/history", get(history))
        .route("/sessions/{id}/state", get(current_status))
        .route("/sessions/{id}/scored", get(scored))
        .route("/sessions/{id}/scores", get(scores))
        .route("/sessions/{id}/delete", post(delete))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Conversation,
    Technical,
    Score,
    History,
}

impl Side {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Conversation, "Conversation", ""),
        (Self::Technical, "Technical", "/technical"),
        (Self::Score, "Score", "/score"),
        (Self::History, "History", "/history"),
    ];
}

/// Current score of a session, for live updates.
#[derive(Template)]
#[template(path = "session_scored.html")]
struct Scored {
    session_id: Uuid,
    score: Option<ScoreDetail>,
}

impl Scored {
    async fn read(
        state: &PageState,
        user: &SessionUser,
        session_id: Uuid,
    ) -> Result<Self, PageError> {
        Ok(Self {
            score: ScoreDetail::current_of(state, user, session_id).await?,
            session_id,
        })
    }
}

/// Score history of a session, for live updates.
#[derive(Template)]
#[template(path = "session_history.html")]
struct History {
    session_id: Uuid,
    versions: Vec<Version>,
    older: usize,
}

impl History {
    async fn read(
        state: &PageState,
        user: &SessionUser,
        session_id: Uuid,
    ) -> Result<Self, PageError> {
        let mut versions = Version::load_all(state, user, session_id).await?;
        let older = versions.len().saturating_sub(MAX_SCORES);
        versions.truncate(MAX_SCORES);
        Ok(Self {
            session_id,
            versions,
            older,
        })
    }
}

#[derive(Template)]
#[template(path = "session.html")]
struct SessionPage {
    frame: Frame,
    session: Session,
    case: Case,
    started: Option<Timestamp>,
    finished: Option<Timestamp>,
    scoring_status: ScoringStatus,
    side: Side,
    window: PageRange,
    shown_messages: Vec<ShownMessage>,
    scored: Option<Scored>,
    history: Option<History>,
}

impl SessionPage {
    fn sides(&self) -> impl Iterator<Item = (&'static str, String, bool)> {
        let (id, here) = (self.session.session_id, self.side);
        Side::ALL
            .into_iter()
            .map(move |(side, name, end)| (name, format!("/sessions/{id}{end}"), side == here))
    }

    fn pages(&self) -> impl Iterator<Item = (&'static str, String)> {
        let here = self.sides().find(|(_, _, here)| *here);
        let here = here.map_or_else(String::new, |(_, to, _)| to);
        let (before, next) = (self.window.before, self.window.next);
        let around = [("Earlier messages", before), ("Later messages", next)];
        let link = move |(word, from)| Some((word, format!("{here}?from={}", from?)));
        around.into_iter().filter_map(link)
    }

    fn lines(&self) -> impl Iterator<Item = (usize, [String; 3], usize)> {
        let cell = |text: Option<&str>| words::clip(text.unwrap_or("–"), MAX_CELL_CHARS);
        let shown = self.window.first..self.window.behind;
        shown.filter_map(move |at| {
            let message = self.session.conversation.get(at)?;
            let cells = [
                cell(Some(&message.role)),
                cell(message.tool_name.as_deref()),
                cell(message.at.as_deref().map(words::written).as_deref()),
            ];
            Some((at + 1, cells, message.content.len()))
        })
    }

    /// Truncates a list of names. Also returns the number of hidden ones.
    fn named(names: &[String]) -> (Vec<String>, usize) {
        let shown = names
            .iter()
            .take(MAX_NAMES)
            .map(|name| words::clip(name, MAX_CELL_CHARS));
        (shown.collect(), names.len().saturating_sub(MAX_NAMES))
    }
}

pub(super) async fn read(
    state: &PageState,
    user: &SessionUser,
    id: Uuid,
) -> Result<Session, PageError> {
    Ok(api::sessions::read(state.api(user)?, Path(id)).await?)
}

async fn conversation(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
    Query(start): Query<Start>,
) -> Page {
    page(&state, user, id, (Side::Conversation, start)).await
}

async fn technical(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
    Query(start): Query<Start>,
) -> Page {
    page(&state, user, id, (Side::Technical, start)).await
}

async fn score(State(state): State<PageState>, user: SessionUser, Path(id): Path<Uuid>) -> Page {
    page(&state, user, id, (Side::Score, Start::default())).await
}

async fn history(State(state): State<PageState>, user: SessionUser, Path(id): Path<Uuid>) -> Page {
    page(&state, user, id, (Side::History, Start::default())).await
}

async fn current_status(
    State(state): State<PageState>,
    user: SessionUser,
    Path(id): Path<Uuid>,
) -> Page {
    scoring_status(&state, &user, id).await
}

async fn scored(State(state): State<PageState>, user: SessionUser, Path(id): Path<Uuid>) -> Page {
    let subject = subject(&state, &user, id).await?;
    html(&Scored::read(&state, &user, subject.session_id).await?)
}

async fn scores(State(state): State<PageState>, user: SessionUser, Path(id): Path<Uuid>) -> Page {
    let subject = subject(&state, &user, id).await?;
    html(&History::read(&state, &user, subject.session_id).await?)
}

async fn delete(State(state): State<PageState>, Path(id): Path<Uuid>, form: Form) -> Page {
    if form.user.may_admin() && !is_sure(&form) {
        let question = Confirmation {
            title: "Delete this session?".to_owned(),
            consequence: DELETED.to_owned(),
            button: "Delete it",
            stops: true,
            part: "Sessions",
        };
        let action = format!("/sessions/{id}/delete");
        return confirm::show(&state, &form, action, question).await;
    }
    let (caller, route) = (&form.user.caller, api::sessions::SESSION);
    let allowed = state.api.authorize(caller, &Method::DELETE, route)?;
    api::sessions::delete_session(allowed, Path(id)).await?;
    redirect(form.user.fragment, "/sessions")
}

async fn page(
    state: &PageState,
    user: SessionUser,
    id: Uuid,
    (side, start): (Side, Start),
) -> Page {
    let session = read(state, &user, id).await?;
    let scoring_status = ScoringStatus::read(state, &user, Subject::from(&session)).await?;
    let now = state.about.clock.now();
    let (mut scored, mut history) = (None, None);
    match side {
        Side::Score => scored = Some(Scored::read(state, &user, session.session_id).await?),
        Side::History => history = Some(History::read(state, &user, session.session_id).await?),
        Side::Conversation | Side::Technical => {}
    }
    let size = match side {
        Side::Technical => TABLE_PAGE_SIZE,
        Side::Conversation | Side::Score | Side::History => MESSAGES,
    };
    let window = PageRange::at(start.place(), size, session.conversation.len());
    html(&SessionPage {
        frame: Frame::load(state, user, "Sessions", scoring_status.title())
            .await
            .moving(scoring_status.moves()),
        case: Case::from(&session),
        started: session.started_at.map(|at| words::timestamp(at, now)),
        finished: session.completed_at.map(|at| words::timestamp(at, now)),
        shown_messages: match side {
            Side::Conversation => shown_messages(&session, &window),
            Side::Technical | Side::Score | Side::History => Vec::new(),
        },
        window,
        session,
        scoring_status,
        side,
        scored,
        history,
    })
}
