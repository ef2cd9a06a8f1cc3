//! Ends the items of cancelled batches, step by step. One worker at a time does.
//!
//! Rests as long as a step took: nobody else waits for more than one, and half of the database's time is the others'.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::Leadership;
use crate::clock::Clock;
use crate::store::{CancelStep, Cancelling, Store};

/// How often it looks for cancelled batches.
const PERIOD: Duration = Duration::from_secs(1);

/// Works until told to stop; whoever goes on begins with the first item again.
pub(super) async fn run(
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    leadership: Leadership,
    stop: CancellationToken,
) {
    let mut cancelling = Cancelling::default();
    loop {
        let began = Instant::now();
        let step = match leadership.leads() {
            true => {
                store
                    .batches()
                    .cancel_step(&mut cancelling, clock.now())
                    .await
            }
            false => Ok(CancelStep::Done),
        };
        let pause = match step {
            Ok(CancelStep::More) => began.elapsed(),
            Ok(CancelStep::Done) => PERIOD,
            Err(error) => {
                tracing::warn!(%error, "could not end items of cancelled batches; it tries again");
                PERIOD
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}
