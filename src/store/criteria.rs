//! `scoring_criteria_definitions`: all criteria versions that were used or added. Rows are immutable.

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use crate::job::Kind;
use crate::score::Criteria;
use crate::score::trust::PairCount;
use crate::store::analytics::days::SplitRange;
use crate::store::database::db::Db;
use crate::store::database::row::{DbRow, Int, Nullable};
use crate::store::database::sql::{Sql, Statement, long_sql, sql, step};
use crate::store::{Analytics, ScoreFilter, StoreError};
use crate::wire::Mover;

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct CriteriaDefinition {
    pub criteria_hash: String,
    #[sqlx(try_from = "String")]
    pub kind: Kind,
    #[sqlx(rename = "criteria_content", json)]
    pub content: Value,
    pub created_at: DateTime<Utc>,
    /// Number of scores by it (purpose `score`, including superseded ones).
    pub scores: i64,
    /// Number of them that aren't simulated.
    pub real_scores: i64,
    /// Mean total of real scores: 0-100 for sessions, 0-1 for other kinds.
    pub mean_total: Option<f64>,
    pub first_scored_at: Option<DateTime<Utc>>,
    #[sqlx(flatten, try_from = "NameColumns")]
    pub name: Option<CriteriaName>,
}

#[derive(sqlx::FromRow)]
struct NameColumns {
    name: Option<String>,
    note: Option<String>,
    named_by: Option<String>,
    named_at: Option<DateTime<Utc>>,
}

impl From<NameColumns> for Option<CriteriaName> {
    fn from(columns: NameColumns) -> Self {
        let (by, at) = columns.named_by.zip(columns.named_at)?;
        Some(CriteriaName {
            name: columns.name,
            note: columns.note,
            by,
            at,
        })
    }
}

#[derive(sqlx::FromRow)]
struct HashAndKind {
    criteria_hash: String,
    #[sqlx(try_from = "String")]
    kind: Kind,
}

const READING: &str = "reading a criteria definition";

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
    let mut statement = step!(
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
            "storing a criteria definition",
            "insert into scoring_criteria_definitions (criteria_hash, kind, criteria_content, created_at)
             values ($1, $2, $3, $4) on conflict (criteria_hash) do nothing",
            &criteria.hash.0,
            criteria.kind.as_str(),
            &criteria.content,
            now
        );
        let inserted = self.db.execute(&statement).await?;
        Ok(inserted > 0)
    }

    pub async fn get(self, hash: &str) -> Result<Option<CriteriaDefinition>, StoreError> {
        let parts = self.analytics.parts_of(&ScoreFilter::default()).await?;
        let definition = select_definitions(Some(hash), &parts);
        self.db.read_one(&Statement::new(READING, definition)).await
    }

    /// Returns the resolved content of a definition, without statistics, which would read all scores.
    pub async fn content(self, hash: &str) -> Result<Option<Value>, StoreError> {
        let statement = sql!(
            READING,
            "select criteria_content from scoring_criteria_definitions where criteria_hash = $1",
            hash
        );
        Ok(self
            .db
            .read_value(&statement)
            .await?
            .map(|Json(content)| content))
    }

    /// Returns hash and kind of the definitions with this prefix of lower-case hex digits; at most 10.
    pub async fn beginning_with(self, prefix: &str) -> Result<Vec<(String, Kind)>, StoreError> {
        let statement = sql!(
            "looking for criteria by their hash",
            "select criteria_hash, kind from scoring_criteria_definitions where criteria_hash like $1
             order by criteria_hash limit 10",
            format!("{prefix}%")
        );
        let found: Vec<HashAndKind> = self.db.read(&statement).await?;
        Ok(found
            .into_iter()
            .map(|found| (found.criteria_hash, found.kind))
            .collect())
    }

    /// Lists definitions, newest first; at most 1,000.
    pub async fn list(self) -> Result<Vec<CriteriaDefinition>, StoreError> {
        let parts = self.analytics.parts_of(&ScoreFilter::default()).await?;
        let definitions = select_definitions(None, &parts);
        let mut statement = Statement::new("listing criteria definitions", definitions);
        statement.push(" order by d.created_at desc, d.criteria_hash limit 1000");
        self.db.read(&statement).await
    }
}

// `criteria_names` and `criteria_choices`: names of criteria versions, and the versions that users made current. Versions are
// immutable.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriteriaName {
    pub name: Option<String>,
    pub note: Option<String>,
    pub by: String,
    pub at: DateTime<Utc>,
}

/// The version of a kind that a user made current.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct CriteriaChoice {
    #[sqlx(try_from = "String")]
    pub kind: Kind,
    /// `None`: the version of the servers' files.
    pub criteria_hash: Option<String>,
    #[sqlx(rename = "chosen_by")]
    pub by: String,
    #[sqlx(rename = "chosen_at")]
    pub at: DateTime<Utc>,
}

impl CriteriaVersions<'_> {
    /// Names a stored version, replacing an earlier name and note.
    pub async fn name(self, hash: &str, new: &CriteriaName) -> Result<(), StoreError> {
        let statement = sql!(
            "naming criteria",
            "insert into criteria_names (criteria_hash, name, note, named_by, named_at) values ($1, $2, $3, $4, $5)
             on conflict (criteria_hash) do update
             set name = excluded.name, note = excluded.note, named_by = excluded.named_by, named_at = excluded.named_at",
            hash,
            new.name.as_deref(),
            new.note.as_deref(),
            &new.by,
            new.at
        );
        self.db.execute(&statement).await?;
        Ok(())
    }

    /// Makes a stored version current, or that of the files. Earlier choices stay stored.
    pub async fn choose(self, new: &CriteriaChoice) -> Result<(), StoreError> {
        let statement = sql!(
            "making criteria current",
            "insert into criteria_choices (choice_id, kind, criteria_hash, chosen_by, chosen_at) values ($1, $2, $3, $4, $5)",
            Uuid::now_v7(),
            new.kind.as_str(),
            new.criteria_hash.as_deref(),
            &new.by,
            new.at
        );
        self.db.execute(&statement).await?;
        Ok(())
    }

    /// Returns the last choice of each kind.
    pub async fn chosen(self) -> Result<Vec<CriteriaChoice>, StoreError> {
        let statement = sql!(
            "reading which criteria were made current",
            "select c.kind, c.criteria_hash, c.chosen_by, c.chosen_at from criteria_choices c
             where not exists (select 1 from criteria_choices n
                where n.kind = c.kind and (n.chosen_at, n.choice_id) > (c.chosen_at, c.choice_id))"
        );
        self.db.read(&statement).await
    }
}

// Sessions that two criteria versions have scored, with both totals.
//
// The newest score of a session by a version counts: its current or a former one, or a preview. Pairs are grouped by totals,
// so that the number of rows doesn't depend on the number of sessions.

/// Kind of the scores in a comparison; they are not mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Basis {
    #[default]
    Real,
    Simulated,
}

impl Basis {
    pub fn is_simulated(self) -> bool {
        match self {
            Self::Real => false,
            Self::Simulated => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CriteriaPairs {
    pub pairs: Vec<PairCount>,
    /// Sessions with a score by the first version only.
    pub only_a: u64,
    /// Sessions with a score by the second version only.
    pub only_b: u64,
    /// Kind of the scores: simulated only without real scores.
    pub basis: Basis,
    /// Number of simulated scores that were excluded because there are real ones.
    pub simulated_left_out: u64,
}

/// By session and simulated or not: its newest totals by `$1` and `$2`, and the number of scores.
macro_rules! sided {
    ($which:literal) => {
        concat!(
            "with ranked as (
                select session_id, criteria_hash, simulated, total_score,
                    row_number() over (partition by session_id, criteria_hash, simulated
                        order by scored_at desc, score_id desc) as place
                from session_scores
                where criteria_hash in ($1, $2) and purpose in ('score', 'preview')",
            $which,
            "), sided as (
                select session_id, simulated, count(*) as scores,
                    max(case when criteria_hash = $1 and place = 1 then total_score end) as a,
                    max(case when criteria_hash = $2 and place = 1 then total_score end) as b
                from ranked group by session_id, simulated
             ) "
        )
    };
}

/// Sessions with equal totals by both versions.
#[derive(sqlx::FromRow)]
struct Sided {
    simulated: bool,
    #[sqlx(try_from = "Nullable<Int>")]
    a: Option<u8>,
    #[sqlx(try_from = "Nullable<Int>")]
    b: Option<u8>,
    #[sqlx(try_from = "Int")]
    n: u64,
    #[sqlx(try_from = "Int")]
    scores: u64,
}

impl CriteriaVersions<'_> {
    /// Compares two versions. Uses simulated scores only if neither version has a real one.
    pub async fn pairs(self, a: &str, b: &str) -> Result<CriteriaPairs, StoreError> {
        let statement = long_sql!(
            "comparing criteria",
            concat!(
                sided!(""),
                "select simulated, a, b, count(*) as n, cast(sum(scores) as bigint) as scores from sided
                 group by simulated, a, b order by a, b"
            ),
            a,
            b
        );
        let (mut real, mut made_up) = (CriteriaPairs::default(), CriteriaPairs::default());
        let (mut real_scores, mut made_up_scores) = (0, 0);
        for sided in self.db.read::<Sided>(&statement).await? {
            let (found, scores) = if sided.simulated {
                (&mut made_up, &mut made_up_scores)
            } else {
                (&mut real, &mut real_scores)
            };
            *scores += sided.scores;
            match (sided.a, sided.b) {
                (Some(a), Some(b)) => found.pairs.push(PairCount { a, b, n: sided.n }),
                (Some(_), None) => found.only_a += sided.n,
                (None, Some(_)) => found.only_b += sided.n,
                (None, None) => {}
            }
        }
        Ok(if real_scores == 0 && made_up_scores > 0 {
            CriteriaPairs {
                basis: Basis::Simulated,
                ..made_up
            }
        } else {
            CriteriaPairs {
                simulated_left_out: made_up_scores,
                ..real
            }
        })
    }

    /// Returns the sessions with the largest nonzero differences. `limit` 0-500.
    pub async fn movers(
        self,
        (a, b): (&str, &str),
        basis: Basis,
        limit: u32,
    ) -> Result<Vec<Mover>, StoreError> {
        let statement = long_sql!(
            "reading score changes between criteria",
            concat!(
                sided!(" and simulated = $3"),
                "select session_id, a, b from sided where a <> b order by abs(b - a) desc, session_id limit $4"
            ),
            a,
            b,
            basis.is_simulated(),
            limit.min(500)
        );
        let mover = |row: &DbRow| {
            let (a, b): (u8, u8) = (row.int("a")?, row.int("b")?);
            Ok(Mover {
                session_id: row.get("session_id")?,
                a,
                b,
                difference: i16::from(b) - i16::from(a),
            })
        };
        self.db.read_with(&statement, mover).await
    }
}
