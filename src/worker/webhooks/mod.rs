//! Sends the rows of `webhook_deliveries`, in one worker at a time. Transactions that end jobs and batches insert the rows; the sending
//! worker inserts those about judges. A row stays until the receiver accepted it or its attempts are used up, so each event arrives at
//! least once, under one id.

mod body;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tokio::task::{JoinError, JoinSet};
use uuid::Uuid;

use self::body::body;
use super::chores::Chores;
use crate::job::WaitReason;
use crate::outbound::{Targets, Undelivered, WebhookMessage, WebhookSender, key_of};
use crate::store::{DeliveryRow, DeliveryTry, JudgeRow, StoreError, WebhookEndpoint};
use crate::wire::{DeliveryState, NewWebhook, WebhookEvent};

/// Interval of checks for due deliveries.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum concurrent deliveries to one receiver.
const MAX_CONCURRENT: u32 = 16;
/// Pauses after each failed attempt in seconds: the three-day schedule of the specification. After the last one, the delivery is given up.
const PAUSES_S: [u32; 9] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
/// The receiver no longer exists.
const GONE: u16 = 410;

#[derive(Debug, Clone)]
pub struct WebhookOptions {
    pub endpoints: Vec<NewWebhook>,
    pub targets: Targets,
    /// Minimum drop of a batch's mean, compared with the previous batch, that is reported; 0-1.
    pub mean_drop: f64,
}

pub(super) struct Webhooks {
    chores: Chores,
    options: WebhookOptions,
}

impl Webhooks {
    pub(super) fn new(chores: Chores, options: WebhookOptions) -> Self {
        Self { chores, options }
    }

    /// Sends until the worker stops. The next leader sends unconfirmed deliveries again, under the same id.
    pub(super) async fn run(self) {
        let sender = match WebhookSender::new(self.options.targets) {
            Ok(sender) => Arc::new(sender),
            Err(reason) => return tracing::error!(reason, "failed to start sending webhooks"),
        };
        let stop = self.chores.stop.clone();
        let (webhooks, mut judges) = (Arc::new(self), BTreeMap::new());
        // One task per receiver, so that a slow one doesn't block the others.
        let (mut sending, mut busy) = (JoinSet::new(), HashMap::new());
        let mut is_kept = false;
        loop {
            is_kept = is_kept || webhooks.keep_settings().await;
            while let Some(ended) = sending.try_join_next_with_id() {
                let task = ended
                    .as_ref()
                    .map_or_else(JoinError::id, |(task, ())| *task);
                busy.remove(&task);
            }
            if webhooks.chores.leadership.leads() {
                let due = webhooks.look(&mut judges).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "failed to read due webhooks; retrying");
                    Vec::new()
                });
                for endpoint in due {
                    let id = endpoint.endpoint_id;
                    if !busy.values().any(|other| *other == id) {
                        let task = webhooks.clone().send_due(sender.clone(), endpoint);
                        busy.insert(sending.spawn(task).id(), id);
                    }
                }
            } else {
                // Another worker leads and reports the judges.
                judges.clear();
            }
            if stop
                .run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL))
                .await
                .is_none()
            {
                return sending.shutdown().await;
            }
        }
    }

    /// Stores the endpoints of the settings. Returns whether it succeeded. A starting worker stores them as well if the database is
    /// available.
    async fn keep_settings(&self) -> bool {
        let (store, now) = (&self.chores.store, self.chores.clock.now());
        let kept = store.webhooks().keep_settings(&self.options.endpoints, now);
        kept.await.is_ok()
    }

    /// Inserts deliveries about judges, and returns the receivers with due deliveries.
    async fn look(
        &self,
        judges: &mut BTreeMap<String, Option<WaitReason>>,
    ) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let (store, now) = (&self.chores.store, self.chores.clock.now());
        let endpoints = store.webhooks().endpoints().await?;
        if endpoints.is_empty() {
            return Ok(endpoints);
        }
        let receivers = |event: WebhookEvent| -> Vec<Uuid> {
            let wanting = endpoints
                .iter()
                .filter(|endpoint| endpoint.events.contains(&event));
            wanting.map(|endpoint| endpoint.endpoint_id).collect()
        };
        let (closed, opened) = (
            receivers(WebhookEvent::JudgeClosed),
            receivers(WebhookEvent::JudgeOpened),
        );
        if !(closed.is_empty() && opened.is_empty()) {
            let rows = store.judges().list().await?;
            for (judge, reason) in closed_judges(&rows) {
                if judges.get(&judge) == Some(&reason) {
                    continue;
                }
                let to = if reason.is_some() { &closed } else { &opened };
                store.webhooks().judge_is(&judge, reason, to, now).await?;
                judges.insert(judge, reason);
            }
        }
        store.webhooks().due_endpoints(now).await
    }

    async fn send_due(self: Arc<Self>, sender: Arc<WebhookSender>, endpoint: WebhookEndpoint) {
        let sent = async {
            while self.chores.leadership.leads() {
                let (webhooks, now) = (self.chores.store.webhooks(), self.chores.clock.now());
                let due = webhooks
                    .due(endpoint.endpoint_id, now, MAX_CONCURRENT)
                    .await?;
                if due.is_empty() {
                    break;
                }
                let tries = due
                    .into_iter()
                    .map(|delivery| self.send(&sender, &endpoint, delivery));
                join_all(tries)
                    .await
                    .into_iter()
                    .collect::<Result<(), StoreError>>()?;
            }
            Ok::<(), StoreError>(())
        };
        if let Err(error) = sent.await {
            tracing::warn!(%error, "failed to store webhook results; retrying");
        }
    }

    async fn send(
        &self,
        sender: &WebhookSender,
        endpoint: &WebhookEndpoint,
        mut delivery: DeliveryRow,
    ) -> Result<(), StoreError> {
        if delivery.event == WebhookEvent::BatchMeanDropped
            && !self.has_dropped(&mut delivery).await?
        {
            return self
                .chores
                .store
                .webhooks()
                .forget(delivery.delivery_id)
                .await;
        }
        let (id, body) = (
            delivery.delivery_id.to_string(),
            body(endpoint.format, &delivery),
        );
        let message = WebhookMessage {
            id: &id,
            timestamp: self.chores.clock.now().timestamp(),
            body: &body,
        };
        let key = endpoint.secret.as_deref().and_then(key_of);
        let sent = sender.send(&endpoint.url, key.as_deref(), message).await;
        let at = self.chores.clock.now();
        let tried = match sent {
            Ok(status) => DeliveryTry {
                state: DeliveryState::Delivered,
                status: Some(status),
                error: None,
                at,
                due_at: at,
            },
            Err(undelivered) => {
                let pause = pause(delivery.attempts, &undelivered, fastrand::f64());
                let (webhook, attempt, error) =
                    (&endpoint.name, delivery.attempts + 1, &undelivered.reason);
                match pause {
                    Some(pause) => tracing::info!(
                        webhook,
                        delivery_id = id,
                        attempt,
                        error,
                        ?pause,
                        "webhook delivery failed; it will be retried"
                    ),
                    None => tracing::warn!(
                        webhook,
                        delivery_id = id,
                        attempt,
                        error,
                        "webhook delivery failed; giving up"
                    ),
                }
                DeliveryTry {
                    state: if pause.is_some() {
                        DeliveryState::Pending
                    } else {
                        DeliveryState::Failed
                    },
                    status: undelivered.status,
                    error: Some(undelivered.reason),
                    at,
                    due_at: at + pause.unwrap_or_default(),
                }
            }
        };
        self.chores
            .store
            .webhooks()
            .tried(delivery.delivery_id, &tried)
            .await
    }

    /// Returns whether a batch's mean has dropped, and adds the drop to the delivery. Computed once, so that each attempt sends the same
    /// body.
    async fn has_dropped(&self, delivery: &mut DeliveryRow) -> Result<bool, StoreError> {
        if delivery.data.get("mean").is_some() {
            return Ok(true);
        }
        let batch_id = delivery.data["batch_id"]
            .as_str()
            .and_then(|id| Uuid::try_parse(id).ok());
        let webhooks = self.chores.store.webhooks();
        let found = webhooks
            .mean_drop(batch_id.unwrap_or_default(), self.options.mean_drop)
            .await?;
        let Some(found) = found else {
            return Ok(false);
        };
        delivery.data["mean"] = json!(found.mean);
        delivery.data["mean_before"] = json!(found.mean_before);
        delivery.data["batch_before"] = json!(found.batch_before);
        webhooks.tell(delivery.delivery_id, &delivery.data).await?;
        Ok(true)
    }
}

/// Returns each judge with the reason why no worker starts its jobs, or `None` if some worker does.
fn closed_judges(rows: &[JudgeRow]) -> BTreeMap<String, Option<WaitReason>> {
    let mut judges: BTreeMap<String, Option<WaitReason>> = BTreeMap::new();
    for row in rows {
        let reason = closed(row);
        judges
            .entry(row.name.clone())
            .and_modify(|closed| *closed = closed.and(reason))
            .or_insert(reason);
    }
    judges
}

/// Returns why a worker starts no job of a judge. Rate limits are omitted because they pass quickly. A half-open breaker still counts as
/// closed.
fn closed(row: &JudgeRow) -> Option<WaitReason> {
    match row.closed {
        Some(
            reason @ (WaitReason::BreakerOpen
            | WaitReason::Exhausted
            | WaitReason::Misconfigured
            | WaitReason::Paused
            | WaitReason::Budget),
        ) => Some(reason),
        Some(_) | None => (row.breaker != "closed").then_some(WaitReason::BreakerOpen),
    }
}

/// Returns the pause after a failed attempt; `None` after the last one, or if the receiver no longer exists. Adds up to 10 % so that
/// retries spread out, and waits as long as the receiver asks.
fn pause(attempts_before: i32, undelivered: &Undelivered, random: f64) -> Option<Duration> {
    if undelivered.status == Some(GONE) {
        return None;
    }
    let seconds = *PAUSES_S.get(usize::try_from(attempts_before).ok()?)?;
    let pause = Duration::from_secs(seconds.into()).mul_f64(1.0 + random / 10.0);
    Some(pause.max(undelivered.retry_after.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn refused(status: u16, retry_after_s: Option<u64>) -> Undelivered {
        Undelivered {
            status: Some(status),
            reason: String::new(),
            retry_after: retry_after_s.map(Duration::from_secs),
        }
    }

    #[test]
    fn retries_follow_the_schedule_and_end() {
        let pauses: Vec<_> = (0..10)
            .map(|n| pause(n, &refused(500, None), 0.0).map(|p| p.as_secs()))
            .collect();
        let expected = PAUSES_S.iter().map(|s| Some(u64::from(*s))).chain([None]);
        assert_eq!(pauses, expected.collect::<Vec<_>>());
        for (status, asked, random, seconds) in [
            (429, Some(60), 0.0, Some(60.0)),
            (503, Some(1), 0.0, Some(5.0)),
            (500, None, 1.0, Some(5.5)),
            (410, Some(60), 0.0, None),
        ] {
            let found = pause(0, &refused(status, asked), random).map(|pause| pause.as_secs_f64());
            assert_eq!(found, seconds, "{status}");
        }
    }

    #[test]
    fn judge_is_closed_if_closed_for_all_workers() {
        let row = |breaker: &str, closed: Option<WaitReason>| JudgeRow {
            name: "gpt".to_owned(),
            worker_id: Uuid::nil(),
            breaker: breaker.to_owned(),
            closed,
            closed_until: None,
            failures_in_row: 0,
            in_flight: 0,
            last_error: None,
            last_error_at: None,
            pace: None,
            updated_at: DateTime::UNIX_EPOCH,
        };
        let (open, probes) = (
            row("open", Some(WaitReason::BreakerOpen)),
            row("half_open", Some(WaitReason::Throttled)),
        );
        let (well, paced) = (row("closed", None), row("closed", Some(WaitReason::Paced)));
        let paused = row("closed", Some(WaitReason::Paused));
        for (rows, closed) in [
            (vec![open.clone(), probes], Some(WaitReason::BreakerOpen)),
            (vec![open.clone(), well], None),
            (vec![paced, open], None),
            (vec![paused], Some(WaitReason::Paused)),
        ] {
            assert_eq!(closed_judges(&rows)["gpt"], closed, "{rows:?}");
        }
    }
}
