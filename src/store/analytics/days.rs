//! What days of UTC come to, read from where they are rolled up (`session_days`, `score_days`,
//! `name_days`, `facet_days`), so that a look at years doesn't read each score.
//!
//! A rollup is never ahead of the rows that it is made of. Whoever changes what a day comes to marks it as dirty in the same transaction;
//! a dirty day is counted from its sessions until it has been rolled up anew. So figures are exact at any moment, whether or not
//! anybody rolls up.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use uuid::Uuid;

use super::ScoreFilter;
use crate::store::database::sql::{Sql, all, decode, sql};
use crate::store::{Analytics, Dialect, StoreError};

/// With more dirty days than this a look counts from the sessions of its whole time.
const DIRTY: u32 = 32;

/// What sessions are told apart by, and counted for, each day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Facet {
    /// A column of theirs.
    Column(&'static str),
    /// Each of their labels.
    Tag,
}

impl Facet {
    /// All that are counted.
    pub(in crate::store) const ALL: [Self; 7] = [
        Self::Column("status"),
        Self::Column("agent"),
        Self::Column("alert_type"),
        Self::Column("agent_lower"),
        Self::Column("alert_type_lower"),
        Self::Column("author_lower"),
        Self::Tag,
    ];

    /// What stands for it in the database.
    pub(in crate::store) fn as_str(self) -> &'static str {
        match self {
            Self::Column(column) => column,
            Self::Tag => "tag",
        }
    }
}

impl Analytics<'_> {
    /// Dirty days that lie whole in the filter's time, the newest first.
    pub(in crate::store) async fn dirty_days(
        self,
        filter: &ScoreFilter,
        limit: u32,
    ) -> Result<Vec<NaiveDate>, StoreError> {
        const ATTEMPTED: &str = "looking for days to be rolled up";
        let mut statement = sql!("select distinct d.day from dirty_days d where 1 = 1");
        Whole::of(filter).push_to(&mut statement);
        statement
            .push(" order by d.day desc limit ")
            .push_arg(limit);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| day_of(&row.get::<String>("day")?))
    }

    /// Sorts a filter's time into what is rolled up and what is to be counted.
    pub(in crate::store) async fn parts_of(
        self,
        filter: &ScoreFilter,
    ) -> Result<Parts, StoreError> {
        let dirty = self.dirty_days(filter, DIRTY + 1).await?;
        Ok(Parts::of(filter, dirty))
    }
}

/// The day of session `a`, as text.
pub(in crate::store) fn day(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "to_char(a.listed_at at time zone 'UTC', 'YYYY-MM-DD')",
        Dialect::Sqlite => "substr(a.listed_at, 1, 10)",
    }
}

/// Marks the days of these sessions as dirty: what their scores come to changes in this transaction.
pub(in crate::store) fn push_dirty(
    statement: &mut Sql,
    dialect: Dialect,
    sessions: impl Iterator<Item = Uuid>,
) {
    statement
        .push("insert into dirty_days (day) select distinct ")
        .push(day(dialect))
        .push(" from alert_sessions a where a.session_id in ")
        .push_list(sessions);
}

/// Reads a day.
pub(in crate::store) fn day_of(text: &str) -> sqlx::Result<NaiveDate> {
    text.parse().map_err(|_| decode("day", "it is no day"))
}

/// A stretch of time: from, and before; open where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Span(
    pub(in crate::store) Option<DateTime<Utc>>,
    pub(in crate::store) Option<DateTime<Utc>>,
);

impl Span {
    pub(in crate::store) fn of_day(day: NaiveDate) -> Self {
        Self(Some(begin(day)), day.succ_opt().map(begin))
    }

    /// Whether it has no ends.
    fn is_all(self) -> bool {
        self == Self(None, None)
    }
}

fn begin(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// Full UTC days inside a filter's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Whole {
    /// The first one.
    from: Option<NaiveDate>,
    /// The first behind the last one.
    before: Option<NaiveDate>,
}

impl Whole {
    fn of(filter: &ScoreFilter) -> Self {
        let next = |at: DateTime<Utc>| match at.time() == NaiveTime::MIN {
            true => Some(at.date_naive()),
            false => at.date_naive().checked_add_days(Days::new(1)),
        };
        Self {
            from: filter.from.and_then(next),
            before: filter.to.map(|to| to.date_naive()),
        }
    }

    fn is_empty(self) -> bool {
        self.from
            .zip(self.before)
            .is_some_and(|(from, before)| from >= before)
    }

    /// Narrows days `d`.
    fn push_to(self, statement: &mut Sql) {
        if let Some(from) = self.from {
            statement.push(" and d.day >= ").push_arg(from.to_string());
        }
        if let Some(before) = self.before {
            statement.push(" and d.day < ").push_arg(before.to_string());
        }
    }
}

/// A filter's time, sorted out: what is rolled up, and what is counted from its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Parts {
    /// Days that are rolled up, and those among them that are not.
    rolled_up: Option<(Whole, Vec<NaiveDate>)>,
    pub(in crate::store) counted: Vec<Span>,
}

impl Parts {
    fn of(filter: &ScoreFilter, dirty: Vec<NaiveDate>) -> Self {
        let whole = Whole::of(filter);
        if whole.is_empty() || dirty.len() > DIRTY as usize {
            return Self {
                rolled_up: None,
                counted: vec![Span(filter.from, filter.to)],
            };
        }
        let mut counted: Vec<Span> = dirty.iter().map(|day| Span::of_day(*day)).collect();
        if let Some((from, first)) = filter.from.zip(whole.from.map(begin))
            && from < first
        {
            counted.push(Span(Some(from), Some(first)));
        }
        if let Some((to, last)) = filter.to.zip(whole.before.map(begin))
            && last < to
        {
            counted.push(Span(Some(last), Some(to)));
        }
        Self {
            rolled_up: Some((whole, dirty)),
            counted,
        }
    }

    /// `select .. from (rolled up union all counted) parts`: the first of a table of days `d`, the second of sessions `a`.
    ///
    /// `rolled up` and `counted` push their selects, up to their last condition.
    pub(in crate::store) fn push_union(
        &self,
        statement: &mut Sql,
        rolled_up: impl FnOnce(&mut Sql),
        counted: impl FnOnce(&mut Sql),
        grouped: &str,
    ) {
        statement.push(" from (");
        if let Some((whole, except)) = &self.rolled_up {
            rolled_up(statement);
            whole.push_to(statement);
            if !except.is_empty() {
                statement.push(" and d.day not in ");
                statement.push_list(except.iter().map(NaiveDate::to_string));
            }
        }
        if !self.counted.is_empty() {
            if self.rolled_up.is_some() {
                statement.push(" union all ");
            }
            counted(statement);
            if !self.counts_all() {
                statement.push(" and ");
                push_spans(statement, &self.counted);
            }
            statement.push(grouped);
        }
        statement.push(") parts");
    }

    /// Whether all is counted, of any time.
    pub(in crate::store) fn counts_all(&self) -> bool {
        self.counted.iter().any(|span| span.is_all())
    }
}

/// Narrows sessions `a` to stretches of time.
pub(super) fn push_spans(statement: &mut Sql, spans: &[Span]) {
    statement.push("(1 = 0");
    for Span(from, before) in spans {
        statement.push(" or (1 = 1");
        if let Some(from) = from {
            statement.push(" and a.listed_at >= ").push_arg(*from);
        }
        if let Some(before) = before {
            statement.push(" and a.listed_at < ").push_arg(*before);
        }
        statement.push(")");
    }
    statement.push(")");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn filter(from: Option<&str>, to: Option<&str>) -> ScoreFilter {
        ScoreFilter {
            criteria_hash: None,
            from: from.map(at),
            to: to.map(at),
        }
    }

    #[test]
    fn whole_days_are_read_rolled_up_and_their_edges_are_counted() {
        let cut = filter(Some("2026-01-02T12:00:00Z"), Some("2026-01-05T06:00:00Z"));
        let parts = Parts::of(&cut, vec![day("2026-01-04")]);
        let (whole, except) = parts.rolled_up.unwrap();
        assert_eq!(whole.from, Some(day("2026-01-03")));
        assert_eq!(whole.before, Some(day("2026-01-05")));
        assert_eq!(except, [day("2026-01-04")]);
        let spans = [
            ("2026-01-04T00:00:00Z", "2026-01-05T00:00:00Z"),
            ("2026-01-02T12:00:00Z", "2026-01-03T00:00:00Z"),
            ("2026-01-05T00:00:00Z", "2026-01-05T06:00:00Z"),
        ];
        let spans = spans.map(|(from, to)| Span(Some(at(from)), Some(at(to))));
        assert_eq!(parts.counted, spans);
    }

    #[test]
    fn a_time_of_whole_days_has_no_edges() {
        let days = filter(Some("2026-01-02T00:00:00Z"), Some("2026-01-05T00:00:00Z"));
        let parts = Parts::of(&days, Vec::new());
        assert_eq!(parts.counted, []);
        assert_eq!(parts.rolled_up.unwrap().0.from, Some(day("2026-01-02")));
        let parts = Parts::of(&filter(None, None), Vec::new());
        assert_eq!(parts.counted, []);
        assert!(parts.rolled_up.is_some());
    }

    #[test]
    fn a_part_of_one_day_or_of_two_and_too_many_marks_are_counted_whole() {
        for (from, to) in [
            ("2026-01-02T01:00:00Z", "2026-01-02T02:00:00Z"),
            ("2026-01-02T01:00:00Z", "2026-01-03T02:00:00Z"),
        ] {
            let cut = filter(Some(from), Some(to));
            let parts = Parts::of(&cut, Vec::new());
            assert_eq!(parts.rolled_up, None);
            assert_eq!(parts.counted, [Span(Some(at(from)), Some(at(to)))]);
        }
        let many = (0..=u64::from(DIRTY)).map(|n| day("2026-01-01") + Days::new(n));
        let parts = Parts::of(&filter(None, None), many.collect());
        assert_eq!(parts.rolled_up, None);
        assert!(parts.counts_all());
    }
}
