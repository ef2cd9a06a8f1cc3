//! HTTP to the outside, for whoever speaks it: one way to build a client, to read an answer within bounds, and to say what broke.
//!
//! Follows no redirect: a token reaches nobody but the address that it is meant for. Retries nothing.

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

/// Shorter than most servers keep a connection: a call on one that was just closed costs a retry.
const IDLE_FOR: Duration = Duration::from_secs(20);

/// They name the certificates to trust, in place of the machine's (not on macOS and Windows).
const TRUST_VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// What a part of a path or a query can't hold as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'@');

/// Whether calls may go through the system's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Route {
    /// As `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY` say.
    System,
    /// Never: a proxy can't know this machine's loopback.
    Loopback,
}

impl Route {
    /// The route to an address. One that can't be read is told about by whoever uses it.
    pub fn to(address: &str) -> Self {
        match Url::parse(address) {
            Ok(url) if is_loopback(&url) => Self::Loopback,
            Ok(_) | Err(_) => Self::System,
        }
    }
}

/// Whether an address is this machine itself.
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

/// A client with what every one of ours has, and what `with` adds. It trusts the certificates of `SSL_CERT_FILE` and `SSL_CERT_DIR`, else
/// the machine's, else those in the binary.
///
/// # Errors
/// In words: what the client could not be built of.
pub fn client(
    route: Route,
    with: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<reqwest::Client, String> {
    // Fails if another part of the process was first, which is as good.
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
        // Another trust than the one that was asked for would only hide the mistake.
        (Err(error), Some(name)) => Err(format!("{name}: {}", innermost(&error))),
        (Err(_), None) => build(Some(bundled_roots())).map_err(|error| innermost(&error)),
    }
}

fn bundled_roots() -> rustls::RootCertStore {
    rustls::RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    }
}

/// A text as one part of a path or a query, whatever it holds.
pub fn percent_encoded(part: &str) -> String {
    utf8_percent_encode(part, ENCODED).to_string()
}

/// Why an answer wasn't read whole.
#[derive(Debug)]
pub enum Unread {
    /// The connection broke: how.
    Broken(reqwest::Error),
    /// It is larger than it may be.
    TooLarge,
}

/// Reads an answer's body, at most `largest` bytes of it.
///
/// # Errors
/// `TooLarge` as soon as more has come; the rest isn't read.
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

/// The innermost cause, which says what happened, without the address (it may hold a key in its query).
pub fn innermost(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut innermost = None;
    while let Some(inner) = cause {
        innermost = Some(inner.to_string());
        cause = inner.source();
    }
    innermost.unwrap_or_else(|| "connection failed".to_owned())
}

/// Whether the process, or the system, has no file descriptor left for a connection.
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

/// Why a server's certificate was not accepted, with the remedy; `None` for any other error.
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

/// The error of TLS among the causes. An error of input and output isn't told as the source of the one around it.
fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let inside = error.downcast_ref().and_then(std::io::Error::get_ref);
    let inside = inside.map(|inside| inside as &(dyn std::error::Error + 'static));
    tls_error(inside.or_else(|| error.source())?)
}

/// An error with its causes, for a person who knows the address, which is left out: it may hold a password.
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
    fn names_are_one_part_of_a_path() {
        assert_eq!(
            percent_encoded("openai-default:gpt 4/o~@é"),
            "openai-default%3Agpt%204%2Fo~@%C3%A9"
        );
    }

    #[test]
    fn a_machine_without_a_trust_store_still_has_roots() {
        let _already_there = rustls::crypto::ring::default_provider().install_default();
        assert!(!bundled_roots().is_empty());
        client(Route::System, |builder| builder).unwrap();
        client(Route::Loopback, |builder| builder).unwrap();
    }
}
