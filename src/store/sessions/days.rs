//! Days on which a list searches for sessions: days without rolled-up matches for the filter are skipped.

use chrono::{DateTime, NaiveDate, Utc};

use super::filter::{id_range, part_pattern, push_external_id, totals};
use crate::score::analysis::key_of;
use crate::store::analytics::days::{Facet, Span};
use crate::store::database::row::{Day, Int, Nullable};
use crate::store::database::sql::{Sql, long_sql};
use crate::store::{ScoreFilter, SessionFilter, Sessions, StoreError};
use crate::wire::Scored;

const SEARCHING: &str = "looking for days with sessions";
/// Maximum number of days per lookup: more than ten years.
const MAX_DAYS: u32 = 4_000;
/// Approximate number of sessions of a range of adjacent days that is searched together.
const RANGE_SESSIONS: u32 = 4_000;
/// With more matching ids than this, an id prefix doesn't restrict the days.
const MAX_PREFIX_IDS: i64 = 2_000;

/// A day that may have matching sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
struct KnownDay {
    #[sqlx(try_from = "Day")]
    day: NaiveDate,
    /// Number of sessions of the day; `None`: it changed since the rollup.
    #[sqlx(try_from = "Nullable<Int>")]
    sessions: Option<u32>,
}

/// Adjacent days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DayRange {
    pub(in crate::store) from: Option<DateTime<Utc>>,
    pub(in crate::store) before: Option<DateTime<Utc>>,
    /// Number of their sessions; `None` if unknown.
    pub(in crate::store) sessions: Option<u32>,
}

/// Days to search, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CandidateDays {
    days: Vec<KnownDay>,
    /// First day of the search, if there may be earlier ones.
    end: Option<NaiveDate>,
}

impl CandidateDays {
    pub(in crate::store) fn ranges(&self) -> Vec<DayRange> {
        let mut ranges: Vec<DayRange> = Vec::new();
        for day in &self.days {
            let Span(from, before) = Span::of_day(day.day);
            let last = ranges.last_mut().filter(|last| last.from == before);
            let together = last.as_ref().and_then(|last| {
                let sessions = last.sessions?.checked_add(day.sessions?)?;
                (sessions <= RANGE_SESSIONS).then_some(sessions)
            });
            match last.zip(together) {
                Some((last, sessions)) => {
                    last.from = from;
                    last.sessions = Some(sessions);
                }
                None => ranges.push(DayRange {
                    from,
                    before,
                    sessions: day.sessions,
                }),
            }
        }
        ranges
    }

    /// Start of the searched days, if there may be earlier ones.
    pub(in crate::store) fn end(&self) -> Option<DateTime<Utc>> {
        Span::of_day(self.end?).0
    }
}

impl Sessions<'_> {
    /// Returns the days before a time that may have matching sessions.
    pub(super) async fn candidate_days(
        self,
        filter: &SessionFilter,
        until: Option<DateTime<Utc>>,
    ) -> Result<CandidateDays, StoreError> {
        let within = ScoreFilter {
            criteria_hash: None,
            from: filter.from,
            to: until.and_then(|until| Span::of_day(until.date_naive()).1),
        };
        let dirty = self.analytics.dirty_days(&within, MAX_DAYS).await?;
        let mut statement = long_sql!(
            SEARCHING,
            "select d.day, d.sessions from session_days d where 1 = 1"
        );
        statement.and(
            "d.day >= ",
            filter.from.map(|from| from.date_naive().to_string()),
        );
        statement.and(
            "d.day <= ",
            until.map(|until| until.date_naive().to_string()),
        );
        self.push_conditions(&mut statement, filter).await?;
        statement
            .push(" order by d.day desc limit ")
            .push_arg(MAX_DAYS);
        let mut days: Vec<KnownDay> = self.db.read(&statement).await?;
        // Either query may have reached its limit; earlier days are left to a later page.
        let stopped =
            |found: usize, last: Option<NaiveDate>| last.filter(|_| found == MAX_DAYS as usize);
        let end = stopped(days.len(), days.last().map(|day| day.day))
            .max(stopped(dirty.len(), dirty.last().copied()));
        // The filter may start within a day, which isn't among the full dirty days then.
        let first = filter.from.map(|from| from.date_naive());
        let changed = |day: NaiveDate| KnownDay {
            day,
            sessions: None,
        };
        let in_time = |day: &NaiveDate| until.is_none_or(|until| *day <= until.date_naive());
        days.retain(|day| !dirty.contains(&day.day) && first != Some(day.day));
        days.extend(dirty.into_iter().chain(first).filter(in_time).map(changed));
        days.sort_by_key(|day| std::cmp::Reverse(day.day));
        days.dedup_by_key(|day| day.day);
        days.retain(|day| end.is_none_or(|end| day.day >= end));
        Ok(CandidateDays { days, end })
    }

    /// Restricts days `d` to those that have some session for each condition of the filter.
    async fn push_conditions(
        self,
        statement: &mut Sql,
        filter: &SessionFilter,
    ) -> Result<(), StoreError> {
        let values = [
            ("status", filter.status.map(|status| status.as_str())),
            ("agent", filter.agent.as_deref()),
            ("alert_type", filter.alert_type.as_deref()),
        ];
        for (column, value) in values {
            if let Some(value) = value {
                push_facet(statement, Facet::Column(column), value);
            }
        }
        if let Some(tag) = &filter.tag {
            push_facet(statement, Facet::Tag, tag);
        }
        if filter.scored == Some(Scored::No) {
            statement.push(
                " and d.sessions > coalesce((select sum(x.scores) from score_days x where x.day = d.day and x.is_current), 0)",
            );
        } else {
            push_scores(statement, filter);
        }
        if let Some(key) = filter.missing_tool.as_deref().and_then(key_of) {
            statement.push(
                " and exists (select 1 from name_days n where n.day = d.day and n.named = 'missing_tool' and n.name_key = ",
            );
            statement.push_arg(key).push(")");
        }
        if let Some(q) = filter.q.as_deref().filter(|q| !q.is_empty()) {
            self.push_text(statement, q).await?;
        }
        Ok(())
    }

    async fn push_text(self, statement: &mut Sql, q: &str) -> Result<(), StoreError> {
        const LISTED: &str = "select a.listed_at from alert_sessions a where ";
        let mut external = long_sql!(SEARCHING, LISTED);
        push_external_id(&mut external, "a", q, self.db.dialect());
        let mut by_id = vec![external];
        if let Some((first, last)) = id_range(q) {
            let mut ours = long_sql!(SEARCHING, LISTED);
            ours.push("a.session_id between ").push_arg(first);
            ours.push(" and ").push_arg(last);
            by_id.push(ours);
        }
        let mut days = Vec::new();
        for mut listed in by_id {
            listed.push(" limit ").push_arg(MAX_PREFIX_IDS);
            let times: Vec<DateTime<Utc>> = self.db.read_column(&listed).await?;
            if times.len() as u64 >= MAX_PREFIX_IDS.unsigned_abs() {
                return Ok(());
            }
            days.extend(times.iter().map(|at| at.date_naive().to_string()));
        }
        days.sort_unstable();
        days.dedup();
        statement.push(
            " and (exists (select 1 from facet_days f where f.day = d.day
                and f.facet in ('agent_lower', 'alert_type_lower', 'author_lower') and f.value like ",
        );
        statement.push_arg(part_pattern(q)).push(" escape '!')");
        if !days.is_empty() {
            statement.push(" or d.day in ");
            statement.push_list(days);
        }
        statement.push(")");
        Ok(())
    }
}

fn push_facet(statement: &mut Sql, facet: Facet, value: &str) {
    statement
        .push(" and exists (select 1 from facet_days f where f.day = d.day and f.facet = ")
        .push_arg(facet.as_str());
    statement.push(" and f.value = ").push_arg(value).push(")");
}

/// Appends the filter's conditions on current scores.
fn push_scores(statement: &mut Sql, filter: &SessionFilter) {
    let (mut least, mut most) = (
        filter.min_score.map(i64::from),
        filter.max_score.map(i64::from),
    );
    if let Some((from, to)) = filter.rating.map(totals) {
        least = Some(least.map_or(from, |least| least.max(from)));
        most = Some(most.map_or(to, |most| most.min(to)));
    }
    let any = filter.scored == Some(Scored::Yes)
        || least.is_some()
        || most.is_some()
        || filter.criteria.is_some()
        || filter.criteria_not.is_some();
    if !any {
        return;
    }
    statement.push(" and exists (select 1 from score_days x where x.day = d.day and x.is_current");
    statement.and("x.total_score >= ", least);
    statement.and("x.total_score <= ", most);
    statement.and("x.criteria_hash = ", filter.criteria.as_ref());
    statement.and("x.criteria_hash <> ", filter.criteria_not.as_ref());
    statement.push(")");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(of: &[(&str, Option<u32>)]) -> CandidateDays {
        let days = of.iter().map(|(day, sessions)| KnownDay {
            day: day.parse().unwrap(),
            sessions: *sessions,
        });
        CandidateDays {
            days: days.collect(),
            end: None,
        }
    }

    #[test]
    fn small_adjacent_days_form_a_range() {
        let found = days(&[
            ("2026-01-09", Some(3_000)),
            ("2026-01-08", Some(900)),
            ("2026-01-07", Some(900)),
            ("2026-01-05", Some(1)),
            ("2026-01-04", None),
            ("2026-01-03", Some(1)),
        ]);
        let ranges = found.ranges();
        let sizes: Vec<Option<u32>> = ranges.iter().map(|s| s.sessions).collect();
        assert_eq!(sizes, [Some(3_900), Some(900), Some(1), None, Some(1)]);
        let at = |text: &str| Some(text.parse().unwrap());
        assert_eq!(ranges[0].from, at("2026-01-08T00:00:00Z"));
        assert_eq!(ranges[0].before, at("2026-01-10T00:00:00Z"));
    }
}
