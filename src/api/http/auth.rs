//! Authentication and authorization.
//!
//! Scopes: admin includes enqueue, enqueue includes read. Without configured tokens all requests are allowed.
//! [`Auth::new`] rejects such settings on an address beyond loopback.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use ipnet::IpNet;

use super::browsers::{Browsers, is_by};
use super::problem::ApiError;
use super::token_throttle::TokenThrottle;
use super::tokens::{Token, Tokens};
use super::transport::Transport;
use crate::config::{AuthSettings, ProxySettings, parse_network};
use crate::job::Requester;

/// Name of requests without a user or token.
const DEFAULT_NAME: &str = "api-client";
/// Cookie with the id of a signed-in browser. Only pages set it.
pub(crate) const SIGN_IN_COOKIE: &str = "gavel_sign_in";
/// Maximum length of a stored name, characters.
pub(super) const MAX_NAME: usize = 255;
/// Headers with the user name from a trusted proxy. The first one present counts.
const USER_HEADERS: [&str; 3] = ["x-forwarded-user", "x-forwarded-email", "x-remote-user"];

/// Scope of a token. Each scope includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Read,
    /// Put sessions, request scores, cancel and retry.
    Enqueue,
    /// Holds, criteria, and deletion.
    Admin,
}

impl Scope {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Enqueue => "enqueue",
            Self::Admin => "admin",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Enqueue, Self::Admin]
            .into_iter()
            .find(|scope| scope.as_str() == text)
    }
}

/// Routes that change shared settings.
const ADMIN_ROUTES: [&str; 7] = [
    "/api/v1/scoring/criteria",
    "/api/v1/scoring/criteria/{criteria_hash}/current",
    "/api/v1/scoring/criteria/{criteria_hash}/name",
    "/api/v1/judges/{name}/pause",
    "/api/v1/judges/{name}/resume",
    "/api/v1/queue/pause",
    "/api/v1/queue/resume",
];

/// Returns the scope of a route, by its pattern. `None`: no token needed. Unlisted routes need read for GET, admin for
/// DELETE, enqueue for other methods. Webhook routes need admin, because webhook URLs are often secrets.
pub(crate) fn scope_of(method: &Method, route: &str) -> Option<Scope> {
    let open = matches!(
        route,
        "/livez" | "/readyz" | "/openapi.json" | "/docs" | "/sign-in" | "/sign-out"
    ) || route.starts_with("/docs/")
        || route.starts_with("/assets/");
    if open {
        None
    } else if route.starts_with("/api/v1/webhooks") {
        Some(Scope::Admin)
    } else if method == Method::GET || method == Method::HEAD {
        Some(Scope::Read)
    } else if method == Method::DELETE || ADMIN_ROUTES.contains(&route) {
        Some(Scope::Admin)
    } else {
        Some(Scope::Enqueue)
    }
}

/// Scopes of user groups sent by a trusted proxy.
#[derive(Debug)]
struct Groups {
    header: HeaderName,
    scopes: Vec<(String, Scope)>,
}

impl Groups {
    fn new(settings: &ProxySettings) -> Result<Self, String> {
        let header = settings.groups_header.parse::<HeaderName>().map_err(|_| {
            format!(
                "auth.proxy.groups_header: {:?} is not a header: give one such as X-Forwarded-Groups",
                settings.groups_header
            )
        })?;
        let mut scopes = Vec::new();
        for line in &settings.groups {
            let scope = line.rsplit_once(':').and_then(|(group, scope)| {
                let group = group.trim();
                let is_one = !group.is_empty() && !group.contains(',');
                is_one.then(|| Some((group.to_owned(), Scope::parse(scope.trim())?)))?
            });
            scopes.push(scope.ok_or_else(|| {
                format!("auth.proxy.groups: {line:?} must be group:scope, e.g. eng:read; scopes: read, enqueue, admin")
            })?);
        }
        Ok(Self { header, scopes })
    }

    /// Returns the widest scope of the user's groups.
    fn scope(&self, headers: &HeaderMap) -> Result<Scope, ApiError> {
        let named = single_header(headers, self.header.as_str())?.map(HeaderValue::as_bytes);
        let named = String::from_utf8_lossy(named.unwrap_or_default());
        let groups = named.split(',').map(str::trim);
        let known = groups.flat_map(|group| {
            let known = self.scopes.iter();
            known.filter(move |(known, _)| known == group)
        });
        known.map(|(_, scope)| *scope).max().ok_or_else(|| {
            let named: String = named.chars().take(MAX_NAME).collect();
            ApiError::NotAllowed(format!(
                "your groups map to no scope: {named:?}, by the header {}; auth.proxy.groups maps them",
                self.header
            ))
        })
    }
}

/// Configured tokens and trusted proxies.
#[derive(Debug)]
pub(crate) struct Auth {
    tokens: Tokens,
    groups: Groups,
    proxies: Vec<IpNet>,
    /// `None`: sign-in is disabled.
    pub(crate) browsers: Option<Browsers>,
    throttle: TokenThrottle,
}

impl Auth {
    /// Reads the settings and stores their tokens in `tokens`. Errors name the line and the remedy, but not the token.
    pub(crate) fn new(
        tokens: Tokens,
        settings: &AuthSettings,
        proxies: &[String],
        bind: SocketAddr,
    ) -> Result<Self, String> {
        tokens.load(settings)?;
        let groups = Groups::new(&settings.proxy)?;
        let guarded = !tokens.is_empty() || !groups.scopes.is_empty();
        if !groups.scopes.is_empty() && proxies.is_empty() {
            return Err("auth.proxy.groups needs the proxy that names them: set http.trusted_proxies to its address".to_owned());
        }
        if !guarded && !settings.insecure_no_auth && !bind.ip().to_canonical().is_loopback() {
            return Err(format!(
                "bind {bind} is reachable from outside without authentication: set auth.tokens (or \
                 auth.tokens_file) to the output of `gavel tokens new`, or set auth.insecure_no_auth = true \
                 (GAVEL_AUTH_INSECURE_NO_AUTH) if a proxy in front authenticates requests"
            ));
        }
        // Without tokens, every user on loopback may already use any name.
        let usual = ["127.0.0.0/8", "::1"].map(str::to_owned);
        let proxies = match !guarded && proxies.is_empty() {
            true => &usual,
            false => proxies,
        };
        let network = |text: &String| {
            parse_network(text).ok_or_else(|| {
                format!("http.trusted_proxies: {text:?} is not a network: write it as 10.0.0.0/8 or fd00::/8")
            })
        };
        Ok(Self {
            tokens,
            groups,
            browsers: None,
            proxies: proxies.iter().map(network).collect::<Result<_, _>>()?,
            throttle: TokenThrottle::default(),
        })
    }

    /// Returns whether authentication is required.
    pub(crate) fn is_guarded(&self) -> bool {
        !self.tokens.is_empty() || self.has_groups()
    }

    /// Returns whether groups from a proxy grant access.
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.scopes.is_empty()
    }

    /// Signs a browser in with a token. Returns the id for its cookie.
    pub(crate) async fn sign_in(
        &self,
        token: &str,
        peer: Option<IpAddr>,
    ) -> Result<String, ApiError> {
        let found = self.tokens.find(token.as_bytes());
        let token = self.throttle.check(peer, found).await?;
        let browsers = self.browsers.as_ref();
        let browsers = browsers.ok_or(ApiError::NoRoute)?;
        browsers.add(&token.name, &token.digest).await
    }

    pub(crate) async fn sign_out(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<(), ApiError> {
        match self.browser(headers, peer) {
            Some((browsers, id)) => browsers.end(&id).await,
            None => Ok(()),
        }
    }

    fn browser(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<(&Browsers, String)> {
        let name = self.transport(headers, peer).cookie(SIGN_IN_COOKIE);
        let id = cookie(headers, &name)?.to_owned();
        Some((self.browsers.as_ref()?, id))
    }

    /// Returns the token of a signed-in browser.
    async fn signed_in(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<Token, ApiError> {
        let Some((browsers, id)) = self.browser(headers, peer) else {
            return Err(ApiError::Unauthorized(
                "no token: send the header Authorization with Bearer and a token",
            ));
        };
        let found = browsers.find(&id).await?;
        let token = found.and_then(|found| {
            let named = self.tokens.named(&found.token_name)?;
            is_by(&found, &id, &named.digest).then_some(named)
        });
        token.ok_or(ApiError::Unauthorized(
            "the session has expired: sign in again",
        ))
    }

    /// Authenticates and authorizes a request. The response to a wrong token is delayed.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        needed: Option<Scope>,
        peer: Option<IpAddr>,
    ) -> Result<Caller, ApiError> {
        let forwarded = self.forwarded(headers, peer);
        let mut caller = Caller {
            token: None,
            scope: None,
            // Open routes ignore the user headers, so that probes succeed with any headers.
            forwarded: match needed {
                Some(_) => forwarded?,
                None => forwarded.unwrap_or_default(),
            },
        };
        let Some(needed) = needed.filter(|_| self.is_guarded()) else {
            return Ok(caller);
        };
        // Other schemes are for a proxy in front.
        let sent = headers.get(header::AUTHORIZATION);
        let token = match sent.and_then(|sent| bearer(sent.as_bytes())) {
            Some(sent) => {
                let found = self.tokens.find(sent);
                self.throttle.check(peer, found).await?
            }
            // With groups from the proxy, a cookie can't grant other access.
            None if self.has_groups() && caller.forwarded.is_some() => {
                caller.scope = Some(self.groups.scope(headers)?);
                return caller.require(needed).map(|()| caller);
            }
            None => self.signed_in(headers, peer).await?,
        };
        caller.token = Some(token.name);
        caller.scope = Some(token.scope);
        caller.require(needed).map(|()| caller)
    }

    /// Returns the transport between the client and the first proxy. Only a trusted proxy's headers count.
    pub(crate) fn transport(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Transport {
        match self.trusts(peer) {
            true => Transport::from_headers(headers),
            false => Transport::Plain,
        }
    }

    fn trusts(&self, peer: Option<IpAddr>) -> bool {
        let peer = peer.map(|peer| peer.to_canonical());
        peer.is_some_and(|peer| self.proxies.iter().any(|network| network.contains(&peer)))
    }

    /// Returns the raw user name from a trusted proxy.
    fn forwarded(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<Option<Vec<u8>>, ApiError> {
        if !self.trusts(peer) {
            return Ok(None);
        }
        for name in USER_HEADERS {
            let sent = single_header(headers, name)?.map(|value| value.as_bytes().trim_ascii());
            if let Some(user) = sent.filter(|user| !user.is_empty()) {
                return Ok(Some(user.to_vec()));
            }
        }
        Ok(None)
    }
}

/// Returns a proxy header. Rejects a repeated one, because the client may have sent one of them.
fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &str,
) -> Result<Option<&'a HeaderValue>, ApiError> {
    let mut sent = headers.get_all(name).iter();
    let first = sent.next();
    match sent.next() {
        None => Ok(first),
        Some(_) => Err(ApiError::NotAllowed(format!(
            "duplicate header {name}: the proxy must replace the client's header"
        ))),
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    token: Option<String>,
    /// Scope of the token. `None`: no tokens are configured, so everything is allowed.
    scope: Option<Scope>,
    forwarded: Option<Vec<u8>>,
}

impl Caller {
    pub(crate) fn may(&self, needed: Scope) -> bool {
        self.require(needed).is_ok()
    }

    /// Returns the display name. `None`: anonymous.
    pub(crate) fn who(&self) -> Option<String> {
        let is_identified = self.token.is_some() || self.forwarded.is_some();
        is_identified.then(|| self.signs_as())
    }

    /// Returns the default name for the caller's ratings.
    pub(crate) fn signs_as(&self) -> String {
        let name = self.name();
        name.unwrap_or_else(|_| DEFAULT_NAME.to_owned())
    }

    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Requires a wider scope than the route, because some of its requests need more.
    pub(crate) fn require(&self, needed: Scope) -> Result<(), ApiError> {
        if self.scope.is_none_or(|scope| scope >= needed) {
            return Ok(());
        }
        let needed = needed.as_str();
        Err(match &self.token {
            Some(token) => ApiError::Forbidden {
                needed,
                token: token.clone(),
            },
            None => ApiError::NotAllowed(format!(
                "your groups don't have the scope {needed}; auth.proxy.groups sets the scopes of groups"
            )),
        })
    }

    /// Returns the scope of the caller's idempotency keys: the token name, or the user name if groups granted access.
    /// Empty: shared by all. The prefix `:` is unambiguous, because token names have no colon.
    pub(crate) fn idempotency_scope(&self) -> Vec<u8> {
        match (&self.token, &self.forwarded) {
            (Some(token), _) => token.as_bytes().to_vec(),
            (None, Some(user)) if self.scope.is_some() => [b":", user.as_slice()].concat(),
            (None, _) => Vec::new(),
        }
    }

    /// Returns the name to store with a job, and the token's.
    pub(crate) fn requester(&self) -> Result<Requester, ApiError> {
        Ok(Requester {
            user: self.name()?,
            authenticated_as: self.token.clone(),
        })
    }

    /// Returns the user that a trusted proxy names, else the token's name, else `api-client`.
    pub(crate) fn name(&self) -> Result<String, ApiError> {
        let Some(forwarded) = &self.forwarded else {
            return Ok(self
                .token
                .clone()
                .unwrap_or_else(|| DEFAULT_NAME.to_owned()));
        };
        let fault =
            |message: &str| ApiError::fault("", format!("the forwarded user name {message}"));
        let name = std::str::from_utf8(forwarded)
            .map_err(|_| fault("is not UTF-8"))?
            .trim();
        if name.chars().any(char::is_control) {
            return Err(fault("contains control characters"));
        }
        if name.chars().count() > MAX_NAME {
            return Err(fault("is longer than 255 characters"));
        }
        Ok(name.to_owned())
    }
}

/// Returns the peer address, if the server provides it.
pub(crate) fn peer_of(extensions: &axum::http::Extensions) -> Option<IpAddr> {
    extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map(|ConnectInfo(address)| address.ip().to_canonical())
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
        .filter(|token| !token.is_empty())
}

pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

#[cfg(test)]
mod tests;
