//! Events in Redis: one stream `{gavel:<queue>}:events` of about 10,000 entries, which an API process follows while it has listeners.
//!
//! Ids are assigned by Redis, so they outlive our processes. If the stream has lost the last id read (an empty Redis, a trimmed entry), the
//! follower detects that.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::{RedisError, Value};
use tokio_util::sync::CancellationToken;

use super::feed::KEPT;
use super::{Event, Events, EventsError, Feed, StoredEvent};
use crate::redis_client::RedisClient;

/// Blocking time of one read; shorter than the client's timeout.
const BLOCK_MS: u64 = 2_000;
const PAGE: usize = 1_000;
/// Time for which a stream is followed after the last listener disconnected, because browsers reconnect quickly.
const LINGER: Duration = Duration::from_secs(30);
/// Pause before the first reconnection; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Field of an entry that contains the event; empty for a mark.
const FIELD: &str = "e";

#[derive(Clone)]
pub struct RedisEvents {
    client: RedisClient,
    key: String,
}

impl std::fmt::Debug for RedisEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisEvents")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl RedisEvents {
    /// Prepares the stream of a queue. Connects on first use.
    #[must_use]
    pub fn new(client: RedisClient, queue: &str) -> Self {
        Self {
            client,
            key: format!("{{gavel:{queue}}}:events"),
        }
    }

    /// Returns the same stream with a separate connection that may be blocked by reads.
    fn apart(&self) -> Self {
        Self {
            client: self.client.apart(),
            key: self.key.clone(),
        }
    }

    async fn command(&self, command: &redis::Cmd) -> Result<Value, RedisError> {
        self.client.command(&self.key, command).await
    }

    /// Reads all entries. Adds a mark to an empty stream, so that there is an id from which to resume.
    async fn all(&self) -> Result<Vec<StoredEvent>, RedisError> {
        let mut newest_first = redis::cmd("XREVRANGE");
        newest_first
            .arg(&self.key)
            .arg("+")
            .arg("-")
            .arg("COUNT")
            .arg(KEPT);
        let mut events = entries(self.command(&newest_first).await?);
        if events.is_empty() {
            self.command(&self.add("")).await?;
            events = entries(self.command(&newest_first).await?);
        }
        events.reverse();
        Ok(events)
    }

    fn add(&self, text: &str) -> redis::Cmd {
        let mut add = redis::cmd("XADD");
        add.arg(&self.key)
            .arg("MAXLEN")
            .arg("~")
            .arg(KEPT)
            .arg("*")
            .arg(FIELD)
            .arg(text);
        add
    }

    /// Reads the entries after `last`. Returns `None` if `last` no longer exists.
    async fn behind(&self, last: &str) -> Result<Option<Vec<StoredEvent>>, RedisError> {
        let mut there = redis::cmd("XRANGE");
        there.arg(&self.key).arg(last).arg(last);
        let mut news = redis::cmd("XREAD");
        news.arg("COUNT")
            .arg(PAGE)
            .arg("BLOCK")
            .arg(BLOCK_MS)
            .arg("STREAMS")
            .arg(&self.key)
            .arg(last);
        if entries(self.command(&there).await?).is_empty() {
            return Ok(None);
        }
        let news = self.command(&news).await?;
        // The reply for one stream: [[key, [entry, ..]]], or nil.
        let news = items(news).into_iter().next().map(items);
        let news = news.and_then(|stream| stream.into_iter().nth(1));
        Ok(Some(news.map(entries).unwrap_or_default()))
    }
}

#[async_trait]
impl Events for RedisEvents {
    async fn append(&self, events: &[Event]) -> Result<(), EventsError> {
        let mut pipe = redis::pipe();
        for event in events {
            let text = serde_json::to_string(event).map_err(|error| EventsError {
                attempted: "writing an event",
                reason: error.to_string(),
            })?;
            pipe.add_command(self.add(&text)).ignore();
        }
        self.client
            .pipeline::<()>(&self.key, &pipe)
            .await
            .map_err(failed("appending events"))
    }
}

/// Fills `feed` from the stream while there are listeners, until `stop`. Reconnects after errors. Listeners stay connected and get all
/// events that still exist after an outage.
pub async fn follow(events: RedisEvents, feed: Arc<Feed>, stop: CancellationToken) {
    let mut last = None;
    let mut pause = FIRST_PAUSE;
    loop {
        // Without listeners, reading the stream would cost as much as the other work of a busy process.
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = async {
                feed.attended().await;
                read_along(&events, &feed, &mut last, &mut pause).await
            } => ended,
            () = feed.wait_until_idle(LINGER) => {
                last = None;
                continue;
            }
        };
        if let Err(error) = ended {
            feed.is_current(false);
            // The pause is reset once Redis has answered, so this logs once per outage.
            if pause == FIRST_PAUSE {
                tracing::warn!(%error, "failed to read events; retrying");
            } else {
                tracing::debug!(%error, "still failing to read events");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Reads entries on one connection until it fails. `last` is the last id in `feed`.
async fn read_along(
    events: &RedisEvents,
    feed: &Feed,
    last: &mut Option<String>,
    pause: &mut Duration,
) -> Result<(), RedisError> {
    let events = events.apart();
    loop {
        let behind = match last.as_deref() {
            Some(last) => events.behind(last).await?,
            None => None,
        };
        *pause = FIRST_PAUSE;
        let events = match behind {
            Some(events) => {
                *last = events
                    .last()
                    .map(|events| events.id.clone())
                    .or(last.take());
                feed.add(events);
                feed.is_current(true);
                continue;
            }
            None => events.all().await?,
        };
        *last = events.last().map(|events| events.id.clone());
        feed.replace(events);
        feed.is_current(true);
    }
}

/// Converts a range `[[id, [field, value]], ..]`. Skips malformed entries.
fn entries(range: Value) -> Vec<StoredEvent> {
    items(range)
        .into_iter()
        .filter_map(|entry| {
            let mut parts = items(entry).into_iter();
            let id = text(parts.next()?)?;
            let event = text(items(parts.next()?).into_iter().nth(1)?)?;
            // A mark, or an event of a newer version. It isn't sent, but its id is a position from which to resume.
            Some(StoredEvent::new(id, serde_json::from_str(&event).ok()))
        })
        .collect()
}

/// Returns the items of a list, or the pairs of a map, which RESP3 uses for streams by key.
fn items(value: Value) -> Vec<Value> {
    if let Value::Array(items) = value {
        items
    } else if let Value::Map(pairs) = value {
        pairs
            .into_iter()
            .map(|(key, value)| Value::Array(vec![key, value]))
            .collect()
    } else {
        Vec::new()
    }
}

fn text(value: Value) -> Option<String> {
    redis::from_redis_value(value).ok()
}

fn failed(attempted: &'static str) -> impl Fn(RedisError) -> EventsError {
    move |error| EventsError {
        attempted,
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn unknown_entry_becomes_mark() {
        let entry = |id: &str, text: &str| {
            Value::Array(vec![bulk(id), Value::Array(vec![bulk(FIELD), bulk(text)])])
        };
        let known = r#"{"type":"queue.paused","at":"2026-01-02T03:04:05Z"}"#;
        let newer = r#"{"type":"moon.risen","at":"2026-01-02T03:04:05Z"}"#;
        let range = vec![entry("1-0", ""), entry("2-0", known), entry("3-0", newer)];
        let events = entries(Value::Array(range));
        let ids: Vec<&str> = events.iter().map(|events| events.id.as_str()).collect();
        assert_eq!(ids, ["1-0", "2-0", "3-0"]);
        assert_eq!(
            events
                .iter()
                .map(|events| events.event.is_some())
                .collect::<Vec<_>>(),
            [false, true, false]
        );
        assert_eq!(entries(Value::Nil), []);
    }

    #[test]
    fn reads_stream_reply_of_both_protocols() {
        let pair = [bulk("key"), Value::Array(Vec::new())];
        let resp2 = Value::Array(vec![Value::Array(pair.to_vec())]);
        let [key, stream] = pair;
        let resp3 = Value::Map(vec![(key, stream)]);
        assert_eq!(items(resp3), items(resp2));
    }
}
