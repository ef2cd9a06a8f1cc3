//! HTTP client of the Gavel API for `--server` and `healthcheck`. Logs and errors don't contain the token.

#![warn(missing_docs)]

mod endpoints;
mod problem;

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use gavel_outbound::{self as outbound, Route, percent_encoded};

pub use self::endpoints::{Rated, RatingPut, ScoreOrJob};
pub use self::problem::ClientError;

/// Query parameters.
pub type Query<'a> = &'a [(&'a str, String)];

/// Called before each retry with the error of the last attempt, and with `None` after the last attempt.
pub type RetryObserver = Arc<dyn Fn(Option<&ClientError>) + Send + Sync>;

type Result<T> = std::result::Result<T, ClientError>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a response, in addition to a requested wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Delay between two attempts of a request.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const PAGE_SIZE: usize = 200;

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// Client of a Gavel server.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<SecretString>,
    retry: Option<(Duration, RetryObserver)>,
}

/// Streamed download.
pub struct Download {
    answer: Response,
    base: String,
}

impl Download {
    /// Returns the next bytes. `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let chunk = self.answer.chunk().await;
        chunk
            .map(|bytes| bytes.map(Vec::from))
            .map_err(|error| ClientError::BrokeOff {
                base: self.base.clone(),
                reason: outbound::chain(error),
            })
    }
}

impl Client {
    /// Creates a client of `base`, such as `http://127.0.0.1:8080`. Doesn't connect.
    pub fn new(base: &str, token: Option<SecretString>) -> Result<Self> {
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
        Ok(Self {
            http,
            base,
            token,
            retry: None,
        })
    }

    /// Returns a client that repeats requests for `budget` while the service is unavailable: restarting, behind a failing gateway, or
    /// without its database. Use it for requests that may be processed twice.
    pub fn retrying(&self, budget: Duration, observer: RetryObserver) -> Self {
        Self {
            retry: Some((budget, observer)),
            ..self.clone()
        }
    }

    /// Returns the URL of a path.
    pub fn address(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.answer(self.request(Method::GET, path), path).await
    }

    /// Sends a POST with an empty object.
    async fn act<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.post(path, &json!({})).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        let request = self.request(Method::POST, path).json(body);
        self.answer(request, path).await
    }

    async fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: Query<'_>,
        limit: usize,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < limit {
            let wanted = (limit - items.len()).min(PAGE_SIZE);
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

    async fn download(&self, path: &str, timeout: Duration) -> Result<Download> {
        let request = self.request(Method::GET, path).timeout(timeout);
        let sent = request.send().await;
        let answer = sent.map_err(|error| self.unreachable(error))?;
        if !answer.status().is_success() {
            let (status, bytes) = self.receive(answer).await?;
            return Err(self.error_response(path, status, &bytes));
        }
        let base = self.base.clone();
        Ok(Download { answer, base })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, self.address(path));
        let request = request.timeout(ANSWER_TIMEOUT);
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder, path: &str) -> Result<T> {
        let (_, body) = self.answer_with_status(request, path).await?;
        self.read(path, body)
    }

    /// Sends a request, repeated while the service is unavailable if this client retries. An error status is an error.
    async fn answer_with_status(
        &self,
        request: RequestBuilder,
        path: &str,
    ) -> Result<(StatusCode, Value)> {
        let started = Instant::now();
        // Bodies are in memory, so that each request can be cloned.
        while let (Some((budget, observe)), Some(attempt)) = (&self.retry, request.try_clone()) {
            match self.answer_once(attempt, path).await {
                Err(error) if error.is_transient() && started.elapsed() < *budget => {
                    observe(Some(&error));
                    tokio::time::sleep(RETRY_DELAY.min(*budget / 4)).await;
                }
                done => {
                    observe(None);
                    return done;
                }
            }
        }
        self.answer_once(request, path).await
    }

    async fn answer_once(
        &self,
        request: RequestBuilder,
        path: &str,
    ) -> Result<(StatusCode, Value)> {
        let (status, bytes) = self.send(request).await?;
        match serde_json::from_slice(&bytes) {
            Ok(body) if status.is_success() => Ok((status, body)),
            Ok(_) | Err(_) => Err(self.error_response(path, status, &bytes)),
        }
    }

    /// Sends a request and returns the response with any status.
    async fn send(&self, request: RequestBuilder) -> Result<(StatusCode, Vec<u8>)> {
        let sent = request.send().await;
        let answer = sent.map_err(|error| self.unreachable(error))?;
        self.receive(answer).await
    }

    async fn receive(&self, answer: Response) -> Result<(StatusCode, Vec<u8>)> {
        let status = answer.status();
        let bytes = answer.bytes().await;
        let bytes = bytes.map_err(|error| self.unreachable(error))?;
        Ok((status, bytes.into()))
    }

    fn read<T: DeserializeOwned>(&self, path: &str, body: Value) -> Result<T> {
        serde_json::from_value(body).map_err(|error| ClientError::Unexpected {
            base: self.address(path),
            what: format!("something that this version of gavel can't read: {error}"),
        })
    }

    /// Returns the problem in a response. A response that isn't from this API is from a gateway of an unavailable service, or from another
    /// server.
    fn error_response(&self, path: &str, status: StatusCode, bytes: &[u8]) -> ClientError {
        let base = self.address(path);
        if !status.is_success()
            && let Ok(problem) = serde_json::from_slice(bytes)
        {
            return ClientError::Refused(problem);
        }
        match status.as_u16() {
            status @ (429 | 502 | 503 | 504) => ClientError::Away { base, status },
            _ => ClientError::Unexpected {
                base,
                what: format!(
                    "{status} with {} bytes that are not of this API",
                    bytes.len()
                ),
            },
        }
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

fn with_query(path: &str, query: Query<'_>) -> String {
    let pairs = query.iter();
    let pairs = pairs.map(|(name, value)| format!("{name}={}", percent_encoded(value)));
    match pairs.collect::<Vec<_>>().join("&") {
        none if none.is_empty() => path.to_owned(),
        pairs => format!("{path}?{pairs}"),
    }
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
    fn gateway_errors_are_transient_and_other_servers_are_not() {
        let client = Client::new("http://gavel", None).unwrap();
        let of = |status: u16| {
            let status = StatusCode::from_u16(status).unwrap();
            client.error_response("/", status, b"<html>")
        };
        for status in [429, 502, 503, 504] {
            let error = of(status);
            assert!(matches!(error, ClientError::Away { .. }), "{error}");
            assert!(error.is_transient(), "{error}");
        }
        for status in [200, 404] {
            let error = of(status);
            assert!(matches!(error, ClientError::Unexpected { .. }), "{error}");
            assert!(!error.is_transient(), "{error}");
        }
    }
}
