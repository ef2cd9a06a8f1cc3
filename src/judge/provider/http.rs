//! One HTTP exchange: no redirects, a capped body, one deadline for the whole of it.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::timeout;

use crate::judge::error::ErrorClass;

/// A reply larger than this isn't one.
const LARGEST_BODY: usize = 4 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Enough for a worker of 1,000 slots to find its connections again.
const IDLE_CONNECTIONS: usize = 1024;
/// Shorter than most servers keep a connection: a call on one that was just closed costs a retry.
const IDLE_FOR: Duration = Duration::from_secs(20);

/// Whether calls may go through the system's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    /// As `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY` say.
    System,
    /// Never: a proxy can't know this machine's loopback.
    Loopback,
}

impl Route {
    pub(super) fn to(base_url: &str) -> Self {
        let Ok(url) = reqwest::Url::parse(base_url) else {
            return Self::System;
        };
        let Some(host) = url.host_str() else {
            return Self::System;
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let loopback = host == "localhost"
            || host.ends_with(".localhost")
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        if loopback {
            Self::Loopback
        } else {
            Self::System
        }
    }
}

/// A client, or why there is none: told at the first call, since a judge that nobody asks needs none.
#[derive(Clone)]
pub(super) struct Client(Result<reqwest::Client, Arc<str>>);

/// A whole answer.
pub(super) struct Exchange {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Why there is no whole answer.
pub(super) struct NoExchange {
    pub(super) class: ErrorClass,
    pub(super) status: Option<u16>,
    pub(super) message: String,
}

impl Client {
    pub(super) fn new(route: Route) -> Self {
        // Fails if another part of the process was first, which is as good.
        let _already_there = rustls::crypto::ring::default_provider().install_default();
        let client = build(route, None).or_else(|_| build(route, Some(bundled_roots())));
        Self(client.map_err(|error| Arc::from(words(&error))))
    }

    pub(super) fn inner(&self) -> Result<&reqwest::Client, NoExchange> {
        self.0.as_ref().map_err(|reason| NoExchange {
            class: ErrorClass::Misconfigured,
            status: None,
            message: format!("the HTTP client could not be built: {reason}"),
        })
    }

    /// Sends a request and reads the whole answer within `limit`.
    pub(super) async fn exchange(
        &self,
        request: reqwest::Request,
        limit: Duration,
    ) -> Result<Exchange, NoExchange> {
        let client = self.inner()?;
        let whole = async {
            let response = client
                .execute(request)
                .await
                .map_err(|error| broken(None, "could not be reached", &error))?;
            read_whole(response).await
        };
        timeout(limit, whole).await.unwrap_or_else(|_| {
            Err(NoExchange {
                class: ErrorClass::Transient,
                status: None,
                message: format!("did not answer within {} s", limit.as_secs_f64()),
            })
        })
    }
}

async fn read_whole(mut response: reqwest::Response) -> Result<Exchange, NoExchange> {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let mut body = Vec::new();
    loop {
        let chunk = response
            .chunk()
            .await
            .map_err(|error| broken(Some(status), "broke off its answer", &error))?;
        let Some(chunk) = chunk else {
            return Ok(Exchange {
                status,
                headers,
                body,
            });
        };
        if body.len() + chunk.len() > LARGEST_BODY {
            return Err(NoExchange {
                class: ErrorClass::Rejected,
                status: Some(status),
                message: "answered with more than 4 MiB".to_owned(),
            });
        }
        body.extend_from_slice(&chunk);
    }
}

/// `trust`: roots of our own, where the machine has no trust store.
fn build(
    route: Route,
    trust: Option<rustls::RootCertStore>,
) -> Result<reqwest::Client, reqwest::Error> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("gavel/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE_FOR)
        .tcp_keepalive(Duration::from_secs(30))
        // One HTTP/2 connection would hold 1,000 calls to the server's limit of streams, and lose them all at once.
        .http1_only()
        .gzip(true);
    if route == Route::Loopback {
        builder = builder.no_proxy();
    }
    if let Some(roots) = trust {
        let config = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        builder = builder.tls_backend_preconfigured(config);
    }
    builder.build()
}

fn bundled_roots() -> rustls::RootCertStore {
    rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    }
}

fn broken(status: Option<u16>, what: &str, error: &reqwest::Error) -> NoExchange {
    // A request that can't even be built is no fault of the network.
    let class = if error.is_builder() {
        ErrorClass::Misconfigured
    } else {
        ErrorClass::Transient
    };
    NoExchange {
        class,
        status,
        message: format!("{what}: {}", words(error)),
    }
}

/// The innermost cause, which says what happened, without the address (it may hold a key in its query).
fn words(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut innermost = None;
    while let Some(inner) = cause {
        innermost = Some(inner.to_string());
        cause = inner.source();
    }
    innermost.unwrap_or_else(|| "connection failed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_never_go_through_a_proxy() {
        for url in [
            "http://127.0.0.1:8099/v1",
            "http://localhost:11434/v1",
            "http://[::1]:8080",
            "http://judge.localhost/v1",
        ] {
            assert_eq!(Route::to(url), Route::Loopback, "{url}");
        }
        for url in ["https://api.openai.com/v1", "http://10.0.0.7:8000/v1", "?"] {
            assert_eq!(Route::to(url), Route::System, "{url}");
        }
    }

    #[test]
    fn a_machine_without_a_trust_store_still_gets_a_client_with_roots() {
        let _already_there = rustls::crypto::ring::default_provider().install_default();
        assert!(!bundled_roots().is_empty());
        build(Route::System, Some(bundled_roots())).unwrap();
        assert!(Client::new(Route::Loopback).inner().is_ok());
    }
}
