//! What the calls of each judge came to since the installation began, for `/metrics`.

use crate::store::database::sql::{DbRow, sql};
use crate::store::{Judges, StoreError};

/// What all calls of a judge came to since the installation began.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct JudgeTotal {
    pub judge: String,
    pub calls: i64,
    /// Those without a good reply.
    pub failed_calls: i64,
    /// Prompt tokens, cached ones included.
    pub tokens_in: i64,
    /// Reply tokens.
    pub tokens_out: i64,
    /// USD of the calls whose price is known.
    pub cost_usd: f64,
    /// Calls whose price is not.
    pub unpriced_calls: i64,
}

impl Judges<'_> {
    /// Sums up the calls of all days, by judge. Doesn't wait for the call log.
    pub async fn totals(self) -> Result<Vec<JudgeTotal>, StoreError> {
        let statement = sql!(
            "select judge, cast(sum(calls) as bigint) as calls, cast(sum(failed_calls) as bigint) as failed_calls,
                cast(sum(tokens_in) as bigint) as tokens_in, cast(sum(tokens_out) as bigint) as tokens_out,
                sum(cost_usd) as cost_usd, cast(sum(unpriced_calls) as bigint) as unpriced_calls
             from judge_usage_daily group by judge order by judge limit 10000"
        );
        self.db
            .read_all("summing up the calls of judges", &statement, DbRow::decode)
            .await
    }
}
