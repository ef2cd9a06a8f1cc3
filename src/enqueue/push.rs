//! The task that pushes what was committed. A push is a hint: what gets lost, `rescue` pushes again.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::queue::{Push, Queue};

/// How many ids go into one push.
const PUSH_GROUP: usize = 500;

/// Pushes what was committed, in groups of what gathered meanwhile.
pub(super) async fn push_committed(
    queue: Arc<dyn Queue>,
    mut waiting: mpsc::Receiver<Push>,
    shutdown: CancellationToken,
) {
    let mut group = Vec::with_capacity(PUSH_GROUP);
    loop {
        tokio::select! {
            biased;
            n = waiting.recv_many(&mut group, PUSH_GROUP) => if n == 0 { return },
            () = shutdown.cancelled() => {
                waiting.close();
                if waiting.is_empty() {
                    return;
                }
                continue;
            }
        }
        if let Err(error) = queue.push(&group).await {
            tracing::warn!(%error, ids = group.len(), "could not push; rescue will");
            if shutdown.is_cancelled() {
                // What is left would hold up the shutdown, a timeout for each group.
                return;
            }
        }
        group.clear();
    }
}
