//! Following a batch until it ends, or is paused.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::show::{count, done, duration, money, standing};
use crate::cli::outcome::{CliError, Exit};
use crate::cli::patience::patiently;
use crate::cli::progress::Progress;
use crate::client::{Client, text};

/// How often a batch is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The batch when it has ended, or is paused. The service may be away for a minute.
pub(in crate::cli) async fn watch(client: &Client, id: Uuid) -> Result<Value, CliError> {
    let progress = Progress::growing("items");
    loop {
        let batch = patiently(&progress, || client.batch(id)).await?;
        if has_ended(&batch) {
            return Ok(batch);
        }
        let failed = count(&batch, "failed") + count(&batch, "cancelled");
        let standing = [done(&batch), failed, count(&batch, "total")];
        progress.at(standing, &beside(&batch));
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn has_ended(batch: &Value) -> bool {
    matches!(text(batch, "/state"), "completed" | "cancelled" | "paused")
}

/// What stands beside the counts while a batch runs.
fn beside(batch: &Value) -> String {
    let mut parts = vec![money(batch)];
    if text(batch, "/state") == "expanding" || batch["stopped"].is_object() {
        parts.insert(0, standing(batch));
    }
    if let Some(eta) = batch.pointer("/progress/eta_s").and_then(Value::as_f64) {
        parts.push(format!("about {} left", duration(eta)));
    }
    parts.join("; ")
}

/// How a watched batch ended: done only if each item has a score.
pub(in crate::cli) fn exit_of(batch: &Value) -> Exit {
    let unscored = ["incomplete", "unscored"]
        .iter()
        .filter_map(|name| batch["verdict"][*name].as_u64())
        .sum::<u64>();
    let (total, scored) = (count(batch, "total"), count(batch, "succeeded"));
    match text(batch, "/state") {
        "completed" if total == 0 => Exit::Nothing,
        "completed" if scored == total && unscored == 0 => Exit::Done,
        _ => Exit::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_batch_whose_items_all_have_a_whole_score_ends_well() {
        let batch = |state: &str, succeeded: u64, incomplete: u64| {
            json!({
                "state": state, "counts": {"total": 2, "succeeded": succeeded, "failed": 2 - succeeded},
                "verdict": {"incomplete": incomplete, "unscored": 0},
            })
        };
        for (found, exit) in [
            (batch("completed", 2, 0), Exit::Done),
            (batch("completed", 1, 0), Exit::Incomplete),
            (batch("completed", 2, 1), Exit::Incomplete),
            (batch("paused", 2, 0), Exit::Incomplete),
            (batch("cancelled", 2, 0), Exit::Incomplete),
            (
                json!({"state": "completed", "counts": {"total": 0}, "verdict": null}),
                Exit::Nothing,
            ),
            (
                json!({"state": "completed", "counts": {"total": 1, "succeeded": 1}, "verdict": null}),
                Exit::Done,
            ),
        ] {
            assert_eq!(exit_of(&found), exit, "{found}");
        }
    }
}
