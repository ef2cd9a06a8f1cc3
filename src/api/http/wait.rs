//! `Prefer: wait=N` (RFC 7240): holds an answer back until a job has ended or the time is up. Asks the store, never a queue.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use tokio::time::Instant;

use crate::api::ApiState;
use crate::job::{Job, JobId};

/// The shortest pause between two looks: what needs no call ends in a few milliseconds.
const SHORTEST_PAUSE: Duration = Duration::from_micros(1_500);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A pause is this part of the time waited so far: an answer comes at most a quarter late, and a call of a second costs
/// 26 looks.
const PART_OF_WAITED: u32 = 4;

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
        let begun = Instant::now();
        let limit = begun + Duration::from_secs(self.0.filter(|seconds| *seconds > 0)?);
        loop {
            let job = within(limit, state.store.jobs().get(id)).await?;
            if job.state.is_terminal() {
                return Some(job);
            }
            let now = Instant::now();
            if now >= limit || state.health.draining() {
                return None;
            }
            let pause = (now - begun) / PART_OF_WAITED;
            let look = now + pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            tokio::time::sleep_until(limit.min(look)).await;
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
    use super::*;

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
