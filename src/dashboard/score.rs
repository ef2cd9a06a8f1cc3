//! `/scores/{id}`: what a judge said of a session and why, what it missed, where the score comes from, what people think of it.

use std::collections::BTreeMap;

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::form::{Form, query, segment};
use super::frame::Frame;
use super::markdown;
use super::missing_tools::{self, MissingTool};
use super::page::{Fault, Page, go, html, is_mendable, refusal, with_status};
use super::sessions::Badge;
use super::site::Site;
use super::visitor::Visitor;
use super::words::{self, Moment};
use crate::api::Problem;

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/scores/{id}", get(score))
        .route("/scores/{id}/calls", get(calls))
        .route("/scores/{id}/rate", axum::routing::post(rate))
}

/// A score as the API answers it.
#[derive(Debug, Clone, Deserialize)]
struct Answer {
    score_id: Uuid,
    session_id: Uuid,
    job_id: Uuid,
    total_score: u8,
    score_breakdown: BTreeMap<String, f64>,
    score_reasoning: String,
    missing_tools: Vec<MissingTool>,
    alternative_approaches: Vec<Approach>,
    flags: Vec<String>,
    criteria_hash: String,
    is_current_criteria: bool,
    judge: Judge,
    simulated: bool,
    scored_triggered_by: String,
    scored_at: DateTime<Utc>,
    usage: Usage,
    #[serde(default)]
    superseded_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Approach {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) steps: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Judge {
    provider: String,
    model: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Usage {
    tokens_in: i64,
    tokens_out: i64,
    cost_usd: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Criteria {
    content: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct Rating {
    total: Option<u8>,
    rating: Option<String>,
    quality: Option<String>,
    comment: Option<String>,
    by: String,
    at: DateTime<Utc>,
}

#[derive(Debug, Deserialize)]
struct Ratings {
    items: Vec<Rating>,
}

/// One dimension of a score: its points, of how many, and how wide its bar is of 100.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) points: f64,
    pub(super) max: f64,
    pub(super) width: f64,
}

/// What a person gave, in words.
pub(super) struct Opinion {
    pub(super) given: String,
    pub(super) comment: String,
    pub(super) by: String,
    pub(super) at: Moment,
}

/// A score as it is drawn.
pub(super) struct Score {
    pub(super) score_id: Uuid,
    pub(super) session_id: Uuid,
    pub(super) job_id: Uuid,
    pub(super) total: u8,
    pub(super) simulated: bool,
    pub(super) parts: Vec<Part>,
    pub(super) reasoning: String,
    pub(super) missing_tools: Vec<MissingTool>,
    pub(super) approaches: Vec<Approach>,
    pub(super) flags: Vec<String>,
    pub(super) criteria_hash: String,
    pub(super) is_current_criteria: bool,
    pub(super) judge: String,
    pub(super) by: String,
    pub(super) scored: Moment,
    pub(super) scored_at: DateTime<Utc>,
    pub(super) superseded: Option<Moment>,
    pub(super) tokens: String,
    pub(super) cost: String,
    pub(super) opinions: Vec<Opinion>,
    pub(super) may_rate: bool,
    /// What was said before by the person who looks: another rating takes its place.
    pub(super) own: Option<String>,
    /// Whom ratings of that person are kept under.
    pub(super) signs_as: String,
    /// Whether that is a name of theirs, rather than everybody's.
    pub(super) has_name: bool,
    /// What was filled in and not taken, with why.
    pub(super) typed: Typed,
    pub(super) form_token: String,
    pub(super) key: String,
}

/// A rating that was filled in and not taken.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) rating: String,
    pub(super) total: String,
    pub(super) comment: String,
    pub(super) by: String,
    /// Why it wasn't taken, HTML.
    pub(super) refused: String,
}

impl Typed {
    fn of(form: &Form, problem: &Problem) -> Self {
        let text = |name: &str| form.text(name).unwrap_or_default().to_owned();
        Self {
            rating: text("rating"),
            total: text("total"),
            comment: text("comment"),
            by: text("by"),
            refused: refusal(problem),
        }
    }
}

impl<'de> Deserialize<'de> for Score {
    /// A score without what only its own page shows.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let answer = Answer::deserialize(deserializer)?;
        let now = answer.scored_at;
        Ok(Self::of(answer, now))
    }
}

impl Score {
    fn of(answer: Answer, now: DateTime<Utc>) -> Self {
        let usage = &answer.usage;
        Self {
            score_id: answer.score_id,
            session_id: answer.session_id,
            job_id: answer.job_id,
            total: answer.total_score,
            simulated: answer.simulated,
            tokens: format!(
                "{} in, {} out",
                words::grouped(usage.tokens_in),
                words::grouped(usage.tokens_out)
            ),
            cost: words::usd(usage.cost_usd),
            parts: answer
                .score_breakdown
                .into_iter()
                .map(|(name, points)| Part {
                    name,
                    points,
                    max: 0.0,
                    width: 0.0,
                })
                .collect(),
            reasoning: markdown::render(&answer.score_reasoning),
            missing_tools: answer.missing_tools,
            approaches: answer.alternative_approaches,
            flags: answer.flags,
            criteria_hash: answer.criteria_hash,
            is_current_criteria: answer.is_current_criteria,
            judge: format!("{} ({})", answer.judge.provider, answer.judge.model),
            by: answer.scored_triggered_by,
            scored: words::moment(answer.scored_at, now),
            scored_at: answer.scored_at,
            superseded: answer.superseded_at.map(|at| words::moment(at, now)),
            opinions: Vec::new(),
            may_rate: false,
            own: None,
            signs_as: String::new(),
            has_name: false,
            typed: Typed::default(),
            form_token: String::new(),
            key: String::new(),
        }
    }

    /// A session's current score, with all that its page shows.
    pub(super) async fn current_of(
        site: &Site,
        visitor: &Visitor,
        session_id: Uuid,
    ) -> Result<Option<Self>, Fault> {
        let path = format!("/api/v1/scoring/sessions/{session_id}/score");
        match site.door.find::<Answer>(&visitor.caller, &path).await? {
            Some(answer) => Ok(Some(Self::whole(site, visitor, answer).await?)),
            None => Ok(None),
        }
    }

    /// Adds what stands elsewhere: the maxima of its criteria, what people gave.
    async fn whole(site: &Site, visitor: &Visitor, answer: Answer) -> Result<Self, Fault> {
        let criteria = format!("/api/v1/scoring/criteria/{}", answer.criteria_hash);
        let ratings = format!("/api/v1/scores/{}/ratings", answer.score_id);
        let (criteria, ratings, elsewhere) = tokio::try_join!(
            site.door.find::<Criteria>(&visitor.caller, &criteria),
            site.door.get::<Ratings>(&visitor.caller, &ratings),
            missing_tools::elsewhere(site, visitor, &answer.missing_tools, answer.score_id),
        )?;
        let now = site.about.clock.now();
        let mut score = Self::of(answer, now);
        missing_tools::tell(&mut score.missing_tools, &elsewhere);
        let maxima = criteria.and_then(|criteria| criteria.content);
        let maxima = maxima
            .as_ref()
            .and_then(|content| content["dimensions"].as_array());
        score.arrange(maxima.map_or(&[][..], Vec::as_slice));
        score.opinions = ratings.items.into_iter().map(|r| opinion(r, now)).collect();
        score.may_rate = visitor.may_enqueue();
        score.signs_as = visitor.caller.signs_as();
        score.has_name = visitor.caller.who().is_some();
        let mut earlier = score.opinions.iter().filter(|o| o.by == score.signs_as);
        score.own = earlier.next().map(Opinion::says);
        score.form_token = visitor.form_token.clone();
        score.key = Uuid::new_v4().to_string();
        Ok(score)
    }

    /// Puts the parts in the order of the criteria, with their maxima.
    fn arrange(&mut self, dimensions: &[Value]) {
        let place = |name: &str| dimensions.iter().position(|d| d["name"] == name);
        self.parts
            .sort_by_key(|part| place(&part.name).unwrap_or(usize::MAX));
        for part in &mut self.parts {
            part.max = place(&part.name)
                .and_then(|at| dimensions[at]["max"].as_f64())
                .unwrap_or(0.0);
            if part.max > 0.0 {
                part.width = (100.0 * part.points / part.max).clamp(0.0, 100.0);
            }
            part.name = part.name.replace('_', " ");
        }
    }

    /// The score in short.
    pub(super) fn badge(&self) -> Badge {
        let (word, colour) = words::rating(self.total);
        Badge {
            total: Some((self.total, word)),
            colour,
            to: format!("/scores/{}", self.score_id),
            simulated: self.simulated,
            big: false,
        }
    }
}

impl Opinion {
    fn says(&self) -> String {
        match self.comment.as_str() {
            "" => self.given.clone(),
            comment => format!("{}: {comment}", self.given),
        }
    }
}

fn opinion(rating: Rating, now: DateTime<Utc>) -> Opinion {
    let word = rating.rating.or(rating.quality);
    let word = word.map(|word| word.replace('_', " "));
    Opinion {
        given: match (rating.total, word) {
            (Some(total), _) => format!("{total} / 100 {}", words::rating(total).0),
            (None, Some(word)) => word,
            (None, None) => "no verdict".to_owned(),
        },
        comment: rating.comment.unwrap_or_default(),
        by: rating.by,
        at: words::moment(rating.at, now),
    }
}

/// A line of a session's history of scores.
pub(super) struct Version {
    pub(super) badge: Badge,
    pub(super) scored: Moment,
    pub(super) criteria: String,
    pub(super) judge: String,
    pub(super) by: String,
    pub(super) current: bool,
    pub(super) compare: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Versions {
    items: Vec<Answer>,
}

impl Version {
    /// Every score of a session, newest first.
    pub(super) async fn of(
        site: &Site,
        visitor: &Visitor,
        session_id: Uuid,
    ) -> Result<Vec<Self>, Fault> {
        let path = format!("/api/v1/scoring/sessions/{session_id}/scores");
        let all: Versions = site.door.get(&visitor.caller, &path).await?;
        let now = site.about.clock.now();
        let current = all.items.iter().find(|score| score.superseded_at.is_none());
        let current = current.map(|score| score.score_id.to_string());
        let line = |answer: Answer| {
            let score = Score::of(answer, now);
            let id = score.score_id.to_string();
            let is_current = score.superseded.is_none();
            Self {
                badge: score.badge(),
                compare: current.as_ref().filter(|_| !is_current).map(|newer| {
                    format!(
                        "/compare{}",
                        query(&[("a", id.as_str()), ("b", newer.as_str())])
                    )
                }),
                scored: score.scored,
                criteria: score.criteria_hash,
                judge: score.judge,
                by: score.by,
                current: is_current,
            }
        };
        Ok(all.items.into_iter().map(line).collect())
    }
}

#[derive(Template)]
#[template(path = "score.html")]
struct ScorePage {
    frame: Frame,
    score: Score,
}

async fn score(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    html(&page(&site, visitor, &id, Typed::default()).await?)
}

async fn page(site: &Site, visitor: Visitor, id: &str, typed: Typed) -> Result<ScorePage, Fault> {
    let path = format!("/api/v1/scores/{}", segment(id));
    let answer: Answer = site.door.get(&visitor.caller, &path).await?;
    let mut score = Score::whole(site, &visitor, answer).await?;
    score.typed = typed;
    let title = format!("{} {}", score.total, words::rating(score.total).0);
    Ok(ScorePage {
        frame: Frame::of(site, visitor, "Sessions", title).await,
        score,
    })
}

#[derive(Debug, Deserialize)]
struct Job {
    calls: Option<Vec<Call>>,
}

#[derive(Debug, Deserialize)]
struct Call {
    at: DateTime<Utc>,
    judge: String,
    model: String,
    status: Option<u16>,
    error: Option<String>,
    latency_ms: u64,
    reply: Option<String>,
}

#[derive(Template)]
#[template(path = "calls.html")]
struct CallsPage {
    frame: Frame,
    score_id: Uuid,
    calls: Vec<Call>,
}

/// The calls behind a score with their raw replies: loaded when they are asked for.
async fn calls(State(site): State<Site>, visitor: Visitor, Path(id): Path<String>) -> Page {
    let path = format!("/api/v1/scores/{}", segment(&id));
    let answer: Answer = site.door.get(&visitor.caller, &path).await?;
    let job = format!("/api/v1/jobs/{}?calls=true", answer.job_id);
    let job: Option<Job> = site.door.find(&visitor.caller, &job).await?;
    html(&CallsPage {
        frame: Frame::of(&site, visitor, "Sessions", "Calls").await,
        score_id: answer.score_id,
        calls: job.and_then(|job| job.calls).unwrap_or_default(),
    })
}

/// Keeps what a person thinks of a score; what can't be read comes back with its form.
async fn rate(State(site): State<Site>, Path(id): Path<String>, form: Form) -> Page {
    match keep(&site, &id, &form).await {
        Ok(()) => go(
            form.visitor.piece,
            &format!("/scores/{}#people", segment(&id)),
        ),
        Err(fault) if is_mendable(fault.problem()) && !form.visitor.piece => {
            let typed = Typed::of(&form, fault.problem());
            let page = page(&site, form.visitor, &id, typed).await?;
            with_status(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(fault) => Err(fault),
    }
}

async fn keep(site: &Site, id: &str, form: &Form) -> Result<(), Fault> {
    let path = format!("/api/v1/scores/{}/ratings", segment(id));
    let mut body = json!({});
    if let Some(total) = form.read::<u64>("total", "a whole number from 0 to 100")? {
        body["total"] = total.into();
    }
    for field in ["rating", "comment", "by"] {
        if let Some(text) = form.text(field) {
            body[field] = text.into();
        }
    }
    let caller = &form.visitor.caller;
    site.door.post(caller, &path, form.key(), &body).await?;
    Ok(())
}
