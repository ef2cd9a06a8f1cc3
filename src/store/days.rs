//! What days of UTC come to, folded from sessions and their current scores, so that a look at years doesn't read each score.
//!
//! A fold is never ahead of the rows that it is made of. Whoever changes what a day comes to marks it in the same transaction;
//! a marked day is counted from its sessions until it has been folded anew. So figures are exact at any moment, whether or not
//! anybody folds.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use uuid::Uuid;

use super::analytics::{Named, ScoreFilter};
use super::db::{Conn, Tx, twice};
use super::sql::{Sql, decode, sql};
use super::{Dialect, Store, StoreError};

/// The most days that are folded at once: nobody else writes to SQLite meanwhile.
const FOLDED: u32 = 16;
/// With more marked days than this a look counts from the sessions of its whole time.
const MARKED: u32 = 32;

/// What a fold did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaysFolded {
    /// How many days.
    pub days: usize,
    /// Whether others are left.
    pub more: bool,
}

/// What sessions are told apart by, and counted for, each day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Facet {
    /// A column of theirs.
    Column(&'static str),
    /// Each of their labels.
    Tag,
}

impl Facet {
    /// All that are counted.
    const ALL: [Self; 7] = [
        Self::Column("status"),
        Self::Column("agent"),
        Self::Column("alert_type"),
        Self::Column("agent_lower"),
        Self::Column("alert_type_lower"),
        Self::Column("author_lower"),
        Self::Tag,
    ];

    /// What stands for it in the database.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Column(column) => column,
            Self::Tag => "tag",
        }
    }
}

impl Store {
    /// Folds some of the days that are marked, the newest first. Any number of processes may fold: they take turns.
    ///
    /// # Errors
    /// `Unavailable` when the database is away; a day is folded whole or not at all.
    pub async fn fold_days(&self) -> Result<DaysFolded, StoreError> {
        const ATTEMPTED: &str = "folding what days come to";
        let mut marked = self
            .marked_days(&ScoreFilter::default(), FOLDED + 1)
            .await?;
        let more = marked.len() > FOLDED as usize;
        marked.truncate(FOLDED as usize);
        if marked.is_empty() {
            return Ok(DaysFolded { days: 0, more });
        }
        twice!(ATTEMPTED, async {
            let mut conn: Conn = self.db.writer().await?;
            let mut tx = conn.begin().await?;
            // Two that fold the same day at once could each miss what the other sees.
            tx.execute(&sql!(
                "update day_folds set folds = folds + 1 where one = 1"
            ))
            .await?;
            fold(&mut tx, &marked).await?;
            tx.commit().await
        })?;
        Ok(DaysFolded {
            days: marked.len(),
            more,
        })
    }

    /// Marked days that lie whole in the filter's time, the newest first.
    pub(super) async fn marked_days(
        &self,
        filter: &ScoreFilter,
        limit: u32,
    ) -> Result<Vec<NaiveDate>, StoreError> {
        const ATTEMPTED: &str = "looking for days to be folded";
        let mut statement = sql!("select distinct d.day from day_marks d where 1 = 1");
        Whole::of(filter).push_to(&mut statement);
        statement
            .push(" order by d.day desc limit ")
            .push_arg(limit);
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        rows.iter()
            .map(|row| day_of(&row.get::<String>("day")?))
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// Sorts a filter's time into what is folded and what is to be counted.
    pub(super) async fn parts_of(&self, filter: &ScoreFilter) -> Result<Parts, StoreError> {
        let marked = self.marked_days(filter, MARKED + 1).await?;
        Ok(Parts::of(filter, marked))
    }
}

/// Takes the marks first: what is committed later marks its days again.
async fn fold(tx: &mut Tx<'_>, days: &[NaiveDate]) -> sqlx::Result<()> {
    for table in [
        "day_marks",
        "session_days",
        "score_days",
        "name_days",
        "facet_days",
    ] {
        let mut taken = sql!("delete from ");
        taken.push(table).push(" where day in ");
        taken.push_list(days.iter().map(NaiveDate::to_string));
        tx.execute(&taken).await?;
    }
    let dialect = tx.dialect();
    let spans: Vec<Span> = days.iter().map(|day| Span::of_day(*day)).collect();
    tx.execute(&fold_sessions(dialect, &spans)).await?;
    tx.execute(&fold_scores(dialect, &spans)).await?;
    for named in [Named::MissingTools, Named::Approaches] {
        tx.execute(&fold_names(dialect, named, &spans)).await?;
    }
    for facet in Facet::ALL {
        tx.execute(&fold_facet(dialect, facet, &spans)).await?;
    }
    Ok(())
}

fn fold_sessions(dialect: Dialect, spans: &[Span]) -> Sql {
    let mut statement = sql!("insert into session_days (day, sessions) select ");
    statement
        .push(day(dialect))
        .push(", count(*) from alert_sessions a where ");
    push_spans(&mut statement, spans);
    statement.push(" group by 1");
    statement
}

fn fold_scores(dialect: Dialect, spans: &[Span]) -> Sql {
    let mut statement = sql!(
        "insert into score_days (day, criteria_hash, simulated, is_current, total_score, scores, first_scored_at) select "
    );
    statement.push(day(dialect)).push(
        ", s.criteria_hash, s.simulated, s.superseded_at is null, s.total_score, count(*), min(s.scored_at)
         from alert_sessions a join session_scores s on s.session_id = a.session_id
         where s.purpose = 'score' and ",
    );
    push_spans(&mut statement, spans);
    statement.push(" group by 1, 2, 3, 4, 5");
    statement
}

fn fold_names(dialect: Dialect, named: Named, spans: &[Span]) -> Sql {
    let (table, key, name) = named.columns();
    let mut statement = sql!(
        "insert into name_days (day, named, criteria_hash, simulated, name_key, name, sessions) select "
    );
    statement
        .push(day(dialect))
        .push(", ")
        .push_arg(named.as_str());
    statement.push(", s.criteria_hash, s.simulated, t.");
    statement.push(key).push(", t.").push(name).push(
        ", count(*) from alert_sessions a join session_scores s on s.session_id = a.session_id
         join ",
    );
    statement.push(table).push(
        " t on t.score_id = s.score_id
         where s.superseded_at is null and s.purpose = 'score' and t.",
    );
    statement.push(key).push(" is not null and ");
    push_spans(&mut statement, spans);
    statement.push(" group by 1, 3, 4, 5, 6");
    statement
}

fn fold_facet(dialect: Dialect, facet: Facet, spans: &[Span]) -> Sql {
    let (value, tags) = match (facet, dialect) {
        (Facet::Column(column), _) => (column, ""),
        (Facet::Tag, Dialect::Postgres) => (
            "f.value",
            " cross join lateral jsonb_array_elements_text(a.tags) as f (value)",
        ),
        (Facet::Tag, Dialect::Sqlite) => ("f.value", " cross join json_each(a.tags) f"),
    };
    let mut statement = sql!("insert into facet_days (day, facet, value, sessions) select ");
    statement
        .push(day(dialect))
        .push(", ")
        .push_arg(facet.as_str());
    statement.push(", ").push(value);
    statement
        .push(", count(*) from alert_sessions a")
        .push(tags)
        .push(" where ")
        .push(value)
        .push(" is not null and ");
    push_spans(&mut statement, spans);
    statement.push(" group by 1, 3");
    statement
}

/// The day of session `a`, as text.
pub(super) fn day(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => "to_char(a.listed_at at time zone 'UTC', 'YYYY-MM-DD')",
        Dialect::Sqlite => "substr(a.listed_at, 1, 10)",
    }
}

/// Marks the days of these sessions: what their scores come to changes in this transaction.
pub(super) fn mark_statement(dialect: Dialect, sessions: impl Iterator<Item = Uuid>) -> Sql {
    let mut statement = sql!("insert into day_marks (day) select distinct ");
    statement
        .push(day(dialect))
        .push(" from alert_sessions a where a.session_id in ");
    statement.push_list(sessions);
    statement
}

/// Reads a day.
pub(super) fn day_of(text: &str) -> sqlx::Result<NaiveDate> {
    text.parse().map_err(|_| decode("day", "it is no day"))
}

/// A stretch of time: from, and before; open where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(
    pub(super) Option<DateTime<Utc>>,
    pub(super) Option<DateTime<Utc>>,
);

impl Span {
    pub(super) fn of_day(day: NaiveDate) -> Self {
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

/// The days that lie whole in a filter's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
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

/// A filter's time, sorted out: what is folded, and what is counted from its sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    /// Days that are folded, and those among them that are not.
    folded: Option<(Whole, Vec<NaiveDate>)>,
    /// What is counted.
    pub(super) counted: Vec<Span>,
}

impl Parts {
    fn of(filter: &ScoreFilter, marked: Vec<NaiveDate>) -> Self {
        let whole = Whole::of(filter);
        if whole.is_empty() || marked.len() > MARKED as usize {
            return Self {
                folded: None,
                counted: vec![Span(filter.from, filter.to)],
            };
        }
        let mut counted: Vec<Span> = marked.iter().map(|day| Span::of_day(*day)).collect();
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
            folded: Some((whole, marked)),
            counted,
        }
    }

    /// `select .. from (folded union all counted) parts`: the first of a table of days `d`, the second of sessions `a`.
    ///
    /// `folded` and `counted` push their selects, up to their last condition.
    pub(super) fn push_union(
        &self,
        statement: &mut Sql,
        folded: impl FnOnce(&mut Sql),
        counted: impl FnOnce(&mut Sql),
        grouped: &str,
    ) {
        statement.push(" from (");
        if let Some((whole, except)) = &self.folded {
            folded(statement);
            whole.push_to(statement);
            if !except.is_empty() {
                statement.push(" and d.day not in ");
                statement.push_list(except.iter().map(NaiveDate::to_string));
            }
        }
        if !self.counted.is_empty() {
            if self.folded.is_some() {
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
    pub(super) fn counts_all(&self) -> bool {
        self.counted.iter().any(|span| span.is_all())
    }
}

/// Narrows sessions `a` to stretches of time.
fn push_spans(statement: &mut Sql, spans: &[Span]) {
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
    fn whole_days_are_read_folded_and_their_edges_are_counted() {
        let cut = filter(Some("2026-01-02T12:00:00Z"), Some("2026-01-05T06:00:00Z"));
        let parts = Parts::of(&cut, vec![day("2026-01-04")]);
        let (whole, except) = parts.folded.unwrap();
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
        assert_eq!(parts.folded.unwrap().0.from, Some(day("2026-01-02")));
        let parts = Parts::of(&filter(None, None), Vec::new());
        assert_eq!(parts.counted, []);
        assert!(parts.folded.is_some());
    }

    #[test]
    fn a_part_of_one_day_or_of_two_and_too_many_marks_are_counted_whole() {
        for (from, to) in [
            ("2026-01-02T01:00:00Z", "2026-01-02T02:00:00Z"),
            ("2026-01-02T01:00:00Z", "2026-01-03T02:00:00Z"),
        ] {
            let cut = filter(Some(from), Some(to));
            let parts = Parts::of(&cut, Vec::new());
            assert_eq!(parts.folded, None);
            assert_eq!(parts.counted, [Span(Some(at(from)), Some(at(to)))]);
        }
        let many = (0..=u64::from(MARKED)).map(|n| day("2026-01-01") + Days::new(n));
        let parts = Parts::of(&filter(None, None), many.collect());
        assert_eq!(parts.folded, None);
        assert!(parts.counts_all());
    }
}
