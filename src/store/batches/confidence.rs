//! Confidence and correctness of the cases of a suite, grouped by the database.

use uuid::Uuid;

use crate::score::sql_metrics::calibration::Confidence;
use crate::store::database::sql::{DbRow, all, sql};
use crate::store::{Batches, MadeBy, StoreError};

/// Number of cases with equal confidence and correctness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidenceCount {
    /// Confidence that the generator reported.
    pub confidence: Confidence,
    /// Range 0-1.
    pub correctness: f64,
    /// Judge of the correctness; `None`: no judge was needed.
    pub made_by: Option<MadeBy>,
    pub cases: u32,
}

impl Batches<'_> {
    /// Counts the ended cases among the first `most` items of a batch of kind `sql_metrics` that have a confidence and a
    /// correctness.
    pub async fn confidence_counts(
        self,
        batch_id: Uuid,
        most: u32,
    ) -> Result<Vec<ConfidenceCount>, StoreError> {
        const ATTEMPTED: &str = "counting cases by their confidence";
        let statement = sql!(
            "select confidence, correctness, simulated, judged, count(*) as cases from (
                select lower(trim(j.payload ->> 'confidence')) as confidence,
                    cast(e.components ->> 'query_correctness' as double precision) as correctness,
                    e.simulated as simulated,
                    j.result -> 'metrics' -> 'query_correctness' -> 'details' ->> 'judge' is not null as judged
                from scoring_jobs j join evaluation_scores e on e.job_id = j.job_id
                where j.batch_id = $1 and j.item_no < $2 and j.finished_at is not null) c
             where confidence in ('high', 'medium', 'low') and correctness is not null
             group by confidence, correctness, simulated, judged",
            batch_id,
            most
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, count)
    }
}

fn count(row: &DbRow) -> sqlx::Result<ConfidenceCount> {
    Ok(ConfidenceCount {
        confidence: row.text_enum("confidence")?,
        correctness: row.get("correctness")?,
        made_by: match (row.get("simulated")?, row.get("judged")?) {
            (true, _) => Some(MadeBy::Simulated),
            (false, true) => Some(MadeBy::Judge),
            (false, false) => None,
        },
        cases: row.int("cases")?,
    })
}
