//! Wake-ups over pub/sub: one task that listens, and tells whoever waits in this process.
//!
//! It never carries data. A wake-up that is lost costs at most one poll.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use redis::Client;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The task that listens; it ends when this is dropped, or by [`Listener::close`].
pub(super) struct Listener {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Listener {
    /// Starts to listen on `channel`; each message leaves a permit in `heard`.
    pub(super) fn start(client: Client, channel: String, heard: Arc<Notify>) -> Self {
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

async fn listen(client: Client, channel: String, heard: Arc<Notify>) {
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(subscription) = subscribe(&client, &channel).await {
            pause = FIRST_PAUSE;
            let mut messages = subscription.into_on_message();
            // What was pushed before the subscription stood was not heard.
            heard.notify_one();
            while messages.next().await.is_some() {
                heard.notify_one();
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn subscribe(client: &Client, channel: &str) -> Option<redis::aio::PubSub> {
    let attempt = async {
        let mut subscription = client.get_async_pubsub().await?;
        subscription.subscribe(channel).await?;
        redis::RedisResult::Ok(subscription)
    };
    match tokio::time::timeout(CONNECT_TIMEOUT, attempt).await {
        Ok(Ok(subscription)) => Some(subscription),
        Ok(Err(error)) => {
            tracing::debug!(%error, "queue wake-ups not heard, polling meanwhile");
            None
        }
        Err(_) => {
            tracing::debug!("queue wake-ups not heard in time, polling meanwhile");
            None
        }
    }
}
