//! The list of sessions, with the current score and the active job beside each line.
//!
//! A page costs the same however many sessions there are and however few of them a filter finds. It looks at the sessions
//! next to its place first; where these don't fill it, at the days on which there is anything to find; and when it has looked
//! at so many, it ends, short or empty, with a cursor behind what it has seen.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::classify::SessionPlace;
use super::filter::SessionFilter;
use crate::job::{FailureClass, JobId, JobState, text_enum};
use crate::store::database::page::bounded;
use crate::store::database::sql::{DbRow, Sql, first, sql};
use crate::store::{Cursor, Page, Sessions, StoreError};
use crate::wire::{Scored, SessionStatus};

/// One line of the list of sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    pub session_id: Uuid,
    /// Where it came from.
    pub source: String,
    /// What it is called there, if that isn't our id.
    pub external_id: Option<String>,
    /// Where it stands.
    pub status: SessionStatus,
    /// What kind of alert it was.
    pub alert_type: Option<String>,
    /// The agent's name.
    pub agent: Option<String>,
    /// Who started it.
    pub author: Option<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// When gavel first saw it.
    pub created_at: DateTime<Utc>,
    /// The current score: id, total, criteria hash, simulated, when, who asked for it.
    pub score: Option<(Uuid, u8, String, bool, DateTime<Utc>, String)>,
    /// The active job's id and state.
    pub active_job: Option<(JobId, JobState)>,
    /// Why its newest job failed, if that is how it ended.
    pub failed: Option<FailureClass>,
}

text_enum! {
    /// In which order sessions are listed.
    pub enum SessionOrder {
        /// Those that completed (else were first seen) last first.
        Newest = "newest",
        /// Those with the lowest current score first; those without one aren't listed.
        LowestScore = "lowest_score",
        /// Those with the highest current score first; those without one aren't listed.
        HighestScore = "highest_score",
    }
}

/// The most ids that a filter takes.
const IDS: usize = 10_000;
/// How many sessions next to its place a page looks at first.
const FIRST_VIEWED: u32 = 2_000;
/// How many a page looks at before it ends, filled or not.
const LOOKED: u32 = 12_000;
/// How many stretches of days a page looks at before it ends.
const STRETCHES: usize = 64;
/// Jobs so few that all of them are looked at.
const FEW: u32 = 500;

pub(in crate::store) const ATTEMPTED: &str = "listing sessions";

/// What a page has so far.
pub(super) struct Filling {
    lines: Vec<Line>,
    limit: u32,
    pub(in crate::store) order: SessionOrder,
}

/// A line with its place in the list.
struct Line {
    summary: SessionSummary,
    listed_at: DateTime<Utc>,
}

impl Filling {
    /// One more than the page has room for: then there is another page.
    pub(in crate::store) fn missing(&self) -> u32 {
        let found = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        (self.limit + 1).saturating_sub(found)
    }

    pub(in crate::store) fn is_full(&self) -> bool {
        self.missing() == 0
    }

    pub(in crate::store) fn add(&mut self, rows: &[DbRow]) -> Result<(), StoreError> {
        for row in rows {
            let line = summary(row).and_then(|summary| {
                Ok(Line {
                    summary,
                    listed_at: row.get("listed_at")?,
                })
            });
            self.lines
                .push(line.map_err(|e| StoreError::of(ATTEMPTED, &e))?);
        }
        Ok(())
    }

    /// The page. One that isn't full goes on behind where the look ended, or is the last.
    pub(in crate::store) fn page(self, ended: Option<Cursor>) -> Page<SessionSummary> {
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
            SessionOrder::Newest => Cursor::of_time(order.list(), self.listed_at, id),
            SessionOrder::LowestScore | SessionOrder::HighestScore => {
                let total = self.summary.score.as_ref().map_or(0, |score| score.1);
                Cursor::of_number(order.list(), total.into(), id)
            }
        }
    }
}

impl SessionOrder {
    /// The list's name in its cursors.
    pub(in crate::store) fn list(self) -> char {
        match self {
            Self::Newest => 's',
            Self::LowestScore => 'l',
            Self::HighestScore => 'h',
        }
    }
}

/// Where is looked: sessions listed in this time, behind this place.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
    after: Option<SessionPlace>,
}

impl Window {
    /// Narrows sessions of this name. By one of the two upper ends: given both, Postgres would begin at the place and walk
    /// down to the time.
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
    /// Lists sessions. `limit` 1-500; at most 10,000 `ids`. A page may be shorter than `limit`, even empty, and have a next
    /// one: then few of the sessions that it looked at have what the filter asks for.
    ///
    /// # Errors
    /// `BadCursor` for a position that this list didn't give.
    pub async fn list(
        self,
        filter: &SessionFilter,
        order: SessionOrder,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<SessionSummary>, StoreError> {
        if filter.ids.len() > IDS {
            return Err(StoreError::Unexpected {
                attempted: ATTEMPTED,
                reason: format!(
                    "{} ids; at most {IDS} are looked up at once",
                    filter.ids.len()
                ),
            });
        }
        let filling = Filling {
            lines: Vec::new(),
            limit: bounded(limit),
            order,
        };
        match order {
            SessionOrder::Newest => {
                let after = after.map(|c| c.time(order.list())).transpose()?;
                self.newest(filter, after, filling).await
            }
            SessionOrder::LowestScore | SessionOrder::HighestScore => {
                let after = after.map(|c| c.number(order.list())).transpose()?;
                self.by_score(filter, after, filling).await
            }
        }
    }

    async fn newest(
        self,
        filter: &SessionFilter,
        after: Option<SessionPlace>,
        mut filling: Filling,
    ) -> Result<Page<SessionSummary>, StoreError> {
        let mut window = Window {
            from: filter.from,
            to: filter.to,
            after,
        };
        if !filter.ids.is_empty() || self.has_few(filter).await? {
            self.look_everywhere(filter, window, &mut filling).await?;
            return Ok(filling.page(None));
        }
        self.look(filter, window, FIRST_VIEWED, &mut filling)
            .await?;
        if filling.is_full() {
            return Ok(filling.page(None));
        }
        let Some(behind) = self.place_behind(window, FIRST_VIEWED).await? else {
            return Ok(filling.page(None));
        };
        window.after = Some(behind);
        self.look_on_days(filter, window, filling).await
    }

    /// Goes on with the days that may have what the filter asks for.
    async fn look_on_days(
        self,
        filter: &SessionFilter,
        mut window: Window,
        mut filling: Filling,
    ) -> Result<Page<SessionSummary>, StoreError> {
        let list = filling.order.list();
        let ended = |(at, id)| Some(Cursor::of_time(list, at, id));
        let from = window.after.map(|(at, _)| at);
        let days = self.days_to_look_at(filter, from).await?;
        let (mut left, mut stretches) = (LOOKED - FIRST_VIEWED, 0);
        for stretch in days.stretches() {
            window.from = window.from.max(stretch.from);
            window.to = stretch.before;
            self.look(filter, window, left, &mut filling).await?;
            if filling.is_full() {
                return Ok(filling.page(None));
            }
            if stretch.sessions.is_none_or(|sessions| sessions >= left)
                && let Some(behind) = self.place_behind(window, left).await?
            {
                return Ok(filling.page(ended(behind)));
            }
            left = left.saturating_sub(stretch.sessions.unwrap_or(FIRST_VIEWED));
            stretches += 1;
            if let Some(from) = stretch.from.filter(|_| left == 0 || stretches >= STRETCHES) {
                return Ok(filling.page(ended((from, Uuid::nil()))));
            }
            window.from = filter.from;
        }
        let more = days.end().map(|end| (end, Uuid::nil()));
        Ok(filling.page(more.and_then(ended)))
    }

    /// Looks at `most` sessions, and takes those that the filter finds.
    async fn look(
        self,
        filter: &SessionFilter,
        window: Window,
        most: u32,
        filling: &mut Filling,
    ) -> Result<(), StoreError> {
        let mut statement = sql!("select ");
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
        filter.narrow(&mut statement, self.db.dialect());
        statement
            .push(" order by s.listed_at desc, s.session_id desc limit ")
            .push_arg(filling.missing());
        filling.add(&self.db.read_long(ATTEMPTED, &statement).await?)
    }

    /// Takes those that the filter finds, which are few: the database goes by what they have in common.
    async fn look_everywhere(
        self,
        filter: &SessionFilter,
        window: Window,
        filling: &mut Filling,
    ) -> Result<(), StoreError> {
        let mut statement = sql!("select ");
        statement.push(LINE).push(
            " from alert_sessions s left join session_scores c
                on c.session_id = s.session_id and c.superseded_at is null and c.purpose = 'score'
             where 1 = 1",
        );
        filter.narrow(&mut statement, self.db.dialect());
        if let Some(jobs) = filter.scored.and_then(jobs_of) {
            statement.push(" and s.session_id in (select j.subject_id");
            statement.push(jobs).push(")");
        }
        window.push_to(&mut statement, "s");
        statement
            .push(" order by s.listed_at desc, s.session_id desc limit ")
            .push_arg(filling.missing());
        filling.add(&self.db.read_long(ATTEMPTED, &statement).await?)
    }

    /// Whether the filter is about jobs of which there are few.
    async fn has_few(self, filter: &SessionFilter) -> Result<bool, StoreError> {
        let Some(jobs) = filter.scored.and_then(jobs_of) else {
            return Ok(false);
        };
        let mut statement = sql!("select count(*) as jobs from (select 1 as one");
        statement.push(jobs).push(" limit ").push_arg(FEW);
        statement.push(") few");
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let count: i64 = rows
            .first()
            .map_or(Ok(0), |row| row.get("jobs"))
            .map_err(|e| StoreError::of(ATTEMPTED, &e))?;
        Ok(count < i64::from(FEW))
    }

    /// The place of the last of the next `n` sessions; `None` if there are fewer.
    async fn place_behind(
        self,
        window: Window,
        n: u32,
    ) -> Result<Option<SessionPlace>, StoreError> {
        let mut statement =
            sql!("select i.listed_at, i.session_id from alert_sessions i where 1 = 1");
        window.push_to(&mut statement, "i");
        statement
            .push(" order by i.listed_at desc, i.session_id desc limit 1 offset ")
            .push_arg(n.saturating_sub(1));
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        first(ATTEMPTED, &rows, |row| {
            Ok((row.get("listed_at")?, row.get("session_id")?))
        })
    }
}

/// A line of sessions `s` and current scores `c`. The active job by queries of their own: joined, a planner that knows of few
/// active jobs would walk through all of them for each session. Who asked for the score by another: walks by score have `c` from an index
/// that doesn't hold the name. Failed is what its newest job of this purpose says, as the filter `failed` has it.
pub(super) const LINE: &str = "s.session_id, s.source, s.external_id, s.status, s.alert_type, s.agent, s.author, s.tags, s.started_at, s.completed_at,
    s.created_at, s.listed_at, c.score_id, c.total_score, c.criteria_hash, c.simulated, c.scored_at,
    (select x.scored_triggered_by from session_scores x where x.score_id = c.score_id) as scored_triggered_by,
    (select a.job_id from scoring_jobs a where a.kind = 'session' and a.subject_id = s.session_id
        and a.finished_at is null and a.purpose = 'score') as active_id,
    (select a.state from scoring_jobs a where a.kind = 'session' and a.subject_id = s.session_id
        and a.finished_at is null and a.purpose = 'score') as active_state,
    (select f.error_class from scoring_jobs f where f.kind = 'session' and f.subject_id = s.session_id and f.purpose = 'score'
        order by f.job_id desc limit 1) as failed";

/// What a line and the filters need of a session.
const OF_SESSION: &str =
    "i.session_id, i.source, i.external_id, i.status, i.alert_type, i.agent, i.author, i.tags, i.started_at,
    i.completed_at, i.created_at, i.listed_at, i.alert_type_lower, i.agent_lower, i.author_lower";

/// The jobs `j` that a session has if it is found, where that is about jobs: more than those alone.
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

fn summary(row: &DbRow) -> sqlx::Result<SessionSummary> {
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
    Ok(SessionSummary {
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
        failed: row.text_enum_or_null("failed")?,
    })
}
