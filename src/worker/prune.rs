//! Keeps the database from growing for ever: expired replies, old judge calls, imports that ended long ago, workers that are
//! long gone.
//!
//! What processes counted of finished days is folded into one row for each judge and model.
//!
//! One worker at a time prunes, once an hour. Jobs, sessions and scores are never
//! deleted.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::Leadership;
use crate::clock::Clock;
use crate::store::Store;

/// How often it prunes.
const PERIOD: Duration = Duration::from_secs(3600);
/// How often it looks whether this worker leads by now.
const LOOK: Duration = Duration::from_secs(1);

/// Prunes until told to stop.
pub(super) async fn run(
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    calls_kept: TimeDelta,
    leadership: Leadership,
    stop: CancellationToken,
) {
    let mut pruned_at: Option<Instant> = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = stop.cancelled() => return,
        }
        if !leadership.leads() || pruned_at.is_some_and(|at| at.elapsed() < PERIOD) {
            continue;
        }
        pruned_at = Some(Instant::now());
        let now = clock.now();
        match store.prune(now, now - calls_kept).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "pruned what is past its time"),
            Err(error) => tracing::warn!(%error, "could not prune; it tries again in an hour"),
        }
        if let Err(error) = store.budgets().fold_usage(now.date_naive()).await {
            tracing::warn!(%error, "could not fold what calls came to; it tries again in an hour");
        }
    }
}
