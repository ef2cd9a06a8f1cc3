//! View of a score, built from the API's score, its criteria and its ratings.

use axum::Json;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::super::criteria::called;
use super::super::markdown;
use super::super::missing_tools::{self, ToolRow};
use super::super::page::PageError;
use super::super::page::found;
use super::super::session_item::Badge;
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::super::words::{self, Timestamp};
use super::rating::{Opinion, Typed, opinion};
use crate::api::{Path, Query, criteria, jobs, ratings, scores};
use crate::job::Kind;
use crate::job::Purpose;
use crate::wire::{AlternativeApproach, CriteriaDetail, PageQuery, Score, ScoreVersion};

const MAX_TOOLS: usize = 40;
const MAX_APPROACHES: usize = 10;
const MAX_STEPS: usize = 20;
/// Limits of a name and of a sentence, characters.
const MAX_NAME_CHARS: usize = 120;
const MAX_SENTENCE_CHARS: usize = 600;

fn clipped(approach: AlternativeApproach) -> AlternativeApproach {
    let steps = approach.steps.iter().take(MAX_STEPS);
    AlternativeApproach {
        name: words::clip(&approach.name, MAX_NAME_CHARS),
        description: words::clip(&approach.description, MAX_SENTENCE_CHARS),
        steps: steps
            .map(|step| words::clip(step, MAX_SENTENCE_CHARS))
            .collect(),
    }
}

/// Points of one dimension, their maximum, and the width of the bar in percent.
pub(in super::super) struct DimensionBar {
    pub(in super::super) name: String,
    pub(in super::super) points: f64,
    pub(in super::super) max: f64,
    pub(in super::super) width: f64,
}

pub(in super::super) struct ScoreDetail {
    pub(in super::super) badge: Badge,
    /// The API's score without the parts moved to other fields.
    pub(in super::super) answer: Score,
    pub(in super::super) parts: Vec<DimensionBar>,
    pub(in super::super) criteria: String,
    pub(in super::super) reasoning: String,
    pub(in super::super) missing_tools: Vec<ToolRow>,
    pub(in super::super) approaches: Vec<AlternativeApproach>,
    /// Number of hidden tools and approaches.
    pub(in super::super) more: usize,
    pub(in super::super) scored: Timestamp,
    pub(in super::super) superseded: Option<Timestamp>,
    /// Kind of a score that was not meant to be its session's current one. Empty otherwise.
    pub(in super::super) aside: &'static str,
    /// Number of judge calls. `None` without stored calls.
    pub(in super::super) calls: Option<usize>,
    pub(in super::super) opinions: Vec<Opinion>,
    pub(in super::super) may_rate: bool,
    /// The user's previous rating, which a new one replaces.
    pub(in super::super) own: Option<String>,
    pub(in super::super) signs_as: String,
    /// Whether the name is the user's own rather than one shared by all users.
    pub(in super::super) has_name: bool,
    pub(in super::super) typed: Typed,
    pub(in super::super) form_token: String,
    pub(in super::super) key: String,
}

impl ScoreDetail {
    /// Builds a view without the parts shown only on the score's page.
    pub(in super::super) fn from_version(version: ScoreVersion, now: DateTime<Utc>) -> Self {
        let ScoreVersion {
            score: mut answer,
            purpose,
            superseded_at,
        } = version;
        let tools = std::mem::take(&mut answer.missing_tools);
        let approaches = std::mem::take(&mut answer.alternative_approaches);
        let parts = std::mem::take(&mut answer.score_breakdown).into_iter();
        Self {
            badge: Badge::from(&answer),
            criteria: words::short(&answer.criteria_hash).to_owned(),
            more: tools.len().saturating_sub(MAX_TOOLS)
                + approaches.len().saturating_sub(MAX_APPROACHES),
            calls: None,
            parts: parts
                .filter_map(|(name, points)| {
                    Some(DimensionBar {
                        points: points.as_f64()?,
                        name,
                        max: 0.0,
                        width: 0.0,
                    })
                })
                .collect(),
            reasoning: markdown::render(&answer.score_reasoning, Some(answer.session_id)),
            missing_tools: tools
                .into_iter()
                .take(MAX_TOOLS)
                .map(|tool| ToolRow::new(tool, MAX_NAME_CHARS, MAX_SENTENCE_CHARS))
                .collect(),
            approaches: approaches
                .into_iter()
                .take(MAX_APPROACHES)
                .map(clipped)
                .collect(),
            scored: words::timestamp(answer.scored_at, now),
            aside: match purpose {
                Purpose::Preview => "a preview by other criteria",
                Purpose::Repeat => "a repeat, to measure judge consistency",
                Purpose::Jury => "one vote of a jury",
                Purpose::Score => "",
            },
            superseded: superseded_at.map(|at| words::timestamp(at, now)),
            answer,
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

    pub(in super::super) async fn current_of(
        state: &PageState,
        user: &SessionUser,
        session_id: Uuid,
    ) -> Result<Option<Self>, PageError> {
        let score = scores::current(state.api(user)?, Path(session_id)).await;
        match found(score)? {
            Some(score) => {
                let version = ScoreVersion {
                    score,
                    purpose: Purpose::Score,
                    superseded_at: None,
                };
                Ok(Some(Self::load(state, user, version).await?))
            }
            None => Ok(None),
        }
    }

    /// Loads the remaining parts: the criteria's maxima, the ratings and the calls.
    pub(super) async fn load(
        state: &PageState,
        user: &SessionUser,
        version: ScoreVersion,
    ) -> Result<Self, PageError> {
        let (api, answer) = (state.api(user)?, &version.score);
        let (own_id, session_id) = (answer.score_id, Path(answer.session_id));
        let all = Query(PageQuery::first(500));
        let (job, criteria, ratings, elsewhere) = tokio::join!(
            jobs::read_with_calls(&api, answer.job_id),
            criteria::read(&api, &answer.criteria_hash, Kind::Session),
            ratings::ratings_of_session(api.clone(), session_id, all),
            missing_tools::elsewhere(&api, &answer.missing_tools, own_id),
        );
        let (job, criteria) = (found(job)?, found(criteria)?);
        let (Json(ratings), elsewhere) = (ratings?, elsewhere?);
        let now = state.about.clock.now();
        let mut score = Self::from_version(version, now);
        let calls = job.and_then(|job| job.calls).map(|calls| calls.len());
        score.calls = calls.filter(|calls| *calls > 0);
        missing_tools::set_elsewhere(&mut score.missing_tools, &elsewhere);
        if let Some(criteria) = &criteria {
            score.criteria = called(&criteria.version);
        }
        let dimensions = criteria.as_ref().map(CriteriaDetail::dimensions);
        score.arrange(&dimensions.unwrap_or_default());
        let given = ratings.items.into_iter();
        let given = given.filter(|rating| rating.score_id.is_none_or(|id| id == own_id));
        score.opinions = given.map(|rating| opinion(rating, now)).collect();
        score.may_rate = user.may_enqueue();
        score.signs_as = user.caller.signs_as();
        score.has_name = user.caller.who().is_some();
        let mut earlier = score
            .opinions
            .iter()
            .filter(|o| o.by == score.signs_as && !o.of_session);
        score.own = earlier.next().map(Opinion::summary);
        score.form_token = user.form_token.clone();
        score.key = Uuid::new_v4().to_string();
        Ok(score)
    }

    /// Sets the maxima of the dimensions, and sorts by lost points, most first.
    fn arrange(&mut self, dimensions: &[(&str, f64)]) {
        for part in &mut self.parts {
            let dimension = dimensions.iter().find(|(name, _)| *name == part.name);
            part.max = dimension.map_or(0.0, |(_, max)| *max);
            if part.max > 0.0 {
                part.width = (100.0 * part.points / part.max).clamp(0.0, 100.0);
            }
            part.name = part.name.replace('_', " ");
        }
        let lost = |part: &DimensionBar| (part.max - part.points).max(0.0);
        self.parts.sort_by(|a, b| lost(b).total_cmp(&lost(a)));
    }
}

/// Explains the effect and the possible cost of scoring the session again.
pub(in super::super) fn again(score: &Score) -> String {
    format!(
        "The current score stays in its history, and the judge call is paid again. Cost of this score: {}.",
        words::usd(score.usage.cost_usd)
    )
}

impl From<&Score> for Badge {
    fn from(score: &Score) -> Self {
        let (word, colour) = words::rating(score.total_score);
        Self {
            total: Some((score.total_score, word)),
            colour,
            to: format!("/scores/{}", score.score_id),
            simulated: score.simulated,
            big: false,
        }
    }
}
