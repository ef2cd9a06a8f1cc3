//! Checks before all handlers: header size, Host, origin, token.
//!
//! No CORS: a page of another origin can't read a response or make a change.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{MatchedPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::auth::{Auth, Scope, peer_of, scope_of};
use super::body::in_time;
use super::connections::{AtCapacity, is_probe};
use super::problem::ApiError;
use super::tokens::Tokens;
use super::transport::Transport;
use crate::config::{AuthSettings, HttpSettings};

/// Maximum total size of request headers, bytes.
const MAX_HEADER_BYTES: usize = 16 << 10;

/// Maximum size of a form without a valid sign-in, bytes.
const MAX_FORM_BYTES: usize = 64 << 10;
/// Timeout of such a form, so that unauthenticated clients can't block others.
const FORM_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) auth: Auth,
    hosts: Hosts,
}

/// Rejects invalid requests, and adds the caller and the transport.
pub(crate) async fn guard(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let admitted = match guard.check(&request) {
        Ok(needed) => {
            let peer = peer_of(request.extensions());
            guard.auth.admit(request.headers(), needed, peer).await
        }
        Err(error) => Err(error),
    };
    match admitted {
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

/// A form sent with an expired sign-in. It isn't executed, but shown to the user again.
#[derive(Debug, Clone)]
pub(crate) struct SentForm(pub(crate) Bytes);

/// Returns the fields of a form of normal size.
async fn form_of(request: Request) -> Option<SentForm> {
    let kind = request.headers().get(header::CONTENT_TYPE)?;
    let is_form = kind
        .to_str()
        .is_ok_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    if !is_form || request.method() != Method::POST {
        return None;
    }
    let body = axum::body::to_bytes(request.into_body(), MAX_FORM_BYTES);
    in_time(FORM_TIMEOUT, body).await.ok()?.ok().map(SentForm)
}

impl Guard {
    /// Reads the settings of a service at this address. Errors describe the conflicting settings and the remedy.
    pub(crate) fn new(
        tokens: Tokens,
        auth: &AuthSettings,
        http: &HttpSettings,
        bind: SocketAddr,
    ) -> Result<Self, String> {
        let auth = Auth::new(tokens, auth, &http.trusted_proxies, bind)?;
        let hosts = Hosts::new(bind, &http.allowed_hosts, &auth)?;
        Ok(Self { auth, hosts })
    }

    fn transport(&self, request: &Request) -> Transport {
        let peer = peer_of(request.extensions());
        self.auth.transport(request.headers(), peer)
    }

    /// Returns the scope that a request needs, if it passes all checks.
    fn check(&self, request: &Request) -> Result<Option<Scope>, ApiError> {
        if let Some(AtCapacity(max)) = request.extensions().get() {
            return Err(ApiError::TooManyConnections(*max));
        }
        let headers = request.headers();
        let bytes: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 4)
            .sum();
        if bytes > MAX_HEADER_BYTES {
            return Err(ApiError::HeadersTooLarge);
        }
        let path = request.uri().path();
        // Probes use the address of a pod or container, which can't be configured in advance.
        if !is_probe(path) {
            let host = host_of(request.uri(), headers)?;
            self.hosts.check(host.as_ref())?;
            let transport = self.transport(request);
            check_site(request.method(), headers, (host.as_ref(), transport))?;
        }
        let route = request
            .extensions()
            .get::<MatchedPath>()
            .map_or(path, MatchedPath::as_str);
        Ok(scope_of(request.method(), route))
    }
}

/// Allowed host names, as a protection against DNS rebinding.
#[derive(Debug)]
struct Hosts {
    bind: SocketAddr,
    allowed: Vec<String>,
    any: bool,
}

impl Hosts {
    /// Allows the bound address, loopback names, and configured names. Any name is allowed only with tokens, because a
    /// page of another name has no token.
    fn new(bind: SocketAddr, allowed: &[String], auth: &Auth) -> Result<Self, String> {
        let allowed = allowed.iter().map(|host| host.trim().to_ascii_lowercase());
        let allowed: Vec<String> = allowed.collect();
        let all = allowed.iter().any(|host| host == "*");
        // A page of another name has no token, but on the proxy's machine it may send the proxy's headers.
        let may_be_any = auth.is_guarded() && !auth.has_groups();
        if all && !may_be_any {
            return Err(
                "http.allowed_hosts: \"*\" needs tokens and no auth.proxy.groups, because any web page could point \
                 its host name here: list the names, or set auth.tokens"
                    .to_owned(),
            );
        }
        let public = !bind.ip().to_canonical().is_loopback();
        Ok(Self {
            any: may_be_any && (all || (public && allowed.is_empty())),
            bind,
            allowed,
        })
    }

    fn check(&self, host: Option<&Authority>) -> Result<(), ApiError> {
        if self.any {
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

/// Returns the Host: from the target in HTTP/2, from a header in HTTP/1.1. Rejects a repeated or malformed one, because
/// proxies may interpret it differently.
fn host_of(uri: &Uri, headers: &HeaderMap) -> Result<Option<Authority>, ApiError> {
    let refused = |fault: &str| {
        let text = format!("the Host {fault}: send one name or address, and a port");
        ApiError::fault("", text)
    };
    let mut sent = headers.get_all(header::HOST).iter();
    let host = match (uri.authority(), sent.next(), sent.next()) {
        (_, Some(_), Some(_)) => return Err(refused("is duplicated")),
        (Some(target), _, _) => target.clone(),
        (None, Some(sent), None) => {
            Authority::try_from(sent.as_bytes()).map_err(|_| refused("is none"))?
        }
        (None, None, _) => return Ok(None),
    };
    let behind = host.as_str().strip_prefix(host.host());
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let is_plain =
        |behind: &str| behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port);
    if behind.is_some_and(is_plain) {
        Ok(Some(host))
    } else {
        Err(refused("is more than a host"))
    }
}

/// Rejects changes from a page of another origin. Behind an untrusted proxy that terminates TLS, only the browser knows the scheme.
fn check_site(
    method: &Method,
    headers: &HeaderMap,
    (host, transport): (Option<&Authority>, Transport),
) -> Result<(), ApiError> {
    if method.is_safe() {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = text("sec-fetch-site");
    if site == Some("cross-site") {
        return Err(ApiError::CrossSite(
            "the browser reports a cross-site request".to_owned(),
        ));
    }
    let Some(origin) = text("origin") else {
        return Ok(());
    };
    let same = origin.parse::<Uri>().ok().is_some_and(|uri| {
        let scheme = uri.scheme_str().unwrap_or_default();
        let same_scheme = scheme == transport.scheme() || site == Some("same-origin");
        match (uri.authority(), host) {
            (Some(origin), Some(host)) => same_scheme && same_authority(origin, host, scheme),
            (None, _) | (_, None) => false,
        }
    });
    if same {
        Ok(())
    } else {
        Err(ApiError::CrossSite(format!(
            "origin {origin:?} is not the host, port and scheme ({}) of the request; behind a proxy that ends TLS, \
             set http.trusted_proxies to its address and let it send X-Forwarded-Proto",
            transport.scheme()
        )))
    }
}

/// Compares two authorities. A missing port is the scheme's default.
fn same_authority(origin: &Authority, host: &Authority, scheme: &str) -> bool {
    let usual = if scheme == "https" { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
    origin.host().eq_ignore_ascii_case(host.host()) && port(origin) == port(host)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unauthenticated_form_times_out_early() {
        let silent = stream::pending::<Result<Bytes, std::io::Error>>();
        let request: Request = axum::http::Request::post("/queue/pause")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from_stream(silent))
            .unwrap();
        let begun = tokio::time::Instant::now();
        assert!(form_of(request).await.is_none());
        assert_eq!(begun.elapsed(), FORM_TIMEOUT);
    }

    fn guard(bind: &str, allowed: &[&str], tokens: &[&str]) -> Result<Guard, String> {
        let auth = AuthSettings {
            tokens: tokens
                .iter()
                .map(|token| (*token).to_owned().into())
                .collect(),
            tokens_file: String::new(),
            insecure_no_auth: true,
            sign_in_hours: 12,
            proxy: crate::config::ProxySettings {
                groups_header: "X-Forwarded-Groups".to_owned(),
                groups: Vec::new(),
            },
        };
        let http = HttpSettings {
            allowed_hosts: allowed.iter().map(|host| (*host).to_owned()).collect(),
            ..super::super::body::tests::limits()
        };
        Guard::new(Tokens::default(), &auth, &http, bind.parse().unwrap())
    }

    const TOKEN: &str = "ci:read:long-enough-token";
    const HERE: &str = "127.0.0.1:8080";
    const PUBLIC: &str = "0.0.0.0:8080";

    fn host(target: &str, hosts: &[&str]) -> Result<Option<Authority>, ApiError> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        host_of(&target.parse().unwrap(), &headers)
    }

    #[test]
    fn without_tokens_accepts_only_own_host_names() {
        let answers = |bind: &str, allowed: &[&str], name: &str| {
            let hosts = guard(bind, allowed, &[]).unwrap().hosts;
            hosts.check(host("/", &[name]).unwrap().as_ref()).is_ok()
        };
        for bind in [HERE, PUBLIC] {
            for name in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"] {
                assert!(answers(bind, &[], name), "{bind} {name}");
            }
            for name in [
                "evil.example",
                "127.0.0.1.evil.example",
                "localhost.evil.example",
                "[localhost]",
                "203.0.113.9",
            ] {
                assert!(!answers(bind, &[], name), "{bind} {name}");
                assert!(!answers(bind, &["gavel.example"], name), "{bind} {name}");
            }
            assert!(answers(bind, &["gavel.example"], "Gavel.Example:8080"));
        }
        assert!(answers("10.0.0.7:80", &[], "10.0.0.7"));
        assert!(
            guard(PUBLIC, &["*"], &[])
                .unwrap_err()
                .contains("http.allowed_hosts")
        );
    }

    #[test]
    fn public_bind_with_tokens_accepts_any_host_unless_listed() {
        for (bind, allowed, answered) in [
            (PUBLIC, [].as_slice(), true),
            (HERE, &["*"], true),
            (HERE, &[], false),
            (PUBLIC, &["gavel.example"], false),
        ] {
            let hosts = guard(bind, allowed, &[TOKEN]).unwrap().hosts;
            let any = host("/", &["any.example"]).unwrap();
            assert_eq!(
                hosts.check(any.as_ref()).is_ok(),
                answered,
                "{bind} {allowed:?}"
            );
        }
    }

    #[test]
    fn rejects_repeated_or_malformed_host() {
        let name = |target: &str, hosts: &[&str]| {
            let found = host(target, hosts).ok()?;
            Some(found.map_or_else(String::new, |host| host.to_string()))
        };
        for (target, hosts, expected) in [
            ("/", [].as_slice(), Some("")),
            ("/", &["a.example:80"], Some("a.example:80")),
            ("/", &["[::1]:80"], Some("[::1]:80")),
            ("http://a.example/", &[], Some("a.example")),
            ("http://a.example/", &["b.example"], Some("a.example")),
            ("/", &["localhost", "evil.example"], None),
            ("/", &["localhost", "localhost"], None),
            ("http://localhost/", &["localhost", "localhost"], None),
            ("/", &["x@localhost"], None),
            ("http://x@localhost/", &[], None),
            ("/", &["[::1].evil"], None),
            ("/", &["[::1]evil:80"], None),
            ("/", &["localhost:x"], None),
            ("/", &["localhost, evil.example"], None),
            ("/", &[""], None),
        ] {
            assert_eq!(
                name(target, hosts).as_deref(),
                expected,
                "{target} {hosts:?}"
            );
        }
    }

    #[test]
    fn rejects_origin_of_another_scheme() {
        let host = "gavel.example".parse().unwrap();
        for (origin, transport, site, passes) in [
            ("https://gavel.example", Transport::Tls, None, true),
            ("http://gavel.example", Transport::Tls, None, false),
            ("http://gavel.example:443", Transport::Tls, None, false),
            ("http://gavel.example", Transport::Plain, None, true),
            ("https://gavel.example", Transport::Plain, None, false),
            ("https://gavel.example:80", Transport::Plain, None, false),
            ("null", Transport::Tls, None, false),
            // An untrusted proxy terminated TLS.
            (
                "https://gavel.example",
                Transport::Plain,
                Some("same-origin"),
                true,
            ),
            (
                "https://gavel.example",
                Transport::Plain,
                Some("same-site"),
                false,
            ),
            (
                "https://evil.example",
                Transport::Plain,
                Some("same-origin"),
                false,
            ),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            if let Some(site) = site {
                headers.insert("sec-fetch-site", site.parse().unwrap());
            }
            let checked = check_site(&Method::POST, &headers, (Some(&host), transport));
            assert_eq!(checked.is_ok(), passes, "{origin} {transport:?} {site:?}");
        }
    }

    #[test]
    fn origin_matches_host_only_with_same_port() {
        let same = |origin: &str, host: &str, scheme| {
            same_authority(&origin.parse().unwrap(), &host.parse().unwrap(), scheme)
        };
        assert!(same("gavel.example", "gavel.example", "https"));
        assert!(same("gavel.example", "gavel.example:443", "https"));
        assert!(!same("localhost:3000", "localhost:8080", "http"));
        assert!(!same("evil.example", "gavel.example", "https"));
    }
}
