//! Heartbeat of this worker. A worker without a confirmed last heartbeat claims no jobs.
//!
//! The store serves heartbeats before other statements, with a timeout of a third of a lease. The election decides which workers are dead.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::QueueConnection;
use crate::queue::backend::InHand;
use crate::store::{Heartbeat, Store, StoreError};
use crate::wire::WorkerState;

#[derive(Clone)]
pub(super) struct HeartbeatTask {
    store: Arc<Store>,
    /// Active jobs, state and queue connection are set with each heartbeat.
    beat: Heartbeat,
    in_hand: InHand,
    connection: QueueConnection,
    /// Send time of the last heartbeat, if it was confirmed.
    confirmed: Arc<Mutex<Option<Instant>>>,
}

impl HeartbeatTask {
    /// Registers the worker. If the database is slow or unavailable, a later heartbeat registers it, and claims no jobs until then.
    pub(super) async fn register(
        store: Arc<Store>,
        beat: Heartbeat,
        in_hand: InHand,
        connection: QueueConnection,
    ) -> Result<Self, StoreError> {
        let pulse = Self {
            store,
            beat,
            in_hand,
            connection,
            confirmed: Arc::default(),
        };
        match pulse.beat(WorkerState::Running).await {
            Ok(()) => {}
            Err(error @ StoreError::Unavailable { .. }) => {
                tracing::warn!(%error, "failed to register the worker; no jobs are claimed until a heartbeat succeeds");
            }
            Err(error) => return Err(error),
        }
        Ok(pulse)
    }

    /// Returns whether the last confirmed heartbeat is younger than a lease, so that other workers count this one as alive.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
            .lock()
            .is_some_and(|at| at.elapsed() < self.beat.lease)
    }

    /// Sends three heartbeats per lease until `ended`, and retries sooner after a failure. Reports the state draining once `draining` is
    /// cancelled.
    pub(super) async fn run(self, draining: CancellationToken, ended: CancellationToken) {
        let period = self.beat.lease / 3;
        loop {
            let state = if draining.is_cancelled() {
                WorkerState::Draining
            } else {
                WorkerState::Running
            };
            let pause = match self.beat(state).await {
                Ok(()) => period,
                Err(error) => {
                    metrics::counter!("gavel_heartbeats_missed_total").increment(1);
                    tracing::warn!(%error, "missed a heartbeat; no jobs are claimed until the next one succeeds");
                    period / 4
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ended.cancelled() => return,
            }
        }
    }

    /// Reports that the worker has stopped. If the write fails, other workers detect the missing heartbeat.
    pub(super) async fn stop(&self) {
        if let Err(error) = self.beat(WorkerState::Stopped).await {
            tracing::warn!(%error, "failed to store that this worker has stopped");
        }
    }

    async fn beat(&self, state: WorkerState) -> Result<(), StoreError> {
        let beat = Heartbeat {
            in_hand: i32::try_from(self.in_hand.count()).unwrap_or(i32::MAX),
            state,
            queue_away: self.connection.is_away(),
            ..self.beat.clone()
        };
        let sent = Instant::now();
        let beaten = self
            .store
            .workers()
            .heartbeat(&beat, self.beat.lease / 3)
            .await;
        *self.confirmed.lock() = beaten.is_ok().then_some(sent);
        beaten
    }
}
