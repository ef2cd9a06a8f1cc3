//! The API from outside, for `--server` and `healthcheck`. Speaks HTTP and reads problem+json; holds no rule of its own.
//! The token is never logged or shown.

#![warn(missing_docs)]

mod analytics;
mod batches;
mod problem;
mod trust;

use std::time::Duration;

use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

pub use self::batches::Download;
pub use self::problem::{ClientError, Problem};
pub use self::trust::{Rated, RatingPut};
use gavel_outbound::{self as outbound, Route, percent_encoded};
use gavel_wire::{
    Import, ImportBody, ImportDetail, Job, JobDetail, JobId, JobRef, Kind, Queue, Score, Session,
    SessionItem, SessionPut, Workers,
};

/// Longest `Prefer: wait` that is asked for, seconds; a server may honour less.
const WAIT_S: u64 = 20;
/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take beyond the wait that was asked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Items of one page of a list.
const PAGE: u32 = 200;

/// What asking for a score gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// A score that is there already, or came in time.
    Score(Box<Score>),
    /// A job to wait for.
    Job(JobId),
}

/// A page of a list.
#[derive(Deserialize)]
struct Listed<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// How a request is sent.
#[derive(Debug, Clone, Copy)]
struct Manner<'a> {
    /// `Prefer: wait`, seconds.
    wait_s: Option<u64>,
    /// `Idempotency-Key`.
    key: Option<&'a str>,
}

/// The service, as one process sees it.
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<SecretString>,
}

impl Client {
    /// Prepares to talk to `base`, such as `http://127.0.0.1:8080`. Doesn't connect yet.
    pub fn new(base: &str, token: Option<SecretString>) -> Result<Self, ClientError> {
        let base = base.trim().trim_end_matches('/').to_owned();
        let url = reqwest::Url::parse(&base).map_err(|_| ClientError::Address(base.clone()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(ClientError::Address(base));
        }
        let http = outbound::client(Route::to(&base), |builder| {
            // A service that moved says where to: the token stays with the first one.
            let follow = reqwest::redirect::Policy::default();
            builder.connect_timeout(CONNECT_TIMEOUT).redirect(follow)
        });
        let http = http.map_err(|reason| ClientError::Unreachable {
            base: base.clone(),
            reason,
        })?;
        Ok(Self { http, base, token })
    }

    /// The address.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether the process lives (`/livez`) or is ready (`/readyz`); the body, if it is JSON.
    pub async fn health(&self, path: &str) -> Result<Value, ClientError> {
        self.call(Method::GET, path, None, None).await.map(|a| a.1)
    }

    /// Puts one session; the answer tells what that did.
    pub async fn put_session(&self, id: Uuid, body: &Value) -> Result<SessionPut, ClientError> {
        let path = format!("/api/v1/sessions/{id}");
        let answer = self.send(Method::PUT, &path, Some(body)).await?;
        self.read(&path, answer)
    }

    /// Reads one session, whole.
    pub async fn session(&self, id: Uuid) -> Result<Session, ClientError> {
        self.get(&format!("/api/v1/sessions/{id}")).await
    }

    /// Lists sessions, newest first, up to `limit`. `filter` holds pairs of the query.
    pub async fn sessions(
        &self,
        filter: &[(&str, String)],
        limit: usize,
    ) -> Result<Vec<SessionItem>, ClientError> {
        self.pages("/api/v1/sessions", filter, limit).await
    }

    /// Begins an import from a TARSy, or finds the same one running.
    pub async fn start_import(&self, body: &ImportBody) -> Result<Import, ClientError> {
        let path = "/api/v1/sessions/import";
        let answer = self.send(Method::POST, path, Some(&json!(body))).await?;
        self.read(path, answer)
    }

    /// Reads one import with what it couldn't store.
    pub async fn import(&self, id: Uuid) -> Result<ImportDetail, ClientError> {
        self.get(&format!("/api/v1/sessions/imports/{id}")).await
    }

    /// The current score of a session; `None` if there is none.
    pub async fn score(&self, session: Uuid) -> Result<Option<Score>, ClientError> {
        let path = format!("/api/v1/scoring/sessions/{session}/score");
        match self.get(&path).await {
            Ok(score) => Ok(Some(score)),
            Err(error) if error.problem() == Some("not-scored") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for a session's score.
    pub async fn ask_score(
        &self,
        session: Uuid,
        force: bool,
        criteria_hash: Option<&str>,
    ) -> Result<Asked, ClientError> {
        let path = format!("/api/v1/scoring/sessions/{session}/score");
        let mut body = json!({ "force_rescore": force });
        if let Some(hash) = criteria_hash {
            body["criteria_hash"] = json!(hash);
        }
        let (status, answer) = self.call(Method::POST, &path, Some(&body), None).await?;
        if status == StatusCode::OK {
            return self.read(&path, answer).map(Asked::Score);
        }
        let job: JobRef = self.read(&path, answer)?;
        Ok(Asked::Job(JobId(job.job_id)))
    }

    /// Asks for any kind of work; `key` makes a second try of the same request the first one again.
    pub async fn post_job(&self, body: &Value, key: &str) -> Result<JobId, ClientError> {
        let path = "/api/v1/jobs";
        let manner = Manner {
            wait_s: None,
            key: Some(key),
        };
        let (_, answer) = self.ask(Method::POST, path, Some(body), manner).await?;
        let job: JobRef = self.read(path, answer)?;
        Ok(JobId(job.job_id))
    }

    /// Whether this caller may ask for work. Asks for nothing: that is refused for its body, unless it is for the caller.
    ///
    /// # Errors
    /// The refusal of the caller, or why there is no answer.
    pub async fn may_ask(&self) -> Result<(), ClientError> {
        let manner = Manner {
            wait_s: None,
            key: None,
        };
        let nothing = json!({});
        let asked = self.ask(Method::POST, "/api/v1/jobs", Some(&nothing), manner);
        match asked.await {
            Ok(_) => Ok(()),
            Err(ClientError::Refused(problem)) if matches!(problem.status, 400 | 422) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads one job.
    pub async fn job(&self, id: JobId) -> Result<Job, ClientError> {
        self.get(&format!("/api/v1/jobs/{id}")).await
    }

    /// Reads one job when it has ended, or as it is after about 20 s.
    pub async fn job_ended(&self, id: JobId) -> Result<Job, ClientError> {
        self.job_ended_within(id, WAIT_S).await
    }

    /// Reads one job when it has ended, or as it is after about `wait_s` seconds; a server may honour less.
    pub async fn job_ended_within(&self, id: JobId, wait_s: u64) -> Result<Job, ClientError> {
        let path = format!("/api/v1/jobs/{id}");
        let (_, answer) = self.call(Method::GET, &path, None, Some(wait_s)).await?;
        self.read(&path, answer)
    }

    /// Reads one job with the judge calls that were made for it, in `calls`.
    pub async fn job_with_calls(&self, id: JobId) -> Result<JobDetail, ClientError> {
        self.get(&format!("/api/v1/jobs/{id}?calls=true")).await
    }

    /// Lists jobs, newest first, up to `limit`.
    pub async fn jobs(
        &self,
        filter: &[(&str, String)],
        limit: usize,
    ) -> Result<Vec<Job>, ClientError> {
        self.pages("/api/v1/jobs", filter, limit).await
    }

    /// Cancels a job.
    pub async fn cancel(&self, id: JobId) -> Result<Job, ClientError> {
        self.post(&format!("/api/v1/jobs/{id}/cancel")).await
    }

    /// Retries a failed job.
    pub async fn retry(&self, id: JobId) -> Result<Job, ClientError> {
        self.post(&format!("/api/v1/jobs/{id}/retry")).await
    }

    /// Lists criteria definitions.
    pub async fn criteria_list<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        self.get("/api/v1/scoring/criteria").await
    }

    /// Reads one definition.
    pub async fn criteria<T: DeserializeOwned>(&self, hash: &str) -> Result<T, ClientError> {
        let hash = percent_encoded(hash);
        self.get(&format!("/api/v1/scoring/criteria/{hash}")).await
    }

    /// Reads the definition that new requests of a kind get.
    pub async fn current_criteria<T: DeserializeOwned>(
        &self,
        kind: Kind,
    ) -> Result<T, ClientError> {
        self.get(&format!("/api/v1/scoring/criteria/current?kind={kind}"))
            .await
    }

    /// Stores a definition without making it current.
    pub async fn add_criteria<T: DeserializeOwned>(
        &self,
        content: &Value,
    ) -> Result<T, ClientError> {
        let path = "/api/v1/scoring/criteria";
        let answer = self.send(Method::POST, path, Some(content)).await?;
        self.read(path, answer)
    }

    /// What is known of judges.
    pub async fn judges<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        self.get("/api/v1/judges").await
    }

    /// Pauses or resumes a judge: `verb` is `pause` or `resume`.
    pub async fn brake_judge(&self, name: &str, verb: &str) -> Result<Value, ClientError> {
        let name = percent_encoded(name);
        self.post(&format!("/api/v1/judges/{name}/{verb}")).await
    }

    /// The queue's brake, and how many jobs there are of each state.
    pub async fn queue(&self) -> Result<Queue, ClientError> {
        self.get("/api/v1/queue").await
    }

    /// Pauses or resumes the whole queue.
    pub async fn brake_queue(&self, verb: &str) -> Result<Value, ClientError> {
        self.post(&format!("/api/v1/queue/{verb}")).await
    }

    /// The workers heard in the last day.
    pub async fn workers(&self) -> Result<Workers, ClientError> {
        self.get("/api/v1/workers").await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let answer = self.send(Method::GET, path, None).await?;
        self.read(path, answer)
    }

    async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let answer = self.send(Method::POST, path, Some(&json!({}))).await?;
        self.read(path, answer)
    }

    /// Reads an answer: as a type of the wire, or as the JSON that it is.
    fn read<T: DeserializeOwned>(&self, path: &str, answer: Value) -> Result<T, ClientError> {
        serde_json::from_value(answer).map_err(|error| ClientError::Unexpected {
            base: format!("{}{path}", self.base),
            what: format!("something that this version of gavel can't read: {error}"),
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ClientError> {
        self.call(method, path, body, None).await.map(|a| a.1)
    }

    async fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &[(&str, String)],
        limit: usize,
    ) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < limit {
            let wanted = (limit - items.len()).min(PAGE as usize);
            let mut query = vec![("limit", wanted.to_string())];
            query.extend_from_slice(filter);
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let page: Listed<T> = self.get(&with_query(path, &query)).await?;
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(items)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        wait_s: Option<u64>,
    ) -> Result<(StatusCode, Value), ClientError> {
        let manner = Manner { wait_s, key: None };
        self.ask(method, path, body, manner).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        manner: Manner<'_>,
    ) -> Result<(StatusCode, Value), ClientError> {
        let Manner { wait_s, key } = manner;
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .timeout(ANSWER_TIMEOUT + Duration::from_secs(wait_s.unwrap_or(0)));
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(wait_s) = wait_s {
            request = request.header("Prefer", format!("wait={wait_s}"));
        }
        self.answer(request, path).await
    }

    /// Sends a request under the token and reads its answer.
    async fn answer(
        &self,
        mut request: reqwest::RequestBuilder,
        path: &str,
    ) -> Result<(StatusCode, Value), ClientError> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        let unreachable = |error: reqwest::Error| ClientError::Unreachable {
            base: self.base.clone(),
            reason: outbound::chain(error),
        };
        let answer = request.send().await.map_err(unreachable)?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(unreachable)?;
        let body = serde_json::from_slice::<Value>(&bytes);
        match (status.is_success(), body) {
            (true, Ok(body)) => Ok((status, body)),
            (true, Err(_)) if bytes.len() < 64 => Ok((status, Value::Null)),
            (false, Ok(body)) if body.is_object() => Err(ClientError::Refused(Box::new(Problem {
                status: status.as_u16(),
                body,
            }))),
            (true, Err(_)) | (false, _) => {
                Err(foreign(format!("{}{path}", self.base), status, bytes.len()))
            }
        }
    }
}

/// The text at a JSON pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The list at a JSON pointer; empty if there is none.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// An answer that is not of this API: a gateway's word that nobody is behind it, or somebody else's.
fn foreign(base: String, status: StatusCode, length: usize) -> ClientError {
    match status {
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            ClientError::Away {
                base,
                status: status.as_u16(),
            }
        }
        status => ClientError::Unexpected {
            base,
            what: format!("{status} with {length} bytes that are not of this API"),
        },
    }
}

/// A path and its query.
fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let mut text = path.to_owned();
    for (n, (name, value)) in query.iter().enumerate() {
        text.push(if n == 0 { '?' } else { '&' });
        text.push_str(&format!("{name}={}", percent_encoded(value)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_scheme_is_refused_by_name() {
        let fault = Client::new("127.0.0.1:8080", None)
            .err()
            .map(|e| e.to_string());
        assert!(
            fault
                .as_deref()
                .is_some_and(|f| f.contains("--server (GAVEL_SERVER)")),
            "{fault:?}"
        );
    }

    #[test]
    fn a_gateways_page_says_that_the_service_is_away_and_any_other_that_it_is_none() {
        let of = |status: StatusCode| foreign("http://gavel".to_owned(), status, 150);
        for status in [
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ] {
            assert!(matches!(of(status), ClientError::Away { .. }), "{status}");
        }
        for status in [StatusCode::OK, StatusCode::NOT_FOUND] {
            let other = of(status);
            assert!(matches!(other, ClientError::Unexpected { .. }), "{other}");
        }
    }
}
