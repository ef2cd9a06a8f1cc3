//! Statistics of UTC days, read from rollups (`session_days`, `score_days`, `name_days`, `facet_days`), so that a query over
//! years doesn't read each score.
//!
//! Each transaction that changes a day's figures marks the day as dirty. A dirty day is counted from its sessions until it is
//! rolled up again. So results are exact at any time, whether or not rollups run.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use uuid::Uuid;

use super::ScoreFilter;
use crate::store::database::row::Day;
use crate::store::database::sql::{Sql, long_sql};
use crate::store::{Analytics, Dialect, StoreError};

/// With more dirty days than this, a query counts all sessions of its time range.
const MAX_DIRTY_DAYS: u32 = 32;

/// Groups of sessions that are counted for each day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Facet {
    Column(&'static str),
    Tag,
}

impl Facet {
    pub(in crate::store) const ALL: [Self; 7] = [
        Self::Column("status"),
        Self::Column("agent"),
        Self::Column("alert_type"),
        Self::Column("agent_lower"),
        Self::Column("alert_type_lower"),
        Self::Column("author_lower"),
        Self::Tag,
    ];

    /// Name in the table `facet_days`.
    pub(in crate::store) fn as_str(self) -> &'static str {
        match self {
            Self::Column(column) => column,
            Self::Tag => "tag",
        }
    }
}

impl Analytics<'_> {
    /// Returns the dirty days that lie fully in the filter's range, newest first.
    pub(in crate::store) async fn dirty_days(
        self,
        filter: &ScoreFilter,
        limit: u32,
    ) -> Result<Vec<NaiveDate>, StoreError> {
        let mut statement = long_sql!(
            "looking for days to be rolled up",
            "select distinct d.day from dirty_days d where 1 = 1"
        );
        FullDays::of(filter).push_to(&mut statement);
        statement
            .push(" order by d.day desc limit ")
            .push_arg(limit);
        let days = self.db.read::<StoredDay>(&statement).await?;
        Ok(days.into_iter().map(|stored| stored.day).collect())
    }

    /// Splits the filter's range into rolled-up days and ranges to count.
    pub(in crate::store) async fn parts_of(
        self,
        filter: &ScoreFilter,
    ) -> Result<SplitRange, StoreError> {
        let dirty = self.dirty_days(filter, MAX_DIRTY_DAYS + 1).await?;
        Ok(SplitRange::of(filter, dirty))
    }
}

/// SQL expression for the day of session `a`, as text.
pub(in crate::store) fn day(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "to_char(a.listed_at at time zone 'UTC', 'YYYY-MM-DD')",
        Dialect::Sqlite => "substr(a.listed_at, 1, 10)",
    }
}

/// Marks the days of these sessions as dirty, because their scores change in this transaction.
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

/// A day, stored as text.
#[derive(sqlx::FromRow)]
pub(in crate::store) struct StoredDay {
    #[sqlx(try_from = "Day")]
    pub(in crate::store) day: NaiveDate,
}

/// Text `YYYY-MM-DD`, for `#[sqlx(try_from = "Day")]` on a day.
#[derive(sqlx::Type)]
#[sqlx(transparent)]
pub(in crate::store) struct DayText(String);

impl TryFrom<DayText> for NaiveDate {
    type Error = chrono::ParseError;

    fn try_from(text: DayText) -> Result<Self, Self::Error> {
        text.0.parse()
    }
}

/// Time range `from..before`; `None` is unbounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Span(
    pub(in crate::store) Option<DateTime<Utc>>,
    pub(in crate::store) Option<DateTime<Utc>>,
);

impl Span {
    pub(in crate::store) fn of_day(day: NaiveDate) -> Self {
        Self(Some(begin(day)), day.succ_opt().map(begin))
    }

    fn is_all(self) -> bool {
        self == Self(None, None)
    }
}

fn begin(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// Full UTC days inside a filter's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct FullDays {
    from: Option<NaiveDate>,
    /// Day after the last one.
    before: Option<NaiveDate>,
}

impl FullDays {
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

    /// Restricts days `d`.
    fn push_to(self, statement: &mut Sql) {
        statement.and("d.day >= ", self.from.map(|from| from.to_string()));
        statement.and("d.day < ", self.before.map(|before| before.to_string()));
    }
}

/// A filter's range, split into rolled-up days and ranges to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct SplitRange {
    /// Rolled-up days, and the dirty ones among them.
    rolled_up: Option<(FullDays, Vec<NaiveDate>)>,
    pub(in crate::store) counted: Vec<Span>,
}

impl SplitRange {
    fn of(filter: &ScoreFilter, dirty: Vec<NaiveDate>) -> Self {
        let whole = FullDays::of(filter);
        if whole.is_empty() || dirty.len() > MAX_DIRTY_DAYS as usize {
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

    /// Appends `select .. from (rolled up union all counted) parts`: the first reads days `d`, the second sessions `a`.
    ///
    /// `rolled_up` and `counted` append their selects, which end with a condition.
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

    /// Whether all sessions are counted, without a time range.
    pub(in crate::store) fn counts_all(&self) -> bool {
        self.counted.iter().any(|span| span.is_all())
    }
}

/// Restricts sessions `a` to time ranges.
pub(super) fn push_spans(statement: &mut Sql, spans: &[Span]) {
    statement.push("(1 = 0");
    for Span(from, before) in spans {
        statement.push(" or (1 = 1");
        statement.and("a.listed_at >= ", *from);
        statement.and("a.listed_at < ", *before);
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
    fn full_days_are_read_from_rollups_and_edges_counted() {
        let cut = filter(Some("2026-01-02T12:00:00Z"), Some("2026-01-05T06:00:00Z"));
        let parts = SplitRange::of(&cut, vec![day("2026-01-04")]);
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
    fn range_of_full_days_has_no_edges() {
        let days = filter(Some("2026-01-02T00:00:00Z"), Some("2026-01-05T00:00:00Z"));
        let parts = SplitRange::of(&days, Vec::new());
        assert_eq!(parts.counted, []);
        assert_eq!(parts.rolled_up.unwrap().0.from, Some(day("2026-01-02")));
        let parts = SplitRange::of(&filter(None, None), Vec::new());
        assert_eq!(parts.counted, []);
        assert!(parts.rolled_up.is_some());
    }

    #[test]
    fn short_ranges_and_many_dirty_days_are_counted() {
        for (from, to) in [
            ("2026-01-02T01:00:00Z", "2026-01-02T02:00:00Z"),
            ("2026-01-02T01:00:00Z", "2026-01-03T02:00:00Z"),
        ] {
            let cut = filter(Some(from), Some(to));
            let parts = SplitRange::of(&cut, Vec::new());
            assert_eq!(parts.rolled_up, None);
            assert_eq!(parts.counted, [Span(Some(at(from)), Some(at(to)))]);
        }
        let many = (0..=u64::from(MAX_DIRTY_DAYS)).map(|n| day("2026-01-01") + Days::new(n));
        let parts = SplitRange::of(&filter(None, None), many.collect());
        assert_eq!(parts.rolled_up, None);
        assert!(parts.counts_all());
    }
}
