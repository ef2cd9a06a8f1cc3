//! Layout around each page: navigation, status bar, user. Its numbers come from the API.

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

#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// Page title, including the verdict.
    pub(super) title: String,
    pub(super) part: &'static str,
    pub(super) status_bar: StatusBar,
    pub(super) user: SessionUser,
    /// Refresh interval for browsers without JavaScript, seconds. `None` if the page has no live data.
    pub(super) again_s: Option<u32>,
}

impl Frame {
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

    #[cfg(test)]
    pub(super) fn bare() -> Self {
        Self {
            title: String::new(),
            part: "",
            status_bar: StatusBar::default(),
            user: SessionUser::without_tokens(),
            again_s: None,
        }
    }

    pub(super) fn moving(mut self, moves: bool) -> Self {
        self.again_s = moves.then_some(5);
        self
    }

    /// Links of the navigation: label, address, whether it is the current section.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        let here = self.part;
        PARTS
            .iter()
            .map(move |&(name, to)| (name, to, name == here))
    }
}

#[derive(Template)]
#[template(path = "status_bar.html")]
struct StatusBarFragment {
    status_bar: StatusBar,
}

async fn status_bar(State(state): State<PageState>, user: SessionUser) -> Page {
    html(&StatusBarFragment {
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
