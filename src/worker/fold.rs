//! Folds what days come to, so that a look at years is quick. One worker at a time does.
//!
//! Never a condition for right figures: a day that isn't folded is counted from its sessions.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::Leadership;
use crate::store::{DaysFolded, Store};

/// How long it rests when no other day is marked: so often, a day that changes all the time is folded.
const REST: Duration = Duration::from_secs(15);
/// How many times as long as a fold took it rests at least: a day of very many sessions that changes all the time costs a
/// twentieth of a core.
const RESTS: u32 = 19;

/// Folds until told to stop.
pub(super) async fn run(store: Arc<Store>, leadership: Leadership, stop: CancellationToken) {
    loop {
        let began = Instant::now();
        let folded = match leadership.leads() {
            true => store.analytics().fold_days().await,
            false => Ok(DaysFolded::default()),
        };
        let pause = match folded {
            Ok(folded) => {
                let took = began.elapsed();
                match folded.more {
                    // As long as itself: on SQLite nobody else writes during one.
                    true => took,
                    false => (took * RESTS).max(REST),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "could not fold what days come to; it tries again");
                REST
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}
