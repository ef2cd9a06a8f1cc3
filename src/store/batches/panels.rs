//! The items of a batch that ask the same of one session several times: of one judge, or of several.

use uuid::Uuid;

use crate::job::Purpose;
use crate::store::database::sql::{DbRow, all, sql};
use crate::store::{Batches, StoreError};

/// One item of a panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedOfPanel {
    pub session_id: Uuid,
    /// The item's job.
    pub job_id: Uuid,
    /// `repeat` or `jury`.
    pub purpose: Purpose,
    /// Who was asked, by name.
    pub judge: Option<String>,
    /// The total, 0-100; `None`: not scored, yet or ever.
    pub total: Option<u8>,
    /// Whether a simulated judge gave it.
    pub simulated: bool,
}

/// How many items one statement reads.
const READ: i64 = 5_000;

impl Batches<'_> {
    /// The next items of a batch that belong to panels, in the order of their sessions and jobs behind `after`; none: there are no
    /// more.
    pub async fn asked_of_panels(
        self,
        batch_id: Uuid,
        after: (Uuid, Uuid),
    ) -> Result<Vec<AskedOfPanel>, StoreError> {
        const ATTEMPTED: &str = "reading the panels of a batch";
        let statement = sql!(
            "select j.subject_id, j.job_id, j.purpose, j.judge, s.total_score, coalesce(s.simulated, false) as made_up
             from scoring_jobs j left join session_scores s on s.job_id = j.job_id
             where j.batch_id = $1 and j.purpose in ('repeat', 'jury') and (j.subject_id, j.job_id) > ($2, $3)
             order by j.subject_id, j.job_id limit $4",
            batch_id,
            after.0,
            after.1,
            READ
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, asked)
    }
}

fn asked(row: &DbRow) -> sqlx::Result<AskedOfPanel> {
    let scored: Option<i32> = row.get("total_score")?;
    Ok(AskedOfPanel {
        session_id: row.get("subject_id")?,
        job_id: row.get("job_id")?,
        purpose: row.text_enum("purpose")?,
        judge: row.get("judge")?,
        total: scored.map(|_| row.int("total_score")).transpose()?,
        simulated: row.get("made_up")?,
    })
}
