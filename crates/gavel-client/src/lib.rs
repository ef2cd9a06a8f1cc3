//! HTTP client of the Gavel API for `--server` and `healthcheck`. Logs and errors don't contain the token.

#![warn(missing_docs)]

mod analytics;
mod batches;
mod problem;
mod trust;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use gavel_outbound::{self as outbound, Route, percent_encoded};
use gavel_wire::{
    CriteriaAdded, CriteriaDetail, CriteriaList, Import, ImportBody, ImportDetail, Job, JobDetail,
    JobId, JobRef, JobRequest, Judges, Kind, Paused, Queue, Readiness, Resumed, Score,
    ScoreRequest, Session, SessionItem, SessionPut, Workers,
};

pub use self::batches::Download;
pub use self::problem::ClientError;
pub use self::trust::{Rated, RatingPut};

/// Query parameters.
pub type Query<'a> = &'a [(&'a str, String)];

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a response, in addition to a requested wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const PAGE: u32 = 200;

/// Result of a request for a score.
#[derive(Debug, Clone, PartialEq)]
pub enum ScoreOrJob {
    /// Existing score, or a new score that was ready in time.
    Score(Box<Score>),
    /// Job to wait for.
    Job(JobId),
}

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// Client of a Gavel server.
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<SecretString>,
}

impl Client {
    /// Creates a client of `base`, such as `http://127.0.0.1:8080`. Doesn't connect.
    pub fn new(base: &str, token: Option<SecretString>) -> Result<Self, ClientError> {
        let base = base.trim().trim_end_matches('/').to_owned();
        let url = reqwest::Url::parse(&base).map_err(|_| ClientError::Address(base.clone()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(ClientError::Address(base));
        }
        let http = outbound::client(Route::to(&base), |builder| {
            // Follows redirects of a moved service. reqwest doesn't send the token to another host.
            let follow = reqwest::redirect::Policy::default();
            builder.connect_timeout(CONNECT_TIMEOUT).redirect(follow)
        });
        let http = http.map_err(|reason| ClientError::Unreachable {
            base: base.clone(),
            reason,
        })?;
        Ok(Self { http, base, token })
    }

    /// Returns the URL of a path.
    pub fn address(&self, path: &str) -> String {
        self.url(path)
    }

    /// Checks that the process is alive.
    pub async fn alive(&self) -> Result<(), ClientError> {
        let request = self.request(Method::GET, "/livez");
        let answer = self.send_request(request, "/livez").await?;
        let status = answer.status();
        let bytes = answer
            .bytes()
            .await
            .map_err(|error| self.unreachable(error))?;
        match bytes.trim_ascii() {
            b"ok" => Ok(()),
            _ => Err(unexpected_response(self.url("/livez"), status, bytes.len())),
        }
    }

    /// Returns the readiness, with reasons if the server isn't ready.
    pub async fn ready(&self) -> Result<Readiness, ClientError> {
        let request = self.request(Method::GET, "/readyz");
        let answer = request
            .send()
            .await
            .map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        let bytes = answer
            .bytes()
            .await
            .map_err(|error| self.unreachable(error))?;
        serde_json::from_slice(&bytes).map_err(|_| self.error_response("/readyz", status, &bytes))
    }

    /// Stores a session. Returns the result.
    pub async fn put_session(
        &self,
        id: Uuid,
        body: &impl Serialize,
    ) -> Result<SessionPut, ClientError> {
        self.send(Method::PUT, &format!("/api/v1/sessions/{id}"), body)
            .await
    }

    /// Returns a session with its content.
    pub async fn session(&self, id: Uuid) -> Result<Session, ClientError> {
        self.get(&format!("/api/v1/sessions/{id}")).await
    }

    /// Lists sessions, newest first, up to `limit`. `filter` has query parameters.
    pub async fn sessions(
        &self,
        filter: Query<'_>,
        limit: usize,
    ) -> Result<Vec<SessionItem>, ClientError> {
        self.pages("/api/v1/sessions", filter, limit).await
    }

    /// Starts an import from a TARSy server, or returns the same one if it is running.
    pub async fn start_import(&self, body: &ImportBody) -> Result<Import, ClientError> {
        self.post("/api/v1/sessions/import", &json!(body)).await
    }

    /// Returns an import with its failures.
    pub async fn import(&self, id: Uuid) -> Result<ImportDetail, ClientError> {
        self.get(&format!("/api/v1/sessions/imports/{id}")).await
    }

    /// Returns the current score of a session, or `None` without one.
    pub async fn score(&self, session: Uuid) -> Result<Option<Score>, ClientError> {
        let path = format!("/api/v1/scoring/sessions/{session}/score");
        match self.get(&path).await {
            Ok(score) => Ok(Some(score)),
            Err(error) if error.problem() == Some("not-scored") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Requests a session's score.
    pub async fn ask_score(
        &self,
        session: Uuid,
        force: bool,
        criteria_hash: Option<&str>,
    ) -> Result<ScoreOrJob, ClientError> {
        let path = format!("/api/v1/scoring/sessions/{session}/score");
        let body = ScoreRequest {
            force_rescore: force,
            criteria_hash: criteria_hash.map(str::to_owned),
        };
        let request = self.request(Method::POST, &path).json(&body);
        let (status, answer) = self.answer(request, &path).await?;
        if status == StatusCode::OK {
            return self.read(&path, answer).map(ScoreOrJob::Score);
        }
        let job: JobRef = self.read(&path, answer)?;
        Ok(ScoreOrJob::Job(JobId(job.job_id)))
    }

    /// Creates a job of any kind. A repeated request with the same `key` returns the same job.
    pub async fn post_job(&self, body: &JobRequest, key: &str) -> Result<JobId, ClientError> {
        let path = "/api/v1/jobs";
        let request = self.request(Method::POST, path);
        let request = request.header("Idempotency-Key", key).json(body);
        let (_, answer) = self.answer(request, path).await?;
        let job: JobRef = self.read(path, answer)?;
        Ok(JobId(job.job_id))
    }

    /// Checks that the caller may create jobs. Sends an invalid body, so that no job is created. Fails if the caller is rejected.
    pub async fn may_ask(&self) -> Result<(), ClientError> {
        let asked = self.post::<Value>("/api/v1/jobs", &json!({})).await;
        match asked {
            Ok(_) => Ok(()),
            Err(ClientError::Refused(problem)) if matches!(problem.status, 400 | 422) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns a job.
    pub async fn job(&self, id: JobId) -> Result<Job, ClientError> {
        self.get(&format!("/api/v1/jobs/{id}")).await
    }

    /// Returns a job when it has finished, or its state after about `wait_s` seconds. A server may limit the wait.
    pub async fn job_ended_within(&self, id: JobId, wait_s: u64) -> Result<Job, ClientError> {
        let path = format!("/api/v1/jobs/{id}");
        let request = self
            .request(Method::GET, &path)
            .timeout(ANSWER_TIMEOUT + Duration::from_secs(wait_s))
            .header("Prefer", format!("wait={wait_s}"));
        let (_, answer) = self.answer(request, &path).await?;
        self.read(&path, answer)
    }

    /// Returns a job with its judge calls in `calls`.
    pub async fn job_with_calls(&self, id: JobId) -> Result<JobDetail, ClientError> {
        self.get(&format!("/api/v1/jobs/{id}?calls=true")).await
    }

    /// Deletes a session with its derived data.
    pub async fn delete_session(&self, id: Uuid) -> Result<(), ClientError> {
        let path = format!("/api/v1/sessions/{id}");
        let request = self.request(Method::DELETE, &path);
        self.send_request(request, &path).await.map(drop)
    }

    /// Lists jobs, newest first, up to `limit`.
    pub async fn jobs(&self, filter: Query<'_>, limit: usize) -> Result<Vec<Job>, ClientError> {
        self.pages("/api/v1/jobs", filter, limit).await
    }

    /// Cancels a job.
    pub async fn cancel(&self, id: JobId) -> Result<Job, ClientError> {
        self.act(&format!("/api/v1/jobs/{id}/cancel")).await
    }

    /// Retries a failed job. Returns the job.
    pub async fn retry(&self, id: JobId) -> Result<Job, ClientError> {
        let _: JobRef = self.act(&format!("/api/v1/jobs/{id}/retry")).await?;
        self.job(id).await
    }

    /// Lists criteria definitions.
    pub async fn criteria_list(&self) -> Result<CriteriaList, ClientError> {
        self.get("/api/v1/scoring/criteria").await
    }

    /// Returns a definition.
    pub async fn criteria(&self, hash: &str) -> Result<CriteriaDetail, ClientError> {
        let hash = percent_encoded(hash);
        self.get(&format!("/api/v1/scoring/criteria/{hash}")).await
    }

    /// Returns the definition used for new requests of a kind.
    pub async fn current_criteria(&self, kind: Kind) -> Result<CriteriaDetail, ClientError> {
        self.get(&format!("/api/v1/scoring/criteria/current?kind={kind}"))
            .await
    }

    /// Stores a definition without making it current.
    pub async fn add_criteria(&self, content: &Value) -> Result<CriteriaAdded, ClientError> {
        self.post("/api/v1/scoring/criteria", content).await
    }

    /// Returns the state of all judges.
    pub async fn judges(&self) -> Result<Judges, ClientError> {
        self.get("/api/v1/judges").await
    }

    /// Pauses a judge.
    pub async fn pause_judge(&self, name: &str) -> Result<Paused, ClientError> {
        let name = percent_encoded(name);
        self.act(&format!("/api/v1/judges/{name}/pause")).await
    }

    /// Resumes a judge.
    pub async fn resume_judge(&self, name: &str) -> Result<Resumed, ClientError> {
        let name = percent_encoded(name);
        self.act(&format!("/api/v1/judges/{name}/resume")).await
    }

    /// Returns the state of the queue and the number of jobs by state.
    pub async fn queue(&self) -> Result<Queue, ClientError> {
        self.get("/api/v1/queue").await
    }

    /// Pauses the queue.
    pub async fn pause_queue(&self) -> Result<Paused, ClientError> {
        self.act("/api/v1/queue/pause").await
    }

    /// Resumes the queue.
    pub async fn resume_queue(&self) -> Result<Resumed, ClientError> {
        self.act("/api/v1/queue/resume").await
    }

    /// Lists workers seen in the last day.
    pub async fn workers(&self) -> Result<Workers, ClientError> {
        self.get("/api/v1/workers").await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let request = self.request(Method::GET, path);
        let (_, answer) = self.answer(request, path).await?;
        self.read(path, answer)
    }

    /// Sends a POST with an empty object.
    async fn act<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.post(path, &json!({})).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(Method::POST, path, body).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let request = self.request(method, path).json(body);
        let (_, answer) = self.answer(request, path).await?;
        self.read(path, answer)
    }

    fn read<T: DeserializeOwned>(&self, path: &str, answer: Value) -> Result<T, ClientError> {
        serde_json::from_value(answer).map_err(|error| ClientError::Unexpected {
            base: self.url(path),
            what: format!("something that this version of gavel can't read: {error}"),
        })
    }

    async fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: Query<'_>,
        limit: usize,
    ) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < limit {
            let wanted = (limit - items.len()).min(PAGE as usize);
            let mut query = vec![("limit", wanted.to_string())];
            query.extend_from_slice(filter);
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let page: Page<T> = self.get(&with_query(path, &query)).await?;
            items.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(items)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self
            .http
            .request(method, self.url(path))
            .timeout(ANSWER_TIMEOUT);
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }

    async fn answer(
        &self,
        request: RequestBuilder,
        path: &str,
    ) -> Result<(StatusCode, Value), ClientError> {
        let answer = self.send_request(request, path).await?;
        let status = answer.status();
        let bytes = answer
            .bytes()
            .await
            .map_err(|error| self.unreachable(error))?;
        match serde_json::from_slice(&bytes) {
            Ok(body) => Ok((status, body)),
            Err(_) => Err(unexpected_response(self.url(path), status, bytes.len())),
        }
    }

    /// Sends a request and returns the unread response. An error status is an error.
    async fn send_request(
        &self,
        request: RequestBuilder,
        path: &str,
    ) -> Result<Response, ClientError> {
        let answer = request
            .send()
            .await
            .map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let bytes = answer
            .bytes()
            .await
            .map_err(|error| self.unreachable(error))?;
        Err(self.error_response(path, status, &bytes))
    }

    fn error_response(&self, path: &str, status: StatusCode, bytes: &[u8]) -> ClientError {
        match serde_json::from_slice(bytes) {
            Ok(problem) => ClientError::Refused(problem),
            Err(_) => unexpected_response(self.url(path), status, bytes.len()),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn unreachable(&self, error: reqwest::Error) -> ClientError {
        let mut reason = outbound::chain(error);
        if let Some(rest) = self.base.strip_prefix("https:") {
            reason.push_str(&format!("; if it has no TLS, use http:{rest}"));
        }
        ClientError::Unreachable {
            base: self.base.clone(),
            reason,
        }
    }
}

/// Returns the error for a response not from this API: from a gateway of an unavailable service, or from another server.
fn unexpected_response(base: String, status: StatusCode, length: usize) -> ClientError {
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => ClientError::Away {
            base,
            status: status.as_u16(),
        },
        status => ClientError::Unexpected {
            base,
            what: format!("{status} with {length} bytes that are not of this API"),
        },
    }
}

fn with_query(path: &str, query: Query<'_>) -> String {
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
    fn rejects_server_without_scheme() {
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
    fn gateway_errors_mean_unavailable() {
        let of = |status: StatusCode| unexpected_response("http://gavel".to_owned(), status, 150);
        for status in [
            StatusCode::TOO_MANY_REQUESTS,
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
