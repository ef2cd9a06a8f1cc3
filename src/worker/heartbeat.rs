//! Says that this worker lives, by the database's clock. A worker whose heartbeat is older than a lease is dead to the others.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::queue::backend::InHand;
use crate::store::{Store, WorkerState};

/// One worker's heartbeat.
#[derive(Clone)]
pub(super) struct Heartbeat {
    store: Arc<Store>,
    worker_id: Uuid,
    name: String,
    in_hand: InHand,
}

impl Heartbeat {
    /// Builds it; beats nothing yet.
    pub(super) fn new(store: Arc<Store>, worker_id: Uuid, name: String, in_hand: InHand) -> Self {
        Self {
            store,
            worker_id,
            name,
            in_hand,
        }
    }

    /// Beats every `period` until `ended`; from `draining` on it says so.
    pub(super) async fn run(
        self,
        period: Duration,
        draining: CancellationToken,
        ended: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = ended.cancelled() => return,
            }
            let state = if draining.is_cancelled() {
                WorkerState::Draining
            } else {
                WorkerState::Running
            };
            self.beat(state).await;
        }
    }

    /// Beats once. A beat that is missed is logged: the next one may arrive in time.
    pub(super) async fn beat(&self, state: WorkerState) {
        let in_hand = i32::try_from(self.in_hand.count()).unwrap_or(i32::MAX);
        let beat = self
            .store
            .heartbeat(
                self.worker_id,
                &self.name,
                env!("CARGO_PKG_VERSION"),
                in_hand,
                state,
            )
            .await;
        if let Err(error) = beat {
            tracing::warn!(%error, "missed a heartbeat");
        }
    }
}
