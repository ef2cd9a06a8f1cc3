//! GET requests with rate limit, size limit, timeout and retries. Redirects aren't followed, so that the token is sent to its address only.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use secrecy::ExposeSecret as _;
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::pace::Pace;
use super::{TarsyError, TarsyOptions};
use crate::outbound::{self, Unread};

/// Maximum bytes of a response: a session's largest conversation is 4 MiB, and JSON escapes may double it.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait that a server may request.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Maximum consecutive waits requested by the server. They don't count as retries.
const MAX_WAITS: u32 = 10;

pub(super) struct Http {
    address: Address,
    /// A construction error is reported by the first request.
    client: Result<reqwest::Client, String>,
    options: TarsyOptions,
    pace: Pace,
}

/// Error of one attempt.
enum Failed {
    /// Transient, with the delay requested by the server.
    Passing(String, Option<Duration>),
    For(TarsyError),
}

impl Http {
    pub(super) fn new(address: Address, options: TarsyOptions) -> Self {
        let client = outbound::client(address.route(), |builder| {
            builder.connect_timeout(CONNECT_TIMEOUT)
        });
        Self {
            client,
            pace: Pace::new(options.requests_per_second),
            address,
            options,
        }
    }

    pub(super) fn set_pace(&self, requests_per_second: f64) {
        self.pace.set(requests_per_second);
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Gets a path. Retries after 1, 2, 4 s (configurable), or after the server's `Retry-After`.
    pub(super) async fn get(&self, path: &str) -> Result<String, TarsyError> {
        let (mut retries, mut waits) = (0, 0);
        loop {
            self.pace.turn().await;
            let (message, asked) = match self.once(path).await {
                Ok(body) => return Ok(body),
                Err(Failed::For(error)) => return Err(error),
                Err(Failed::Passing(message, asked)) => (message, asked),
            };
            let delay = match asked {
                Some(asked) if asked <= MAX_WAIT && waits < MAX_WAITS => {
                    waits += 1;
                    asked
                }
                None if retries < self.options.max_retries => {
                    let doubled = 2_u32.saturating_pow(retries);
                    retries += 1;
                    self.options.first_delay.saturating_mul(doubled)
                }
                Some(_) | None => {
                    return Err(TarsyError::Unavailable {
                        message: format!("{} {message}", self.address),
                        retry_after: asked,
                    });
                }
            };
            tracing::debug!(address = %self.address, delay_ms = delay.as_millis(), message, "retrying TARSy request");
            sleep(delay).await;
        }
    }

    async fn once(&self, path: &str) -> Result<String, Failed> {
        let client = self.client.as_ref().map_err(|reason| {
            Failed::For(TarsyError::Unusable(format!(
                "the HTTP client could not be built: {reason}"
            )))
        })?;
        let mut request = client.get(self.address.join(path));
        if let Some(token) = &self.options.token {
            request = request.bearer_auth(token.expose_secret());
        }
        let whole = async {
            let response = request.send().await.map_err(|error| {
                Failed::Passing(
                    format!("can't be reached: {}", outbound::innermost(&error)),
                    None,
                )
            })?;
            let status = response.status();
            if status.is_success() {
                return self.read_body(response).await;
            }
            Err(self.refused(status, response.headers()))
        };
        let limit = self.options.timeout;
        timeout(limit, whole).await.unwrap_or_else(|_| {
            let message = format!("did not answer within {} s", limit.as_secs_f64());
            Err(Failed::Passing(message, None))
        })
    }

    async fn read_body(&self, response: reqwest::Response) -> Result<String, Failed> {
        let body = match outbound::read_whole(response, MAX_BODY_BYTES).await {
            Ok(body) => body,
            Err(Unread::Broken(error)) => {
                let said = format!("broke off its answer: {}", outbound::innermost(&error));
                return Err(Failed::Passing(said, None));
            }
            Err(Unread::TooLarge) => return Err(self.lasting("returned more than 32 MiB")),
        };
        String::from_utf8(body).map_err(|_| self.lasting("returned invalid UTF-8"))
    }

    fn refused(&self, status: StatusCode, headers: &HeaderMap) -> Failed {
        let address = &self.address;
        match status.as_u16() {
            401 | 403 => Failed::For(TarsyError::Denied(format!(
                "{address} returned {status}: set a valid token in history.token (GAVEL_HISTORY_TOKEN); it is \
                 sent to the address of history.base_url only"
            ))),
            404 | 410 => Failed::For(TarsyError::Missing(format!("{address} returned {status}"))),
            300..=399 => {
                self.lasting("redirects, and redirects are not followed: give the target address")
            }
            408 | 425 | 429 | 500..=599 => {
                let wait = outbound::retry_after(headers, None);
                Failed::Passing(format!("returned {status}"), wait)
            }
            _ => self.lasting(&format!("returned {status}")),
        }
    }

    fn lasting(&self, what: &str) -> Failed {
        Failed::For(TarsyError::Unusable(format!("{} {what}", self.address)))
    }
}
