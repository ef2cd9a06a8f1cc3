//! Wake-ups over pub/sub: one task that listens, and tells whoever waits in this process.
//!
//! It never carries data. A wake-up that is lost costs at most one poll.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::redis_client::RedisClient;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The task that listens; it ends when this is dropped, or by [`Listener::close`].
pub(super) struct Listener {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Listener {
    /// Starts to listen on `channel`; each message leaves a permit in `heard`.
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

    /// Ends the task and waits for its end.
    pub(super) async fn close(mut self) {
        self.stop.cancel();
        // A task that panicked has ended too, which is all that is asked for.
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
                // What was pushed before the subscription stood was not heard.
                heard.notify_one();
                while subscription.heard().await.is_some() {
                    heard.notify_one();
                }
            }
            Err(error) => tracing::debug!(%error, "queue wake-ups not heard, polling meanwhile"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
