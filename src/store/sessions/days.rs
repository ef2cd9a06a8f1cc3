//! On which days a list looks for sessions: those on which, as far as days are rolled up, there are some of what a filter asks for.

use chrono::{DateTime, NaiveDate, Utc};

use super::filter::{SessionFilter, id_range, part_pattern, push_external_id, totals};
use crate::score::analysis::key_of;
use crate::store::analytics::days::{Facet, Span, day_of};
use crate::store::database::sql::{DbRow, Sql, all, sql};
use crate::store::{ScoreFilter, Sessions, StoreError};
use crate::wire::Scored;

const ATTEMPTED: &str = "looking for days with sessions";
/// The most days that are looked up at once: those of ten years and more.
const DAYS: u32 = 4_000;
/// Sessions of a stretch, about: days next to each other are looked at together.
const STRETCH: u32 = 4_000;
/// With more ids than this a beginning of ids says nothing of days.
const IDS: i64 = 2_000;

/// A day that may have sessions that a filter finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Day {
    day: NaiveDate,
    /// All sessions of the day; `None`: it changed since it was rolled up.
    sessions: Option<u32>,
}

/// Days next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(in crate::store) from: Option<DateTime<Utc>>,
    pub(in crate::store) before: Option<DateTime<Utc>>,
    /// All their sessions; `None` where that isn't known.
    pub(in crate::store) sessions: Option<u32>,
}

/// Days to look at, the newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DaysToLookAt {
    days: Vec<Day>,
    /// Where they end, if there may be others before them.
    end: Option<NaiveDate>,
}

impl DaysToLookAt {
    /// The days in stretches.
    pub(in crate::store) fn stretches(&self) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for day in &self.days {
            let Span(from, before) = Span::of_day(day.day);
            let last = stretches.last_mut().filter(|last| last.from == before);
            let together = last.as_ref().and_then(|last| {
                let sessions = last.sessions?.checked_add(day.sessions?)?;
                (sessions <= STRETCH).then_some(sessions)
            });
            match last.zip(together) {
                Some((last, sessions)) => {
                    last.from = from;
                    last.sessions = Some(sessions);
                }
                None => stretches.push(Stretch {
                    from,
                    before,
                    sessions: day.sessions,
                }),
            }
        }
        stretches
    }

    /// Where they begin, if there may be others before.
    pub(in crate::store) fn end(&self) -> Option<DateTime<Utc>> {
        Span::of_day(self.end?).0
    }
}

impl Sessions<'_> {
    /// The days up to a time that may have sessions that the filter finds.
    pub(super) async fn days_to_look_at(
        self,
        filter: &SessionFilter,
        until: Option<DateTime<Utc>>,
    ) -> Result<DaysToLookAt, StoreError> {
        let within = ScoreFilter {
            criteria_hash: None,
            from: filter.from,
            to: until.and_then(|until| Span::of_day(until.date_naive()).1),
        };
        let dirty = self.analytics.dirty_days(&within, DAYS).await?;
        let mut statement = sql!("select d.day, d.sessions from session_days d where 1 = 1");
        if let Some(from) = filter.from {
            statement
                .push(" and d.day >= ")
                .push_arg(from.date_naive().to_string());
        }
        if let Some(until) = until {
            statement
                .push(" and d.day <= ")
                .push_arg(until.date_naive().to_string());
        }
        self.push_conditions(&mut statement, filter).await?;
        statement.push(" order by d.day desc limit ").push_arg(DAYS);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let mut days: Vec<Day> = all(ATTEMPTED, &rows, read)?;
        // Either look may have stopped short: what lies before where it did is for a later page.
        let stopped =
            |found: usize, last: Option<NaiveDate>| last.filter(|_| found == DAYS as usize);
        let end = stopped(days.len(), days.last().map(|day| day.day))
            .max(stopped(dirty.len(), dirty.last().copied()));
        // The day of the filter's beginning may be cut: as a whole it isn't among those that are dirty.
        let first = filter.from.map(|from| from.date_naive());
        let changed = |day: NaiveDate| Day {
            day,
            sessions: None,
        };
        let in_time = |day: &NaiveDate| until.is_none_or(|until| *day <= until.date_naive());
        days.retain(|day| !dirty.contains(&day.day) && first != Some(day.day));
        days.extend(dirty.into_iter().chain(first).filter(in_time).map(changed));
        days.sort_by_key(|day| std::cmp::Reverse(day.day));
        days.dedup_by_key(|day| day.day);
        days.retain(|day| end.is_none_or(|end| day.day >= end));
        Ok(DaysToLookAt { days, end })
    }

    /// Narrows days `d` to those that have some of each that the filter asks for.
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
        let mut external = sql!(LISTED);
        push_external_id(&mut external, "a", q, self.db.dialect());
        let mut by_id = vec![external];
        if let Some((first, last)) = id_range(q) {
            let mut ours = sql!(LISTED);
            ours.push("a.session_id between ").push_arg(first);
            ours.push(" and ").push_arg(last);
            by_id.push(ours);
        }
        let mut days = Vec::new();
        for mut listed in by_id {
            listed.push(" limit ").push_arg(IDS);
            let rows = self.db.read_long(ATTEMPTED, &listed).await?;
            if rows.len() as u64 >= IDS.unsigned_abs() {
                return Ok(());
            }
            for row in &rows {
                let at: DateTime<Utc> = row
                    .get("listed_at")
                    .map_err(|e| StoreError::of(ATTEMPTED, &e))?;
                days.push(at.date_naive().to_string());
            }
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

/// What the filter asks of a current score.
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
        || filter.criteria_hash.is_some()
        || filter.criteria_not.is_some();
    if !any {
        return;
    }
    statement.push(" and exists (select 1 from score_days x where x.day = d.day and x.is_current");
    if let Some(least) = least {
        statement.push(" and x.total_score >= ").push_arg(least);
    }
    if let Some(most) = most {
        statement.push(" and x.total_score <= ").push_arg(most);
    }
    if let Some(hash) = &filter.criteria_hash {
        statement.push(" and x.criteria_hash = ").push_arg(hash);
    }
    if let Some(hash) = &filter.criteria_not {
        statement.push(" and x.criteria_hash <> ").push_arg(hash);
    }
    statement.push(")");
}

fn read(row: &DbRow) -> sqlx::Result<Day> {
    let sessions: i64 = row.get("sessions")?;
    Ok(Day {
        day: day_of(&row.get::<String>("day")?)?,
        sessions: Some(u32::try_from(sessions).unwrap_or(u32::MAX)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(of: &[(&str, Option<u32>)]) -> DaysToLookAt {
        let days = of.iter().map(|(day, sessions)| Day {
            day: day.parse().unwrap(),
            sessions: *sessions,
        });
        DaysToLookAt {
            days: days.collect(),
            end: None,
        }
    }

    #[test]
    fn days_next_to_each_other_are_looked_at_together_while_they_are_small() {
        let found = days(&[
            ("2026-01-09", Some(3_000)),
            ("2026-01-08", Some(900)),
            ("2026-01-07", Some(900)),
            ("2026-01-05", Some(1)),
            ("2026-01-04", None),
            ("2026-01-03", Some(1)),
        ]);
        let stretches = found.stretches();
        let sizes: Vec<Option<u32>> = stretches.iter().map(|s| s.sessions).collect();
        assert_eq!(sizes, [Some(3_900), Some(900), Some(1), None, Some(1)]);
        let at = |text: &str| Some(text.parse().unwrap());
        assert_eq!(stretches[0].from, at("2026-01-08T00:00:00Z"));
        assert_eq!(stretches[0].before, at("2026-01-10T00:00:00Z"));
    }
}
