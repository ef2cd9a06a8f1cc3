//! Wake-ups over pub/sub: one task listens and notifies the waiters of this process.
//!
//! Messages carry no data. A lost wake-up costs at most one poll.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::redis_client::RedisClient;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Listener task. Dropping this or [`Listener::close`] ends it.
pub(super) struct Listener {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Listener {
    /// Listens on `channel`. Each message stores a permit in `heard`.
    pub(super) fn start(client: RedisClient, channel: String, heard: Arc<Notify>) -> Self {
        let stop = CancellationToken::new();
        let until = stop.clone();
        let task = tokio::spawn(async move {
            until
                .run_until_cancelled(listen(client, channel, heard))
                .await;
        });
        Self { stop, task }
    }

    pub(super) async fn close(mut self) {
        self.stop.cancel();
        // A panicked task has ended as well.
        drop((&mut self.task).await);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}

async fn listen(client: RedisClient, channel: String, heard: Arc<Notify>) {
    let mut pause = FIRST_PAUSE;
    loop {
        match client.subscribe(&channel).await {
            Ok(mut subscription) => {
                pause = FIRST_PAUSE;
                // Messages before the subscription were missed.
                heard.notify_one();
                while subscription.heard().await.is_some() {
                    heard.notify_one();
                }
            }
            Err(error) => {
                tracing::debug!(%error, "failed to subscribe to queue wake-ups, polling instead")
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
