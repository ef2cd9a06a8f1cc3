//! Lists sessions by their current score. Sessions without one are not listed.

use uuid::Uuid;

use super::filter::push_conditions;
use super::list::{LINE, LISTING, PageBuilder, SessionSummary, list_of};
use crate::store::database::sql::{Sql, long_sql};
use crate::store::{Cursor, Page, SessionFilter, SessionOrder, Sessions, StoreError};

/// Maximum number of scores that a page reads before it ends, even if it isn't full.
const MAX_SCORES: u32 = 4_000;

/// A scan of current scores in order, after a position.
#[derive(Debug, Clone, Copy)]
struct ScoreWalk {
    after: Option<(i64, Uuid)>,
    lowest_first: bool,
}

impl ScoreWalk {
    fn push_to(self, statement: &mut Sql) {
        // Always true; required for the partial index by total.
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
    /// Returns the page after a total and session id.
    pub(super) async fn by_score(
        self,
        filter: &SessionFilter,
        after: Option<(i64, Uuid)>,
        mut page: PageBuilder,
    ) -> Result<Page<SessionSummary>, StoreError> {
        let walk = ScoreWalk {
            after,
            lowest_first: page.order == SessionOrder::LowestScore,
        };
        let mut statement = long_sql!(LISTING, "select ");
        statement.push(LINE).push(" from (select i.score_id, i.session_id, i.total_score, i.criteria_hash, i.simulated, i.scored_at");
        walk.push_to(&mut statement);
        statement.push(" limit ").push_arg(MAX_SCORES);
        statement.push(") c join alert_sessions s on s.session_id = c.session_id where 1 = 1");
        push_conditions(filter, &mut statement, self.db.dialect());
        statement.push(if walk.lowest_first {
            " order by c.total_score, c.session_id limit "
        } else {
            " order by c.total_score desc, c.session_id desc limit "
        });
        statement.push_arg(page.missing());
        page.add(self.db.read(&statement).await?);
        if page.is_full() {
            return Ok(page.finish(None));
        }
        let mut statement = long_sql!(LISTING, "select i.total_score, i.session_id");
        walk.push_to(&mut statement);
        statement.push(" limit 1 offset ").push_arg(MAX_SCORES - 1);
        let behind: Option<(i32, Uuid)> = self.db.read_one(&statement).await?;
        let list = list_of(page.order);
        Ok(page.finish(behind.map(|(total, id)| Cursor::of_number(list, total.into(), id))))
    }
}
