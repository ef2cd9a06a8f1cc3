//! What does the work: the queue, the workers, the judges. The head of every page and the queue's page read it
//! here, and nowhere else.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::words;
use crate::api::{ApiError, ApiState, judges, operate};
use crate::job::WaitReason;
use crate::wire::{Check, Judge, Queue, Readiness, ReadinessStatus, Spent, Worker, WorkerState};

/// How long a worker may be silent before pages call it gone.
const HEARD: TimeDelta = TimeDelta::seconds(60);

/// How long the head of a page waits for the word that Redis is there.
const SOON: Duration = Duration::from_millis(500);

/// The queue, the workers, the judges and the process's own health at one time.
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

    /// The same for the head of a page, which waits for no word of the process's health: what is slow may be the database, which says
    /// so elsewhere, and there may be no Redis at all.
    pub(super) async fn read_soon(api: &ApiState) -> Result<Self, ApiError> {
        let readiness = async {
            let found = tokio::time::timeout(SOON, operate::readiness(api)).await;
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
        // Boxed: every page holds this reading.
        let (queue, workers, judges, readiness) = tokio::try_join!(
            Box::pin(judges::queue::status(api)),
            Box::pin(judges::workers(api)),
            Box::pin(judges::list(api)),
            Box::pin(async { Ok(readiness.await) }),
        )?;
        Ok(Self {
            queue,
            workers: workers.items,
            judges: judges.items,
            readiness,
        })
    }

    /// What was checked and isn't well, by the check's name.
    pub(super) fn failed<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Check> {
        let checks = self.readiness.checks.iter().flatten();
        checks.filter(move |check| !check.ok && check.name == name)
    }
}

/// What keeps a judge's jobs waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alert {
    /// It doesn't answer, or not as it should.
    Silent,
    /// It isn't set up, and something is to be scored by it.
    Unset,
    /// It refuses the key, the model or the address, or its quota is used up.
    Refused,
    /// It limits our rate, and goes on by itself.
    Slow,
    /// A spending cap is reached.
    Capped,
    /// Somebody has paused it.
    Paused,
}

/// Whether a worker has ended, or wasn't heard for a minute. One whose heartbeat is late, as on a busy database, isn't given up by pages:
/// its jobs go to others after the lease, which is shorter.
pub(super) fn is_gone(worker: &Worker, now: DateTime<Utc>) -> bool {
    worker.state == WorkerState::Stopped || (!worker.alive && now - worker.heartbeat_at > HEARD)
}

/// Whether a worker was heard lately: "silent" doesn't stand beside "just now".
pub(super) fn is_heard(worker: &Worker, now: DateTime<Utc>) -> bool {
    worker.alive || now - worker.heartbeat_at < words::JUST_NOW
}

/// What today came to, as far as it is known.
pub(super) fn today(spent: &Spent) -> String {
    words::usd_at_least(spent.today_usd, spent.today_unpriced_calls)
}

/// What keeps a judge's jobs waiting; `None`: nothing, as far as its calls tell.
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

/// Why a judge lets nothing through, else how many of its calls failed.
pub(super) fn trouble(judge: &Judge) -> Option<String> {
    let stopped = judge.stopped().map(str::to_owned);
    stopped.or_else(|| judge.failing().map(|health| health.to_string()))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A process that is well.
    pub(in crate::dashboard) fn ready() -> Readiness {
        serde_json::from_value(json!({"status": "ok", "reasons": []})).unwrap()
    }

    /// A judge that answers, but for these fields.
    pub(in crate::dashboard) fn judge(name: &str, change: &Value) -> Judge {
        let spent = json!({"today_usd": 1.0, "month_usd": 1.0, "today_unpriced_calls": 0, "unpriced_calls": 0});
        let mut judge = json!({"name": name, "configured": true, "remedy": null, "simulated": false, "kinds": [],
            "hold": null, "gates": [], "spent": spent, "cap": null});
        for (field, value) in change.as_object().unwrap() {
            judge[field] = value.clone();
        }
        serde_json::from_value(judge).unwrap()
    }

    /// What `ann` stopped for this reason an hour before noon.
    pub(in crate::dashboard) fn hold(reason: &str, message: &str) -> Value {
        json!({"reason": reason, "message": message, "set_by": "ann", "since": "2026-11-23T11:00:00Z", "until": null})
    }

    /// A worker with two jobs in hand.
    pub(in crate::dashboard) fn worker(state: &str, alive: bool, heard: &str) -> Worker {
        let worker = json!({"worker_id": uuid::Uuid::nil(), "name": "w", "version": "1", "started_at": "2026-11-23T11:00:00Z",
            "heartbeat_at": heard, "in_hand": 2, "state": state, "alive": alive, "judges": null});
        serde_json::from_value(worker).unwrap()
    }

    #[test]
    fn what_stops_an_entry_isnt_told_of_each_of_its_models() {
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
