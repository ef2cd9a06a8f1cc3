//! `/sessions/{id}`: the alert and what the agent concluded, then the conversation, its technical side, or the scores it had.

use askama::Template;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::conversation::{
    LINES, MESSAGES, Said, Start, Window, alert_in_short, analysis_in_short, said,
};
use super::form::segment;
use super::frame::Frame;
use super::markdown::Cut;
use super::page::{Fault, Page, html};
use super::score::{Score, Version};
use super::sessions::{self, Badge, why_not};
use super::site::Site;
use super::visitor::Visitor;
use super::waits::Wait;
use super::words::{self, Moment};

/// How many scores the history lists, the newest.
const SCORES: usize = 100;
/// How many tags and tools are named.
const NAMED: usize = 20;
/// Characters of what stands in a cell.
const CELL: usize = 40;

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/sessions/{id}", get(conversation))
        .route("/sessions/{id}/technical", get(technical))
        .route("/sessions/{id}/score", get(score))
        .route("/sessions/{id}/history", get(history))
        .route("/sessions/{id}/state", get(state))
        .route("/sessions/{id}/scored", get(scored))
        .route("/sessions/{id}/scores", get(scores))
}

/// A session as the API answers it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Session {
    pub(super) session_id: Uuid,
    pub(super) source: String,
    pub(super) status: String,
    pub(super) scorable: bool,
    pub(super) alert_type: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) author: Option<String>,
    pub(super) alert_data: Value,
    pub(super) conversation: Vec<Message>,
    pub(super) final_analysis: Option<String>,
    pub(super) tools: Vec<String>,
    pub(super) tags: Vec<String>,
    pub(super) started_at: Option<DateTime<Utc>>,
    pub(super) completed_at: Option<DateTime<Utc>>,
}

/// A message of a conversation.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) content: String,
    pub(super) tool_name: Option<String>,
    pub(super) at: Option<String>,
}

/// A job as far as the state of a session shows it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Job {
    pub(super) job_id: Uuid,
    pub(super) state: String,
    pub(super) retries: i32,
    pub(super) judge: Option<String>,
    pub(super) wait: Option<Wait>,
    pub(super) error: Option<JobError>,
}

/// Why a job failed.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct JobError {
    pub(super) class: String,
    pub(super) message: String,
    pub(super) remedy: String,
}

#[derive(Debug, Deserialize)]
struct Jobs {
    items: Vec<Job>,
}

/// What its standing needs to know of a session: none of what was said in it.
struct Subject {
    session_id: Uuid,
    status: String,
    scorable: bool,
    alert_type: Option<String>,
}

impl From<&Session> for Subject {
    fn from(session: &Session) -> Self {
        Self {
            session_id: session.session_id,
            status: session.status.clone(),
            scorable: session.scorable,
            alert_type: session.alert_type.clone(),
        }
    }
}

impl From<sessions::Item> for Subject {
    fn from(item: sessions::Item) -> Self {
        Self {
            session_id: item.session_id,
            status: item.status,
            scorable: item.scorable,
            alert_type: item.alert_type,
        }
    }
}

/// Where a session's scoring stands, with the button that asks for it.
#[derive(Template)]
#[template(path = "session_state.html")]
struct Standing {
    session_id: Uuid,
    alert_type: Option<String>,
    badge: Badge,
    /// What another score does to the one it has.
    again: String,
    scored: Option<Moment>,
    outdated: bool,
    active: Option<(Job, String)>,
    failed: Option<Job>,
    why_not: String,
    may_score: bool,
    form_token: String,
    key: String,
}

impl Standing {
    async fn read(site: &Site, visitor: &Visitor, subject: Subject) -> Result<Self, Fault> {
        let id = subject.session_id;
        let score: Option<Score> = site
            .door
            .find(
                &visitor.caller,
                &format!("/api/v1/scoring/sessions/{id}/score"),
            )
            .await?;
        let newest: Jobs = site
            .door
            .get(
                &visitor.caller,
                &format!("/api/v1/jobs?session_id={id}&limit=1"),
            )
            .await?;
        let mut job = newest.items.into_iter().next();
        // Only by itself a job is told its place in line.
        if let Some(queued) = job.as_ref().filter(|job| job.state == "queued") {
            let path = format!("/api/v1/jobs/{}", queued.job_id);
            job = site.door.find(&visitor.caller, &path).await?;
        }
        let now = site.about.clock.now();
        let (active, failed) = match job {
            Some(job) if matches!(job.state.as_str(), "queued" | "running" | "waiting") => {
                let wait = job.wait.as_ref();
                let why = wait.map(|wait| wait.says(job.judge.as_deref(), now));
                (Some((job, why.unwrap_or_default())), None)
            }
            Some(job) if job.state == "failed" => (None, Some(job)),
            Some(_) | None => (None, None),
        };
        Ok(Self {
            session_id: id,
            badge: Badge {
                big: true,
                ..score.as_ref().map_or_else(|| Badge::of(None), Score::badge)
            },
            again: score.as_ref().map_or_else(String::new, Score::again),
            scored: score
                .as_ref()
                .map(|score| words::moment(score.scored_at, now)),
            outdated: score.is_some_and(|score| !score.is_current_criteria),
            active,
            failed,
            why_not: why_not(subject.scorable, &subject.status),
            alert_type: subject.alert_type,
            may_score: visitor.may_enqueue(),
            form_token: visitor.form_token.clone(),
            key: Uuid::new_v4().to_string(),
        })
    }

    fn moves(&self) -> bool {
        self.active.is_some()
    }

    /// The page's title, led by the verdict: what a tab shows of itself.
    fn title(&self) -> String {
        let alert = self.alert_type.as_deref().unwrap_or("session");
        format!("{} · {alert}", self.verdict())
    }

    fn verdict(&self) -> String {
        match (&self.active, self.badge.total) {
            (Some(_), _) => "scoring".to_owned(),
            (None, Some((total, word))) => format!("{total} {word}"),
            (None, None) if self.failed.is_some() => "scoring failed".to_owned(),
            (None, None) => "not scored".to_owned(),
        }
    }
}

/// Which side of a session is shown.
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

/// The score that a session has, for pages that stay open.
#[derive(Template)]
#[template(path = "session_scored.html")]
struct Scored {
    session_id: Uuid,
    score: Option<Score>,
}

impl Scored {
    async fn read(site: &Site, visitor: &Visitor, session_id: Uuid) -> Result<Self, Fault> {
        Ok(Self {
            score: Score::current_of(site, visitor, session_id).await?,
            session_id,
        })
    }
}

/// Every score that a session had, for pages that stay open.
#[derive(Template)]
#[template(path = "session_history.html")]
struct History {
    session_id: Uuid,
    versions: Vec<Version>,
    /// How many there are besides.
    older: usize,
}

impl History {
    async fn read(site: &Site, visitor: &Visitor, session_id: Uuid) -> Result<Self, Fault> {
        let mut versions = Version::of(site, visitor, session_id).await?;
        let older = versions.len().saturating_sub(SCORES);
        versions.truncate(SCORES);
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
    alert: Cut,
    analysis: Option<Cut>,
    started: Option<Moment>,
    finished: Option<Moment>,
    state: Standing,
    side: Side,
    window: Window,
    said: Vec<Said>,
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

    /// The messages before and behind those of the page.
    fn pages(&self) -> impl Iterator<Item = (&'static str, String)> {
        let here = self.sides().find(|(_, _, here)| *here);
        let here = here.map_or_else(String::new, |(_, to, _)| to);
        let (before, next) = (self.window.before, self.window.next);
        let around = [("Earlier messages", before), ("Later messages", next)];
        let link = move |(word, from)| Some((word, format!("{here}?from={}", from?)));
        around.into_iter().filter_map(link)
    }

    /// The messages of the table, each with its number.
    fn lines(&self) -> impl Iterator<Item = (usize, [String; 3], usize)> {
        let cell = |text: Option<&str>| words::clip(text.unwrap_or("–"), CELL);
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

    /// The first of so many names, and how many there are besides.
    fn named(names: &[String]) -> (Vec<String>, usize) {
        let shown = names.iter().take(NAMED).map(|name| words::clip(name, CELL));
        (shown.collect(), names.len().saturating_sub(NAMED))
    }
}

impl Session {
    /// Asks the API for a session.
    pub(super) async fn read(site: &Site, visitor: &Visitor, id: &str) -> Result<Self, Fault> {
        let path = format!("/api/v1/sessions/{}", segment(id));
        Ok(site.door.get(&visitor.caller, &path).await?)
    }
}

async fn conversation(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(start): Query<Start>,
) -> Page {
    page(&site, visitor, &id, (Side::Conversation, start)).await
}

async fn technical(
    State(site): State<Site>,
    visitor: Visitor,
    Path(id): Path<String>,
    Query(start): Query<Start>,
) -> Page {
    page(&site, visitor, &id, (Side::Technical, start)).await
}

async fn score(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    page(&site, visitor, &id, (Side::Score, Start::default())).await
}

async fn history(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    page(&site, visitor, &id, (Side::History, Start::default())).await
}

/// Where scoring stands, for pages that stay open.
async fn state(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    standing(&site, &visitor, &id).await
}

/// The score that a session has.
async fn scored(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    let subject = subject(&site, &visitor, &id).await?;
    html(&Scored::read(&site, &visitor, subject.session_id).await?)
}

/// Every score that a session had.
async fn scores(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    let subject = subject(&site, &visitor, &id).await?;
    html(&History::read(&site, &visitor, subject.session_id).await?)
}

/// A session without its conversation: pages that stay open ask at every event.
async fn subject(site: &Site, visitor: &Visitor, id: &str) -> Result<Subject, Fault> {
    match sessions::item(site, visitor, id).await? {
        Some(item) => Ok(item.into()),
        // The API says what is wrong with it.
        None => Ok(Subject::from(&Session::read(site, visitor, id).await?)),
    }
}

/// The piece that says where a session's scoring stands.
pub(super) async fn standing(site: &Site, visitor: &Visitor, id: &str) -> Page {
    let subject = subject(site, visitor, id).await?;
    html(&Standing::read(site, visitor, subject).await?)
}

async fn page(site: &Site, visitor: Visitor, id: &str, (side, start): (Side, Start)) -> Page {
    let session = Session::read(site, &visitor, id).await?;
    let state = Standing::read(site, &visitor, Subject::from(&session)).await?;
    let now = site.about.clock.now();
    let (mut scored, mut history) = (None, None);
    match side {
        Side::Score => scored = Some(Scored::read(site, &visitor, session.session_id).await?),
        Side::History => history = Some(History::read(site, &visitor, session.session_id).await?),
        Side::Conversation | Side::Technical => {}
    }
    let size = match side {
        Side::Technical => LINES,
        Side::Conversation | Side::Score | Side::History => MESSAGES,
    };
    let window = Window::at(start.place(), size, session.conversation.len());
    html(&SessionPage {
        frame: Frame::of(site, visitor, "Sessions", state.title())
            .await
            .moving(state.moves()),
        alert: alert_in_short(&session),
        analysis: analysis_in_short(&session),
        started: session.started_at.map(|at| words::moment(at, now)),
        finished: session.completed_at.map(|at| words::moment(at, now)),
        said: match side {
            Side::Conversation => said(&session, &window),
            Side::Technical | Side::Score | Side::History => Vec::new(),
        },
        window,
        session,
        state,
        side,
        scored,
        history,
    })
}
