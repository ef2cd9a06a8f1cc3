//! `Idempotency-Key`: a POST that is sent twice is done once. One layer for every POST, without the header it costs nothing; pages come
//! with the keys of their forms ([`do_once`]).
//!
//! A key is scoped by the token's name (or by that of a user who came in by groups), the method and the path (of a page's form, the route: ids are in its hash), and kept 24 h with a hash of the request (query and body,
//! byte by byte, after inflation; of a batch its digest). Only an answer of success is kept: after a refusal the key is free again. An error of
//! ours leaves open whether something was done, and a job that failed or was cancelled was made: the same request then
//! goes on under the same id, see [`KeyedId`].

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, TimeDelta, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tracing::Instrument as _;
use uuid::Uuid;

use super::auth::Caller;
use super::links::BATCHES;
use super::problem::{ApiError, FaultStatus};
use super::spool::Spooled;
use crate::api::ApiState;
use crate::api::http;
use crate::enqueue::NewId;
use crate::job::JobId;
use crate::store::{KeptAnswer, KeyUse, Reserved};
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

/// The id of what a request with an `Idempotency-Key` makes: the same on its second try.
///
/// Who does the work heeds it unless doing it twice is the same as doing it once: that is what holds when a process dies
/// between the effect and the kept answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeyedId(Option<Reservation>);

#[derive(Debug, Clone, Copy)]
struct Reservation {
    id: Uuid,
    since: DateTime<Utc>,
    repeated: bool,
}

impl KeyedId {
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

/// Does a POST with a key once.
pub(crate) async fn once(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let applies = request.method() == Method::POST
        && request.headers().contains_key(KEY)
        && request.extensions().get::<MatchedPath>().is_some();
    if !applies {
        return next.run(request).await;
    }
    let answer = answer(&state, request, next).await;
    answer.unwrap_or_else(ApiError::into_response)
}

async fn answer(state: &ApiState, request: Request, next: Next) -> Result<Response, ApiError> {
    let fault_status = if request.uri().path().starts_with(SCORING_ROUTES) {
        FaultStatus::BadRequest
    } else {
        FaultStatus::Unprocessable
    };
    let key = key_of(request.headers())
        .map_err(|fault| ApiError::fault(fault_status, "", format!("Idempotency-Key {fault}")))?;
    let (mut parts, body) = request.into_parts();
    let caller = parts.extensions.get().map(Caller::keys_of);
    let key = hash(&[
        &caller.unwrap_or_default(),
        parts.method.as_str().as_bytes(),
        parts.uri.path().as_bytes(),
        key.as_bytes(),
    ]);
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let (body, asked) = if parts.uri.path() == BATCHES {
        // Too large for memory: its handler finds it in its file.
        let chunks = body.into_data_stream();
        let spooled = Spooled::read(chunks, &parts.headers, &state.http).await?;
        let asked = hash(&[query, &spooled.digest]);
        parts.extensions.insert(spooled);
        (Body::empty(), asked)
    } else {
        let bytes = http::body::whole(body, &parts, &state.http, fault_status).await?;
        let asked = hash(&[query, &bytes]);
        (Body::from(bytes), asked)
    };
    let work = |keyed_id: KeyedId| {
        parts.extensions.insert(keyed_id);
        next.run(Request::from_parts(parts, body))
    };
    do_once(state, key, asked, work).await
}

/// Does once what a key stands for; another time it answers what came of it. Both are hashes: the key's with what it is scoped by.
pub(crate) async fn do_once<A: Answer, F: Future<Output = A> + Send + 'static>(
    state: &ApiState,
    key_hash: String,
    request_hash: String,
    work: impl FnOnce(KeyedId) -> F,
) -> Result<A, ApiError> {
    let now = state.clock.now();
    let wish = KeyUse {
        key_hash,
        request_hash,
        holder: Uuid::now_v7(),
        effect_id: JobId::at(now).0,
        now,
        locked_until: now + LOCK,
        expires_at: now + KEPT,
    };
    match state.store.idempotency_keys().reserve(&wish).await? {
        Reserved::Kept(answer) => A::replayed(answer),
        Reserved::InUse => Err(ApiError::KeyInUse),
        Reserved::OtherRequest => Err(ApiError::KeyReused),
        Reserved::Mine {
            effect_id,
            since,
            repeated,
        } => {
            let work = work(KeyedId(Some(Reservation {
                id: effect_id,
                since,
                repeated,
            })));
            // A task of its own: a client that hangs up must find its answer when it asks again.
            let work = settled(state.clone(), wish, work).in_current_span();
            let done = state.keyed.spawn(work).await;
            done.unwrap_or_else(|_| {
                Err(ApiError::Internal(
                    "a request with a key broke off".to_owned(),
                ))
            })
        }
    }
}

/// Lets the work be done, holds the key meanwhile, and keeps what it came to.
async fn settled<A: Answer>(
    state: ApiState,
    wish: KeyUse,
    work: impl Future<Output = A>,
) -> Result<A, ApiError> {
    let (key, holder) = (wish.key_hash.as_str(), wish.holder);
    let keys = state.store.idempotency_keys();
    let renew = || async {
        let until = state.clock.now() + LOCK;
        if let Err(error) = keys.hold(key, holder, until).await {
            tracing::warn!(%error, "could not hold an idempotency key");
        }
    };
    let done = meanwhile(work, renew).await;
    let (done, settled) = match done.fate() {
        Fate::Kept => {
            let (done, answer) = done.kept().await?;
            let session_id = session_of(&answer.body);
            let kept = keys.keep_answer(key, holder, &answer, session_id);
            (done, kept.await)
        }
        Fate::Free => (done, keys.free(key, holder).await),
        Fate::Open => (done, keys.hold(key, holder, state.clock.now()).await),
    };
    if let Err(error) = settled {
        // The lock ends by itself; the same request then goes on under the same id.
        tracing::warn!(%error, "could not settle an idempotency key");
    }
    Ok(done)
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
pub(crate) enum Fate {
    /// The answer is given again.
    Kept,
    /// Nothing was done: the next try is a new one.
    Free,
    /// Something may have been done, or was and ended badly: the next try goes on from there, and does it no second time.
    Open,
}

/// What a request with a key comes to.
pub(crate) trait Answer: Sized + Send + 'static {
    fn fate(&self) -> Fate;
    /// The answer, and what is kept of it.
    fn kept(self) -> impl Future<Output = Result<(Self, KeptAnswer), ApiError>> + Send;
    /// A kept answer, as it was given.
    fn replayed(kept: KeptAnswer) -> Result<Self, ApiError>;
}

impl Answer for Response {
    fn fate(&self) -> Fate {
        Fate::from_answer(self.status(), self.extensions().get())
    }

    async fn kept(self) -> Result<(Self, KeptAnswer), ApiError> {
        let (parts, body) = self.into_parts();
        let bytes = axum::body::to_bytes(body, MAX_ANSWER)
            .await
            .map_err(|error| {
                ApiError::Internal(format!("reading an answer to keep it: {error}"))
            })?;
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
        Ok((Self::from_parts(parts, Body::from(bytes)), answer))
    }

    /// Marked as one that was given before.
    fn replayed(kept: KeptAnswer) -> Result<Self, ApiError> {
        let status = StatusCode::from_u16(kept.status)
            .map_err(|error| ApiError::Internal(format!("a kept answer's status: {error}")))?;
        let mut response = (status, Body::from(kept.body)).into_response();
        for (name, value) in kept.headers {
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
}

/// What a typed function came to: its value is kept as JSON.
impl<T: Serialize + DeserializeOwned + Send + 'static> Answer for Result<T, ApiError> {
    fn fate(&self) -> Fate {
        let Err(error) = self else {
            return Fate::Kept;
        };
        let problem = error.problem();
        let status = StatusCode::from_u16(problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Fate::from_answer(status, Some(&problem))
    }

    async fn kept(self) -> Result<(Self, KeptAnswer), ApiError> {
        let body = serde_json::to_string(&self.as_ref().ok())
            .map_err(|error| ApiError::Internal(format!("keeping an answer: {error}")))?;
        let answer = KeptAnswer {
            status: StatusCode::OK.as_u16(),
            headers: Vec::new(),
            body,
        };
        Ok((self, answer))
    }

    fn replayed(kept: KeptAnswer) -> Result<Self, ApiError> {
        serde_json::from_str(&kept.body)
            .map(Ok)
            .map_err(|error| ApiError::Internal(format!("reading a kept answer: {error}")))
    }
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
pub(crate) fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hex::encode(hasher.finalize())
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

    #[tokio::test]
    async fn what_a_typed_function_came_to_is_given_again() {
        let done: Result<_, ApiError> = Ok(vec![1, 2]);
        assert_eq!(done.fate(), Fate::Kept);
        let (_, kept) = done.kept().await.unwrap();
        let again = Result::<Vec<u8>, ApiError>::replayed(kept).unwrap();
        assert_eq!(again.unwrap(), [1, 2]);
        let (_, kept) = Ok::<_, ApiError>(()).kept().await.unwrap();
        assert!(matches!(Result::<(), ApiError>::replayed(kept), Ok(Ok(()))));
        for (error, fate) in [
            (ApiError::NoRoute, Fate::Free),
            (ApiError::Internal(String::new()), Fate::Open),
            (ApiError::DatabaseUnavailable(String::new()), Fate::Open),
        ] {
            assert_eq!(Err::<(), ApiError>(error).fate(), fate);
        }
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
