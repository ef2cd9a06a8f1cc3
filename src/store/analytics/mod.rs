//! What current scores come to: totals counted, names counted. Read from rolled up days, and counted of days that aren't.
//!
//! Times are the sessions' own (completed, else first seen), as in the list of sessions: a session that is scored again
//! stays where it was.

pub(super) mod days;
pub(super) mod latency;
pub(super) mod rollup;

use chrono::{DateTime, NaiveDate, Utc};
use uuid::Uuid;

use crate::store::StoreError;
use crate::store::calls::CallSender;
use crate::store::database::db::Db;
use crate::store::database::sql::{DbRow, Sql, all, sql};
use days::{Parts, day, day_of};

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
    Judge,
    /// A simulated judge.
    Simulated,
}

/// How finely time is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Each day of UTC.
    Day,
    /// Each month of UTC.
    Month,
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
    pub criteria_hash: String,
    /// The day of UTC, if counted by day.
    pub day: Option<NaiveDate>,
    pub made_by: MadeBy,
    /// 0-100.
    pub total: u8,
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
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ToolElsewhere {
    /// As the score's judge wrote it first.
    #[sqlx(rename = "tool_name")]
    pub name: String,
    /// What its spellings have in common.
    #[sqlx(rename = "tool_key")]
    pub key: String,
    /// Other sessions; never more than was asked to be counted.
    pub sessions: i64,
}

/// A current score with what is known of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreOf {
    pub agent: Option<String>,
    pub alert_type: Option<String>,
    pub tags: Vec<String>,
    pub made_by: MadeBy,
    /// 0-100.
    pub total: u8,
    pub criteria_hash: String,
}

/// The most spellings that are read for a page of names.
const SPELLINGS: i64 = 5_000;

impl Named {
    /// The table, its column with the key, and its column with the name as judges wrote it.
    pub(super) fn columns(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::MissingTools => ("score_missing_tools", "tool_key", "tool_name"),
            Self::Approaches => ("score_alternative_approaches", "name_key", "name"),
        }
    }

    /// What stands for it in the database.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::MissingTools => "missing_tool",
            Self::Approaches => "approach",
        }
    }
}

/// Scores, counted.
#[derive(Clone, Copy)]
pub struct Analytics<'a> {
    pub(super) db: &'a Db,
    pub(super) call_log: &'a CallSender,
}

impl Analytics<'_> {
    /// How many scores have which total, by criteria.
    pub async fn totals(self, filter: &ScoreFilter) -> Result<Vec<TotalCount>, StoreError> {
        const ATTEMPTED: &str = "counting totals";
        let parts = self.parts_of(filter).await?;
        let mut statement = sql!(
            "select criteria_hash, simulated, total_score, cast(sum(scores) as bigint) as scores"
        );
        parts.push_union(
            &mut statement,
            |rolled_up| {
                rolled_up.push(
                    "select d.criteria_hash, d.simulated, d.total_score, d.scores from score_days d where d.is_current",
                );
                filter.push_criteria(rolled_up, "d");
            },
            |counted| {
                counted.push(
                    "select s.criteria_hash, s.simulated, s.total_score, count(*) as scores from session_scores s",
                );
                if !parts.counts_all() {
                    counted.push(" join alert_sessions a on a.session_id = s.session_id");
                }
                filter.push_current(counted);
            },
            " group by s.criteria_hash, s.simulated, s.total_score",
        );
        statement.push(" group by criteria_hash, simulated, total_score");
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| total(row, None))
    }

    /// How many scores have which total, by criteria and the day of their session, or the first of its month.
    pub async fn totals_over_time(
        self,
        filter: &ScoreFilter,
        by: By,
    ) -> Result<Vec<TotalCount>, StoreError> {
        const ATTEMPTED: &str = "counting totals over time";
        let parts = self.parts_of(filter).await?;
        let mut statement = sql!("select ");
        statement.push(match by {
            By::Day => "day, criteria_hash, simulated, total_score, scores",
            By::Month => {
                "substr(day, 1, 7) || '-01' as day, criteria_hash, simulated, total_score, cast(sum(scores) as bigint) as scores"
            }
        });
        parts.push_union(
            &mut statement,
            |rolled_up| {
                rolled_up.push(
                    "select d.day, d.criteria_hash, d.simulated, d.total_score, d.scores from score_days d where d.is_current",
                );
                filter.push_criteria(rolled_up, "d");
            },
            |counted| {
                counted.push("select ").push(day(self.db.dialect())).push(
                    " as day, s.criteria_hash, s.simulated, s.total_score, count(*) as scores
                     from session_scores s join alert_sessions a on a.session_id = s.session_id",
                );
                filter.push_current(counted);
            },
            " group by 1, 2, 3, 4",
        );
        if by == By::Month {
            statement.push(" group by 1, 2, 3, 4");
        }
        statement.push(" order by 1, 2");
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| {
            total(row, Some(day_of(&row.get::<String>("day")?)?))
        })
    }

    /// How many sessions there are in the filter's time, scored or not, wherever they stand.
    pub async fn sessions_in(self, filter: &ScoreFilter) -> Result<i64, StoreError> {
        const ATTEMPTED: &str = "counting sessions";
        let parts = self.parts_of(filter).await?;
        let mut statement = sql!("select cast(coalesce(sum(sessions), 0) as bigint) as sessions");
        parts.push_union(
            &mut statement,
            |rolled_up| {
                rolled_up.push("select d.sessions from session_days d where 1 = 1");
            },
            |counted| {
                counted.push("select count(*) as sessions from alert_sessions a where 1 = 1");
            },
            "",
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let sessions = rows.first().map_or(Ok(0), |row| row.get("sessions"));
        sessions.map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// The current scores of the newest `most` sessions in the filter's time, each with what is known of its session.
    pub async fn newest(self, filter: &ScoreFilter, most: u32) -> Result<Vec<ScoreOf>, StoreError> {
        const ATTEMPTED: &str = "reading the newest scores";
        let mut statement = sql!(
            "select a.agent, a.alert_type, a.tags, s.simulated, s.total_score, s.criteria_hash from (
                select a.session_id, a.agent, a.alert_type, a.tags from alert_sessions a where 1 = 1"
        );
        filter.push_time(&mut statement);
        statement
            .push(" order by a.listed_at desc, a.session_id desc limit ")
            .push_arg(most);
        statement.push(") a join session_scores s on s.session_id = a.session_id");
        filter.push_current(&mut statement);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| {
            Ok(ScoreOf {
                agent: row.get("agent")?,
                alert_type: row.get("alert_type")?,
                tags: row.json_as("tags")?,
                made_by: made_by(row)?,
                total: row.int("total_score")?,
                criteria_hash: row.get("criteria_hash")?,
            })
        })
    }

    /// The names that occur in most sessions, at most `limit`; a session counts once for a name, however often its score has
    /// it and however that is spelled.
    pub async fn names(
        self,
        named: Named,
        filter: &ScoreFilter,
        made_by: MadeBy,
        limit: u32,
    ) -> Result<Vec<NameCount>, StoreError> {
        const ATTEMPTED: &str = "counting names in scores";
        let parts = self.parts_of(filter).await?;
        let of = NamesOf {
            named,
            filter,
            made_by,
            parts: &parts,
        };
        let mut statement = sql!("select name_key, cast(sum(sessions) as bigint) as sessions");
        of.push_to(&mut statement, &[]);
        statement.push(" group by name_key order by 2 desc, 1 limit ");
        statement.push_arg(limit);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let read = |row: &DbRow| {
            Ok(NameCount {
                key: row.get("name_key")?,
                sessions: row.get("sessions")?,
                spellings: Vec::new(),
            })
        };
        let mut names: Vec<NameCount> = all(ATTEMPTED, &rows, read)?;
        if names.is_empty() {
            return Ok(names);
        }

        let keys: Vec<&str> = names.iter().map(|name| name.key.as_str()).collect();
        let mut statement = sql!("select name_key, name, cast(sum(sessions) as bigint) as times");
        of.push_to(&mut statement, &keys);
        statement.push(" group by name_key, name order by 3 desc, 2 limit ");
        statement.push_arg(SPELLINGS);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
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
    pub async fn tools_elsewhere(
        self,
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
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, DbRow::decode)
    }
}

/// Names in scores, where they are rolled up and where they are counted.
struct NamesOf<'a> {
    named: Named,
    filter: &'a ScoreFilter,
    made_by: MadeBy,
    parts: &'a Parts,
}

impl NamesOf<'_> {
    /// From where keys, names and sessions come; of these keys, or of all.
    fn push_to(&self, statement: &mut Sql, keys: &[&str]) {
        let (table, key, name) = self.named.columns();
        let simulated = self.made_by == MadeBy::Simulated;
        self.parts.push_union(
            statement,
            |rolled_up| {
                rolled_up
                    .push("select d.name_key, d.name, d.sessions from name_days d where d.named = ")
                    .push_arg(self.named.as_str())
                    .push(" and d.simulated = ")
                    .push_arg(simulated);
                self.filter.push_criteria(rolled_up, "d");
                if !keys.is_empty() {
                    rolled_up.push(" and d.name_key in ");
                    rolled_up.push_list(keys.iter().copied());
                }
            },
            |counted| {
                counted.push("select t.").push(key).push(" as name_key, t.");
                counted
                    .push(name)
                    .push(" as name, count(*) as sessions from session_scores s join ");
                counted.push(table).push(" t on t.score_id = s.score_id");
                if !self.parts.counts_all() {
                    counted.push(" join alert_sessions a on a.session_id = s.session_id");
                }
                self.filter.push_current(counted);
                counted.push(" and s.simulated = ").push_arg(simulated);
                counted.push(" and t.").push(key);
                if keys.is_empty() {
                    counted.push(" is not null");
                } else {
                    counted.push(" in ");
                    counted.push_list(keys.iter().copied());
                }
            },
            " group by 1, 2",
        );
    }
}

impl ScoreFilter {
    /// Narrows to current scores by the filter's criteria.
    fn push_current(&self, statement: &mut Sql) {
        statement.push(" where s.superseded_at is null and s.purpose = 'score'");
        self.push_criteria(statement, "s");
    }

    fn push_criteria(&self, statement: &mut Sql, table: &str) {
        if let Some(hash) = &self.criteria_hash {
            statement.push(" and ").push(table);
            statement.push(".criteria_hash = ").push_arg(hash);
        }
    }

    /// What the filter asks for of scores `s` and sessions `a`, behind other conditions.
    pub(super) fn push_narrowed(&self, statement: &mut Sql) {
        self.push_criteria(statement, "s");
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

fn total(row: &DbRow, day: Option<NaiveDate>) -> sqlx::Result<TotalCount> {
    Ok(TotalCount {
        criteria_hash: row.get("criteria_hash")?,
        day,
        made_by: made_by(row)?,
        total: row.int("total_score")?,
        scores: row.int("scores")?,
    })
}

fn made_by(row: &DbRow) -> sqlx::Result<MadeBy> {
    Ok(match row.get("simulated")? {
        true => MadeBy::Simulated,
        false => MadeBy::Judge,
    })
}

fn spelling(row: &DbRow) -> sqlx::Result<(String, (String, i64))> {
    Ok((row.get("name_key")?, (row.get("name")?, row.get("times")?)))
}
