//! What current scores come to: totals counted, names counted. Aggregated by the database, over an index that holds all that
//! is counted.
//!
//! Times are the sessions' own (completed, else first seen), as in the list of sessions: a session that is scored again
//! stays where it was.

use chrono::{DateTime, NaiveDate, Utc};
use uuid::Uuid;

use super::sql::{Row, Sql, sql};
use super::{Dialect, Store, StoreError};

/// Which current scores; every field narrows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScoreFilter {
    /// Made with these criteria.
    pub criteria_hash: Option<String>,
    /// Of sessions that completed (else were first seen) at or after.
    pub from: Option<DateTime<Utc>>,
    /// Of sessions that completed (else were first seen) before.
    pub to: Option<DateTime<Utc>>,
}

/// Who made a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeBy {
    /// A judge.
    Judge,
    /// A simulated judge.
    Simulated,
}

/// What judges name in scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// Tools that agents lacked or left unused.
    MissingTools,
    /// Other ways the investigation could have gone.
    Approaches,
}

/// How many scores have this total.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TotalCount {
    /// The criteria.
    pub criteria_hash: String,
    /// The day of UTC, if counted by day.
    pub day: Option<NaiveDate>,
    /// Who made them.
    pub made_by: MadeBy,
    /// 0-100.
    pub total: u8,
    /// How many.
    pub scores: u64,
}

/// A name, and in how many sessions it occurs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameCount {
    /// What its spellings have in common.
    pub key: String,
    /// Sessions, each counted once.
    pub sessions: i64,
    /// How it is spelled, and how often so; the most frequent first.
    pub spellings: Vec<(String, i64)>,
}

/// A tool that a score names as missing, and how many other sessions' current scores name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolElsewhere {
    /// As the score's judge wrote it first.
    pub name: String,
    /// What its spellings have in common.
    pub key: String,
    /// Other sessions; never more than was asked to be counted.
    pub sessions: i64,
}

/// The most spellings that are read for a page of names.
const SPELLINGS: i64 = 5_000;

impl Named {
    /// The table, its column with the key, and its column with the name as judges wrote it.
    fn columns(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::MissingTools => ("score_missing_tools", "tool_key", "tool_name"),
            Self::Approaches => ("score_alternative_approaches", "name_key", "name"),
        }
    }
}

impl Store {
    /// How many scores have which total, by criteria.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn totals(&self, filter: &ScoreFilter) -> Result<Vec<TotalCount>, StoreError> {
        const ATTEMPTED: &str = "counting totals";
        let mut statement = sql!(
            "select s.criteria_hash, s.simulated, s.total_score, count(*) as scores from session_scores s"
        );
        filter.push_to(&mut statement);
        statement.push(" group by s.criteria_hash, s.simulated, s.total_score");
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        rows.iter()
            .map(|row| total(row, None))
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// How many scores have which total, by criteria and the day of their session.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn totals_by_day(&self, filter: &ScoreFilter) -> Result<Vec<TotalCount>, StoreError> {
        const ATTEMPTED: &str = "counting totals by day";
        let mut statement = sql!("select ");
        statement.push(match self.dialect() {
            Dialect::Postgres => "cast(a.listed_at at time zone 'UTC' as date)",
            Dialect::Sqlite => "substr(a.listed_at, 1, 10)",
        });
        statement.push(
            " as day, s.criteria_hash, s.simulated, s.total_score, count(*) as scores
             from session_scores s join alert_sessions a on a.session_id = s.session_id",
        );
        filter.push_where(&mut statement);
        statement.push(" group by 1, s.criteria_hash, s.simulated, s.total_score order by 1, 2");
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        rows.iter()
            .map(|row| total(row, Some(row.get("day")?)))
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// How many sessions there are in the filter's time, scored or not, wherever they stand.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn sessions_in(&self, filter: &ScoreFilter) -> Result<i64, StoreError> {
        const ATTEMPTED: &str = "counting sessions";
        let mut statement = sql!("select count(*) as sessions from alert_sessions a where 1 = 1");
        filter.push_time(&mut statement);
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        let sessions = rows.first().map_or(Ok(0), |row| row.get("sessions"));
        sessions.map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// The names that occur in most sessions, at most `limit`; a session counts once for a name, however often its score has
    /// it and however that is spelled.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn names(
        &self,
        named: Named,
        filter: &ScoreFilter,
        made_by: MadeBy,
        limit: u32,
    ) -> Result<Vec<NameCount>, StoreError> {
        const ATTEMPTED: &str = "counting names in scores";
        let (table, key, name) = named.columns();
        let mut statement = sql!("select t.");
        statement
            .push(key)
            .push(" as name_key, count(*) as sessions");
        push_named(&mut statement, table, filter, made_by);
        statement.push(" and t.").push(key);
        statement.push(" is not null group by 1 order by 2 desc, 1 limit ");
        statement.push_arg(limit);
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        let read = |row: &Row| {
            Ok(NameCount {
                key: row.get("name_key")?,
                sessions: row.get("sessions")?,
                spellings: Vec::new(),
            })
        };
        let mut names: Vec<NameCount> = rows
            .iter()
            .map(read)
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))?;
        if names.is_empty() {
            return Ok(names);
        }

        let mut statement = sql!("select t.");
        statement.push(key).push(" as name_key, t.").push(name);
        statement.push(" as name, count(*) as times");
        push_named(&mut statement, table, filter, made_by);
        statement.push(" and t.").push(key).push(" in ");
        statement.push_list(names.iter().map(|name| name.key.as_str()));
        statement.push(" group by 1, 2 order by 3 desc, 2 limit ");
        statement.push_arg(SPELLINGS);
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        for row in &rows {
            let read = spelling(row).map_err(|e| StoreError::of(ATTEMPTED, &e));
            let (key, spelling) = read?;
            if let Some(name) = names.iter_mut().find(|name| name.key == key) {
                name.spellings.push(spelling);
            }
        }
        Ok(names)
    }

    /// The tools that a score names as missing, in its order, each once, with how many sessions beside `session_id` have a
    /// current score of the same making that names it too. Counts up to `most` by index, so that a tool that everybody lacks
    /// costs no more than a few rows more than that.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn tools_elsewhere(
        &self,
        score_id: Uuid,
        session_id: Uuid,
        made_by: MadeBy,
        most: u32,
    ) -> Result<Vec<ToolElsewhere>, StoreError> {
        const ATTEMPTED: &str = "counting the sessions that miss a tool";
        let statement = sql!(
            "select k.tool_name, k.tool_key, (select count(*) from (
                select t.score_id from score_missing_tools t join session_scores s on s.score_id = t.score_id
                where t.tool_key = k.tool_key and s.superseded_at is null and s.purpose = 'score'
                    and s.simulated = $1 and s.session_id <> $2 limit $3) c) as sessions
             from score_missing_tools k where k.score_id = $4 and k.tool_key is not null order by k.position",
            made_by == MadeBy::Simulated,
            session_id,
            most,
            score_id
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        let read = |row: &Row| {
            Ok(ToolElsewhere {
                name: row.get("tool_name")?,
                key: row.get("tool_key")?,
                sessions: row.get("sessions")?,
            })
        };
        rows.iter()
            .map(read)
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }
}

impl ScoreFilter {
    /// Joins sessions where their time is asked for, and narrows to current scores.
    fn push_to(&self, statement: &mut Sql) {
        self.push_join(statement);
        self.push_where(statement);
    }

    /// Joins sessions where their time is asked for.
    pub(super) fn push_join(&self, statement: &mut Sql) {
        if self.from.is_some() || self.to.is_some() {
            statement.push(" join alert_sessions a on a.session_id = s.session_id");
        }
    }

    fn push_where(&self, statement: &mut Sql) {
        statement.push(" where s.superseded_at is null and s.purpose = 'score'");
        self.push_narrowed(statement);
    }

    /// What the filter asks for, behind other conditions.
    pub(super) fn push_narrowed(&self, statement: &mut Sql) {
        if let Some(hash) = &self.criteria_hash {
            statement.push(" and s.criteria_hash = ").push_arg(hash);
        }
        self.push_time(statement);
    }

    fn push_time(&self, statement: &mut Sql) {
        if let Some(from) = self.from {
            statement.push(" and a.listed_at >= ").push_arg(from);
        }
        if let Some(to) = self.to {
            statement.push(" and a.listed_at < ").push_arg(to);
        }
    }
}

fn push_named(statement: &mut Sql, table: &'static str, filter: &ScoreFilter, made_by: MadeBy) {
    statement.push(" from session_scores s join ").push(table);
    statement.push(" t on t.score_id = s.score_id");
    filter.push_to(statement);
    statement
        .push(" and s.simulated = ")
        .push_arg(made_by == MadeBy::Simulated);
}

fn total(row: &Row, day: Option<NaiveDate>) -> sqlx::Result<TotalCount> {
    Ok(TotalCount {
        criteria_hash: row.get("criteria_hash")?,
        day,
        made_by: match row.get("simulated")? {
            true => MadeBy::Simulated,
            false => MadeBy::Judge,
        },
        total: row.int("total_score")?,
        scores: row.int("scores")?,
    })
}

fn spelling(row: &Row) -> sqlx::Result<(String, (String, i64))> {
    Ok((row.get("name_key")?, (row.get("name")?, row.get("times")?)))
}
