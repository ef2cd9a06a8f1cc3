//! What surrounds every page: where one is, how the service does, who one is. The figures are those of the API.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::links::PARTS;
use super::page::{Page, html};
use super::state::PageState;
use super::status_bar::StatusBar;
use super::user::SessionUser;
use super::words;

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/status-bar", get(status_bar))
        .route("/help", get(help))
}

/// What surrounds a page.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The page's title, which carries its verdict.
    pub(super) title: String,
    /// The part of the site that the page belongs to.
    pub(super) part: &'static str,
    /// How the service does.
    pub(super) status_bar: StatusBar,
    pub(super) user: SessionUser,
    /// How soon a browser without JavaScript should load the page again, seconds; `None`: nothing on it moves.
    pub(super) again_s: Option<u32>,
}

impl Frame {
    /// A frame with the figures of now.
    pub(super) async fn load(
        state: &PageState,
        user: SessionUser,
        part: &'static str,
        title: impl Into<String>,
    ) -> Self {
        Self {
            title: words::straight(&title.into()),
            part,
            status_bar: state.status_bar(&user).await,
            user,
            again_s: None,
        }
    }

    /// A frame around a sample.
    #[cfg(test)]
    pub(super) fn bare() -> Self {
        Self {
            title: String::new(),
            part: "",
            status_bar: StatusBar::default(),
            user: SessionUser::anybody(),
            again_s: None,
        }
    }

    /// Says that something on the page moves.
    pub(super) fn moving(mut self, moves: bool) -> Self {
        self.again_s = moves.then_some(5);
        self
    }

    /// The links of the head, each with whether one is there.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        let here = self.part;
        PARTS
            .iter()
            .map(move |&(name, to)| (name, to, name == here))
    }
}

/// The line alone, for pages that stay open.
#[derive(Template)]
#[template(path = "status_bar.html")]
struct StatusBarPiece {
    status_bar: StatusBar,
}

async fn status_bar(State(state): State<PageState>, user: SessionUser) -> Page {
    html(&StatusBarPiece {
        status_bar: state.status_bar(&user).await,
    })
}

#[derive(Template)]
#[template(path = "help.html")]
struct HelpPage {
    frame: Frame,
}

async fn help(State(state): State<PageState>, user: SessionUser) -> Page {
    let frame = Frame::load(&state, user, "", "Keys").await;
    html(&HelpPage { frame })
}
