//! Filter of sessions as SQL conditions.

use serde_json::Value;
use uuid::Uuid;

use crate::score::analysis::key_of;
use crate::score::session::Rating;
use crate::store::Dialect;
use crate::store::database::sql::Sql;
use crate::wire::{Scored, SessionFilter};

/// Appends the conditions on sessions `s`, current scores `c` and active jobs `a`. Criteria are full hashes.
pub(in crate::store) fn push_conditions(
    filter: &SessionFilter,
    statement: &mut Sql,
    dialect: Dialect,
) {
    if let Some(q) = filter.q.as_deref().filter(|q| !q.is_empty()) {
        push_text(statement, q, dialect);
    }
    statement.and("s.status = ", filter.status.map(|status| status.as_str()));
    if let Some(scored) = filter.scored {
        statement.push(condition(scored));
    }
    push_score_conditions(filter, statement);
    if let Some(tag) = &filter.tag {
        match dialect {
            Dialect::Postgres => {
                statement
                    .push(" and s.tags @> ")
                    .push_arg(Value::from(vec![tag.as_str()]));
            }
            Dialect::Sqlite => {
                statement
                    .push(" and exists (select 1 from json_each(s.tags) t where t.value = ")
                    .push_arg(tag)
                    .push(")");
            }
        }
    }
    statement.and("s.agent = ", filter.agent.as_ref());
    statement.and("s.alert_type = ", filter.alert_type.as_ref());
    if filter.rated {
        statement
            .push(" and exists (select 1 from human_ratings h where h.session_id = s.session_id)");
    }
    statement.and("s.listed_at >= ", filter.from);
    statement.and("s.listed_at < ", filter.to);
    if !filter.ids.is_empty() {
        statement.push(" and s.session_id in ");
        statement.push_list(filter.ids.iter().copied());
    }
}

/// Appends the conditions on the current score; sessions without one don't match.
fn push_score_conditions(filter: &SessionFilter, statement: &mut Sql) {
    if filter.rating.is_some() || filter.min_score.is_some() || filter.max_score.is_some() {
        // Always true; required for the partial index by total.
        statement.push(" and c.total_score >= 0");
    }
    if let Some(rating) = filter.rating {
        let (least, most) = totals(rating);
        statement
            .push(" and c.total_score between ")
            .push_arg(least);
        statement.push(" and ").push_arg(most);
    }
    statement.and("c.total_score >= ", filter.min_score);
    statement.and("c.total_score <= ", filter.max_score);
    statement.and("c.criteria_hash = ", filter.criteria.as_ref());
    statement.and("c.criteria_hash <> ", filter.criteria_not.as_ref());
    if let Some(tool) = &filter.missing_tool {
        statement
                .push(" and exists (select 1 from score_missing_tools t where t.score_id = c.score_id and t.tool_key = ")
                // A name without a key has no match, because null equals no value.
                .push_arg(key_of(tool))
                .push(")");
    }
}

fn condition(scored: Scored) -> &'static str {
    match scored {
        Scored::Yes => " and c.score_id is not null",
        Scored::No => " and c.score_id is null",
        Scored::Running => {
            " and exists (select 1 from scoring_jobs r where r.kind = 'session' and r.subject_id = s.session_id
                   and r.finished_at is null and r.purpose = 'score')"
        }
        Scored::Failed => {
            " and (select j.state from scoring_jobs j
                   where j.kind = 'session' and j.subject_id = s.session_id and j.purpose = 'score'
                   order by j.job_id desc limit 1) = 'failed'"
        }
    }
}

/// Returns the totals of a rating, both inclusive.
pub(in crate::store) fn totals(rating: Rating) -> (i64, i64) {
    let of_rating = |total: &u8| Rating::from_total(*total) == rating;
    let least = (0..=100).find(of_rating).unwrap_or(0);
    let most = (0..=100).rev().find(of_rating).unwrap_or(100);
    (i64::from(least), i64::from(most))
}

/// Returns a pattern for `like .. escape '!'` that matches lower-case text that contains `q`. No index supports it, so the
/// caller bounds the rows.
pub(super) fn part_pattern(q: &str) -> String {
    let mut pattern = String::with_capacity(q.len() + 2);
    pattern.push('%');
    for character in q.to_lowercase().chars() {
        if matches!(character, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

fn push_text(statement: &mut Sql, q: &str, dialect: Dialect) {
    let pattern = part_pattern(q);
    statement.push(" and (");
    for column in ["s.alert_type_lower", "s.agent_lower", "s.author_lower"] {
        statement.push(column).push(" like ");
        statement.push_arg(pattern.as_str()).push(" escape '!' or ");
    }
    if let Some((first, last)) = id_range(q) {
        statement.push("s.session_id between ").push_arg(first);
        statement.push(" and ").push_arg(last).push(" or ");
    }
    push_external_id(statement, "s", q, dialect);
    statement.push(")");
}

/// Appends the condition that the external id starts with `q`; uses an index.
pub(super) fn push_external_id(statement: &mut Sql, name: &str, q: &str, dialect: Dialect) {
    let column = match dialect {
        Dialect::Postgres => ".external_id collate \"C\"",
        Dialect::Sqlite => ".external_id",
    };
    statement.push(name).push(column);
    statement.push(" >= ").push_arg(q).push(" and ").push(name);
    statement
        .push(column)
        .push(" < ")
        .push_arg(format!("{q}{}", char::MAX));
}

/// Returns the first and last id with this prefix, which may have hyphens or be shortened as on pages (`01983c57…e403`); `None`
/// if there is no such id.
pub(super) fn id_range(prefix: &str) -> Option<(Uuid, Uuid)> {
    let prefix = prefix.split('…').next().unwrap_or_default();
    let hyphens = [8, 13, 18, 23];
    let hyphenated = prefix.contains('-');
    let mut digits = String::with_capacity(32);
    for (place, character) in prefix.char_indices() {
        if hyphenated && hyphens.contains(&place) {
            if character != '-' {
                return None;
            }
        } else if character.is_ascii_hexdigit() {
            digits.push(character);
        } else {
            return None;
        }
    }
    if digits.is_empty() || digits.len() > 32 {
        return None;
    }
    let first = Uuid::try_parse(&format!("{digits:0<32}")).ok()?;
    let last = Uuid::try_parse(&format!("{digits:f<32}")).ok()?;
    Some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rating_covers_its_totals() {
        assert_eq!(totals(Rating::Failed), (0, 44));
        assert_eq!(totals(Rating::Weak), (45, 59));
        assert_eq!(totals(Rating::Adequate), (60, 74));
        assert_eq!(totals(Rating::Good), (75, 89));
        assert_eq!(totals(Rating::NearPerfect), (90, 100));
    }

    #[test]
    fn id_prefix_is_a_range_of_ids() {
        let (first, last) = id_range("0190AB").unwrap();
        assert_eq!(first.to_string(), "0190ab00-0000-0000-0000-000000000000");
        assert_eq!(last.to_string(), "0190abff-ffff-ffff-ffff-ffffffffffff");
        let (first, _) = id_range("0190abcd-12").unwrap();
        assert_eq!(first.to_string(), "0190abcd-1200-0000-0000-000000000000");
        assert_eq!(id_range("0190abcd-"), id_range("0190abcd"));
        assert_eq!(id_range("0190abcd…e403"), id_range("0190abcd"));
        for text in ["", "x", "0190-abcd", "é", &"0".repeat(33)] {
            assert_eq!(id_range(text), None, "{text}");
        }
    }
}
