//! `/scores/{id}`: a score with its reasoning, missing tools, origin and ratings.

mod calls;
mod rating;
mod version;
mod view;

use askama::Template;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use uuid::Uuid;

use super::conversation::Case;
use super::frame::Frame;
use super::page::{Page, PageError, html};
use super::session_item;
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::{Path, scores, sessions};
use crate::wire::SessionItem;
use rating::Typed;
pub(super) use rating::{Opinion, opinion};
pub(super) use version::Version;
pub(super) use view::{ScoreDetail, again};

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/scores/{id}", get(score))
        .route("/scores/{id}/calls", get(calls::calls))
        .route("/jobs/{id}/calls", get(calls::of_job))
        .route("/scores/{id}/rate", axum::routing::post(rating::rate))
}

#[derive(Template)]
#[template(path = "score.html")]
struct ScorePage {
    frame: Frame,
    score: ScoreDetail,
    about: Option<SessionItem>,
    case: Case,
    /// Idempotency key of the form that requests another score.
    again_key: Uuid,
}

async fn score(State(state): State<PageState>, user: SessionUser, Path(id): Path<Uuid>) -> Page {
    html(&page(&state, user, id, Typed::default()).await?)
}

async fn page(
    state: &PageState,
    user: SessionUser,
    id: Uuid,
    typed: Typed,
) -> Result<ScorePage, PageError> {
    let Json(version) = scores::one_score(state.api(&user)?, Path(id)).await?;
    let mut score = ScoreDetail::load(state, &user, version).await?;
    score.typed = typed;
    let id = score.answer.session_id;
    let about = session_item::item(state, &user, id).await?;
    let session = sessions::read(state.api(&user)?, Path(id)).await?;
    let alert = about.as_ref().and_then(|item| item.alert_type.as_deref());
    let title = format!(
        "{} {} · {}",
        score.answer.total_score,
        words::rating(score.answer.total_score).0,
        alert.unwrap_or("session")
    );
    Ok(ScorePage {
        frame: Frame::load(state, user, "Sessions", title).await,
        score,
        about,
        case: Case::from(&session),
        again_key: Uuid::new_v4(),
    })
}
