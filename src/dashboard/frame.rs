//! What surrounds every page: where one is, how the service does, who one is. The figures are those of the API.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};

use super::health::Health;
use super::infrastructure::{self, Infrastructure, JudgeState};
use super::page::{Fault, Page, html};
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::ApiError;
use crate::wire::Judge;

/// The parts of the site, in the order of the head.
pub(super) const PARTS: &[(&str, &str)] = &[
    ("Sessions", "/sessions"),
    ("Batches", "/batches"),
    ("Insights", "/insights"),
    ("Criteria", "/criteria"),
    ("Queue", "/queue"),
    ("System", "/system"),
];

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/strip", get(status_bar))
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
    pub(super) async fn of(
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

/// How the service does, in a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StatusBar {
    /// In the queue, in a worker's hand, failed in the last 24 h; empty if the figures can't be read.
    pub(super) counts: Vec<(&'static str, String)>,
    /// How many workers were heard within a minute.
    pub(super) workers: usize,
    /// How many of them are late with their word.
    pub(super) silent: usize,
    /// Whether Redis is away: work goes on from the database, and pages hear of nothing.
    pub(super) redis_away: bool,
    /// Judges that let nothing through, each with why.
    pub(super) stopped: Vec<(String, String)>,
    /// Judges that let calls through which fail, each with how many.
    pub(super) failing: Vec<(String, String)>,
    /// Whether each judge that is used was asked lately, and answered.
    pub(super) all_answer: bool,
    /// Whether the queue is paused.
    pub(super) paused: bool,
    /// Whether sessions are scored by a simulated judge.
    pub(super) simulated: bool,
    /// Whether there is work and nobody who does it.
    pub(super) deserted: Option<i64>,
    /// Why there are no figures.
    pub(super) fault: Option<String>,
}

impl StatusBar {
    /// What is said instead of what can't be read.
    pub(super) fn unread(error: ApiError) -> Self {
        Self {
            fault: Some(Fault::from(error).problem().detail.clone()),
            ..Self::default()
        }
    }

    pub(super) fn of(found: &Infrastructure, now: DateTime<Utc>) -> Self {
        let Infrastructure {
            queue,
            workers,
            judges,
            ..
        } = found;
        let counts = &queue.counts;
        let there = || {
            workers
                .iter()
                .filter(|worker| !infrastructure::is_gone(worker, now))
        };
        let alive = there().count();
        let to_do = counts.queued + counts.waiting + counts.running;
        let scores_sessions =
            |judge: &Judge| judge.simulated && judge.kinds.iter().any(|kind| !kind.is_case());
        Self {
            counts: vec![
                ("queued", words::count(counts.queued)),
                ("waiting", words::count(counts.waiting)),
                ("running", words::count(counts.running)),
                ("failed in 24 h", words::count(counts.failed_24h)),
            ],
            workers: alive,
            silent: there()
                .filter(|worker| !infrastructure::is_heard(worker, now))
                .count(),
            redis_away: found.failed("queue").next().is_some(),
            stopped: judges
                .iter()
                .filter(|judge| !judge.is_told_by_its_entry(judges))
                .filter_map(JudgeState::stopped)
                .collect(),
            failing: judges.iter().filter_map(JudgeState::failing).collect(),
            all_answer: {
                let mut used = judges.iter().filter(|j| !j.kinds.is_empty()).peekable();
                used.peek().is_some() && used.all(|judge| judge.health() == Health::Answers)
            },
            paused: queue.paused,
            simulated: judges.iter().any(scores_sessions),
            deserted: (alive == 0).then_some(to_do),
            fault: None,
        }
    }

    /// Whether all is well, as far as calls were made.
    pub(super) fn is_well(&self) -> bool {
        let stopped = self.paused || !self.stopped.is_empty() || !self.failing.is_empty();
        let heard = self.workers > self.silent && !self.redis_away;
        self.fault.is_none() && !stopped && self.all_answer && heard
    }
}

/// The line alone, for pages that stay open.
#[derive(Template)]
#[template(path = "strip.html")]
struct StripPiece {
    status_bar: StatusBar,
}

async fn status_bar(State(state): State<PageState>, user: SessionUser) -> Page {
    html(&StripPiece {
        status_bar: state.status_bar(&user).await,
    })
}

#[derive(Template)]
#[template(path = "help.html")]
struct HelpPage {
    frame: Frame,
}

async fn help(State(state): State<PageState>, user: SessionUser) -> Page {
    let frame = Frame::of(&state, user, "", "Keys").await;
    html(&HelpPage { frame })
}
