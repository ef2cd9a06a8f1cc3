//! Sessions classified for a request to score many: which of them are to be scored, and why the others aren't.
//!
//! They are looked at a page at a time, newest first, by whoever expands a batch and by whoever asks what it would come to:
//! both classify by the same statement. A page has so many sessions whether or not the filter finds them, so that none takes
//! long, however few it finds; the database joins at most that many rows, whatever it knows of its tables.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::job::{JobId, Purpose, text_enum};
use crate::store::database::sql::{DbRow, Sql, sql};
use crate::store::{Dialect, SessionFilter, Sessions, StoreError};

/// The most sessions that are classified at once.
const LONGEST: u32 = 10_000;

/// What makes a session one to score, or one to skip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassifyRules {
    /// Sessions that have a score or an active job are skipped only for purpose `score`.
    pub purpose: Purpose,
    /// What they are to be judged by.
    pub criteria_hash: String,
    /// Whether those that have their score are scored all the same.
    pub force: bool,
    /// Whether a simulated score is as good as any: the judge to be asked is simulated too.
    pub simulated: bool,
    /// Whether only sessions that ended `completed` are scored.
    pub completed_only: bool,
}

text_enum! {
    /// What a session is to a request to score many.
    pub enum Disposition {
        /// To be scored.
        ToScore = "to_score",
        /// Its current score is by these criteria.
        AlreadyCurrent = "already_current",
        /// A job is active for it.
        InProgress = "in_progress",
        /// It hasn't ended, or there is nothing to judge.
        NotScorable = "not_scorable",
    }
}

/// A session that a filter found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its place: lists go newest first.
    pub listed_at: DateTime<Utc>,
    pub session_id: Uuid,
    /// What it is to the request.
    pub disposition: Disposition,
    pub active: Option<JobId>,
}

/// Where a look at sessions ended: when the last one is listed, and which it is.
pub type SessionPlace = (DateTime<Utc>, Uuid);

/// What a look at a page of sessions found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPage {
    /// Those that the filter finds, in their order.
    pub found: Vec<Found>,
    /// The last session that was looked at.
    pub last: Option<SessionPlace>,
    /// Whether there may be more behind it.
    pub more: bool,
}

/// Among which sessions is looked.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum Among<'a> {
    /// All behind a place, newest first.
    All(Option<SessionPlace>),
    /// Those of the filter's ids, by their ids.
    Ids(&'a [Uuid]),
    /// What was picked for a batch, by their ids behind one.
    Picks(Uuid, Option<SessionPlace>),
}

/// A look at a page of sessions.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Look<'a> {
    pub(in crate::store) filter: &'a SessionFilter,
    pub(in crate::store) rules: &'a ClassifyRules,
    /// Only those stored up to then.
    pub(in crate::store) before: DateTime<Utc>,
    pub(in crate::store) among: Among<'a>,
    /// Skips what this batch has already: a session that was put again meanwhile may have moved behind the place.
    pub(in crate::store) unless_in: Option<Uuid>,
    pub(in crate::store) limit: u32,
}

impl Sessions<'_> {
    /// Looks at the next `limit` sessions that were stored up to `before`, newest first, behind the place `after`, and classifies those
    /// that the filter finds. At most 10,000 at once. With `ids` in the filter, at most 10,000, it looks at these, by their ids.
    pub async fn classify(
        self,
        filter: &SessionFilter,
        rules: &ClassifyRules,
        before: DateTime<Utc>,
        after: Option<SessionPlace>,
        limit: u32,
    ) -> Result<FoundPage, StoreError> {
        const ATTEMPTED: &str = "classifying sessions to score";
        let among = match filter.ids.as_slice() {
            [] => Among::All(after),
            ids => Among::Ids(ids),
        };
        let limit = limit.clamp(1, LONGEST);
        let look = Look {
            filter,
            rules,
            before,
            among,
            unless_in: None,
            limit,
        };
        let statement = statement(self.db.dialect(), look);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let page = page(&rows, limit).map_err(|e| StoreError::of(ATTEMPTED, &e))?;
        Ok(FoundPage {
            more: page.more && filter.ids.is_empty(),
            ..page
        })
    }
}

/// A page of sessions, each with what it is to a request; null for those that the filter doesn't find.
pub(in crate::store) fn statement(dialect: Dialect, look: Look<'_>) -> Sql {
    let mut statement = sql!("select s.session_id, s.listed_at, s.active_id, case when 1 = 1");
    let words = SessionFilter {
        ids: Vec::new(),
        ..look.filter.clone()
    };
    words.narrow(&mut statement, dialect);
    if let Some(batch_id) = look.unless_in {
        // Not by the batch's index: SQLite would look through all of its items for each session. And a value rather than
        // `not exists`: Postgres would read all jobs into a hash table while it knows nothing of how many there are,
        // which is so until a while after a backlog began.
        statement
            .push(
                " and (select min(1) from scoring_jobs o
                    where o.subject_id = s.session_id and case when o.batch_id = ",
            )
            .push_arg(batch_id)
            .push(" then 1 else 0 end = 1) is null");
    }
    statement.push(" then case when ");
    push_disposition(&mut statement, look.rules);
    // The active job by a query of its own: joined, a planner that knows of few active jobs would walk through all
    // of them for each session.
    statement.push(
        " else 'to_score' end end as disposition
         from (select i.session_id, i.listed_at, i.status, i.message_count, i.tags, i.agent, i.alert_type,
                i.alert_type_lower, i.agent_lower, i.author_lower, i.external_id,
                (select a.job_id from scoring_jobs a where a.kind = 'session' and a.subject_id = i.session_id
                    and a.finished_at is null and a.purpose = 'score') as active_id
            from alert_sessions i",
    );
    push_page(&mut statement, look);
    statement.push(") s").push(match dialect {
        // One by one: joined, a planner that knows of no scores, as long as their table has never been analysed, would walk
        // through all of them for each session.
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
    statement.push(look.among.order_of_found());
    statement
}

impl Among<'_> {
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

/// What a session is, as far as it isn't to be scored.
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

/// Which sessions are looked at.
fn push_page(statement: &mut Sql, look: Look<'_>) {
    if let Among::Picks(batch_id, _) = look.among {
        statement
            .push(" join scoring_batch_picks p on p.session_id = i.session_id and p.batch_id = ")
            .push_arg(batch_id);
    }
    statement
        .push(" where i.created_at <= ")
        .push_arg(look.before);
    match look.among {
        Among::All(after) => {
            if let Some(from) = look.filter.from {
                statement.push(" and i.listed_at >= ").push_arg(from);
            }
            if let Some(to) = look.filter.to {
                statement.push(" and i.listed_at < ").push_arg(to);
            }
            if let Some((at, id)) = after {
                statement.push(" and (i.listed_at, i.session_id) < (");
                statement.push_arg(at).push(", ").push_arg(id).push(")");
            }
        }
        Among::Ids(ids) => {
            statement.push(" and i.session_id in ");
            statement.push_list(ids.iter().copied());
        }
        Among::Picks(_, after) => {
            if let Some((_, id)) = after {
                statement.push(" and p.session_id > ").push_arg(id);
            }
        }
    }
    statement
        .push(" order by ")
        .push(look.among.order_of_page())
        .push(" limit ")
        .push_arg(look.limit);
}

/// The rows of a page, those that the filter doesn't find left out.
pub(in crate::store) fn page(rows: &[DbRow], limit: u32) -> sqlx::Result<FoundPage> {
    let mut found = Vec::with_capacity(rows.len());
    let mut last = None;
    for row in rows {
        let place = (row.get("listed_at")?, row.get("session_id")?);
        last = Some(place);
        let Some(disposition) = row.text_enum_or_null("disposition")? else {
            continue;
        };
        found.push(Found {
            listed_at: place.0,
            session_id: place.1,
            disposition,
            active: row.get::<Option<Uuid>>("active_id")?.map(JobId),
        });
    }
    Ok(FoundPage {
        found,
        last,
        more: rows.len() >= limit as usize,
    })
}
