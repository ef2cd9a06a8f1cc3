//! What wants somebody's attention now: what isn't ready, what is stopped, sessions whose newest scoring failed. What was mended since
//! is forgotten.

use chrono::{DateTime, Utc};
use futures::future::try_join_all;

use super::batches::BatchWords as _;
use super::infrastructure::JudgeState as _;
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::{ApiError, ApiState, HOLD, Params, batches, jobs, sessions};
use crate::wire::{Batch, Hold, PausedBy, SessionItem};

/// How many sessions are named.
const SESSIONS: &str = "5";
/// How many batches that their budget has stopped are named.
const BATCHES: &str = "5";

/// Something that wants somebody.
pub(super) struct Alert {
    pub(super) text: String,
    pub(super) to: String,
}

/// Looks at what isn't as it should be.
pub(super) async fn now(state: &PageState, user: &SessionUser) -> Result<Vec<Alert>, ApiError> {
    let api = state.api(user)?;
    let failed = Params::of(&[("scored", "failed"), ("limit", SESSIONS)]);
    let paused = Params::of(&[("state", "paused"), ("limit", BATCHES)]);
    let (found, failed, paused) = tokio::try_join!(
        state.whole_infrastructure(user),
        sessions::list(api, failed),
        batches::list(api, paused),
    )?;
    // A hold is told below, with its time.
    let checks = found.readiness.checks.into_iter().flatten();
    let reasons = checks.filter(|check| check.name != HOLD);
    let mut alerts: Vec<Alert> = reasons
        .filter_map(|check| Some(alert(check.detail?, "/system")))
        .collect();
    let now = state.about.clock.now();
    if let Some(hold) = &found.queue.hold {
        alerts.push(stopped("The queue", hold, now));
    }
    let judges = &found.judges;
    for judge in judges {
        if let Some(hold) = &judge.hold
            && !judge.is_told_by_its_entry(judges)
        {
            alerts.push(stopped(&format!("Judge {}", judge.name), hold, now));
        }
    }
    // What calls say of those that nobody has stopped.
    for judge in judges {
        if judge.hold.is_some() || judge.is_told_by_its_entry(judges) {
            continue;
        }
        let found = judge.stopped().or_else(|| judge.failing());
        if let Some((name, why)) = found.filter(|_| judge.configured) {
            let until = judge.gates.iter().filter_map(|gate| gate.until).max();
            let again = until.map_or_else(String::new, |at| {
                format!(
                    " It is asked again by itself at {} UTC.",
                    at.format("%H:%M:%S")
                )
            });
            alerts.push(alert(format!("Judge {name}: {why}.{again}"), "/queue"));
        }
    }
    alerts.extend(paused.items.iter().filter_map(out_of_money));
    let reads = failed.items.iter().map(|item| of_session(api, item));
    alerts.extend(try_join_all(reads).await?);
    if failed.next_cursor.is_some() {
        let text = "More sessions could not be scored.".to_owned();
        alerts.push(alert(text, "/sessions?scored=failed"));
    }
    Ok(alerts)
}

/// A batch that its budget has stopped: nobody meant it to end there.
fn out_of_money(batch: &Batch) -> Option<Alert> {
    let paused = batch
        .paused
        .as_ref()
        .filter(|paused| paused.by == PausedBy::Budget)?;
    let text = format!("{} is paused: {}", batch.title(), paused.reason);
    Some(alert(text, &format!("/batches/{}", batch.batch_id)))
}

fn alert(text: String, to: &str) -> Alert {
    Alert {
        text,
        to: to.to_owned(),
    }
}

fn stopped(what: &str, hold: &Hold, now: DateTime<Utc>) -> Alert {
    let word = hold.reason.brief();
    let since = words::moment(hold.since, now).ago;
    // What no person did was done by a worker, whose name says nothing.
    let mut text = match hold.reason.as_str() {
        "paused" => format!("{what} is {word} by {}, {since}", hold.set_by),
        _ => format!("{what}: {word}, {since}"),
    };
    if !hold.message.is_empty() {
        text.push_str(&format!(": {}", hold.message));
    }
    alert(text, "/queue")
}

async fn of_session(api: &ApiState, item: &SessionItem) -> Result<Alert, ApiError> {
    let id = item.session_id.to_string();
    let newest = jobs::list(
        api,
        Params::of(&[("session_id", id.as_str()), ("limit", "1")]),
    )
    .await?;
    let error = newest.items.into_iter().next().and_then(|job| job.error);
    let why = error.map_or_else(String::new, |error| {
        format!(" ({}): {}", error.class.in_words(), error.message)
    });
    let text = format!(
        "Session {} of {} could not be scored{why}",
        words::short_id(&item.session_id),
        item.alert_type.as_deref().unwrap_or("no alert type"),
    );
    Ok(alert(text, &format!("/sessions/{id}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::batches::tests::batch;
    use super::*;

    #[test]
    fn a_batch_that_its_budget_has_stopped_wants_somebody_and_one_that_somebody_paused_does_not() {
        let paused = |by: &str| {
            let paused = json!({"by": by, "reason": "it has spent its budget of 2 USD"});
            out_of_money(&batch(&json!({"state": "paused", "paused": paused})))
        };
        let told = paused("budget").unwrap();
        assert_eq!(
            told.text,
            "nightly is paused: it has spent its budget of 2 USD"
        );
        assert!(told.to.starts_with("/batches/0190"), "{}", told.to);
        assert!(paused("operator").is_none());
        assert!(out_of_money(&batch(&json!({}))).is_none());
    }
}
