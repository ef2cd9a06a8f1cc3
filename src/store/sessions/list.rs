//! List of sessions with their current score and active job.
//!
//! The cost of a page is bounded, independent of the numbers of sessions and matches. It first reads the sessions next to
//! its cursor. If these don't fill the page, it searches the days that may have matches. After a fixed number of sessions the
//! page ends, short or empty, with a cursor.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::classify::SessionPlace;
use super::filter::push_conditions;
use crate::job::{FailureClass, JobId, JobState};
use crate::store::database::page::bounded;
use crate::store::database::row::{DbRow, Decoded};
use crate::store::database::sql::{Sql, long_sql};
use crate::store::{Cursor, Page, Sessions, StoreError};
use crate::wire::{Scored, SessionFilter, SessionOrder, SessionStatus};

#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    pub session_id: Uuid,
    pub source: String,
    /// Id in the source, if it differs from ours.
    pub external_id: Option<String>,
    pub status: SessionStatus,
    pub alert_type: Option<String>,
    pub agent: Option<String>,
    pub author: Option<String>,
    pub tags: Vec<String>,
    pub started_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    /// The current score: id, total, criteria hash, simulated, time, user.
    pub score: Option<(Uuid, u8, String, bool, DateTime<Utc>, String)>,
    pub active_job: Option<(JobId, JobState)>,
    /// Failure of its newest job, if that failed.
    pub failed: Option<FailureClass>,
}

/// Maximum number of ids in a filter.
const MAX_IDS: usize = 10_000;
/// Sessions next to the cursor that a page reads first.
const FIRST_SCAN: u32 = 2_000;
/// Maximum number of sessions that a page reads.
const MAX_SCAN: u32 = 12_000;
/// Maximum number of day ranges that a page reads.
const MAX_RANGES: usize = 64;
/// With fewer matching jobs than this, the query starts from the jobs.
const FEW: u32 = 500;

pub(in crate::store) const LISTING: &str = "listing sessions";

/// A page under construction.
pub(super) struct PageBuilder {
    lines: Vec<Line>,
    limit: u32,
    pub(in crate::store) order: SessionOrder,
}

/// A row with its sort key.
pub(super) struct Line {
    summary: SessionSummary,
    listed_at: DateTime<Utc>,
}

impl PageBuilder {
    /// Returns the number of rows to read: one more than the page's free rows, to detect a next page.
    pub(in crate::store) fn missing(&self) -> u32 {
        let found = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        (self.limit + 1).saturating_sub(found)
    }

    pub(in crate::store) fn is_full(&self) -> bool {
        self.missing() == 0
    }

    pub(in crate::store) fn add(&mut self, lines: Vec<Line>) {
        self.lines.extend(lines);
    }

    /// Returns the page. If it isn't full, `ended` is its next cursor.
    pub(in crate::store) fn finish(self, ended: Option<Cursor>) -> Page<SessionSummary> {
        let (full, order) = (self.is_full(), self.order);
        let page = Page::of(self.lines, self.limit, |line| line.cursor(order));
        Page {
            items: page.items.into_iter().map(|line| line.summary).collect(),
            next_cursor: if full { page.next_cursor } else { ended },
        }
    }
}

impl Line {
    fn cursor(&self, order: SessionOrder) -> Cursor {
        let id = self.summary.session_id;
        match order {
            SessionOrder::Newest => Cursor::of_time(list_of(order), self.listed_at, id),
            SessionOrder::LowestScore | SessionOrder::HighestScore => {
                let total = self.summary.score.as_ref().map_or(0, |score| score.1);
                Cursor::of_number(list_of(order), total.into(), id)
            }
        }
    }
}

/// Returns the prefix of the list's cursors.
pub(super) fn list_of(order: SessionOrder) -> char {
    match order {
        SessionOrder::Newest => 's',
        SessionOrder::LowestScore => 'l',
        SessionOrder::HighestScore => 'h',
    }
}

/// Sessions to read: listed in this time range, after this position.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
    after: Option<SessionPlace>,
}

impl Window {
    /// Restricts sessions of this alias. Uses only one of the two upper bounds, because with both Postgres would start at the
    /// position and scan down to the time.
    fn push_to(&self, statement: &mut Sql, name: &str) {
        if let Some(from) = self.from {
            statement.push(" and ").push(name);
            statement.push(".listed_at >= ").push_arg(from);
        }
        let place = self
            .after
            .filter(|(at, _)| self.to.is_none_or(|to| *at < to));
        if let Some((at, id)) = place {
            statement.push(" and (").push(name).push(".listed_at, ");
            statement.push(name).push(".session_id) < (");
            statement.push_arg(at).push(", ").push_arg(id).push(")");
        } else if let Some(to) = self.to {
            statement.push(" and ").push(name);
            statement.push(".listed_at < ").push_arg(to);
        }
    }
}

impl Sessions<'_> {
    /// Lists sessions. `limit` 1-500; at most 10,000 `ids`. A page with a next one may be shorter than `limit`, even empty, if
    /// few of the sessions it read match.
    ///
    /// # Errors
    /// `BadCursor` for a cursor of another list.
    pub async fn list(
        self,
        filter: &SessionFilter,
        order: SessionOrder,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<SessionSummary>, StoreError> {
        if filter.ids.len() > MAX_IDS {
            return Err(StoreError::Unexpected {
                attempted: LISTING,
                reason: format!(
                    "{} ids; at most {MAX_IDS} are looked up at once",
                    filter.ids.len()
                ),
            });
        }
        let page = PageBuilder {
            lines: Vec::new(),
            limit: bounded(limit),
            order,
        };
        match order {
            SessionOrder::Newest => {
                let after = after.map(|c| c.time(list_of(order))).transpose()?;
                self.newest(filter, after, page).await
            }
            SessionOrder::LowestScore | SessionOrder::HighestScore => {
                let after = after.map(|c| c.number(list_of(order))).transpose()?;
                self.by_score(filter, after, page).await
            }
        }
    }

    async fn newest(
        self,
        filter: &SessionFilter,
        after: Option<SessionPlace>,
        mut page: PageBuilder,
    ) -> Result<Page<SessionSummary>, StoreError> {
        let mut window = Window {
            from: filter.from,
            to: filter.to,
            after,
        };
        if !filter.ids.is_empty() || self.has_few(filter).await? {
            self.scan_all(filter, window, &mut page).await?;
            return Ok(page.finish(None));
        }
        self.scan(filter, window, FIRST_SCAN, &mut page).await?;
        if page.is_full() {
            return Ok(page.finish(None));
        }
        let Some(behind) = self.place_behind(window, FIRST_SCAN).await? else {
            return Ok(page.finish(None));
        };
        window.after = Some(behind);
        self.scan_days(filter, window, page).await
    }

    /// Continues with the days that may have matches.
    async fn scan_days(
        self,
        filter: &SessionFilter,
        mut window: Window,
        mut page: PageBuilder,
    ) -> Result<Page<SessionSummary>, StoreError> {
        let list = list_of(page.order);
        let ended = |(at, id)| Some(Cursor::of_time(list, at, id));
        let from = window.after.map(|(at, _)| at);
        let days = self.candidate_days(filter, from).await?;
        let (mut left, mut ranges) = (MAX_SCAN - FIRST_SCAN, 0);
        for range in days.ranges() {
            window.from = window.from.max(range.from);
            window.to = range.before;
            self.scan(filter, window, left, &mut page).await?;
            if page.is_full() {
                return Ok(page.finish(None));
            }
            if range.sessions.is_none_or(|sessions| sessions >= left)
                && let Some(behind) = self.place_behind(window, left).await?
            {
                return Ok(page.finish(ended(behind)));
            }
            left = left.saturating_sub(range.sessions.unwrap_or(FIRST_SCAN));
            ranges += 1;
            if let Some(from) = range.from.filter(|_| left == 0 || ranges >= MAX_RANGES) {
                return Ok(page.finish(ended((from, Uuid::nil()))));
            }
            window.from = filter.from;
        }
        let more = days.end().map(|end| (end, Uuid::nil()));
        Ok(page.finish(more.and_then(ended)))
    }

    /// Reads `most` sessions and adds those that match.
    async fn scan(
        self,
        filter: &SessionFilter,
        window: Window,
        most: u32,
        page: &mut PageBuilder,
    ) -> Result<(), StoreError> {
        let mut statement = long_sql!(LISTING, "select ");
        statement.push(LINE).push(" from (select ").push(OF_SESSION);
        statement.push(" from alert_sessions i where 1 = 1");
        window.push_to(&mut statement, "i");
        statement
            .push(" order by i.listed_at desc, i.session_id desc limit ")
            .push_arg(most);
        statement.push(
            ") s left join session_scores c
                on c.session_id = s.session_id and c.superseded_at is null and c.purpose = 'score'
             where 1 = 1",
        );
        push_conditions(filter, &mut statement, self.db.dialect());
        statement
            .push(" order by s.listed_at desc, s.session_id desc limit ")
            .push_arg(page.missing());
        page.add(self.db.read(&statement).await?);
        Ok(())
    }

    /// Adds all matches, which are few, by the indexes of the conditions.
    async fn scan_all(
        self,
        filter: &SessionFilter,
        window: Window,
        page: &mut PageBuilder,
    ) -> Result<(), StoreError> {
        let mut statement = long_sql!(LISTING, "select ");
        statement.push(LINE).push(
            " from alert_sessions s left join session_scores c
                on c.session_id = s.session_id and c.superseded_at is null and c.purpose = 'score'
             where 1 = 1",
        );
        push_conditions(filter, &mut statement, self.db.dialect());
        if let Some(jobs) = filter.scored.and_then(jobs_of) {
            statement.push(" and s.session_id in (select j.subject_id");
            statement.push(jobs).push(")");
        }
        window.push_to(&mut statement, "s");
        statement
            .push(" order by s.listed_at desc, s.session_id desc limit ")
            .push_arg(page.missing());
        page.add(self.db.read(&statement).await?);
        Ok(())
    }

    /// Whether the filter selects by jobs, and there are few of them.
    async fn has_few(self, filter: &SessionFilter) -> Result<bool, StoreError> {
        let Some(jobs) = filter.scored.and_then(jobs_of) else {
            return Ok(false);
        };
        let mut statement = long_sql!(LISTING, "select count(*) as jobs from (select 1 as one");
        statement.push(jobs).push(" limit ").push_arg(FEW);
        statement.push(") few");
        Ok(self.db.count(&statement).await? < u64::from(FEW))
    }

    /// Returns the position of the `n`th next session; `None` if there are fewer.
    async fn place_behind(
        self,
        window: Window,
        n: u32,
    ) -> Result<Option<SessionPlace>, StoreError> {
        let mut statement = long_sql!(
            LISTING,
            "select i.listed_at, i.session_id from alert_sessions i where 1 = 1"
        );
        window.push_to(&mut statement, "i");
        statement
            .push(" order by i.listed_at desc, i.session_id desc limit 1 offset ")
            .push_arg(n.saturating_sub(1));
        self.db.read_one(&statement).await
    }
}

/// Columns of sessions `s` and current scores `c`. The active job by subqueries, because a join with poor statistics would scan
/// all active jobs for each session. The user by a subquery, because scans by score read `c` from an index without this column.
/// `failed` is the outcome of the newest job, as in the filter `failed`.
pub(super) const LINE: &str = "s.session_id, s.source, s.external_id, s.status, s.alert_type, s.agent, s.author, s.tags, s.started_at, s.completed_at,
    s.created_at, s.listed_at, c.score_id, c.total_score, c.criteria_hash, c.simulated, c.scored_at,
    (select x.scored_triggered_by from session_scores x where x.score_id = c.score_id) as scored_triggered_by,
    (select a.job_id from scoring_jobs a where a.kind = 'session' and a.subject_id = s.session_id
        and a.finished_at is null and a.purpose = 'score') as active_id,
    (select a.state from scoring_jobs a where a.kind = 'session' and a.subject_id = s.session_id
        and a.finished_at is null and a.purpose = 'score') as active_state,
    (select f.error_class from scoring_jobs f where f.kind = 'session' and f.subject_id = s.session_id and f.purpose = 'score'
        order by f.job_id desc limit 1) as failed";

/// Columns of sessions that the list and the filters need.
const OF_SESSION: &str =
    "i.session_id, i.source, i.external_id, i.status, i.alert_type, i.agent, i.author, i.tags, i.started_at,
    i.completed_at, i.created_at, i.listed_at, i.alert_type_lower, i.agent_lower, i.author_lower";

/// Jobs `j` that a matching session has, if the filter is about jobs. May also match other sessions.
fn jobs_of(scored: Scored) -> Option<&'static str> {
    match scored {
        Scored::Yes | Scored::No => None,
        Scored::Running => Some(
            " from scoring_jobs j where j.kind = 'session' and j.finished_at is null and j.purpose = 'score'",
        ),
        Scored::Failed => Some(
            " from scoring_jobs j where j.error_class is not null and j.subject_id is not null and j.purpose = 'score'",
        ),
    }
}

impl Decoded for Line {
    fn decoded(row: &DbRow) -> sqlx::Result<Self> {
        let score = match row.get::<Option<Uuid>>("score_id")? {
            None => None,
            Some(score_id) => Some((
                score_id,
                row.int("total_score")?,
                row.get("criteria_hash")?,
                row.get("simulated")?,
                row.get("scored_at")?,
                row.get("scored_triggered_by")?,
            )),
        };
        let active_job = match row.get::<Option<Uuid>>("active_id")? {
            None => None,
            Some(id) => Some((JobId(id), row.text_enum("active_state")?)),
        };
        Ok(Self {
            listed_at: row.get("listed_at")?,
            summary: SessionSummary {
                session_id: row.get("session_id")?,
                source: row.get("source")?,
                external_id: row.get("external_id")?,
                status: row.text_enum("status")?,
                alert_type: row.get("alert_type")?,
                agent: row.get("agent")?,
                author: row.get("author")?,
                tags: row.json_as("tags")?,
                started_at: row.get("started_at")?,
                completed_at: row.get("completed_at")?,
                created_at: row.get("created_at")?,
                score,
                active_job,
                failed: row.optional_enum("failed")?,
            },
        })
    }
}
