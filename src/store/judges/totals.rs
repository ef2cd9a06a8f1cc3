//! Totals of all calls by judge, for `/metrics`.

use crate::store::database::sql::{DbRow, sql};
use crate::store::{Judges, StoreError};

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct JudgeTotal {
    pub judge: String,
    pub calls: i64,
    /// Calls without a usable reply.
    pub failed_calls: i64,
    /// Prompt tokens, including cached ones.
    pub tokens_in: i64,
    pub tokens_out: i64,
    /// USD of the calls with a known price.
    pub cost_usd: f64,
    /// Calls without a known price.
    pub unpriced_calls: i64,
}

impl Judges<'_> {
    /// Returns the totals over all days, by judge. Doesn't wait for the call log.
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
