//! The list of sessions in the order of their current scores; those without one aren't in it.

use uuid::Uuid;

use super::filter::SessionFilter;
use super::list::{ATTEMPTED, Filling, LINE, SessionOrder, SessionSummary};
use crate::store::database::sql::{Sql, first, sql};
use crate::store::{Cursor, Page, Sessions, StoreError};

/// How many scores a page in the order of scores looks at before it ends, filled or not.
const SCORES_LOOKED: u32 = 4_000;

/// Current scores in their order, behind a place.
#[derive(Debug, Clone, Copy)]
struct ScoreWalk {
    after: Option<(i64, Uuid)>,
    lowest_first: bool,
}

impl ScoreWalk {
    fn push_to(self, statement: &mut Sql) {
        // What all totals are; the index by totals is for those who say so.
        statement.push(
            " from session_scores i
             where i.superseded_at is null and i.purpose = 'score' and i.total_score >= 0",
        );
        if let Some((total, id)) = self.after {
            statement.push(" and (i.total_score, i.session_id) ");
            statement.push(if self.lowest_first { "> (" } else { "< (" });
            statement.push_arg(total).push(", ").push_arg(id).push(")");
        }
        statement.push(if self.lowest_first {
            " order by i.total_score, i.session_id"
        } else {
            " order by i.total_score desc, i.session_id desc"
        });
    }
}

impl Sessions<'_> {
    /// A page behind a place: a total and the session that has it.
    pub(super) async fn by_score(
        self,
        filter: &SessionFilter,
        after: Option<(i64, Uuid)>,
        mut filling: Filling,
    ) -> Result<Page<SessionSummary>, StoreError> {
        let walk = ScoreWalk {
            after,
            lowest_first: filling.order == SessionOrder::LowestScore,
        };
        let mut statement = sql!("select ");
        statement.push(LINE).push(" from (select i.score_id, i.session_id, i.total_score, i.criteria_hash, i.simulated, i.scored_at");
        walk.push_to(&mut statement);
        statement.push(" limit ").push_arg(SCORES_LOOKED);
        statement.push(") c join alert_sessions s on s.session_id = c.session_id where 1 = 1");
        filter.narrow(&mut statement, self.db.dialect());
        statement.push(if walk.lowest_first {
            " order by c.total_score, c.session_id limit "
        } else {
            " order by c.total_score desc, c.session_id desc limit "
        });
        statement.push_arg(filling.missing());
        filling.add(&self.db.read_long(ATTEMPTED, &statement).await?)?;
        if filling.is_full() {
            return Ok(filling.page(None));
        }
        let mut statement = sql!("select i.total_score, i.session_id");
        walk.push_to(&mut statement);
        statement
            .push(" limit 1 offset ")
            .push_arg(SCORES_LOOKED - 1);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let behind: Option<(i64, Uuid)> = first(ATTEMPTED, &rows, |row| {
            Ok((row.int("total_score")?, row.get("session_id")?))
        })?;
        let list = filling.order.list();
        Ok(filling.page(behind.map(|(total, id)| Cursor::of_number(list, total, id))))
    }
}
