//! Reads `session_scores` and its detail tables. Only the recorder writes scores; they are deleted with their session.

pub(super) mod rows;

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::job::{BatchPlace, JobId, Kind, Purpose, Requester, Usage};
use crate::score::criteria::Dimension;
use crate::score::session::{AlternativeApproach, MissingTool, SessionScore, in_order};
use crate::store::database::db::Db;
use crate::store::database::row::{DbRow, Decoded};
use crate::store::database::sql::{Sql, Statement, long_sql};
use crate::store::sessions::filter::push_conditions;
use crate::store::{Dialect, ScoreFilter, SessionFilter, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub struct NewSessionScore {
    pub score_id: Uuid,
    pub session_id: Uuid,
    pub criteria_hash: String,
    /// Only `score` becomes the session's current score.
    pub purpose: Purpose,
    pub score: SessionScore,
    pub triggered_by: Requester,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewEvaluation {
    pub score_id: Uuid,
    pub kind: Kind,
    /// Batch and item number of the job.
    pub batch: Option<BatchPlace>,
    pub criteria_hash: String,
    /// 0-1; `None`: incomplete.
    pub total: Option<f64>,
    /// `None`: unknown.
    pub passed: Option<bool>,
    pub threshold: Option<f64>,
    /// Components by name: a number or null.
    pub components: Value,
    /// `{class, message}` if the judge failed.
    pub error: Option<Value>,
    /// Whether a simulated judge contributed.
    pub simulated: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionScoreRow {
    pub score_id: Uuid,
    pub session_id: Uuid,
    pub job_id: JobId,
    pub criteria_hash: String,
    /// Only `score` can be current.
    pub purpose: Purpose,
    pub score: SessionScore,
    pub triggered_by: Requester,
    pub scored_at: DateTime<Utc>,
    /// Time at which a newer score replaced it; `None`: current.
    pub superseded_at: Option<DateTime<Utc>>,
    pub usage: Usage,
}

/// Filter of an export: real scores with a minimum total.
#[derive(Debug, Clone, PartialEq)]
pub struct GoodScores {
    pub filter: ScoreFilter,
    /// Filter of sessions, as in their list.
    pub sessions: SessionFilter,
    /// Minimum total, 0-100.
    pub min_score: u8,
    /// Scores that are or were current at this time.
    pub at: DateTime<Utc>,
}

impl GoodScores {
    /// Restricts scores to sessions `a` that the list of sessions would show with this score.
    fn push_sessions(&self, statement: &mut Sql, dialect: Dialect) {
        if self.sessions == SessionFilter::default() {
            return;
        }
        statement
            .push(
                " and exists (select 1 from alert_sessions s join session_scores c on c.session_id = s.session_id
                    where s.session_id = a.session_id and c.purpose = 'score' and c.scored_at <= ",
            )
            .push_arg(self.at)
            .push(" and (c.superseded_at is null or c.superseded_at > ")
            .push_arg(self.at)
            .push(")");
        push_conditions(&self.sessions, statement, dialect);
        statement.push(")");
    }
}

macro_rules! select_scores {
    () => {
        "select s.score_id, s.session_id, s.job_id, s.criteria_hash, s.purpose, s.total_score, s.score_breakdown, s.score_reasoning,
            s.flags, s.judge_provider, s.judge_model, s.simulated, s.scored_triggered_by,
            s.authenticated_as, s.scored_at, s.superseded_at,
            coalesce(j.tokens_in, 0) as tokens_in, coalesce(j.tokens_out, 0) as tokens_out, j.cost_usd,
            c.criteria_content -> 'dimensions' as dimensions
         from session_scores s left join scoring_jobs j on j.job_id = s.job_id
            left join scoring_criteria_definitions c on c.criteria_hash = s.criteria_hash"
    };
}

macro_rules! reading {
    ($($part:expr),+ $(,)?) => {
        long_sql!("reading scores", $($part),+)
    };
}

#[derive(Clone, Copy)]
pub struct Scores<'a> {
    pub(super) db: &'a Db,
}

impl Scores<'_> {
    pub async fn current(self, session_id: Uuid) -> Result<Option<SessionScoreRow>, StoreError> {
        let statement = reading!(
            concat!(
                select_scores!(),
                " where s.session_id = $1 and s.superseded_at is null and s.purpose = 'score'"
            ),
            session_id
        );
        Ok(self.scores_by(&statement).await?.pop())
    }

    /// Returns all current and former scores of a session, newest first; at most 1,000.
    pub async fn of_session(self, session_id: Uuid) -> Result<Vec<SessionScoreRow>, StoreError> {
        let statement = reading!(
            concat!(
                select_scores!(),
                " where s.session_id = $1 and s.purpose = 'score' order by s.scored_at desc, s.score_id desc limit 1000"
            ),
            session_id
        );
        self.scores_by(&statement).await
    }

    pub async fn get(self, score_id: Uuid) -> Result<Option<SessionScoreRow>, StoreError> {
        let statement = reading!(
            concat!(select_scores!(), " where s.score_id = $1"),
            score_id
        );
        Ok(self.scores_by(&statement).await?.pop())
    }

    /// Returns the scores that jobs made, unordered.
    pub async fn of_jobs(self, ids: &[JobId]) -> Result<Vec<SessionScoreRow>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement = reading!(concat!(select_scores!(), " where s.job_id in "));
        statement.push_list(ids.iter().map(|id| id.0));
        self.scores_by(&statement).await
    }

    /// Returns the filtered scores that were current at a time, ordered by session id after `after`; at most `limit`.
    ///
    /// A session has one score at a time, so that it is exported once, even if it is scored while pages are read.
    pub async fn good(
        self,
        good: &GoodScores,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<SessionScoreRow>, StoreError> {
        let mut statement = reading!(select_scores!());
        statement
            .push(" join alert_sessions a on a.session_id = s.session_id where s.purpose = 'score' and s.scored_at <= ")
            .push_arg(good.at)
            .push(" and (s.superseded_at is null or s.superseded_at > ")
            .push_arg(good.at)
            .push(")");
        good.filter.push_narrowed(&mut statement);
        good.push_sessions(&mut statement, self.db.dialect());
        statement
            .push(" and s.simulated = ")
            .push_arg(false)
            .push(" and s.total_score >= ")
            .push_arg(good.min_score)
            .push(" and s.session_id > ")
            .push_arg(after.unwrap_or(Uuid::nil()))
            .push(" order by s.session_id limit ")
            .push_arg(limit);
        self.scores_by(&statement).await
    }

    async fn scores_by(self, statement: &Statement) -> Result<Vec<SessionScoreRow>, StoreError> {
        let mut scores: Vec<SessionScoreRow> = self.db.read(statement).await?;
        if scores.is_empty() {
            return Ok(scores);
        }
        let ids: Vec<Uuid> = scores.iter().map(|score| score.score_id).collect();
        let mut tools = self.missing_tools(&ids).await?;
        let mut approaches = self.approaches(&ids).await?;
        for score in &mut scores {
            score.score.missing_tools = tools.remove(&score.score_id).unwrap_or_default();
            score.score.alternative_approaches =
                approaches.remove(&score.score_id).unwrap_or_default();
        }
        Ok(scores)
    }

    async fn missing_tools(
        self,
        ids: &[Uuid],
    ) -> Result<HashMap<Uuid, Vec<MissingTool>>, StoreError> {
        let mut statement = reading!(
            "select score_id, tool_name, rationale from score_missing_tools where score_id in "
        );
        statement.push_list(ids.iter().copied());
        statement.push(" order by score_id, position");
        let rows: Vec<(Uuid, String, String)> = self.db.read(&statement).await?;
        Ok(grouped(rows.into_iter().map(
            |(score_id, tool_name, rationale)| {
                let tool = MissingTool {
                    tool_name,
                    rationale,
                };
                (score_id, tool)
            },
        )))
    }

    async fn approaches(
        self,
        ids: &[Uuid],
    ) -> Result<HashMap<Uuid, Vec<AlternativeApproach>>, StoreError> {
        let mut steps = self.steps(ids).await?;
        let mut statement = reading!(
            "select score_id, id, name, description from score_alternative_approaches where score_id in "
        );
        statement.push_list(ids.iter().copied());
        statement.push(" order by score_id, position");
        let rows: Vec<(Uuid, Uuid, String, String)> = self.db.read(&statement).await?;
        Ok(grouped(rows.into_iter().map(
            |(score_id, id, name, description)| {
                let approach = AlternativeApproach {
                    name,
                    description,
                    steps: steps.remove(&id).unwrap_or_default(),
                };
                (score_id, approach)
            },
        )))
    }

    /// Returns steps by approach, in order.
    async fn steps(self, ids: &[Uuid]) -> Result<HashMap<Uuid, Vec<String>>, StoreError> {
        let mut statement = reading!(
            "select s.approach_id, s.step_description from score_alternative_approach_steps s
                join score_alternative_approaches a on a.id = s.approach_id
             where a.score_id in "
        );
        statement.push_list(ids.iter().copied());
        statement.push(" order by s.approach_id, s.step_order");
        let steps: Vec<(Uuid, String)> = self.db.read(&statement).await?;
        Ok(grouped(steps.into_iter()))
    }
}

fn grouped<T>(rows: impl Iterator<Item = (Uuid, T)>) -> HashMap<Uuid, Vec<T>> {
    let mut children: HashMap<Uuid, Vec<T>> = HashMap::new();
    for (id, child) in rows {
        children.entry(id).or_default().push(child);
    }
    children
}

impl Decoded for SessionScoreRow {
    fn decoded(row: &DbRow) -> sqlx::Result<Self> {
        let dimensions: Vec<Dimension> = row.json_as_or_default("dimensions")?;
        Ok(SessionScoreRow {
            score_id: row.get("score_id")?,
            session_id: row.get("session_id")?,
            job_id: JobId(row.get("job_id")?),
            criteria_hash: row.get("criteria_hash")?,
            purpose: row.text_enum("purpose")?,
            score: SessionScore {
                total_score: row.int("total_score")?,
                score_breakdown: in_order(row.json_as("score_breakdown")?, &dimensions),
                score_reasoning: row.get("score_reasoning")?,
                missing_tools: Vec::new(),
                alternative_approaches: Vec::new(),
                flags: row.json_as("flags")?,
                judge_provider: row.get("judge_provider")?,
                judge_model: row.get("judge_model")?,
                simulated: row.get("simulated")?,
            },
            triggered_by: Requester {
                user: row.get("scored_triggered_by")?,
                authenticated_as: row.get("authenticated_as")?,
            },
            scored_at: row.get("scored_at")?,
            superseded_at: row.get("superseded_at")?,
            usage: Usage {
                tokens_in: row.get("tokens_in")?,
                tokens_out: row.get("tokens_out")?,
                cost_usd: row.get("cost_usd")?,
            },
        })
    }
}
