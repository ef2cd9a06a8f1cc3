//! `scoring_criteria_definitions`: all criteria versions that were used or added. Rows are immutable.

pub(super) mod choices;
pub(super) mod pairs;

use chrono::{DateTime, Utc};
use serde_json::Value;

use self::choices::CriteriaName;
use crate::job::Kind;
use crate::score::Criteria;
use crate::store::analytics::days::SplitRange;
use crate::store::database::db::Db;
use crate::store::database::sql::{DbRow, Sql, all, decode, first, sql};
use crate::store::{Analytics, ScoreFilter, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub struct CriteriaDefinition {
    pub criteria_hash: String,
    pub kind: Kind,
    pub content: Value,
    pub created_at: DateTime<Utc>,
    /// Number of scores by it (purpose `score`, including superseded ones).
    pub scores: i64,
    /// Number of them that aren't simulated.
    pub real_scores: i64,
    /// Mean total of real scores: 0-100 for sessions, 0-1 for other kinds.
    pub mean_total: Option<f64>,
    pub first_scored_at: Option<DateTime<Utc>>,
    pub name: Option<CriteriaName>,
}

/// Scores of a version by day, from rollups.
const ROLLED_UP: &str =
    "select d.criteria_hash, d.scores, case when d.simulated then 0 else d.scores end as real,
        case when d.simulated then 0 else d.scores * d.total_score end as points, d.first_scored_at
     from score_days d where 1 = 1";
const COUNTED: &str = "select s.criteria_hash, count(*) as scores, sum(case when s.simulated then 0 else 1 end) as real,
        sum(case when s.simulated then 0 else s.total_score end) as points, min(s.scored_at) as first_scored_at
     from session_scores s";

/// Selects definitions with statistics of their scores; one only, if `hash` is given.
fn select_definitions(hash: Option<&str>, parts: &SplitRange) -> Sql {
    let only = |statement: &mut Sql, before: &str| {
        if let Some(hash) = hash {
            statement.push(before).push_arg(hash);
        }
    };
    let mut statement = sql!(
        "select d.criteria_hash, d.kind, d.criteria_content, d.created_at, n.name, n.note, n.named_by, n.named_at,
            coalesce(case when d.kind = 'session' then s.scores else e.scores end, 0) as scores,
            coalesce(case when d.kind = 'session' then s.real_scores else e.real_scores end, 0) as real_scores,
            case when d.kind = 'session' then s.mean_total else e.mean_total end as mean_total,
            case when d.kind = 'session' then s.first_scored_at else e.first_scored_at end as first_scored_at
         from scoring_criteria_definitions d
         left join criteria_names n on n.criteria_hash = d.criteria_hash
         left join (
            select criteria_hash, cast(sum(scores) as bigint) as scores, cast(sum(real) as bigint) as real_scores,
                cast(sum(points) as double precision) / nullif(sum(real), 0) as mean_total,
                min(first_scored_at) as first_scored_at"
    );
    parts.push_union(
        &mut statement,
        |rolled_up| {
            rolled_up.push(ROLLED_UP);
            only(rolled_up, " and d.criteria_hash = ");
        },
        |counted| {
            counted.push(COUNTED);
            if !parts.counts_all() {
                counted.push(" join alert_sessions a on a.session_id = s.session_id");
            }
            counted.push(" where s.purpose = 'score'");
            only(counted, " and s.criteria_hash = ");
        },
        " group by s.criteria_hash",
    );
    statement.push(
        " group by criteria_hash
         ) s on s.criteria_hash = d.criteria_hash
         left join (
            select criteria_hash, count(total) as scores, count(case when not simulated then total end) as real_scores,
                avg(case when not simulated then total end) as mean_total,
                min(case when total is not null then scored_at end) as first_scored_at
            from evaluation_scores",
    );
    only(&mut statement, " where criteria_hash = ");
    statement.push(" group by criteria_hash) e on e.criteria_hash = d.criteria_hash");
    only(&mut statement, " where d.criteria_hash = ");
    statement
}

#[derive(Clone, Copy)]
pub struct CriteriaVersions<'a> {
    pub(super) db: &'a Db,
    pub(super) analytics: Analytics<'a>,
}

impl CriteriaVersions<'_> {
    /// Stores a definition, unless it exists. Returns whether it is new.
    pub async fn put(self, criteria: &Criteria, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let statement = sql!(
            "insert into scoring_criteria_definitions (criteria_hash, kind, criteria_content, created_at)
             values ($1, $2, $3, $4) on conflict (criteria_hash) do nothing",
            &criteria.hash.0,
            criteria.kind.as_str(),
            &criteria.content,
            now
        );
        let inserted = self
            .db
            .execute("storing a criteria definition", &statement)
            .await?;
        Ok(inserted > 0)
    }

    pub async fn get(self, hash: &str) -> Result<Option<CriteriaDefinition>, StoreError> {
        const ATTEMPTED: &str = "reading a criteria definition";
        let parts = self.analytics.parts_of(&ScoreFilter::default()).await?;
        let statement = select_definitions(Some(hash), &parts);
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        first(ATTEMPTED, &rows, definition)
    }

    /// Returns the resolved content of a definition, without statistics, which would read all scores.
    pub async fn content(self, hash: &str) -> Result<Option<Value>, StoreError> {
        const ATTEMPTED: &str = "reading a criteria definition";
        let statement = sql!(
            "select criteria_content from scoring_criteria_definitions where criteria_hash = $1",
            hash
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        first(ATTEMPTED, &rows, content)
    }

    /// Returns hash and kind of the definitions with this prefix of lower-case hex digits; at most 10.
    pub async fn beginning_with(self, prefix: &str) -> Result<Vec<(String, Kind)>, StoreError> {
        const ATTEMPTED: &str = "looking for criteria by their hash";
        let statement = sql!(
            "select criteria_hash, kind from scoring_criteria_definitions where criteria_hash like $1
             order by criteria_hash limit 10",
            format!("{prefix}%")
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| {
            Ok((row.get("criteria_hash")?, row.text_enum("kind")?))
        })
    }

    /// Lists definitions, newest first; at most 1,000.
    pub async fn list(self) -> Result<Vec<CriteriaDefinition>, StoreError> {
        const ATTEMPTED: &str = "listing criteria definitions";
        let parts = self.analytics.parts_of(&ScoreFilter::default()).await?;
        let mut statement = select_definitions(None, &parts);
        statement.push(" order by d.created_at desc, d.criteria_hash limit 1000");
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, definition)
    }
}

fn definition(row: &DbRow) -> sqlx::Result<CriteriaDefinition> {
    Ok(CriteriaDefinition {
        criteria_hash: row.get("criteria_hash")?,
        kind: row.text_enum("kind")?,
        content: content(row)?,
        created_at: row.get("created_at")?,
        scores: row.get("scores")?,
        real_scores: row.get("real_scores")?,
        mean_total: row.get("mean_total")?,
        first_scored_at: row.get("first_scored_at")?,
        name: choices::name(row)?,
    })
}

fn content(row: &DbRow) -> sqlx::Result<Value> {
    row.json("criteria_content")?
        .ok_or_else(|| decode("criteria_content", "it is null"))
}
