//! Folds days: what their sessions, scores and names come to, made anew of the rows that they are made of.

use chrono::NaiveDate;

use super::days::{Facet, Span, day, push_spans};
use super::{Named, ScoreFilter};
use crate::store::database::db::{Conn, Tx, twice};
use crate::store::database::sql::{Sql, sql};
use crate::store::{Analytics, Dialect, StoreError};

/// The most days that are folded at once: nobody else writes to SQLite meanwhile.
const FOLDED: u32 = 16;

/// What a fold did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DaysFolded {
    /// How many days.
    pub days: usize,
    /// Whether others are left.
    pub more: bool,
}

impl Analytics<'_> {
    /// Folds some of the days that are marked, the newest first. Any number of processes may fold: they take turns.
    ///
    /// # Errors
    /// `Unavailable` when the database is away; a day is folded whole or not at all.
    pub async fn fold_days(self) -> Result<DaysFolded, StoreError> {
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
            let mut conn: Conn = self.db.long_writer().await?;
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
