//! Classifies sessions for a request to score many: which ones are scored, and why the others are skipped.
//!
//! Expanding a batch and estimating its cost use the same statement. It reads one page of sessions at a time, newest first. The
//! page has a fixed size whether or not the filter matches, which bounds each query and its joins.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::filter::push_conditions;
use crate::job::{JobId, Purpose, text_enum};
use crate::store::database::row::Nullable;
use crate::store::database::sql::{Sql, Statement, step};
use crate::store::{Dialect, SessionFilter, Sessions, StoreError};

const MAX_SESSIONS: u32 = 10_000;

/// Rules that decide whether a session is scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassifyRules {
    /// Sessions with a score or an active job are skipped only for purpose `score`.
    pub purpose: Purpose,
    pub criteria_hash: String,
    /// Whether sessions with a current score are scored again.
    pub force: bool,
    /// Whether a simulated score counts, because the requested judge is simulated too.
    pub simulated: bool,
    pub completed_only: bool,
}

text_enum! {
    pub enum Disposition {
        ToScore = "to_score",
        /// Its current score is by these criteria.
        AlreadyCurrent = "already_current",
        InProgress = "in_progress",
        /// It hasn't ended, or has no conversation.
        NotScorable = "not_scorable",
    }
}

/// A session that matches the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Sort key of the list.
    pub listed_at: DateTime<Utc>,
    pub session_id: Uuid,
    pub disposition: Disposition,
    pub active: Option<JobId>,
}

/// Position in the list: sort key and id.
pub type SessionPlace = (DateTime<Utc>, Uuid);

/// A session of a page.
#[derive(sqlx::FromRow)]
pub(in crate::store) struct Classified {
    session_id: Uuid,
    listed_at: DateTime<Utc>,
    active_id: Option<Uuid>,
    /// `None`: it doesn't match the filter.
    #[sqlx(try_from = "Nullable<String>")]
    disposition: Option<Disposition>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPage {
    /// Matching sessions, in order.
    pub found: Vec<Found>,
    /// The last session that was read.
    pub last: Option<SessionPlace>,
    /// Whether there may be further sessions.
    pub more: bool,
}

/// Sessions that a query reads.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum SessionScope<'a> {
    /// All after a position, newest first.
    All(Option<SessionPlace>),
    /// Sessions with these ids, by id.
    Ids(&'a [Uuid]),
    /// The picks of a batch, by id after a position.
    Picks(Uuid, Option<SessionPlace>),
}

#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct ClassifyQuery<'a> {
    pub(in crate::store) filter: &'a SessionFilter,
    pub(in crate::store) rules: &'a ClassifyRules,
    /// Only sessions stored before this time.
    pub(in crate::store) before: DateTime<Utc>,
    pub(in crate::store) scope: SessionScope<'a>,
    /// Skips sessions that this batch has items of already: a session that was put again may have moved behind the position.
    pub(in crate::store) unless_in: Option<Uuid>,
    pub(in crate::store) limit: u32,
}

impl Sessions<'_> {
    /// Reads the next `limit` sessions (at most 10,000) that were stored before `before`, newest first after the position
    /// `after`, and classifies those that match the filter. With `ids` in the filter, at most 10,000, it reads these by id.
    pub async fn classify(
        self,
        filter: &SessionFilter,
        rules: &ClassifyRules,
        before: DateTime<Utc>,
        after: Option<SessionPlace>,
        limit: u32,
    ) -> Result<FoundPage, StoreError> {
        let scope = match filter.ids.as_slice() {
            [] => SessionScope::All(after),
            ids => SessionScope::Ids(ids),
        };
        let limit = limit.clamp(1, MAX_SESSIONS);
        let query = ClassifyQuery {
            filter,
            rules,
            before,
            scope,
            unless_in: None,
            limit,
        };
        let statement = statement(self.db.dialect(), query);
        let statement = Statement::new("classifying sessions to score", statement).long();
        let page = page(self.db.read(&statement).await?, limit);
        Ok(FoundPage {
            more: page.more && filter.ids.is_empty(),
            ..page
        })
    }
}

/// One row per session with its disposition; null for sessions that don't match the filter.
pub(in crate::store) fn statement(dialect: Dialect, query: ClassifyQuery<'_>) -> Sql {
    let mut statement = step!("select s.session_id, s.listed_at, s.active_id, case when 1 = 1");
    let words = SessionFilter {
        ids: Vec::new(),
        ..query.filter.clone()
    };
    push_conditions(&words, &mut statement, dialect);
    if let Some(batch_id) = query.unless_in {
        // By subject, because through the batch's index SQLite would scan all items for each session. A scalar subquery instead
        // of `not exists`, because Postgres would hash all jobs while it has no statistics, as in a new batch.
        statement
            .push(
                " and (select min(1) from scoring_jobs o
                    where o.subject_id = s.session_id and case when o.batch_id = ",
            )
            .push_arg(batch_id)
            .push(" then 1 else 0 end = 1) is null");
    }
    statement.push(" then case when ");
    push_disposition(&mut statement, query.rules);
    // Subquery, because a join without statistics would scan all active jobs for each session.
    statement.push(
        " else 'to_score' end end as disposition
         from (select i.session_id, i.listed_at, i.status, i.message_count, i.tags, i.agent, i.alert_type,
                i.alert_type_lower, i.agent_lower, i.author_lower, i.external_id,
                (select a.job_id from scoring_jobs a where a.kind = 'session' and a.subject_id = i.session_id
                    and a.finished_at is null and a.purpose = 'score') as active_id
            from alert_sessions i",
    );
    push_page(&mut statement, query);
    statement.push(") s").push(match dialect {
        // Separate subqueries, because a join on a table that was never analysed would scan all scores for each session.
        Dialect::Postgres => {
            " left join lateral (select x.score_id, x.criteria_hash, x.total_score, x.simulated from session_scores x
                where x.session_id = s.session_id and x.superseded_at is null and x.purpose = 'score' limit 1) c on true"
        }
        Dialect::Sqlite => {
            " left join session_scores c
                on c.session_id = s.session_id and c.superseded_at is null and c.purpose = 'score'"
        }
    });
    statement.push(" order by ");
    statement.push(query.scope.order_of_found());
    statement
}

impl SessionScope<'_> {
    fn order_of_found(self) -> &'static str {
        match self {
            Self::All(_) => "s.listed_at desc, s.session_id desc",
            Self::Ids(_) | Self::Picks(..) => "s.session_id",
        }
    }

    fn order_of_page(self) -> &'static str {
        match self {
            Self::All(_) => "i.listed_at desc, i.session_id desc",
            Self::Ids(_) => "i.session_id",
            Self::Picks(..) => "p.session_id",
        }
    }
}

/// Appends the reason to skip a session.
fn push_disposition(statement: &mut Sql, rules: &ClassifyRules) {
    statement.push(if rules.completed_only {
        "s.status <> 'completed'"
    } else {
        "s.status not in ('completed', 'failed', 'cancelled', 'timed_out')"
    });
    statement.push(" or s.message_count = 0 then 'not_scorable'");
    if rules.purpose != Purpose::Score {
        return;
    }
    if !rules.force {
        statement
            .push(" when c.criteria_hash = ")
            .push_arg(&rules.criteria_hash);
        if !rules.simulated {
            statement.push(" and not c.simulated");
        }
        statement.push(" then 'already_current'");
    }
    statement.push(" when s.active_id is not null then 'in_progress'");
}

/// Appends the sessions to read.
fn push_page(statement: &mut Sql, query: ClassifyQuery<'_>) {
    if let SessionScope::Picks(batch_id, _) = query.scope {
        statement
            .push(" join scoring_batch_picks p on p.session_id = i.session_id and p.batch_id = ")
            .push_arg(batch_id);
    }
    statement
        .push(" where i.created_at <= ")
        .push_arg(query.before);
    match query.scope {
        SessionScope::All(after) => {
            statement.and("i.listed_at >= ", query.filter.from);
            statement.and("i.listed_at < ", query.filter.to);
            if let Some((at, id)) = after {
                statement.push(" and (i.listed_at, i.session_id) < (");
                statement.push_arg(at).push(", ").push_arg(id).push(")");
            }
        }
        SessionScope::Ids(ids) => {
            statement.push(" and i.session_id in ");
            statement.push_list(ids.iter().copied());
        }
        SessionScope::Picks(_, after) => {
            if let Some((_, id)) = after {
                statement.push(" and p.session_id > ").push_arg(id);
            }
        }
    }
    statement
        .push(" order by ")
        .push(query.scope.order_of_page())
        .push(" limit ")
        .push_arg(query.limit);
}

/// Reads the rows of a page; skips sessions that don't match the filter.
pub(in crate::store) fn page(rows: Vec<Classified>, limit: u32) -> FoundPage {
    let more = rows.len() >= limit as usize;
    let last = rows.last().map(|row| (row.listed_at, row.session_id));
    let found = rows.into_iter().filter_map(|row| {
        Some(Found {
            listed_at: row.listed_at,
            session_id: row.session_id,
            disposition: row.disposition?,
            active: row.active_id.map(JobId),
        })
    });
    FoundPage {
        found: found.collect(),
        last,
        more,
    }
}
