//! Rolls up days: computes their sessions, scores and names from the rows.

use chrono::NaiveDate;

use super::days::{Facet, Span, day, push_spans};
use super::{Named, ScoreFilter};
use crate::store::database::conn::Tx;
use crate::store::database::db::transact;
use crate::store::database::sql::{Sql, step};
use crate::store::{Analytics, Dialect, StoreError};

/// Maximum number of days per rollup, because it blocks other writers on SQLite.
const ROLLED_UP: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DaysRolledUp {
    pub days: usize,
    /// Whether dirty days are left.
    pub more: bool,
}

impl Analytics<'_> {
    /// Rolls up some dirty days, newest first. Concurrent processes take turns.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; each day is rolled up completely or not at all.
    pub async fn roll_up_days(self) -> Result<DaysRolledUp, StoreError> {
        let mut dirty = self
            .dirty_days(&ScoreFilter::default(), ROLLED_UP + 1)
            .await?;
        let more = dirty.len() > ROLLED_UP as usize;
        dirty.truncate(ROLLED_UP as usize);
        if dirty.is_empty() {
            return Ok(DaysRolledUp { days: 0, more });
        }
        transact!(self.db, "rolling up days", |tx| {
            // Two concurrent rollups of a day could each miss rows of the other. SQLite has one writer.
            if tx.dialect() == Dialect::Postgres {
                let lock = "select pg_advisory_xact_lock(hashtext('gavel rollup'))";
                tx.execute(&step!(lock)).await?;
            }
            roll_up(&mut tx, &dirty).await?;
        })?;
        Ok(DaysRolledUp {
            days: dirty.len(),
            more,
        })
    }
}

/// Deletes the dirty days first, because later commits mark their days again.
async fn roll_up(tx: &mut Tx<'_>, days: &[NaiveDate]) -> sqlx::Result<()> {
    for table in [
        "dirty_days",
        "session_days",
        "score_days",
        "name_days",
        "facet_days",
    ] {
        let mut taken = step!("delete from ");
        taken.push(table).push(" where day in ");
        taken.push_list(days.iter().map(NaiveDate::to_string));
        tx.execute(&taken).await?;
    }
    let dialect = tx.dialect();
    let spans: Vec<Span> = days.iter().map(|day| Span::of_day(*day)).collect();
    tx.execute(&roll_up_sessions(dialect, &spans)).await?;
    tx.execute(&roll_up_scores(dialect, &spans)).await?;
    for named in [Named::MissingTools, Named::Approaches] {
        tx.execute(&roll_up_names(dialect, named, &spans)).await?;
    }
    for facet in Facet::ALL {
        tx.execute(&roll_up_facet(dialect, facet, &spans)).await?;
    }
    Ok(())
}

fn roll_up_sessions(dialect: Dialect, spans: &[Span]) -> Sql {
    let mut statement = step!("insert into session_days (day, sessions) select ");
    statement
        .push(day(dialect))
        .push(", count(*) from alert_sessions a where ");
    push_spans(&mut statement, spans);
    statement.push(" group by 1");
    statement
}

fn roll_up_scores(dialect: Dialect, spans: &[Span]) -> Sql {
    let mut statement = step!(
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

fn roll_up_names(dialect: Dialect, named: Named, spans: &[Span]) -> Sql {
    let (table, key, name) = named.columns();
    let mut statement = step!(
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

fn roll_up_facet(dialect: Dialect, facet: Facet, spans: &[Span]) -> Sql {
    let (value, tags) = match (facet, dialect) {
        (Facet::Column(column), _) => (column, ""),
        (Facet::Tag, Dialect::Postgres) => (
            "f.value",
            " cross join lateral jsonb_array_elements_text(a.tags) as f (value)",
        ),
        (Facet::Tag, Dialect::Sqlite) => ("f.value", " cross join json_each(a.tags) f"),
    };
    let mut statement = step!("insert into facet_days (day, facet, value, sessions) select ");
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
