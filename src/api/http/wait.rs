//! `Prefer: wait=N` (RFC 7240): delays the response until a job has ended or the time is up. Polls the store; events trigger a poll early.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use tokio::time::Instant;

use crate::api::ApiState;
use crate::events::{EventType, Heard, Listener};
use crate::job::{Job, JobId};

/// Minimum poll interval. Jobs without a judge call end in a few milliseconds.
const MIN_POLL_INTERVAL: Duration = Duration::from_micros(1_500);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval from which events are subscribed, because faster jobs don't need them.
const SUBSCRIBE_FROM_INTERVAL: Duration = Duration::from_millis(50);
/// The poll interval is this fraction of the elapsed time.
const POLL_INTERVAL_DIVISOR: u32 = 4;
const MAX_EVENTS_PER_READ: usize = 256;

/// Requested wait in seconds, limited by the settings. `None`: not requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefer(pub(crate) Option<u64>);

impl FromRequestParts<ApiState> for Prefer {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &ApiState,
    ) -> Result<Self, Self::Rejection> {
        Ok(Self::read(&parts.headers, state.http.max_wait_s))
    }
}

impl Prefer {
    /// Parses the header. Invalid preferences are ignored, as in RFC 7240.
    fn read(headers: &HeaderMap, max: u64) -> Self {
        let wait = headers
            .get_all("prefer")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split([',', ';']))
            .filter_map(|preference| preference.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))
            .and_then(|(_, seconds)| seconds.trim().trim_matches('"').parse::<u64>().ok());
        Self(wait.map(|seconds| seconds.min(max)))
    }

    /// Adds the header `Preference-Applied`.
    pub(crate) fn mark(self, mut response: Response) -> Response {
        if let Some(seconds) = self.0
            && let Ok(value) = HeaderValue::from_str(&format!("wait={seconds}"))
        {
            let name = HeaderName::from_static("preference-applied");
            response.headers_mut().insert(name, value);
        }
        response
    }

    /// Returns the job once it has ended. `None` if it still runs, the process stops, or the store fails or hangs: the
    /// job is accepted and the client can poll.
    pub(crate) async fn ended(self, state: &ApiState, id: JobId) -> Option<Job> {
        let limit = Instant::now() + Duration::from_secs(self.0.filter(|seconds| *seconds > 0)?);
        let look = || async {
            let job = within(limit, state.store.jobs().get(id)).await?;
            match job.state.is_terminal() {
                true => Some(Some(job)),
                false => (!state.health.draining()).then_some(None),
            }
        };
        watch(limit, look, || state.streams.listen(), id).await
    }
}

/// Polls until a result, the time limit, or a poll that gives up (`None`).
async fn watch<T, F: Future<Output = Option<Option<T>>>>(
    limit: Instant,
    look: impl Fn() -> F,
    listen: impl Fn() -> Listener,
    id: JobId,
) -> Option<T> {
    let begun = Instant::now();
    let mut listener = None;
    loop {
        if let Some(found) = look().await? {
            return Some(found);
        }
        let now = Instant::now();
        if now >= limit {
            return None;
        }
        let pause =
            ((now - begun) / POLL_INTERVAL_DIVISOR).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL);
        let next = limit.min(now + pause);
        match &mut listener {
            None if pause < SUBSCRIBE_FROM_INTERVAL => tokio::time::sleep_until(next).await,
            // Another poll detects changes before the subscription.
            None => listener = Some(listen()),
            Some(listener) => {
                // Without an event, the poll is due anyway.
                let _ = tokio::time::timeout_at(next, wait_for_event(listener, id)).await;
            }
        }
    }
}

/// Waits until an event of the job arrives, or may have been missed.
async fn wait_for_event(listener: &mut Listener, id: JobId) {
    loop {
        match listener.next(MAX_EVENTS_PER_READ).await {
            Heard::Lost(_) | Heard::Restored => return,
            Heard::Interrupted => {}
            Heard::Events(events) => {
                let mut events = events.iter().filter_map(|stored| stored.event.as_ref());
                if events.any(|event| event.job_id == Some(id) || event.event == EventType::Reset) {
                    return;
                }
            }
        }
    }
}

/// Limits a store query to the wait's limit, so that a hanging store doesn't delay the response.
async fn within<E>(
    limit: Instant,
    look: impl Future<Output = Result<Option<Job>, E>>,
) -> Option<Job> {
    tokio::time::timeout_at(limit, look).await.ok()?.ok()?
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;
    use crate::events::{Event, Events as _, Feed};

    #[tokio::test(start_paused = true)]
    async fn wait_ends_by_event_or_poll() {
        let ends_after = Duration::from_millis(2_003);
        let id = JobId(Uuid::from_u128(1));
        for (told, late) in [(true, false), (false, true)] {
            let (feed, looks) = (Arc::new(Feed::new()), AtomicU32::new(0));
            let begun = Instant::now();
            let look = || async {
                looks.fetch_add(1, Ordering::Relaxed);
                Some((begun.elapsed() >= ends_after).then_some(()))
            };
            let ending = async {
                tokio::time::sleep(ends_after).await;
                let event = Event {
                    job_id: told.then_some(id),
                    ..Event::new(EventType::JobSucceeded, DateTime::UNIX_EPOCH)
                };
                feed.append(&[event]).await.unwrap();
            };
            let watching = watch(
                begun + Duration::from_secs(9),
                look,
                || feed.listen(None).0,
                id,
            );
            let (found, ()) = tokio::join!(watching, ending);
            assert_eq!(found, Some(()));
            assert_eq!(begun.elapsed() > ends_after, late, "told: {told}");
            assert!(looks.into_inner() < 40);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wait_ends_at_limit_if_store_hangs() {
        let begun = Instant::now();
        let hangs = std::future::pending::<Result<_, ()>>();
        let ended = within(begun + Duration::from_secs(5), hangs).await;
        assert_eq!(ended, None);
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
    }

    #[test]
    fn parses_wait_preference_and_limits_it() {
        for (text, expected) in [
            ("wait=5", Some(5)),
            ("respond-async, wait=10", Some(10)),
            ("WAIT = \"7\"", Some(7)),
            ("wait=3600", Some(60)),
            ("wait=0", Some(0)),
            ("wait=-1", None),
            ("wait", None),
            ("respond-async", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", text.parse().unwrap());
            assert_eq!(Prefer::read(&headers, 60).0, expected, "{text}");
        }
    }
}
