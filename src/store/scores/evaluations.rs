//! What cases came to: rows of `evaluation_scores`, written within the recorder's transaction.

use serde_json::Value;
use uuid::Uuid;

use crate::job::{BatchPlace, Kind};
use crate::store::database::db::Tx;
use crate::store::database::sql::{Arg, Sql};
use crate::store::jobs::record::Record;

/// What a case came to, to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvaluation {
    /// The score's id.
    pub score_id: Uuid,
    pub kind: Kind,
    /// The batch that the job is an item of.
    pub batch: Option<BatchPlace>,
    /// The criteria that the job pinned.
    pub criteria_hash: String,
    /// 0-1; `None`: incomplete.
    pub total: Option<f64>,
    /// Whether it passed; `None`: not known.
    pub passed: Option<bool>,
    /// What the total was held against.
    pub threshold: Option<f64>,
    /// Components by name: a number, or null.
    pub components: Value,
    /// `{class, message}` where the judge failed.
    pub error: Option<Value>,
    /// Whether a simulated judge had a part in it.
    pub simulated: bool,
}

const COLUMNS: &str = "score_id, job_id, kind, batch_id, item_no, criteria_hash, total, passed, threshold, components, error, \
    simulated, scored_at";
/// The most rows of one statement; SQLite takes 32,766 arguments.
const ROWS: usize = 1024;

/// Writes the scores of records that were applied. A job that was retried has a row: its new one takes the place.
pub(in crate::store) async fn insert(
    tx: &mut Tx<'_>,
    evaluated: &[(&Record, &NewEvaluation)],
) -> sqlx::Result<()> {
    for part in evaluated.chunks(ROWS) {
        let rows = part.iter().map(|(record, new)| row(record, new)).collect();
        let mut statement = Sql::of_rows(COLUMNS, rows);
        statement
            .push("insert into evaluation_scores (")
            .push(COLUMNS)
            .push(") select ")
            .push(COLUMNS)
            .push(
                " from v where score_id is not null
                 on conflict (job_id) do update set
                    score_id = excluded.score_id, total = excluded.total, passed = excluded.passed,
                    threshold = excluded.threshold, components = excluded.components, error = excluded.error,
                    simulated = excluded.simulated, scored_at = excluded.scored_at",
            );
        tx.execute(&statement).await?;
    }
    Ok(())
}

fn row(record: &Record, new: &NewEvaluation) -> Vec<Arg> {
    vec![
        new.score_id.into(),
        record.fence.job_id.0.into(),
        new.kind.as_str().into(),
        new.batch.map(|place| place.batch_id).into(),
        new.batch.map(|place| place.item_no).into(),
        (&new.criteria_hash).into(),
        new.total.into(),
        new.passed.into(),
        new.threshold.into(),
        (&new.components).into(),
        new.error.as_ref().into(),
        new.simulated.into(),
        record.at.into(),
    ]
}
