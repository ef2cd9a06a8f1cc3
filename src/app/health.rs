//! Health of this process apart from the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::SecondsFormat;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::AppError;
use crate::api::{HOLD, Health};
use crate::clock::{Clock, ClockSkew, MAX_SKEW};
use crate::enqueue::Enqueue;
use crate::job::WaitReason;
use crate::queue::Queue;
use crate::store::{Aged, Expired, HoldTarget, Store};

/// Timeout of a readiness probe's ping of Redis.
const PING: Duration = Duration::from_millis(300);
/// Timeout of all reads from the store. Results that are late are omitted.
const STORE_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct ProcessHealth {
    pub(super) store: Arc<Store>,
    pub(super) enqueue: Arc<Enqueue>,
    /// `None` if the queue is in this process, so that it can't be unavailable.
    pub(super) queue: Option<Arc<dyn Queue>>,
    pub(super) not_reloaded: Arc<Mutex<BTreeMap<&'static str, String>>>,
    /// Settings lowered because of the descriptor limit.
    pub(super) few_descriptors: Option<String>,
    pub(super) draining: CancellationToken,
    pub(super) clock: Arc<dyn Clock>,
}

impl ProcessHealth {
    /// Returns the judge's last error if its breaker is open in all live workers.
    async fn broken(&self, judge: &str) -> Option<String> {
        let gates = self.store.judges().list().await.ok()?;
        let mut of_judge = gates
            .into_iter()
            .filter(|gate| gate.name == judge)
            .peekable();
        of_judge.peek()?;
        let mut last = None;
        of_judge
            .all(|gate| {
                // A worker that learned of the failures from others has no error.
                last = last.take().or(gate.last_error);
                gate.closed == Some(WaitReason::BreakerOpen)
            })
            .then(|| {
                let error = last.take().unwrap_or_else(|| "calls failed".to_owned());
                format!(
                    "its breaker is open, and jobs wait until a probe succeeds: {judge}: {error}"
                )
            })
    }

    /// Returns the kinds of rows whose retention is stopped, each with the command that continues it.
    async fn rejected_limits(&self) -> Vec<String> {
        let refused = self.store.retention().refused().await.unwrap_or_default();
        let remedy = |expired: &Expired| {
            let flag = match expired.aged {
                Aged::Batches | Aged::Jobs => "jobs",
                Aged::Sessions => "sessions",
                Aged::Calls => "calls",
                Aged::Deliveries => "deliveries",
                Aged::Imports => "imports",
            };
            let before = expired.before.to_rfc3339_opts(SecondsFormat::Secs, true);
            format!(
                "retention has stopped: {expired}; check the clocks and the settings of retention, and if they are correct, run \
                 `gavel prune --{flag} --older-than {before} --more-than-half`"
            )
        };
        refused.iter().map(remedy).collect()
    }

    async fn no_worker(&self) -> Option<&'static str> {
        let workers = self.store.workers().list().await.ok()?;
        let alive = workers.iter().any(|worker| worker.alive);
        (!alive).then_some(
            "no worker is alive, and jobs wait: start one with the settings of this process (`gavel worker`)",
        )
    }

    /// Returns why the judge of sessions is stopped until an operator acts. An unavailable store is reported elsewhere.
    async fn closed(&self, judge: &str) -> Option<String> {
        let holds = self.store.holds().list(self.clock.now()).await.ok()?;
        let hold = holds.into_iter().find(|hold| {
            let by_itself = matches!(
                hold.reason,
                WaitReason::Misconfigured | WaitReason::Exhausted
            );
            by_itself && matches!(&hold.target, HoldTarget::Judge(name) if name == judge)
        })?;
        Some(format!(
            "{}: correct it, then `gavel judges resume {judge}`",
            hold.in_words()
        ))
    }
}

pub(crate) fn clocks_apart(skew: ClockSkew) -> String {
    format!(
        "{skew}: synchronize both (NTP); retention deletes no rows until they are within {} s",
        MAX_SKEW.num_seconds()
    )
}

#[async_trait]
impl Health for ProcessHealth {
    async fn degraded(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let by = Instant::now() + STORE_TIMEOUT;
        if let Some(why) = self.store.explain_outage().await {
            found.push(("storage", why));
        } else if let Ok(Ok(missing)) = timeout_at(by, self.store.missing_grants()).await
            && !missing.is_empty()
        {
            let why = AppError::MissingGrants(missing.join("; ")).to_string();
            found.push(("privileges", why));
        }
        if let Ok(Ok(locks)) = timeout_at(by, self.store.table_locks()).await
            && !locks.is_empty()
        {
            let why = format!("a table is locked: {}", locks.join("; "));
            found.push(("storage", why));
        }
        let skew = ClockSkew::of(self.clock.now());
        if skew.is_too_large() {
            found.push(("clock", clocks_apart(skew)));
        }
        let refused = timeout_at(by, self.rejected_limits()).await;
        let refused = refused.unwrap_or_default().into_iter();
        found.extend(refused.map(|why| ("retention", why)));
        if let Ok(Some(why)) = timeout_at(by, self.no_worker()).await {
            found.push(("workers", why.to_owned()));
        }
        let criteria = self.enqueue.current_criteria();
        if !criteria.enabled {
            let why = "scoring is disabled: set SCORING_ENABLED=true and reload";
            found.push(("scoring", why.to_owned()));
        } else if let Err(problem) = self.enqueue.check_judge(&criteria.judge) {
            found.push(("judge", problem.remedy));
        } else if let Ok(Some(why)) = timeout_at(by, self.closed(&criteria.judge)).await {
            found.push((HOLD, why));
        } else if let Ok(Some(why)) = timeout_at(by, self.broken(&criteria.judge)).await {
            found.push(("judge", why));
        }
        found.extend(self.not_reloaded.lock().clone());
        found.extend(self.few_descriptors.clone().map(|why| ("descriptors", why)));
        if let Some(queue) = &self.queue {
            // Kubernetes gives a probe one second, and a frozen Redis doesn't answer.
            let fault = match timeout(PING, queue.ping()).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some(format!("it didn't answer within {} ms", PING.as_millis())),
            };
            found.extend(fault.map(|fault| {
                let why = "the queue (Redis) is unavailable: due jobs are read from the database";
                ("queue", format!("{why}. {fault}"))
            }));
        }
        found
    }

    fn draining(&self) -> bool {
        self.draining.is_cancelled()
    }
}
