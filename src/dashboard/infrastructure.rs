//! State of the queue, the workers and the judges. Single source for the status bar and the queue page.

use std::time::Duration;

use axum::Json;
use chrono::{DateTime, TimeDelta, Utc};

use super::words;
use crate::api::{ApiError, ApiState, judges, operate};
use crate::job::WaitReason;
use crate::wire::{Check, Judge, Queue, Readiness, ReadinessStatus, Spent, Worker, WorkerState};

/// Age of the last heartbeat after which pages show a worker as gone.
const GONE_AFTER: TimeDelta = TimeDelta::seconds(60);

const READINESS_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
pub(super) struct Infrastructure {
    pub(super) queue: Queue,
    pub(super) workers: Vec<Worker>,
    pub(super) judges: Vec<Judge>,
    pub(super) readiness: Readiness,
}

impl Infrastructure {
    pub(super) async fn read(api: &ApiState) -> Result<Self, ApiError> {
        Self::read_with(api, operate::readiness(api)).await
    }

    /// Reads the snapshot for the status bar, with a timeout for readiness: a slow database is reported elsewhere, and Redis may be
    /// unavailable.
    pub(super) async fn read_soon(api: &ApiState) -> Result<Self, ApiError> {
        let readiness = async {
            let found = tokio::time::timeout(READINESS_TIMEOUT, operate::readiness(api)).await;
            found.unwrap_or(Readiness {
                status: ReadinessStatus::Degraded,
                reasons: Vec::new(),
                checks: None,
                version: None,
            })
        };
        Self::read_with(api, readiness).await
    }

    async fn read_with(
        api: &ApiState,
        readiness: impl Future<Output = Readiness>,
    ) -> Result<Self, ApiError> {
        // Boxed because each page's future contains this read.
        let (Json(queue), Json(workers), Json(judges), readiness) = tokio::try_join!(
            Box::pin(judges::queue::queue_status(api.clone())),
            Box::pin(judges::list_workers(api.clone())),
            Box::pin(judges::list_judges(api.clone())),
            Box::pin(async { Ok(readiness.await) }),
        )?;
        Ok(Self {
            queue,
            workers: workers.items,
            judges: judges.items,
            readiness,
        })
    }

    pub(super) fn failed<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Check> {
        let checks = self.readiness.checks.iter().flatten();
        checks.filter(move |check| !check.ok && check.name == name)
    }
}

/// Reason why a judge's jobs wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alert {
    /// No response, or an invalid one.
    Silent,
    /// Not configured although jobs need it.
    Unset,
    /// Rejects the key, the model or the address, or its quota is used up.
    Refused,
    /// Rate limited; resumes automatically.
    Slow,
    Capped,
    Paused,
}

/// Whether a worker has stopped, or was silent for a minute. A late heartbeat, as on a busy database, isn't enough here, but the worker's
/// jobs go to others after the lease, which is shorter.
pub(super) fn is_gone(worker: &Worker, now: DateTime<Utc>) -> bool {
    worker.state == WorkerState::Stopped
        || (!worker.alive && now - worker.heartbeat_at > GONE_AFTER)
}

/// Whether a worker's last heartbeat is recent, because pages must not show "silent" next to "just now".
pub(super) fn has_recent_heartbeat(worker: &Worker, now: DateTime<Utc>) -> bool {
    worker.alive || now - worker.heartbeat_at < words::JUST_NOW
}

/// Today's cost; a lower bound if calls have no price.
pub(super) fn today(spent: &Spent) -> String {
    words::usd_at_least(spent.today_usd, spent.today_unpriced_calls)
}

/// Reason why the judge's jobs wait. `None` if its calls show no problem.
pub(super) fn alert(judge: &Judge) -> Option<Alert> {
    let Some(reason) = judge.stop_reason() else {
        return match judge.stopped() {
            Some(_) => Some(Alert::Unset),
            None => judge.failing().map(|_| Alert::Silent),
        };
    };
    Some(match reason {
        WaitReason::Paused => Alert::Paused,
        WaitReason::Budget => Alert::Capped,
        WaitReason::Misconfigured | WaitReason::Exhausted => Alert::Refused,
        WaitReason::Throttled | WaitReason::Paced => Alert::Slow,
        WaitReason::BreakerOpen
        | WaitReason::Storage
        | WaitReason::Fallback
        | WaitReason::Queued
        | WaitReason::NoWorker
        | WaitReason::NoWorkerForJudge
        | WaitReason::Economy => Alert::Silent,
    })
}

/// Reason of the judge's stop, otherwise its share of failed calls.
pub(super) fn trouble(judge: &Judge) -> Option<String> {
    let stopped = judge.stopped().map(str::to_owned);
    stopped.or_else(|| judge.failing().map(|health| health.to_string()))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(in crate::dashboard) fn ready() -> Readiness {
        serde_json::from_value(json!({"status": "ok", "reasons": []})).unwrap()
    }

    /// A healthy judge; `change` overrides its fields.
    pub(in crate::dashboard) fn judge(name: &str, change: &Value) -> Judge {
        let spent = json!({"today_usd": 1.0, "month_usd": 1.0, "today_unpriced_calls": 0, "unpriced_calls": 0});
        let mut judge = json!({"name": name, "configured": true, "remedy": null, "simulated": false, "kinds": [],
            "hold": null, "gates": [], "spent": spent, "cap": null});
        for (field, value) in change.as_object().unwrap() {
            judge[field] = value.clone();
        }
        serde_json::from_value(judge).unwrap()
    }

    /// A hold that `ann` set an hour before noon.
    pub(in crate::dashboard) fn hold(reason: &str, message: &str) -> Value {
        json!({"reason": reason, "message": message, "set_by": "ann", "since": "2026-11-23T11:00:00Z", "until": null})
    }

    pub(in crate::dashboard) fn worker(state: &str, alive: bool, heard: &str) -> Worker {
        let worker = json!({"worker_id": uuid::Uuid::nil(), "name": "w", "version": "1", "started_at": "2026-11-23T11:00:00Z",
            "heartbeat_at": heard, "in_hand": 2, "state": state, "alive": alive, "judges": null});
        serde_json::from_value(worker).unwrap()
    }

    #[test]
    fn entry_hold_is_not_repeated_per_model() {
        let judge = |name: &str, reason: Option<&str>| {
            judge(
                name,
                &json!({"hold": reason.map(|reason| hold(reason, "m"))}),
            )
        };
        let judges = [
            judge("a", Some("budget")),
            judge("a:m1", Some("budget")),
            judge("a:m2", Some("paused")),
            judge("b", None),
            judge("b:m1", Some("budget")),
            Judge {
                configured: false,
                ..judge("unused", Some("budget"))
            },
        ];
        let told: Vec<&str> = judges
            .iter()
            .filter(|judge| !judge.is_stopped_with_its_entry(&judges))
            .filter(|judge| judge.stopped().is_some())
            .map(|judge| judge.name.as_str())
            .collect();
        assert_eq!(told, ["a", "a:m2", "b:m1"]);
    }
}
