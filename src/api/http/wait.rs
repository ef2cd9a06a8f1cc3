//! `Prefer: wait=N` (RFC 7240): holds an answer back until a job has ended or the time is up. Asks the store, never a queue; an
//! event says when to ask.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use tokio::time::Instant;

use crate::api::ApiState;
use crate::events::{EventType, Heard, Listener};
use crate::job::{Job, JobId};

/// The shortest pause between two looks: what needs no call ends in a few milliseconds.
const SHORTEST_PAUSE: Duration = Duration::from_micros(1_500);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// From this pause on events are listened to; what ends sooner is not worth following them.
const LISTENING_FROM: Duration = Duration::from_millis(50);
/// A pause is this part of the time waited so far.
const PART_OF_WAITED: u32 = 4;
/// How many events are heard at once.
const PAGE: usize = 256;

/// How long the client would wait, cut to what is allowed; `None`: it asked for nothing.
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
    /// A preference that makes no sense is left aside, as RFC 7240 has it.
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

    /// Says in the answer that the preference was heard.
    pub(crate) fn mark(self, mut response: Response) -> Response {
        if let Some(seconds) = self.0
            && let Ok(value) = HeaderValue::from_str(&format!("wait={seconds}"))
        {
            let name = HeaderName::from_static("preference-applied");
            response.headers_mut().insert(name, value);
        }
        response
    }

    /// The job once it has ended; `None` if it goes on, the process stops, or the store doesn't answer, be it that it only
    /// hangs: the job is accepted, and the client can ask again.
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

/// Looks until there is something, the time is up, or a look says that there is no use in it (`None`).
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
        let pause = ((now - begun) / PART_OF_WAITED).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let next = limit.min(now + pause);
        match &mut listener {
            None if pause < LISTENING_FROM => tokio::time::sleep_until(next).await,
            // What happened before is seen by another look.
            None => listener = Some(listen()),
            Some(listener) => {
                // Without an event the look is due all the same.
                let _ = tokio::time::timeout_at(next, heard_of(listener, id)).await;
            }
        }
    }
}

/// Waits until something was heard of a job, or may have been missed.
async fn heard_of(listener: &mut Listener, id: JobId) {
    loop {
        match listener.next(PAGE).await {
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

/// What a look at the store finds, given up at the wait's limit: a store that hangs holds no answer back.
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
    async fn an_event_ends_a_wait_and_without_one_a_look_does() {
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
    async fn a_wait_ends_at_its_limit_though_the_store_hangs() {
        let begun = Instant::now();
        let hangs = std::future::pending::<Result<_, ()>>();
        let ended = within(begun + Duration::from_secs(5), hangs).await;
        assert_eq!(ended, None);
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
    }

    #[test]
    fn a_wait_is_found_among_preferences_and_cut_to_what_is_allowed() {
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
