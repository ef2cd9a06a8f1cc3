//! GET `/api/v1/events`: Server-Sent Events from the process's feed, without store queries.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::ApiError;
use crate::clock::Clock;
use crate::events::{Event, EventType, Feed, Heard, Listener, Start, StoredEvent};
use crate::wire::Problem;

/// Reconnect delay of clients, milliseconds.
const RETRY_MS: u64 = 2_000;
/// Maximum duration of a stream, so that a revoked token or sign-in loses access.
const MAX_STREAM_DURATION: Duration = Duration::from_secs(600);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const MAX_EVENTS_PER_CHUNK: usize = 64;
/// Maximum wait of a new stream for events from before this process.
const FILL_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub struct Streams {
    feed: Arc<Feed>,
    slots: Arc<Semaphore>,
    max: usize,
    stopping: CancellationToken,
}

impl Streams {
    /// Allows `max` concurrent streams of `feed`. Each sends `bye` and ends when `stopping` is cancelled.
    pub fn new(feed: Arc<Feed>, max: usize, stopping: CancellationToken) -> Self {
        Self {
            feed,
            slots: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            max,
            stopping,
        }
    }

    /// Subscribes to events from now on, until the listener is dropped. Uses no stream slot.
    pub(crate) fn listen(&self) -> Listener {
        self.feed.attend().listen(None).0
    }
}

/// Streams events as they happen.
///
/// Server-Sent Events: each has an `id`, its type as `event` and one line of JSON as `data`. The first event is
/// `hello`. `Last-Event-ID` resumes after an event, without gaps or repetitions. `reset` means that events were lost or
/// the id is unknown or expired: read your data again by GET. `interrupted` means that the event log (Redis) is
/// unavailable and no events arrive until `restored`: poll by GET until then. A stopping process sends `bye`. Events
/// are hints; GET is authoritative. A stream also ends with `bye` after ten minutes: reconnect.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "events", operation_id = "events",
    params(
        EventsQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "The id behind which the stream resumes"),
    ),
    responses(
        (status = 200, description = "The stream; `data` is an Event", body = Event, content_type = "text/event-stream", headers(
            ("X-Accel-Buffering" = String, description = "`no`: a proxy should hand each event on at once"))),
        (status = 503, description = "too-many-streams, database-unavailable", body = Problem, content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds"))),
    ),
)]
pub(crate) async fn events(
    state: ApiState,
    headers: HeaderMap,
    Query(filter): Query<EventsQuery>,
) -> Result<Response, ApiError> {
    let last_id = headers
        .get("last-event-id")
        .map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned())
        .filter(|id| !id.is_empty())
        .or_else(|| filter.last_event_id.clone());
    let streams = &state.streams;
    let slot = streams.slots.clone().try_acquire_owned();
    let slot = slot.map_err(|_| ApiError::TooManyStreams(streams.max))?;
    let attendance = streams.feed.attend();
    tokio::select! {
        // Starts even if the event log is unavailable. An earlier id is unknown then.
        _ = tokio::time::timeout(FILL_TIMEOUT, attendance.filled()) => {}
        () = streams.stopping.cancelled() => {}
    }
    let (listener, start) = attendance.listen(last_id.as_deref());
    let stream = EventStream {
        listener,
        filter,
        clock: state.clock.clone(),
        stopping: streams.stopping.clone(),
        beat: Instant::now() + KEEP_ALIVE_INTERVAL,
        ends: Instant::now() + MAX_STREAM_DURATION,
        greeting: Some(start),
        _slot: slot,
        _counted: Counted::new(),
    };
    let pieces = futures::stream::unfold(Some(stream), |stream| async {
        let (piece, rest) = stream?.piece().await;
        Some((Ok::<_, Infallible>(piece), rest))
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct EventsQuery {
    /// Types of events, separated by commas; default: all
    #[param(style = Form, explode = false, example = json!(["job.succeeded", "job.failed"]))]
    types: Vec<EventType>,
    /// Events of one job
    job_id: Option<Uuid>,
    /// Events of the jobs of one session
    session_id: Option<Uuid>,
    /// Events of one judge and of its jobs
    judge: Option<String>,
    /// As the header, for clients that can't set it
    last_event_id: Option<String>,
}

impl QueryPart for EventsQuery {}

impl EventsQuery {
    fn takes(&self, event: &Event) -> bool {
        let same = |wanted: Option<Uuid>, it: Option<Uuid>| wanted.is_none() || wanted == it;
        event.event == EventType::Reset
            || (self.types.is_empty() || self.types.contains(&event.event))
                && same(self.job_id, event.job_id.map(|id| id.0))
                && same(self.session_id, event.session_id)
                && (self.judge.is_none() || self.judge == event.judge)
    }
}

struct EventStream {
    listener: Listener,
    filter: EventsQuery,
    clock: Arc<dyn Clock>,
    stopping: CancellationToken,
    /// Time of the next keep-alive message.
    beat: Instant,
    /// Time of the end. The client reconnects and is authorized again.
    ends: Instant,
    /// Start of the stream, until sent.
    greeting: Option<Start>,
    _slot: OwnedSemaphorePermit,
    _counted: Counted,
}

/// Counts an open stream in the metric.
struct Counted;

impl Counted {
    fn new() -> Self {
        metrics::gauge!("gavel_event_streams").increment(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!("gavel_event_streams").decrement(1.0);
    }
}

impl EventStream {
    /// Returns the next chunk and the rest of the stream, or `None` after the last chunk.
    async fn piece(mut self) -> (String, Option<Self>) {
        if let Some(start) = self.greeting.take() {
            return (self.hello(start), Some(self));
        }
        loop {
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return (self.bye(), None),
                () = tokio::time::sleep_until(self.ends) => return (self.bye(), None),
                heard = self.listener.next(MAX_EVENTS_PER_CHUNK) => {
                    let piece = self.written(heard);
                    if !piece.is_empty() {
                        self.beat = Instant::now() + KEEP_ALIVE_INTERVAL;
                        return (piece, Some(self));
                    }
                }
                () = tokio::time::sleep_until(self.beat) => {
                    self.beat = Instant::now() + KEEP_ALIVE_INTERVAL;
                    // An id without data advances the resume position past filtered events.
                    return (format!("id: {}\n: still here\n\n", self.listener.last_id()), Some(self));
                }
            }
        }
    }

    fn hello(&self, start: Start) -> String {
        let id = self.listener.last_id();
        let data =
            json!({ "type": "hello", "at": self.clock.now(), "resumed": start == Start::Resumed });
        let mut text = format!("retry: {RETRY_MS}\n");
        push(&mut text, id, "hello", &data.to_string());
        match start {
            Start::Unknown => self.push_reset(&mut text, id),
            Start::Now | Start::Resumed => {}
        }
        text
    }

    fn bye(&self) -> String {
        let data = json!({ "type": "bye", "at": self.clock.now(), "retry_ms": RETRY_MS });
        let mut text = format!("retry: {RETRY_MS}\n");
        push(&mut text, self.listener.last_id(), "bye", &data.to_string());
        text
    }

    fn written(&self, heard: Heard) -> String {
        let mut text = String::new();
        match heard {
            Heard::Lost(id) => self.push_reset(&mut text, &id),
            Heard::Interrupted => self.push_own(&mut text, "interrupted"),
            Heard::Restored => self.push_own(&mut text, "restored"),
            Heard::Events(events) => {
                for stored in events {
                    let event = stored.event.as_ref();
                    if let Some(event) = event.filter(|event| self.filter.takes(event)) {
                        push(&mut text, &stored.id, event.event.as_str(), stored.data());
                    }
                }
            }
        }
        text
    }

    /// Adds an event about the stream itself. It has no id.
    fn push_own(&self, text: &mut String, event: &str) {
        let data = json!({ "type": event, "at": self.clock.now() });
        push(text, self.listener.last_id(), event, &data.to_string());
    }

    fn push_reset(&self, text: &mut String, id: &str) {
        let reset = Event::new(EventType::Reset, self.clock.now());
        let stored = StoredEvent::new(id.to_owned(), Some(reset));
        push(text, id, EventType::Reset.as_str(), stored.data());
    }
}

fn push(text: &mut String, id: &str, event: &str, data: &str) {
    // Writing to a String can't fail.
    let _ = write!(text, "id: {id}\nevent: {event}\ndata: {data}\n\n");
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn event() -> Event {
        Event {
            job_id: Some(crate::job::JobId(Uuid::from_u128(1))),
            session_id: Some(Uuid::from_u128(2)),
            judge: Some("main".to_owned()),
            ..Event::new(EventType::JobSucceeded, DateTime::UNIX_EPOCH)
        }
    }

    #[test]
    fn filter_conditions_are_combined_and_reset_always_passes() {
        let all = EventsQuery::default();
        let other = |filter: EventsQuery| {
            let reset = Event::new(EventType::Reset, DateTime::UNIX_EPOCH);
            assert!(filter.takes(&reset), "{filter:?}");
            filter.takes(&event())
        };
        assert!(other(all.clone()));
        let fitting = EventsQuery {
            types: vec![EventType::JobFailed, EventType::JobSucceeded],
            job_id: Some(Uuid::from_u128(1)),
            session_id: Some(Uuid::from_u128(2)),
            judge: Some("main".to_owned()),
            last_event_id: None,
        };
        assert!(other(fitting.clone()));
        for wrong in [
            EventsQuery {
                types: vec![EventType::JobFailed],
                ..fitting.clone()
            },
            EventsQuery {
                job_id: Some(Uuid::from_u128(9)),
                ..fitting.clone()
            },
            EventsQuery {
                session_id: Some(Uuid::from_u128(9)),
                ..fitting.clone()
            },
            EventsQuery {
                judge: Some("other".to_owned()),
                ..fitting
            },
        ] {
            assert!(!other(wrong));
        }
    }
}
