//! Says that this worker lives, and knows whether the others believe it: a worker that can't say so claims nothing.
//!
//! A beat is served before other statements, and has a third of a lease. Never decides who is dead.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::QueueConnection;
use crate::queue::backend::InHand;
use crate::store::{Heartbeat, Store, StoreError};
use crate::wire::WorkerState;

#[derive(Clone)]
pub(super) struct Pulse {
    store: Arc<Store>,
    /// What is said; jobs in hand, state and connection are set with each beat.
    beat: Heartbeat,
    in_hand: InHand,
    connection: QueueConnection,
    /// When the last beat was sent, if it was confirmed.
    confirmed: Arc<Mutex<Option<Instant>>>,
}

impl Pulse {
    /// Registers the worker. While the database is slow or away, its later beats do so, and it claims nothing until one arrives.
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
                tracing::warn!(%error, "could not register yet; nothing is claimed until a heartbeat arrives");
            }
            Err(error) => return Err(error),
        }
        Ok(pulse)
    }

    /// Whether the others take this worker for alive: its last beat arrived, less than a lease ago.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
            .lock()
            .is_some_and(|at| at.elapsed() < self.beat.lease)
    }

    /// Beats three times a lease until `ended`, and sooner after a beat that failed; from `draining` on it says so.
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
                    tracing::warn!(%error, "missed a heartbeat; nothing is claimed until the next one arrives");
                    period / 4
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = ended.cancelled() => return,
            }
        }
    }

    /// Says that the worker has stopped. Where that can't be said, its silence will.
    pub(super) async fn stop(&self) {
        if let Err(error) = self.beat(WorkerState::Stopped).await {
            tracing::warn!(%error, "could not say that this worker has stopped");
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
