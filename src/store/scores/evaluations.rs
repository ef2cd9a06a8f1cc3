//! Writes `evaluation_scores` within the recorder's transaction.

use crate::store::NewEvaluation;
use crate::store::database::sql::Arg;
use crate::store::database::writes::Writes;
use crate::store::jobs::record::Record;

const COLUMNS: &str = "score_id, job_id, kind, batch_id, item_no, criteria_hash, total, passed, threshold, components, error, \
    simulated, scored_at";

/// Writes the scores of applied records; replaces the score of a retried job.
pub(in crate::store) fn add(writes: &mut Writes, evaluated: &[(&Record, &NewEvaluation)]) {
    if evaluated.is_empty() {
        return;
    }
    let rows = evaluated.iter().map(|(record, new)| row(record, new));
    let (rows, of_applied) = (writes.padded(rows.collect()), writes.of_applied());
    writes.add("evaluated", |statement| {
        statement
            .push_rows(COLUMNS, rows)
            .push("insert into evaluation_scores (")
            .push(COLUMNS)
            .push(") select ")
            .push(COLUMNS)
            .push(" from v where score_id is not null")
            .push(of_applied)
            .push(
                " on conflict (job_id) do update set
                    score_id = excluded.score_id, total = excluded.total, passed = excluded.passed,
                    threshold = excluded.threshold, components = excluded.components, error = excluded.error,
                    simulated = excluded.simulated, scored_at = excluded.scored_at",
            );
    });
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
