//! `Idempotency-Key`: a repeated POST is executed once. One layer handles all POST requests; without the header it has no cost.
//! Pages call [`do_once`] with the keys of their forms.
//!
//! A key is scoped by the token name (or the user name if groups granted access), the method and the path. For a page's
//! form, the route counts instead of the path, because the hash includes ids. The key is stored for 24 h with a hash of
//! the request: query and body bytes after inflation; the digest for a batch. Only successful responses are stored.
//! After a rejection the key is free again. After a server error, or if the job failed or was cancelled, work may have
//! been done: the same request then continues under the same id, see [`IdempotentId`].

use std::collections::HashMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::Instrument as _;
use uuid::Uuid;

use super::auth::Caller;
use super::links::BATCHES;
use super::problem::ApiError;
use super::spool::Spooled;
use crate::api::ApiState;
use crate::api::http;
use crate::enqueue::NewId;
use crate::job::JobId;
use crate::store::{Dialect, KeptAnswer, KeyReservation, KeyUse, Reserved};
use crate::wire::Problem;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const MAX_KEY_CHARS: usize = 255;
const KEY_RETENTION: TimeDelta = TimeDelta::hours(24);
/// Time that a key stays locked after its process died.
const LEASE: Duration = Duration::from_millis(2_750);
/// The holder stops this much before the lease ends for others.
const LEASE_MARGIN: Duration = Duration::from_millis(250);
const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum size of a stored response, bytes; far above the responses of our handlers, which are built in memory.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
const STORED_HEADERS: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::LOCATION,
    header::RETRY_AFTER,
    HeaderName::from_static("preference-applied"),
];

/// The id of the resource that a request with an `Idempotency-Key` creates, the same in every try.
///
/// Handlers must use it unless their work is idempotent, because a process can die between the work and storing the response.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IdempotentId(Option<KeyReservation>);

impl IdempotentId {
    pub(crate) fn new_id(self) -> NewId {
        match self.id() {
            None => NewId::Any,
            Some((id, true)) => NewId::Repeated(JobId(id)),
            Some((id, false)) => NewId::Reserved(JobId(id)),
        }
    }

    /// Returns the id of the resource to create, and whether an earlier try may have created it. `None`: any new id.
    pub(crate) fn id(self) -> Option<(Uuid, bool)> {
        self.0
            .map(|reservation| (reservation.effect_id, reservation.repeated))
    }

    /// Returns the start of the first try, if this is another one.
    pub(crate) fn tried_before(self) -> Option<DateTime<Utc>> {
        self.0
            .filter(|reservation| reservation.repeated)
            .map(|reservation| reservation.since)
    }
}

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
    let key = key_of(request.headers())
        .map_err(|fault| ApiError::fault("", format!("Idempotency-Key {fault}")))?;
    let (mut parts, body) = request.into_parts();
    let caller = parts.extensions.get().map(Caller::idempotency_scope);
    let key = hash(&[
        &caller.unwrap_or_default(),
        parts.method.as_str().as_bytes(),
        parts.uri.path().as_bytes(),
        key.as_bytes(),
    ]);
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let (body, asked) = if parts.uri.path() == BATCHES {
        // Too large for memory: its handler reads it from the file.
        let chunks = body.into_data_stream();
        let spooled = Spooled::read(chunks, &parts.headers, &state.http).await?;
        let asked = hash(&[query, &spooled.digest]);
        parts.extensions.insert(spooled);
        (Body::empty(), asked)
    } else {
        let bytes = http::body::whole(body, &parts, &state.http).await?;
        let asked = hash(&[query, &bytes]);
        (Body::from(bytes), asked)
    };
    let work = |keyed_id: IdempotentId| {
        parts.extensions.insert(keyed_id);
        let answered = next.run(Request::from_parts(parts, body));
        async { to_stored(answered.await).await }
    };
    do_once(state, key, asked, work)
        .await?
        .map_or_else(Ok, response)
}

/// Executes the work of a key once; repetitions return the stored response. Both arguments are hashes, the key's
/// including its scope. `work` returns the response to store, or an error with the disposition of the key.
pub(crate) async fn do_once<E: Send + 'static, F>(
    state: &ApiState,
    key_hash: String,
    request_hash: String,
    work: impl FnOnce(IdempotentId) -> F,
) -> Result<Result<KeptAnswer, E>, ApiError>
where
    F: Future<Output = Result<KeptAnswer, (KeyDisposition, E)>> + Send + 'static,
{
    let (now, began) = (state.clock.now(), Instant::now());
    let wish = KeyUse {
        key_hash,
        request_hash,
        holder: Uuid::now_v7(),
        effect_id: JobId::at(now).0,
        now,
        locked_until: now + lease(state),
        expires_at: now + KEY_RETENTION,
    };
    match state.store.idempotency_keys().reserve(&wish).await? {
        Reserved::Kept(mut answer) => {
            answer
                .headers
                .push((REPLAYED.as_str().to_owned(), "true".to_owned()));
            Ok(Ok(answer))
        }
        Reserved::InUse => Err(ApiError::KeyInUse),
        Reserved::OtherRequest => Err(ApiError::KeyReused),
        Reserved::Mine(reservation) => {
            let work = work(IdempotentId(Some(reservation)));
            let lease = KeyLease::new(state, &wish, began);
            // Runs in a separate task, so that a client that disconnects can fetch the response later.
            let work = run_under_lease(state.clone(), wish, lease, work).in_current_span();
            let done = state.keyed.spawn(work).await;
            done.unwrap_or_else(|_| {
                Err(ApiError::Internal(
                    "a request with a key broke off".to_owned(),
                ))
            })
        }
    }
}

/// Runs the work under its lease and stores the response. When the lease lapses the work is dropped, because another
/// request may have acquired the key.
async fn run_under_lease<E>(
    state: ApiState,
    wish: KeyUse,
    lease: KeyLease,
    work: impl Future<Output = Result<KeptAnswer, (KeyDisposition, E)>>,
) -> Result<Result<KeptAnswer, E>, ApiError> {
    let (key, holder) = (wish.key_hash.as_str(), wish.holder);
    let keys = state.store.idempotency_keys();
    let done = tokio::select! {
        biased;
        () = lease.lapsed(), if state.store.dialect() == Dialect::Postgres => {
            return Err(ApiError::DatabaseUnavailable(
                "the lease of the Idempotency-Key could not be renewed; send the request again with the same key".to_owned(),
            ));
        }
        done = work => done,
    };
    let (done, stored) = match done {
        Ok(answer) => {
            let session_id = session_of(&answer.body);
            let kept = keys.keep_answer(key, holder, &answer, session_id).await;
            (Ok(answer), kept)
        }
        Err((KeyDisposition::Free, error)) => (Err(error), keys.free(key, holder).await),
        Err((KeyDisposition::Open, error)) => (Err(error), keys.release(key, holder).await),
    };
    if let Err(error) = stored {
        // The lease expires; the same request then continues under the same id.
        tracing::warn!(%error, "failed to settle an idempotency key");
    }
    Ok(done)
}

/// Active keys of this process. One task renews all leases with one statement.
#[derive(Default)]
pub(crate) struct KeyLeases(Mutex<HeldKeys>);

#[derive(Default)]
struct HeldKeys {
    by_holder: HashMap<Uuid, String>,
    /// Start of the last successful renewal.
    renewed_at: Option<Instant>,
    is_renewed: bool,
}

/// A key used by a request. Dropping it stops the renewals.
struct KeyLease {
    state: ApiState,
    holder: Uuid,
    reserved_at: Instant,
    held_at: Instant,
}

impl KeyLease {
    /// Registers a key. The first key of the process starts the renewal task.
    fn new(state: &ApiState, wish: &KeyUse, reserved_at: Instant) -> Self {
        let mut held = state.key_leases().0.lock();
        if !std::mem::replace(&mut held.is_renewed, true) {
            tokio::spawn(renew(state.clone()));
        }
        held.by_holder.insert(wish.holder, wish.key_hash.clone());
        Self {
            state: state.clone(),
            holder: wish.holder,
            reserved_at,
            held_at: Instant::now(),
        }
    }

    /// Returns when the lease wasn't renewed in time.
    async fn lapsed(&self) {
        loop {
            let renewed_at = self.state.key_leases().0.lock().renewed_at;
            // An earlier renewal didn't include this key.
            let renewed_at = renewed_at.filter(|at| *at > self.held_at);
            let end = renewed_at.unwrap_or(self.reserved_at) + LEASE - LEASE_MARGIN;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

impl Drop for KeyLease {
    fn drop(&mut self) {
        let mut held = self.state.key_leases().0.lock();
        held.by_holder.remove(&self.holder);
    }
}

/// Renews all keys of this process until there are none.
async fn renew(state: ApiState) {
    loop {
        tokio::time::sleep(RENEW_INTERVAL).await;
        let (began, until) = (Instant::now(), state.clock.now() + lease(&state));
        let held: Vec<(String, Uuid)> = {
            let mut held = state.key_leases().0.lock();
            held.is_renewed = !held.by_holder.is_empty();
            let held = held.by_holder.iter();
            held.map(|(holder, key)| (key.clone(), *holder)).collect()
        };
        if held.is_empty() {
            return;
        }
        match state.store.idempotency_keys().renew(&held, until).await {
            Ok(()) => state.key_leases().0.lock().renewed_at = Some(began),
            Err(error) => tracing::warn!(%error, "failed to renew idempotency keys"),
        }
    }
}

/// Returns the lease duration. Longer on SQLite, because a long write delays renewals there and no other process acquires keys.
fn lease(state: &ApiState) -> Duration {
    match state.store.dialect() {
        Dialect::Postgres => LEASE,
        Dialect::Sqlite => LEASE * 5,
    }
}

/// Disposition of a key after a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyDisposition {
    /// No work was done: the next try starts over.
    Free,
    /// Work may have been done, or ended with a failure: the next try continues without repeating it.
    Open,
}

impl KeyDisposition {
    pub(crate) fn of(status: StatusCode, problem: Option<&Problem>) -> Self {
        let ended_badly = problem
            .is_some_and(|problem| matches!(problem.name(), "judge-failed" | "job-cancelled"));
        match ended_badly || (status.is_server_error() && status != StatusCode::BAD_GATEWAY) {
            true => Self::Open,
            false => Self::Free,
        }
    }

    pub(crate) fn of_error(error: &ApiError) -> Self {
        let problem = error.problem();
        let status = StatusCode::from_u16(problem.status);
        Self::of(
            status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            Some(&problem),
        )
    }
}

/// Reads a successful response for storage. `Err`: the response, with the disposition of its key.
async fn to_stored(response: Response) -> Result<KeptAnswer, (KeyDisposition, Response)> {
    if !response.status().is_success() {
        let fate = KeyDisposition::of(response.status(), response.extensions().get());
        return Err((fate, response));
    }
    let (parts, body) = response.into_parts();
    let bytes = match axum::body::to_bytes(body, MAX_RESPONSE_BYTES).await {
        Ok(bytes) => bytes,
        Err(error) => {
            let error = ApiError::Internal(format!("reading a response to store it: {error}"));
            return Err((KeyDisposition::Open, error.into_response()));
        }
    };
    let headers = STORED_HEADERS
        .iter()
        .filter_map(|name| {
            let value = parts.headers.get(name)?.to_str().ok()?;
            Some((name.as_str().to_owned(), value.to_owned()))
        })
        .collect();
    Ok(KeptAnswer {
        status: parts.status.as_u16(),
        headers,
        body: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

fn response(kept: KeptAnswer) -> Result<Response, ApiError> {
    let mut response = Response::builder().status(kept.status);
    for (name, value) in kept.headers {
        response = response.header(name, value);
    }
    response
        .body(Body::from(kept.body))
        .map_err(|error| ApiError::Internal(format!("a kept answer: {error}")))
}

/// Parses the key: 1-255 printable ASCII characters. Strips the quotes of the RFC draft.
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
    if key.is_empty() || key.len() > MAX_KEY_CHARS || !printable {
        return Err("must be 1-255 printable ASCII characters, for example a UUID");
    }
    Ok(String::from_utf8_lossy(key).into_owned())
}

/// Hashes parts with their lengths, so that different lists can't collide.
pub(crate) fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hex::encode(hasher.finalize())
}

/// Returns the session of a score, job or rating in a response.
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
    use axum::http::HeaderValue;

    use super::*;

    fn read_key(values: &[&[u8]]) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(KEY, HeaderValue::from_bytes(value).unwrap());
        }
        key_of(&headers)
    }

    #[test]
    fn parses_short_printable_keys_with_optional_quotes() {
        let longest = "k".repeat(MAX_KEY_CHARS);
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
    fn hash_depends_on_part_boundaries() {
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_eq!(hash(&[b"ab", b"c"]), hash(&[b"ab", b"c"]));
    }

    #[test]
    fn failed_request_frees_its_key_only_if_nothing_was_done() {
        for (error, fate) in [
            (ApiError::NoRoute, KeyDisposition::Free),
            (ApiError::KeyInUse, KeyDisposition::Free),
            (ApiError::Internal(String::new()), KeyDisposition::Open),
            (
                ApiError::DatabaseUnavailable(String::new()),
                KeyDisposition::Open,
            ),
        ] {
            assert_eq!(KeyDisposition::of_error(&error), fate, "{error:?}");
        }
        assert_eq!(
            KeyDisposition::of(StatusCode::BAD_GATEWAY, None),
            KeyDisposition::Free
        );
        assert_eq!(
            KeyDisposition::of(StatusCode::TOO_MANY_REQUESTS, None),
            KeyDisposition::Free
        );
    }
}
