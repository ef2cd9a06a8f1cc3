//! Shared parts of outbound HTTP: client construction, bounded reads and error texts.
//!
//! Clients follow no redirects by default, so that a token reaches only its own server. No retries.

#![warn(missing_docs)]

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{ClientBuilder, Response, Url};

pub use public::is_public;
pub use retry_after::{retry_after, seconds};
pub use webhook::{
    Targets, Undelivered, WebhookMessage, WebhookSender, check_url, key_of, secret_of,
};

mod public;
mod retry_after;
mod webhook;

/// Shorter than the keep-alive of most servers, because a call on a connection that was just closed costs a retry.
const IDLE_FOR: Duration = Duration::from_secs(20);

/// Variables for certificates to trust instead of the system's (not on macOS and Windows).
const TRUST_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Characters to encode in a path segment or query value.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'@');

/// Whether calls use the system's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Route {
    /// According to `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
    System,
    /// No proxy, because it can't reach this machine's loopback.
    Loopback,
}

impl Route {
    /// Returns the route to an address. An invalid address is reported later by its user.
    pub fn to(address: &str) -> Self {
        match Url::parse(address) {
            Ok(url) if is_loopback(&url) => Self::Loopback,
            Ok(_) | Err(_) => Self::System,
        }
    }
}

/// Returns whether a URL refers to this machine.
pub fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Builds a client with the common settings and `with`. It trusts the certificates of `SSL_CERT_FILE` and `SSL_CERT_DIR`, otherwise of the
/// system, otherwise the bundled ones.
pub fn client(
    route: Route,
    with: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<reqwest::Client, String> {
    // Fails harmlessly if a provider is already installed.
    let _already_there = rustls::crypto::ring::default_provider().install_default();
    let build = |trust: Option<rustls::RootCertStore>| {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("gavel/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .pool_idle_timeout(IDLE_FOR)
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
        with(builder).build()
    };
    let named = TRUST_VARIABLES
        .into_iter()
        .find(|name| std::env::var_os(name).is_some());
    match (build(None), named) {
        (Ok(client), _) => Ok(client),
        // Other certificates than the configured ones would hide the mistake.
        (Err(error), Some(name)) => Err(format!("{name}: {}", innermost(&error))),
        (Err(_), None) => build(Some(bundled_roots())).map_err(|error| innermost(&error)),
    }
}

fn bundled_roots() -> rustls::RootCertStore {
    rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    }
}

/// Encodes a text as one path segment or query value.
pub fn percent_encoded(part: &str) -> String {
    utf8_percent_encode(part, ENCODED).to_string()
}

/// Error of a bounded read.
#[derive(Debug)]
pub enum Unread {
    /// The connection failed.
    Broken(reqwest::Error),
    /// The body exceeds the limit.
    TooLarge,
}

/// Reads a response body of at most `largest` bytes. Fails with `TooLarge` as soon as the limit is exceeded, without reading the rest.
pub async fn read_whole(mut response: Response, largest: usize) -> Result<Vec<u8>, Unread> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Unread::Broken)? {
        if body.len() + chunk.len() > largest {
            return Err(Unread::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the innermost cause, without the URL, which may have a key in its query.
pub fn innermost(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut innermost = None;
    while let Some(inner) = cause {
        innermost = Some(inner.to_string());
        cause = inner.source();
    }
    innermost.unwrap_or_else(|| "connection failed".to_owned())
}

/// Returns whether the process or system is out of file descriptors.
pub fn lacks_descriptors(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        let code = inner
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::raw_os_error);
        // EMFILE, ENFILE
        if matches!(code, Some(24 | 23)) {
            return true;
        }
        cause = inner.source();
    }
    false
}

/// Returns the reason why a certificate was rejected, with the fix. `None` for other errors.
pub fn distrust(error: &reqwest::Error) -> Option<String> {
    let rustls::Error::InvalidCertificate(found) = tls_error(error)? else {
        return None;
    };
    let host = error.url().and_then(Url::host_str).unwrap_or("the server");
    let remedy = if *found == rustls::CertificateError::UnknownIssuer {
        "; to trust its issuer, name a file with the issuer's certificate (PEM) in SSL_CERT_FILE"
    } else {
        ""
    };
    Some(format!(
        "the certificate of {host} is not accepted: {found}{remedy}"
    ))
}

/// Finds the TLS error among the causes. The inner error of an `io::Error` is not its `source`.
fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let inside = error.downcast_ref().and_then(std::io::Error::get_ref);
    let inside = inside.map(|inside| inside as &(dyn std::error::Error + 'static));
    tls_error(inside.or_else(|| error.source())?)
}

/// Returns an error with its causes, without the URL, which may contain a password.
pub fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !said.ends_with(&more) {
            said = format!("{said}: {more}");
        }
        cause = error.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_bypasses_proxy() {
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
    fn encodes_names_as_one_path_segment() {
        assert_eq!(
            percent_encoded("openai-default:gpt 4/o~@é"),
            "openai-default%3Agpt%204%2Fo~@%C3%A9"
        );
    }

    #[test]
    fn bundled_roots_work_without_trust_store() {
        let _already_there = rustls::crypto::ring::default_provider().install_default();
        assert!(!bundled_roots().is_empty());
        client(Route::System, |builder| builder).unwrap();
        client(Route::Loopback, |builder| builder).unwrap();
    }
}
