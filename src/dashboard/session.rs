//! `/sessions/{id}`: the alert and what the agent concluded, then the conversation, its technical side, or the scores it had.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::form::segment;
use super::frame::Frame;
use super::markdown;
use super::page::{Fault, Page, html};
use super::score::{Score, Version};
use super::sessions::{self, Badge, has_ended};
use super::site::Site;
use super::visitor::Visitor;
use super::words::{self, Moment};

/// A longer conversation is shown from its beginning: how many messages a page draws.
const MESSAGES: usize = 200;

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
    pub(super) wait: Option<Wait>,
    pub(super) error: Option<JobError>,
}

/// Why a job waits.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Wait {
    pub(super) reason: String,
    pub(super) until: Option<DateTime<Utc>>,
    pub(super) position: Option<i64>,
    pub(super) last_error: Option<String>,
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
    alert_type: Option<String>,
}

impl From<&Session> for Subject {
    fn from(session: &Session) -> Self {
        Self {
            session_id: session.session_id,
            status: session.status.clone(),
            alert_type: session.alert_type.clone(),
        }
    }
}

impl From<sessions::Item> for Subject {
    fn from(item: sessions::Item) -> Self {
        Self {
            session_id: item.session_id,
            status: item.status,
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
    scored: Option<Moment>,
    outdated: bool,
    active: Option<(Job, String, Option<Moment>)>,
    failed: Option<Job>,
    status: String,
    ended: bool,
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
        let job = newest.items.into_iter().next();
        let now = site.about.clock.now();
        let (active, failed) = match job {
            Some(job) if matches!(job.state.as_str(), "queued" | "running" | "waiting") => {
                let why = job.wait.as_ref();
                let why = why
                    .map_or("", |wait| words::waiting_for(&wait.reason))
                    .to_owned();
                let until = job.wait.as_ref().and_then(|wait| wait.until);
                (
                    Some((job, why, until.map(|at| words::moment(at, now)))),
                    None,
                )
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
            scored: score
                .as_ref()
                .map(|score| words::moment(score.scored_at, now)),
            outdated: score.is_some_and(|score| !score.is_current_criteria),
            active,
            failed,
            status: subject.status.replace('_', " "),
            ended: has_ended(&subject.status),
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

/// A message as it is drawn.
struct Said {
    who: String,
    tool: bool,
    at: Option<String>,
    html: String,
    raw: String,
}

impl Said {
    fn of(message: &Message) -> Self {
        let tool = message.role == "tool" || message.tool_name.is_some();
        let who = match &message.tool_name {
            Some(name) => format!("{} · {name}", message.role),
            None => message.role.clone(),
        };
        Self {
            html: if tool {
                String::new()
            } else {
                markdown::render(&message.content)
            },
            raw: message.content.clone(),
            at: message.at.as_deref().map(words::written),
            who,
            tool,
        }
    }
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
}

impl History {
    async fn read(site: &Site, visitor: &Visitor, session_id: Uuid) -> Result<Self, Fault> {
        Ok(Self {
            versions: Version::of(site, visitor, session_id).await?,
            session_id,
        })
    }
}

#[derive(Template)]
#[template(path = "session.html")]
struct SessionPage {
    frame: Frame,
    session: Session,
    alert: String,
    analysis: Option<String>,
    started: Option<Moment>,
    finished: Option<Moment>,
    state: Standing,
    side: Side,
    said: Vec<Said>,
    left_out: usize,
    scored: Option<Scored>,
    history: Option<History>,
    raw: String,
}

impl SessionPage {
    fn sides(&self) -> impl Iterator<Item = (&'static str, String, bool)> {
        let (id, here) = (self.session.session_id, self.side);
        Side::ALL
            .into_iter()
            .map(move |(side, name, end)| (name, format!("/sessions/{id}{end}"), side == here))
    }
}

async fn read(site: &Site, visitor: &Visitor, id: &str) -> Result<Session, Fault> {
    let path = format!("/api/v1/sessions/{}", segment(id));
    Ok(site.door.get(&visitor.caller, &path).await?)
}

async fn conversation(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    page(&site, visitor, &id, Side::Conversation).await
}

async fn technical(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    page(&site, visitor, &id, Side::Technical).await
}

async fn score(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    page(&site, visitor, &id, Side::Score).await
}

async fn history(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    page(&site, visitor, &id, Side::History).await
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
        None => Ok(Subject::from(&read(site, visitor, id).await?)),
    }
}

/// The piece that says where a session's scoring stands.
pub(super) async fn standing(site: &Site, visitor: &Visitor, id: &str) -> Page {
    let subject = subject(site, visitor, id).await?;
    html(&Standing::read(site, visitor, subject).await?)
}

async fn page(site: &Site, visitor: Visitor, id: &str, side: Side) -> Page {
    let session = read(site, &visitor, id).await?;
    let state = Standing::read(site, &visitor, Subject::from(&session)).await?;
    let now = site.about.clock.now();
    let (mut scored, mut history) = (None, None);
    match side {
        Side::Score => scored = Some(Scored::read(site, &visitor, session.session_id).await?),
        Side::History => history = Some(History::read(site, &visitor, session.session_id).await?),
        Side::Conversation | Side::Technical => {}
    }
    let shown = if side == Side::Conversation {
        MESSAGES
    } else {
        0
    };
    html(&SessionPage {
        frame: Frame::of(site, visitor, "Sessions", state.title())
            .await
            .moving(state.moves()),
        alert: session.alert_data.as_str().map_or_else(
            || serde_json::to_string_pretty(&session.alert_data).unwrap_or_default(),
            ToOwned::to_owned,
        ),
        analysis: session.final_analysis.as_deref().map(markdown::render),
        started: session.started_at.map(|at| words::moment(at, now)),
        finished: session.completed_at.map(|at| words::moment(at, now)),
        said: session
            .conversation
            .iter()
            .take(shown)
            .map(Said::of)
            .collect(),
        left_out: session.conversation.len().saturating_sub(shown),
        raw: match side {
            Side::Technical => {
                serde_json::to_string_pretty(&session.alert_data).unwrap_or_default()
            }
            Side::Conversation | Side::Score | Side::History => String::new(),
        },
        session,
        state,
        side,
        scored,
        history,
    })
}
