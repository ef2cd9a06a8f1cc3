//! `workers.judges`: which judges each worker can ask, so that a job whose judge nobody has says so.
//!
//! Each heartbeat says it. A worker that published nothing (an older binary) is taken to be able to ask every judge.

use std::collections::HashMap;

use uuid::Uuid;

use crate::store::database::sql::{all, sql};
use crate::store::{StoreError, Workers};

impl Workers<'_> {
    /// What these workers published; those that published nothing are left out.
    pub async fn judges_of(
        self,
        workers: &[Uuid],
    ) -> Result<HashMap<Uuid, Vec<String>>, StoreError> {
        const ATTEMPTED: &str = "reading which judges workers can ask";
        if workers.is_empty() {
            return Ok(HashMap::new());
        }
        let mut statement = sql!(
            "select worker_id, judges from workers where judges is not null and worker_id in "
        );
        statement.push_list(workers.iter().copied());
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| {
            Ok((row.get("worker_id")?, row.json_as("judges")?))
        })
    }
}
