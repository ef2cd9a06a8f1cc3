//! Watches a batch until it ends or is paused.

use std::time::Duration;

use uuid::Uuid;

use super::show::{done, money, state_of};
use crate::cli::outage::retried;
use crate::cli::outcome::{CliError, Exit};
use crate::cli::progress::Progress;
use crate::client::Client;
use crate::wire::words::duration;
use crate::wire::{Batch, BatchState};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Returns the batch when it has ended or is paused. Tolerates an unavailable service for a minute.
pub(in crate::cli) async fn watch(client: &Client, id: Uuid) -> Result<Batch, CliError> {
    let progress = Progress::growing("items");
    loop {
        let batch = retried(&progress, || client.batch(id)).await?;
        match batch.state {
            BatchState::Completed | BatchState::Cancelled | BatchState::Paused => return Ok(batch),
            BatchState::Expanding | BatchState::Running => {}
        }
        let counts = &batch.counts;
        let failed = counts.failed + counts.cancelled;
        let figures = [done(counts), failed, counts.total];
        let figures = figures.map(|n| u64::try_from(n).unwrap_or(0));
        progress.at(figures, &progress_text(&batch));
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn progress_text(batch: &Batch) -> String {
    let mut parts = vec![money(batch)];
    if batch.state == BatchState::Expanding || batch.stopped.is_some() {
        parts.insert(0, state_of(batch));
    }
    let eta = batch.progress.eta_s;
    parts.extend(eta.map(|eta| format!("about {} left", duration(eta))));
    parts.join("; ")
}

/// Exit code for a watched batch: done only if each item has a score.
pub(in crate::cli) fn exit_of(batch: &Batch) -> Exit {
    let verdict = batch.verdict;
    let unscored = verdict.map_or(0, |verdict| verdict.incomplete + verdict.unscored);
    let counts = &batch.counts;
    match batch.state {
        BatchState::Completed if counts.total == 0 => Exit::Nothing,
        BatchState::Completed if counts.succeeded == counts.total && unscored == 0 => Exit::Done,
        BatchState::Completed
        | BatchState::Expanding
        | BatchState::Running
        | BatchState::Paused
        | BatchState::Cancelled => Exit::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::show::tests::batch;
    use super::*;

    #[test]
    fn watch_exits_done_only_if_all_items_have_scores() {
        let counts = |total: u64, succeeded: u64| json!({"total": total, "queued": 0, "running": 0, "waiting": 0, "succeeded": succeeded, "failed": total - succeeded, "cancelled": 0});
        let verdict = |incomplete: u64| json!({"passed": 0, "failed": 0, "incomplete": incomplete, "unscored": 0, "pass_rate": null, "mean": null, "coverage": 1.0, "simulated": false});
        for (state, counts, verdict, exit) in [
            ("completed", counts(2, 2), verdict(0), Exit::Done),
            ("completed", counts(2, 1), verdict(0), Exit::Incomplete),
            ("completed", counts(2, 2), verdict(1), Exit::Incomplete),
            ("paused", counts(2, 2), verdict(0), Exit::Incomplete),
            ("cancelled", counts(2, 2), verdict(0), Exit::Incomplete),
            ("completed", counts(0, 0), Value::Null, Exit::Nothing),
            ("completed", counts(1, 1), Value::Null, Exit::Done),
        ] {
            let found = batch(&json!({"state": state, "counts": counts, "verdict": verdict}));
            assert_eq!(exit_of(&found), exit, "{found:?}");
        }
    }
}
