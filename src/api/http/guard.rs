//! What a request must pass before any handler sees it: header size, Host, origin, token.
//!
//! There is no CORS: a page of another origin can neither read an answer nor cause a change.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{MatchedPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::auth::{Auth, peer_of, scope_of};
use super::problem::ApiError;

/// The most bytes of headers that are taken.
const MAX_HEADER_BYTES: usize = 16 << 10;

/// The most bytes of a form that are read of somebody who isn't signed in.
const MAX_FORM_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Guard {
    /// Tokens and proxies.
    pub(crate) auth: Auth,
    /// Host names that are answered.
    pub(crate) hosts: Hosts,
}

/// How a request came from its client, as far as we can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Transport {
    /// In the clear, or nobody whom we believe says otherwise.
    #[default]
    Plain,
    /// Over TLS, which a proxy that we trust took off.
    Tls,
}

/// Refuses what must not pass, and says who asks and how.
pub(crate) async fn guard(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    match guard.check(&request) {
        Ok(caller) => {
            let transport = guard.transport(&request);
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(transport);
            next.run(request).await
        }
        Err(error) => {
            let kept = if matches!(error, ApiError::Unauthorized(_)) {
                form_of(request).await
            } else {
                None
            };
            let mut response = error.into_response();
            if let Some(form) = kept {
                response.extensions_mut().insert(form);
            }
            response
        }
    }
}

/// What somebody typed who isn't signed in any more: nothing is done with it, but it is shown to them again.
#[derive(Debug, Clone)]
pub(crate) struct SentForm(pub(crate) Bytes);

/// The fields of a form of an ordinary size.
async fn form_of(request: Request) -> Option<SentForm> {
    let kind = request.headers().get(header::CONTENT_TYPE)?;
    let is_form = kind
        .to_str()
        .is_ok_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    if !is_form || request.method() != Method::POST {
        return None;
    }
    let body = axum::body::to_bytes(request.into_body(), MAX_FORM_BYTES).await;
    body.ok().map(SentForm)
}

impl Guard {
    fn transport(&self, request: &Request) -> Transport {
        let peer = peer_of(request.extensions());
        self.auth.transport(request.headers(), peer)
    }

    fn check(&self, request: &Request) -> Result<super::auth::Caller, ApiError> {
        let headers = request.headers();
        let bytes: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 4)
            .sum();
        if bytes > MAX_HEADER_BYTES {
            return Err(ApiError::HeadersTooLarge);
        }
        let path = request.uri().path();
        let host = host_of(request.uri(), headers);
        // A probe names the address of a pod or of a container, which nobody can list beforehand.
        if !matches!(path, "/livez" | "/readyz") {
            self.hosts.check(host.as_ref())?;
        }
        check_site(request.method(), headers, host.as_ref())?;
        let route = request
            .extensions()
            .get::<MatchedPath>()
            .map_or(path, MatchedPath::as_str);
        let peer = peer_of(request.extensions());
        self.auth
            .admit(headers, scope_of(request.method(), route), peer)
    }
}

/// Which names this service answers to: against pages that point a name of theirs at our address.
#[derive(Debug)]
pub(crate) struct Hosts {
    bind: SocketAddr,
    allowed: Vec<String>,
}

impl Hosts {
    /// The bound address, loopback names, and what the settings add; `*` adds all.
    pub(crate) fn new(bind: SocketAddr, allowed: &[String]) -> Self {
        Self {
            bind,
            allowed: allowed
                .iter()
                .map(|host| host.trim().to_ascii_lowercase())
                .collect(),
        }
    }

    fn check(&self, host: Option<&Authority>) -> Result<(), ApiError> {
        let public = !self.bind.ip().to_canonical().is_loopback();
        if (public && self.allowed.is_empty()) || self.allowed.iter().any(|host| host == "*") {
            return Ok(());
        }
        let allowed = host.is_some_and(|host| {
            let name = host.host().to_ascii_lowercase();
            let bare = name.trim_start_matches('[').trim_end_matches(']');
            let ours = match bare.parse::<IpAddr>() {
                Ok(address) => address.to_canonical().is_loopback() || address == self.bind.ip(),
                Err(_) => name == "localhost",
            };
            let whole = host.as_str().to_ascii_lowercase();
            ours || self
                .allowed
                .iter()
                .any(|allowed| *allowed == name || *allowed == whole)
        });
        if allowed {
            Ok(())
        } else {
            let host = host.map_or("", Authority::as_str);
            Err(ApiError::HostNotAllowed(host.to_owned()))
        }
    }
}

/// HTTP/2 names the host in the request's target, HTTP/1.1 in a header.
fn host_of(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let header = || headers.get(header::HOST)?.to_str().ok()?.parse().ok();
    uri.authority().cloned().or_else(header)
}

/// Refuses changes that a browser sends from a page of another origin.
fn check_site(
    method: &Method,
    headers: &HeaderMap,
    host: Option<&Authority>,
) -> Result<(), ApiError> {
    if method.is_safe() {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text("sec-fetch-site") == Some("cross-site") {
        return Err(ApiError::CrossSite(
            "the browser says that the request comes from another site".to_owned(),
        ));
    }
    let Some(origin) = text("origin") else {
        return Ok(());
    };
    let same = origin.parse::<Uri>().ok().is_some_and(|uri| {
        let scheme = uri.scheme_str().unwrap_or_default().to_owned();
        match (uri.authority(), host) {
            (Some(origin), Some(host)) => same_authority(origin, host, &scheme),
            (None, _) | (_, None) => false,
        }
    });
    if same {
        Ok(())
    } else {
        Err(ApiError::CrossSite(format!(
            "origin {origin:?} is not the host that was asked"
        )))
    }
}

/// Whether two authorities are one; a port left out is the scheme's.
fn same_authority(origin: &Authority, host: &Authority, scheme: &str) -> bool {
    let usual = if scheme == "https" { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
    origin.host().eq_ignore_ascii_case(host.host()) && port(origin) == port(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(bind: &str, allowed: &[&str], host: &str) -> bool {
        let allowed: Vec<String> = allowed.iter().map(|host| (*host).to_owned()).collect();
        let hosts = Hosts::new(bind.parse().unwrap(), &allowed);
        hosts.check(host.parse().ok().as_ref()).is_ok()
    }

    #[test]
    fn a_loopback_bind_answers_to_loopback_names_and_what_is_allowed() {
        let here = "127.0.0.1:8080";
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"] {
            assert!(answers(here, &[], host), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
        ] {
            assert!(!answers(here, &[], host), "{host}");
        }
        assert!(answers(here, &["gavel.example"], "Gavel.Example:8080"));
        assert!(answers(here, &["*"], "anything.example"));
    }

    #[test]
    fn a_public_bind_answers_to_any_name_until_names_are_listed() {
        let public = "0.0.0.0:8080";
        assert!(answers(public, &[], "anything.example"));
        assert!(!answers(public, &["gavel.example"], "anything.example"));
        assert!(answers(public, &["gavel.example"], "localhost:8080"));
        assert!(answers("10.0.0.7:80", &["gavel.example"], "10.0.0.7"));
    }

    #[test]
    fn an_origin_is_the_host_only_with_the_same_port() {
        let same = |origin: &str, host: &str, scheme| {
            same_authority(&origin.parse().unwrap(), &host.parse().unwrap(), scheme)
        };
        assert!(same("gavel.example", "gavel.example", "https"));
        assert!(same("gavel.example", "gavel.example:443", "https"));
        assert!(!same("localhost:3000", "localhost:8080", "http"));
        assert!(!same("evil.example", "gavel.example", "https"));
    }
}
