//! Current problems: failing checks, stopped judges, and recently failed sessions grouped by cause. Sessions scored since are ignored.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::batches::BatchView as _;
use super::infrastructure::trouble;
use super::state::PageState;
use super::user::SessionUser;
use super::words;
use crate::api::batches::{self, BatchesQuery};
use crate::api::{ApiError, HOLD, Query, sessions};
use crate::wire::{
    Batch, BatchState, FailureClass, Hold, PageQuery, PausedBy, Scored, SessionFilter, SessionItem,
    SessionSort, Sessions,
};

/// Maximum number of failed sessions to group by cause, newest first.
const SESSIONS: u32 = 200;
/// Maximum number of batches listed as stopped by their budget.
const BATCHES: u32 = 5;

pub(super) struct Alert {
    pub(super) text: String,
    pub(super) to: String,
    /// Comma-separated ids of the sessions that can be scored again, possibly empty.
    pub(super) retry: String,
}

pub(super) async fn now(state: &PageState, user: &SessionUser) -> Result<Vec<Alert>, ApiError> {
    let api = state.api(user)?;
    let failed = SessionFilter {
        scored: Some(Scored::Failed),
        ..SessionFilter::default()
    };
    let failed = (failed, SessionSort::default(), PageQuery::first(SESSIONS));
    let paused = BatchesQuery {
        state: Some(BatchState::Paused),
        ..BatchesQuery::default()
    };
    let paused = Query((paused, PageQuery::first(BATCHES)));
    let (found, failed, paused) = tokio::try_join!(
        state.infrastructure_with_readiness(user),
        sessions::list_sessions(api.clone(), Query(failed)),
        batches::list_batches(api, paused),
    )?;
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
            && !judge.is_stopped_with_its_entry(judges)
        {
            alerts.push(stopped(&format!("Judge {}", judge.name), hold, now));
        }
    }
    // Alerts from call results, for judges without a hold.
    for judge in judges {
        if judge.hold.is_some() || judge.is_stopped_with_its_entry(judges) {
            continue;
        }
        if let Some(why) = trouble(judge).filter(|_| judge.configured) {
            let name = &judge.name;
            let until = judge.gates.iter().filter_map(|gate| gate.until).max();
            let again = until.map_or_else(String::new, |at| {
                format!(
                    " The next automatic check is at {} UTC.",
                    at.format("%H:%M:%S")
                )
            });
            alerts.push(alert(format!("Judge {name}: {why}.{again}"), "/queue"));
        }
    }
    alerts.extend(paused.items.iter().filter_map(out_of_money));
    alerts.extend(by_cause(&failed));
    Ok(alerts)
}

/// Alert for a batch that was paused by its budget; `None` for any other batch.
fn out_of_money(batch: &Batch) -> Option<Alert> {
    let paused = batch
        .paused
        .as_ref()
        .filter(|paused| paused.by == PausedBy::Budget)?;
    let text = format!("{} is paused: {}", batch.title(), paused.reason);
    Some(alert(text, &format!("/batches/{}", batch.batch_id)))
}

pub(super) fn alert(text: String, to: &str) -> Alert {
    Alert {
        text,
        to: to.to_owned(),
        retry: String::new(),
    }
}

fn stopped(what: &str, hold: &Hold, now: DateTime<Utc>) -> Alert {
    let word = hold.reason.summary();
    let since = words::timestamp(hold.since, now).ago;
    // Automatic holds are set by a worker, and a worker's name doesn't help the user.
    let mut text = match hold.reason.as_str() {
        "paused" => format!("{what} is {word} by {}, {since}", hold.set_by),
        _ => format!("{what}: {word}, {since}"),
    };
    if !hold.message.is_empty() {
        text.push_str(&format!(": {}", hold.message));
    }
    alert(text, "/queue")
}

/// Groups failed sessions by cause, most frequent cause first.
fn by_cause(failed: &Sessions) -> Vec<Alert> {
    let mut causes: BTreeMap<FailureClass, Vec<&SessionItem>> = BTreeMap::new();
    for item in &failed.items {
        if let Some(class) = item.failed {
            causes.entry(class).or_default().push(item);
        }
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, items)| std::cmp::Reverse(items.len()));
    let at_least = if failed.next_cursor.is_some() {
        "At least "
    } else {
        ""
    };
    let alert = |(class, items): (FailureClass, Vec<&SessionItem>)| {
        let ids: Vec<String> = items
            .iter()
            .map(|item| item.session_id.to_string())
            .collect();
        let count = words::counted(ids.len(), "session");
        Alert {
            text: format!(
                "{at_least}{count} could not be scored ({}). {}",
                class.in_words(),
                class.remedy()
            ),
            to: match ids.as_slice() {
                [one] => format!("/sessions/{one}"),
                _ => "/sessions?scored=failed".to_owned(),
            },
            retry: ids.join(","),
        }
    };
    causes.into_iter().map(alert).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::batches::tests::batch;
    use super::*;

    #[test]
    fn alerts_on_batches_paused_by_budget_only() {
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
