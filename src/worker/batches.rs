//! Settles batches that are complete, over budget or aborted during creation. The leader does this once a second.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::events::{Announcer, Event, EventType};
use crate::job::WaitReason;
use crate::store::{Store, StoreError};

/// A batch in creation without a heartbeat of its creator for this long was aborted.
const SILENT: Duration = Duration::from_secs(60);

pub(super) async fn settle(
    store: &Store,
    events: &Announcer,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    for batch_id in store.batches().without_items_left().await? {
        if let Some(batch) = store.batches().complete(batch_id, now).await? {
            events.announce(Event::of_batch(
                EventType::BatchCompleted,
                batch.batch_id,
                batch.kind,
                now,
            ));
        }
    }
    for (batch_id, kind) in store.budgets().spent_batches().await? {
        tracing::info!(%batch_id, "batch over budget, paused");
        events.announce(Event {
            reason: Some(WaitReason::Budget),
            ..Event::of_batch(EventType::BatchPaused, batch_id, kind, now)
        });
    }
    for batch_id in store.batches().remove_silent(SILENT).await? {
        tracing::warn!(%batch_id, "removed an incomplete batch after its creator died");
    }
    Ok(())
}
