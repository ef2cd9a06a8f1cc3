//! `Idempotency-Key`: a POST that is sent twice is done once. One layer for every POST; without the header it costs nothing.
//!
//! A key is scoped by the token's name (or by that of a user who came in by groups), the method and the path, and kept 24 h with a hash of the request (query and body,
//! byte by byte, after inflation; of a batch its digest). Only an answer of success is kept: after a refusal the key is free again. An error of
//! ours leaves open whether something was done, and a job that failed or was cancelled was made: the same request then
//! goes on under the same effect's id, see [`ReservedEffect`].

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;
use uuid::Uuid;

use super::auth::Caller;
use super::links::BATCHES;
use super::problem::{ApiError, FaultStatus};
use super::spool::Spooled;
use crate::api::ApiState;
use crate::api::http;
use crate::clock::Clock;
use crate::config::HttpSettings;
use crate::enqueue::NewId;
use crate::job::JobId;
use crate::store::{KeptAnswer, KeyUse, Reserved, Store};
use crate::wire::Problem;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The header that marks an answer that was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest key, characters.
const MAX_KEY: usize = 255;
/// How long a key is kept.
const KEPT: TimeDelta = TimeDelta::hours(24);
/// How long a key stays locked when its process dies.
const LOCK: TimeDelta = TimeDelta::seconds(15);
/// How often the lock is renewed while the request is worked on.
const RENEW: Duration = Duration::from_secs(5);
/// The largest answer that can be kept, bytes; far beyond those of our handlers, who hold them in memory.
const MAX_ANSWER: usize = 64 << 20;
/// What is kept of an answer's headers.
const KEPT_HEADERS: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::LOCATION,
    header::RETRY_AFTER,
    HeaderName::from_static("preference-applied"),
];
/// Where faults of a request are 400.
const SCORING_ROUTES: &str = "/api/v1/scoring/sessions/";

/// What the layer works with.
pub(crate) struct Keys {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The limits of bodies.
    pub(crate) http: HttpSettings,
    /// Requests with a key, which go on when their client is gone.
    pub(crate) running: TaskTracker,
}

/// The effect of a request with a key: what it makes gets this id, on the second try too.
///
/// A handler takes it unless doing its work twice is the same as doing it once: that is what holds when a process dies
/// between the effect and the kept answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReservedEffect(Option<Reservation>);

#[derive(Debug, Clone, Copy)]
struct Reservation {
    id: Uuid,
    since: DateTime<Utc>,
    repeated: bool,
}

impl ReservedEffect {
    /// The id of the job that the request makes.
    pub(crate) fn new_id(self) -> NewId {
        match self.0 {
            None => NewId::Any,
            Some(Reservation {
                id, repeated: true, ..
            }) => NewId::Repeated(JobId(id)),
            Some(Reservation {
                id,
                repeated: false,
                ..
            }) => NewId::Reserved(JobId(id)),
        }
    }

    /// The id of what the request makes, and whether an earlier try may have made it; `None`: any new one.
    pub(crate) fn id(self) -> Option<(Uuid, bool)> {
        self.0
            .map(|reservation| (reservation.id, reservation.repeated))
    }

    /// When the first try began, if this is another one.
    pub(crate) fn tried_before(self) -> Option<DateTime<Utc>> {
        self.0
            .filter(|reservation| reservation.repeated)
            .map(|reservation| reservation.since)
    }
}

impl FromRequestParts<ApiState> for ReservedEffect {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        _state: &ApiState,
    ) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.extensions.get::<Reservation>().copied()))
    }
}

/// Does a POST with a key once.
pub(crate) async fn once(State(keys): State<Arc<Keys>>, request: Request, next: Next) -> Response {
    let applies = request.method() == Method::POST
        && request.headers().contains_key(KEY)
        && request.extensions().get::<MatchedPath>().is_some();
    if !applies {
        return next.run(request).await;
    }
    let answer = keys.answer(request, next).await;
    answer.unwrap_or_else(ApiError::into_response)
}

impl Keys {
    async fn answer(self: Arc<Self>, request: Request, next: Next) -> Result<Response, ApiError> {
        let fault_status = if request.uri().path().starts_with(SCORING_ROUTES) {
            FaultStatus::BadRequest
        } else {
            FaultStatus::Unprocessable
        };
        let key = key_of(request.headers()).map_err(|fault| {
            ApiError::fault(fault_status, "", format!("Idempotency-Key {fault}"))
        })?;
        let (mut parts, body) = request.into_parts();
        let (body, wish) = if parts.uri.path() == BATCHES {
            // Too large for memory: its handler finds it in its file.
            let spooled = Spooled::read(body, &parts.headers, self.http.max_batch_bytes).await?;
            let wish = self.wish(&key, &parts, &spooled.digest);
            parts.extensions.insert(spooled);
            (Body::empty(), wish)
        } else {
            let bytes = http::body::whole(body, &parts, &self.http, fault_status).await?;
            let wish = self.wish(&key, &parts, &bytes);
            (Body::from(bytes), wish)
        };
        match self.store.idempotency_keys().reserve(&wish).await? {
            Reserved::Kept(answer) => replay(answer),
            Reserved::InUse => Err(ApiError::KeyInUse),
            Reserved::OtherRequest => Err(ApiError::KeyReused),
            Reserved::Mine {
                effect_id,
                since,
                repeated,
            } => {
                parts.extensions.insert(Reservation {
                    id: effect_id,
                    since,
                    repeated,
                });
                let request = Request::from_parts(parts, body);
                let running = self.running.clone();
                // A task of its own: a client that hangs up must find its answer when it asks again.
                let work = self.work(wish, request, next).in_current_span();
                let done = running.spawn(work).await;
                done.unwrap_or_else(|_| {
                    Err(ApiError::Internal(
                        "a request with a key broke off".to_owned(),
                    ))
                })
            }
        }
    }

    /// `body`: the bytes of the body, or of a large one its digest.
    fn wish(&self, key: &str, parts: &Parts, body: &[u8]) -> KeyUse {
        let caller = parts.extensions.get().map(Caller::keys_of);
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        let query = parts.uri.query().unwrap_or_default();
        let now = self.clock.now();
        KeyUse {
            key_hash: hash(&[
                caller.as_deref().unwrap_or_default(),
                method.as_bytes(),
                path.as_bytes(),
                key.as_bytes(),
            ]),
            request_hash: hash(&[query.as_bytes(), body]),
            holder: Uuid::now_v7(),
            effect_id: JobId::at(now).0,
            now,
            locked_until: now + LOCK,
            expires_at: now + KEPT,
        }
    }

    async fn renew(&self, key: &str, holder: Uuid) {
        let until = self.clock.now() + LOCK;
        if let Err(error) = self.store.idempotency_keys().hold(key, holder, until).await {
            tracing::warn!(%error, "could not hold an idempotency key");
        }
    }

    /// Lets the handler work, holds the key meanwhile, and keeps what it answered.
    async fn work(
        self: Arc<Self>,
        wish: KeyUse,
        request: Request,
        next: Next,
    ) -> Result<Response, ApiError> {
        let (key, holder) = (wish.key_hash.as_str(), wish.holder);
        let response = meanwhile(next.run(request), || self.renew(key, holder)).await;
        let (response, kept) =
            match Fate::from_answer(response.status(), response.extensions().get()) {
                Fate::Kept => {
                    let (response, answer) = read(response).await?;
                    let session_id = session_of(&answer.body);
                    let keys = self.store.idempotency_keys();
                    let kept = keys.keep_answer(key, holder, &answer, session_id);
                    (response, kept.await)
                }
                Fate::Free => (
                    response,
                    self.store.idempotency_keys().free(key, holder).await,
                ),
                Fate::Open => {
                    let now = self.clock.now();
                    (
                        response,
                        self.store.idempotency_keys().hold(key, holder, now).await,
                    )
                }
            };
        if let Err(error) = kept {
            // The lock ends by itself; the same request then goes on under the same id.
            tracing::warn!(%error, "could not settle an idempotency key");
        }
        Ok(response)
    }
}

/// Works, and renews every now and then meanwhile. The work goes on during a renewal: it may hold the connection that the
/// renewal waits for, and would keep it for ever.
async fn meanwhile<T, R>(work: impl Future<Output = T>, renew: impl Fn() -> R) -> T
where
    R: Future<Output = ()>,
{
    tokio::select! {
        done = work => done,
        never = now_and_then(renew) => match never {},
    }
}

async fn now_and_then<R: Future<Output = ()>>(renew: impl Fn() -> R) -> Infallible {
    loop {
        tokio::time::sleep(RENEW).await;
        renew().await;
    }
}

/// What becomes of a key with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The answer is given again.
    Kept,
    /// Nothing was done: the next try is a new one.
    Free,
    /// Something may have been done, or was and ended badly: the next try goes on from there, and does it no second time.
    Open,
}

impl Fate {
    fn from_answer(status: StatusCode, problem: Option<&Problem>) -> Self {
        let ended_badly = problem
            .is_some_and(|problem| matches!(problem.name(), "judge-failed" | "job-cancelled"));
        if status.is_success() {
            Self::Kept
        } else if ended_badly || (status.is_server_error() && status != StatusCode::BAD_GATEWAY) {
            Self::Open
        } else {
            Self::Free
        }
    }
}

/// The key: 1-255 printable ASCII characters. Quotes around it, which the draft has, are not part of it.
fn key_of(headers: &HeaderMap) -> Result<String, &'static str> {
    let mut values = headers.get_all(KEY).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err("is given more than once: send one key");
    };
    let text = value.as_bytes().trim_ascii();
    let key = text
        .strip_prefix(b"\"")
        .and_then(|text| text.strip_suffix(b"\""))
        .unwrap_or(text);
    let printable = key.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if key.is_empty() || key.len() > MAX_KEY || !printable {
        return Err("must be 1-255 printable ASCII characters, for example a UUID");
    }
    Ok(String::from_utf8_lossy(key).into_owned())
}

/// A digest of parts, each with its length, so that no two lists of parts are one text.
fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hex::encode(hasher.finalize())
}

/// Reads an answer so that it can be both kept and sent.
async fn read(response: Response) -> Result<(Response, KeptAnswer), ApiError> {
    let (parts, body) = response.into_parts();
    let bytes: Bytes = axum::body::to_bytes(body, MAX_ANSWER)
        .await
        .map_err(|error| ApiError::Internal(format!("reading an answer to keep it: {error}")))?;
    let headers = KEPT_HEADERS
        .iter()
        .filter_map(|name| {
            let value = parts.headers.get(name)?.to_str().ok()?;
            Some((name.as_str().to_owned(), value.to_owned()))
        })
        .collect();
    let answer = KeptAnswer {
        status: parts.status.as_u16(),
        headers,
        body: String::from_utf8_lossy(&bytes).into_owned(),
    };
    Ok((Response::from_parts(parts, Body::from(bytes)), answer))
}

/// The session that an answer tells of: a score, a job or a rating.
fn session_of(body: &str) -> Option<Uuid> {
    #[derive(Deserialize)]
    struct NamedSession {
        #[serde(alias = "subject_id")]
        session_id: Option<Uuid>,
    }
    let named: NamedSession = serde_json::from_str(body).ok()?;
    named.session_id
}

/// A kept answer, as it was given, and marked.
fn replay(answer: KeptAnswer) -> Result<Response, ApiError> {
    let status = StatusCode::from_u16(answer.status)
        .map_err(|error| ApiError::Internal(format!("a kept answer's status: {error}")))?;
    let mut response = (status, Body::from(answer.body)).into_response();
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(&value),
        ) {
            response.headers_mut().insert(name, value);
        }
    }
    let yes = HeaderValue::from_static("true");
    response.headers_mut().insert(REPLAYED, yes);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_key(values: &[&[u8]]) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(KEY, HeaderValue::from_bytes(value).unwrap());
        }
        key_of(&headers)
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_while_a_renewal_waits_for_what_it_holds() {
        let connection = tokio::sync::Mutex::new(0);
        let work = async {
            let mut held = connection.lock().await;
            tokio::time::sleep(RENEW * 3).await;
            *held += 1;
            drop(held);
            tokio::time::sleep(RENEW * 2).await;
            "done"
        };
        let renew = || async { *connection.lock().await += 10 };
        let done = tokio::time::timeout(RENEW * 10, meanwhile(work, renew)).await;
        assert_eq!(done, Ok("done"));
        assert!(*connection.lock().await >= 11, "the key was renewed");
    }

    #[test]
    fn a_key_is_one_short_printable_text_with_or_without_quotes() {
        let longest = "k".repeat(MAX_KEY);
        assert_eq!(read_key(&[b"abc"]), Ok("abc".to_owned()));
        assert_eq!(read_key(&[b"\"abc\""]), Ok("abc".to_owned()));
        assert_eq!(read_key(&[longest.as_bytes()]), Ok(longest.clone()));
        let too_long = format!("{longest}k");
        for bad in [
            &[b"".as_slice()] as &[&[u8]],
            &[b"\"\""],
            &[too_long.as_bytes()],
            &["schlüssel".as_bytes()],
            &[b"a\tb"],
            &[b"a", b"a"],
        ] {
            assert!(read_key(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn parts_are_not_confused_with_others_of_the_same_text() {
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_eq!(hash(&[b"ab", b"c"]), hash(&[b"ab", b"c"]));
    }

    #[test]
    fn an_answer_is_kept_by_what_it_says_was_done() {
        for (status, fate) in [
            (200, Fate::Kept),
            (202, Fate::Kept),
            (404, Fate::Free),
            (409, Fate::Free),
            (422, Fate::Free),
            (429, Fate::Free),
            (500, Fate::Open),
            (502, Fate::Free),
            (503, Fate::Open),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(Fate::from_answer(status, None), fate, "{status}");
        }
    }
}
