//! Clock of a process: the database's if the database is shared, otherwise the machine's.
//!
//! The database's clock is read every two seconds, so that a changed clock or a failover is followed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::AppError;
use crate::clock::{Clock, DatabaseClock, DatabaseTime, SystemClock};
use crate::store::{Store, StoreError};

const PERIOD: Duration = Duration::from_secs(2);
/// The first read opens a connection and is slow, so the best of several is used.
const FIRST_READINGS: usize = 4;

/// Opens the clock and starts the task that adjusts it until `stop`.
pub(super) async fn open(
    store: &Arc<Store>,
    stop: CancellationToken,
) -> Result<(Arc<dyn Clock>, impl Future<Output = ()> + Send + 'static), AppError> {
    let unread = |error: StoreError| AppError::Unreachable(error.to_string());
    let first = read(store).await.map_err(unread)?;
    let database = first.map(|first| Arc::new(DatabaseClock::new(first)));
    let clock: Arc<dyn Clock> = match &database {
        Some(clock) => clock.clone(),
        None => Arc::new(SystemClock),
    };
    let store = store.clone();
    if let Some(clock) = &database {
        for _ in 1..FIRST_READINGS {
            if let Ok(Some(reading)) = read(&store).await {
                clock.correct(reading);
            }
        }
    }
    let follow = async move {
        if let Some(clock) = database {
            follow(&store, &clock, stop).await;
        }
    };
    Ok((clock, follow))
}

async fn follow(store: &Store, clock: &DatabaseClock, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = stop.cancelled() => return,
        }
        match read(store).await {
            Ok(Some(reading)) => {
                if let Some(by) = clock.correct(reading) {
                    tracing::warn!(
                        by_ms = by.num_milliseconds(),
                        "database clock was set, following it"
                    );
                }
            }
            Ok(None) => return,
            Err(error) => tracing::debug!(%error, "failed to read the database's clock"),
        }
    }
}

/// Returns `None` if the database uses this machine's clock.
async fn read(store: &Store) -> Result<Option<DatabaseTime>, StoreError> {
    let asked = Instant::now();
    let time = store.database_time().await?;
    Ok(time.map(|time| DatabaseTime::new(time, asked, Instant::now())))
}
