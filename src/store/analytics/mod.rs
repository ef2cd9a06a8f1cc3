//! Statistics of current scores: number of scores by total, and names in scores. Read from rollups, and counted on dirty days.
//!
//! Times are those of sessions (completed, else created), as in the list of sessions, so that a session stays at its time when
//! it is scored again.

pub(super) mod days;
pub(super) mod latency;
pub(super) mod rollup;

use chrono::{DateTime, NaiveDate, Utc};
use uuid::Uuid;

use crate::store::StoreError;
use crate::store::calls::CallSender;
use crate::store::database::db::Db;
use crate::store::database::row::{Day, Int, Nullable};
use crate::store::database::sql::{Sql, long_sql};
use days::{SplitRange, day};

/// Filter of current scores; set fields are combined by AND.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScoreFilter {
    pub criteria_hash: Option<String>,
    /// Sessions completed (else created) at or after.
    pub from: Option<DateTime<Utc>>,
    /// Sessions completed (else created) before.
    pub to: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeBy {
    Judge,
    Simulated,
}

/// From the column `simulated`.
impl From<bool> for MadeBy {
    fn from(simulated: bool) -> Self {
        match simulated {
            true => Self::Simulated,
            false => Self::Judge,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Day,
    Month,
}

/// Kind of names in scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    MissingTools,
    Approaches,
}

/// Number of scores with a total.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct TotalCount {
    pub criteria_hash: String,
    /// UTC day, if grouped by day.
    #[sqlx(default, try_from = "Nullable<Day>")]
    pub day: Option<NaiveDate>,
    #[sqlx(rename = "simulated", try_from = "bool")]
    pub made_by: MadeBy,
    /// 0-100.
    #[sqlx(rename = "total_score", try_from = "Int")]
    pub total: u8,
    #[sqlx(try_from = "Int")]
    pub scores: u64,
}

/// A name and the number of sessions with it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct NameCount {
    /// Normalised spelling.
    #[sqlx(rename = "name_key")]
    pub key: String,
    /// Distinct sessions.
    pub sessions: i64,
    /// Spellings with their counts, most frequent first.
    #[sqlx(skip)]
    pub spellings: Vec<(String, i64)>,
}

/// A missing tool of a score, and the number of other sessions with current scores that name it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ToolElsewhere {
    /// First spelling in the score.
    #[sqlx(rename = "tool_name")]
    pub name: String,
    /// Normalised spelling.
    #[sqlx(rename = "tool_key")]
    pub key: String,
    /// Other sessions, up to the requested maximum.
    pub sessions: i64,
}

/// A current score with facts of its session.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ScoreOf {
    pub agent: Option<String>,
    pub alert_type: Option<String>,
    #[sqlx(json)]
    pub tags: Vec<String>,
    #[sqlx(rename = "simulated", try_from = "bool")]
    pub made_by: MadeBy,
    /// 0-100.
    #[sqlx(rename = "total_score", try_from = "Int")]
    pub total: u8,
    pub criteria_hash: String,
}

/// Maximum number of spellings that are read for a page of names.
const MAX_SPELLINGS: i64 = 5_000;

impl Named {
    /// Returns the table, its key column and its name column.
    pub(super) fn columns(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::MissingTools => ("score_missing_tools", "tool_key", "tool_name"),
            Self::Approaches => ("score_alternative_approaches", "name_key", "name"),
        }
    }

    /// Name in the table `name_days`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::MissingTools => "missing_tool",
            Self::Approaches => "approach",
        }
    }
}

#[derive(Clone, Copy)]
pub struct Analytics<'a> {
    pub(super) db: &'a Db,
    pub(super) call_log: &'a CallSender,
}

impl Analytics<'_> {
    /// Returns the number of scores by criteria and total.
    pub async fn totals(self, filter: &ScoreFilter) -> Result<Vec<TotalCount>, StoreError> {
        let parts = self.parts_of(filter).await?;
        let mut statement = long_sql!(
            "counting totals",
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
        self.db.read(&statement).await
    }

    /// Returns the number of scores by criteria, total and the day of their session, or the first day of its month.
    pub async fn totals_over_time(
        self,
        filter: &ScoreFilter,
        by: By,
    ) -> Result<Vec<TotalCount>, StoreError> {
        let parts = self.parts_of(filter).await?;
        let mut statement = long_sql!("counting totals over time", "select ");
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
        self.db.read(&statement).await
    }

    /// Counts the sessions in the filter's range, scored or not, in any status.
    pub async fn sessions_in(self, filter: &ScoreFilter) -> Result<i64, StoreError> {
        let parts = self.parts_of(filter).await?;
        let mut statement = long_sql!(
            "counting sessions",
            "select cast(coalesce(sum(sessions), 0) as bigint) as sessions"
        );
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
        Ok(self.db.read_value(&statement).await?.unwrap_or_default())
    }

    /// Returns the current scores of the newest `most` sessions in the filter's range.
    pub async fn newest(self, filter: &ScoreFilter, most: u32) -> Result<Vec<ScoreOf>, StoreError> {
        let mut statement = long_sql!(
            "reading the newest scores",
            "select a.agent, a.alert_type, a.tags, s.simulated, s.total_score, s.criteria_hash from (
                select a.session_id, a.agent, a.alert_type, a.tags from alert_sessions a where 1 = 1"
        );
        filter.push_time(&mut statement);
        statement
            .push(" order by a.listed_at desc, a.session_id desc limit ")
            .push_arg(most);
        statement.push(") a join session_scores s on s.session_id = a.session_id");
        filter.push_current(&mut statement);
        self.db.read(&statement).await
    }

    /// Returns the names with most sessions, at most `limit`. A session counts once per name, in any spelling.
    pub async fn names(
        self,
        named: Named,
        filter: &ScoreFilter,
        made_by: MadeBy,
        limit: u32,
    ) -> Result<Vec<NameCount>, StoreError> {
        let parts = self.parts_of(filter).await?;
        let of = NamesOf {
            named,
            filter,
            made_by,
            parts: &parts,
        };
        let mut statement = long_sql!(
            "counting names in scores",
            "select name_key, cast(sum(sessions) as bigint) as sessions"
        );
        of.push_to(&mut statement, &[]);
        statement.push(" group by name_key order by 2 desc, 1 limit ");
        statement.push_arg(limit);
        let mut names: Vec<NameCount> = self.db.read(&statement).await?;
        if names.is_empty() {
            return Ok(names);
        }

        let keys: Vec<&str> = names.iter().map(|name| name.key.as_str()).collect();
        let mut statement = long_sql!(
            "counting names in scores",
            "select name_key, name, cast(sum(sessions) as bigint) as times"
        );
        of.push_to(&mut statement, &keys);
        statement.push(" group by name_key, name order by 3 desc, 2 limit ");
        statement.push_arg(MAX_SPELLINGS);
        let rows: Vec<(String, String, i64)> = self.db.read(&statement).await?;
        for (key, spelling, times) in rows {
            if let Some(name) = names.iter_mut().find(|name| name.key == key) {
                name.spellings.push((spelling, times));
            }
        }
        Ok(names)
    }

    /// Returns the distinct missing tools of a score in its order, with the number of other sessions than `session_id` with current scores
    /// of the same kind that name it. Counts up to `most` by index, so that frequent tools are cheap.
    pub async fn tools_elsewhere(
        self,
        score_id: Uuid,
        session_id: Uuid,
        made_by: MadeBy,
        most: u32,
    ) -> Result<Vec<ToolElsewhere>, StoreError> {
        let statement = long_sql!(
            "counting the sessions that miss a tool",
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
        self.db.read(&statement).await
    }
}

/// Names in scores, by rolled-up and counted days.
struct NamesOf<'a> {
    named: Named,
    filter: &'a ScoreFilter,
    made_by: MadeBy,
    parts: &'a SplitRange,
}

impl NamesOf<'_> {
    /// Appends the source of keys, names and sessions, for these keys or all.
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
    /// Restricts to current scores by the filter's criteria.
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

    /// Appends the filter's conditions on scores `s` and sessions `a`.
    pub(super) fn push_narrowed(&self, statement: &mut Sql) {
        self.push_criteria(statement, "s");
        self.push_time(statement);
    }

    fn push_time(&self, statement: &mut Sql) {
        statement.and("a.listed_at >= ", self.from);
        statement.and("a.listed_at < ", self.to);
    }
}
