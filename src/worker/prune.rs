//! Keeps the database from growing for ever: expired replies, old judge calls, imports that ended long ago, workers that are
//! long gone.
//!
//! What processes counted of finished days is folded into one row for each judge and model.
//!
//! Every worker prunes, once an hour; rows that another one took are no trouble. Jobs, sessions and scores are never
//! deleted.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::store::Store;

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(3600);

/// Prunes until told to stop.
pub(super) async fn run(
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    calls_kept: TimeDelta,
    stop: CancellationToken,
) {
    loop {
        let now = clock.now();
        match store.prune(now, now - calls_kept).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "pruned what is past its time"),
            Err(error) => tracing::warn!(%error, "could not prune; it tries again in an hour"),
        }
        if let Err(error) = store.fold_usage(now.date_naive()).await {
            tracing::warn!(%error, "could not fold what calls came to; it tries again in an hour");
        }
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = stop.cancelled() => return,
        }
    }
}
