//! Who asks, and what they may do.
//!
//! Scopes: admin includes enqueue, enqueue includes read. Without any token configured everyone may do everything, and
//! [`Auth::new`] refuses such a set-up on an address beyond loopback.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use ipnet::IpNet;

use super::browsers::{Browsers, is_by};
use super::problem::{ApiError, FaultStatus};
use super::token_throttle::TokenThrottle;
use super::tokens::{Token, Tokens};
use super::transport::Transport;
use crate::config::{AuthSettings, ProxySettings, parse_network};
use crate::job::Requester;

/// Who a request without a name is attributed to.
const NAMELESS: &str = "api-client";
/// The cookie with the id of a browser that is signed in. Only pages set it.
pub(crate) const SIGN_IN_COOKIE: &str = "gavel_sign_in";
/// The longest name that is stored, characters.
pub(super) const MAX_NAME: usize = 255;
/// Where a proxy that is trusted names the user; the first that is there counts.
const USER_HEADERS: [&str; 3] = ["x-forwarded-user", "x-forwarded-email", "x-remote-user"];

/// What a token allows; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Reading everything.
    Read,
    /// Putting sessions, asking for scores, cancelling and retrying.
    Enqueue,
    /// Holds, criteria, and deleting.
    Admin,
}

impl Scope {
    /// The name used in settings and problems.
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

/// Routes that change what others rely on.
const ADMIN_ROUTES: [&str; 7] = [
    "/api/v1/scoring/criteria",
    "/api/v1/scoring/criteria/{criteria_hash}/current",
    "/api/v1/scoring/criteria/{criteria_hash}/name",
    "/api/v1/judges/{name}/pause",
    "/api/v1/judges/{name}/resume",
    "/api/v1/queue/pause",
    "/api/v1/queue/resume",
];

/// The scope that a route needs, by its pattern; `None`: no token at all. What isn't listed is read by GET, deleted by admins, and
/// enqueued by any other method. Addresses of webhooks are secrets, often.
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

/// What a trusted proxy's word of a user's groups allows.
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

    /// The widest scope of those that are named.
    fn scope(&self, headers: &HeaderMap) -> Result<Scope, ApiError> {
        let named = sent_once(headers, self.header.as_str())?.map(HeaderValue::as_bytes);
        let named = String::from_utf8_lossy(named.unwrap_or_default());
        let groups = named.split(',').map(str::trim);
        let known = groups.flat_map(|group| {
            let known = self.scopes.iter();
            known.filter(move |(known, _)| known == group)
        });
        known.map(|(_, scope)| *scope).max().ok_or_else(|| {
            let named: String = named.chars().take(MAX_NAME).collect();
            ApiError::NotAllowed(format!(
                "none of your groups is mapped to a scope: {named:?}, by the header {}; auth.proxy.groups maps them",
                self.header
            ))
        })
    }
}

/// The configured tokens and the proxies that are believed.
#[derive(Debug)]
pub(crate) struct Auth {
    tokens: Tokens,
    groups: Groups,
    proxies: Vec<IpNet>,
    /// `None`: no browser signs in here.
    pub(crate) browsers: Option<Browsers>,
    throttle: TokenThrottle,
}

impl Auth {
    /// Reads the settings, into `tokens` those of them; an error names the line and the remedy, and never the token.
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
                "bind {bind} is reachable from outside, and nothing guards it: set auth.tokens (or auth.tokens_file) to what \
                 `gavel tokens new` prints, or say auth.insecure_no_auth = true (GAVEL_AUTH_INSECURE_NO_AUTH) if something in front of it does"
            ));
        }
        // Without tokens whoever reaches loopback may act under any name as it is.
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

    /// Whether anybody must show who they are.
    pub(crate) fn is_guarded(&self) -> bool {
        !self.tokens.is_empty() || self.has_groups()
    }

    /// Whether a proxy's word lets anybody in.
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.scopes.is_empty()
    }

    /// Signs a browser in with a token; answers the id for its cookie.
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

    /// Signs the browser out that sends these headers.
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

    /// The id in a browser's cookie.
    fn browser(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<(&Browsers, String)> {
        let name = self.transport(headers, peer).cookie(SIGN_IN_COOKIE);
        let id = cookie(headers, &name)?.to_owned();
        Some((self.browsers.as_ref()?, id))
    }

    /// The token that a browser is signed in with.
    async fn signed_in(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<Token, ApiError> {
        let Some((browsers, id)) = self.browser(headers, peer) else {
            return Err(ApiError::Unauthorized(
                "there is no token: send the header Authorization with Bearer and a token",
            ));
        };
        let found = browsers.find(&id).await?;
        let token = found.and_then(|found| {
            let named = self.tokens.named(&found.token_name)?;
            is_by(&found, &id, &named.digest).then_some(named)
        });
        token.ok_or(ApiError::Unauthorized(
            "the sign-in has ended: sign in again",
        ))
    }

    /// Lets a request pass, or says why not. The answer to a wrong token is delayed.
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
            // Who asks for what is open to all may be anybody: a probe is answered whatever its headers say.
            forwarded: match needed {
                Some(_) => forwarded?,
                None => forwarded.unwrap_or_default(),
            },
        };
        let Some(needed) = needed.filter(|_| self.is_guarded()) else {
            return Ok(caller);
        };
        // Other schemes are for a proxy that stands in front.
        let sent = headers.get(header::AUTHORIZATION);
        let token = match sent.and_then(|sent| bearer(sent.as_bytes())) {
            Some(sent) => {
                let found = self.tokens.find(sent);
                self.throttle.check(peer, found).await?
            }
            // Where the proxy says who may do what, no cookie says otherwise.
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

    /// How a request came to the proxy that hands it on; only one that is trusted is believed.
    pub(crate) fn transport(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Transport {
        match self.trusts(peer) {
            true => Transport::said(headers),
            false => Transport::Plain,
        }
    }

    /// Whether an address is that of a trusted proxy.
    fn trusts(&self, peer: Option<IpAddr>) -> bool {
        let peer = peer.map(|peer| peer.to_canonical());
        peer.is_some_and(|peer| self.proxies.iter().any(|network| network.contains(&peer)))
    }

    /// The user that a trusted proxy names, as it came.
    fn forwarded(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<Option<Vec<u8>>, ApiError> {
        if !self.trusts(peer) {
            return Ok(None);
        }
        for name in USER_HEADERS {
            let sent = sent_once(headers, name)?.map(|value| value.as_bytes().trim_ascii());
            if let Some(user) = sent.filter(|user| !user.is_empty()) {
                return Ok(Some(user.to_vec()));
            }
        }
        Ok(None)
    }
}

/// A header that a proxy sets. One that is there twice is refused: one of them may be the client's.
fn sent_once<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a HeaderValue>, ApiError> {
    let mut sent = headers.get_all(name).iter();
    let first = sent.next();
    match sent.next() {
        None => Ok(first),
        Some(_) => Err(ApiError::NotAllowed(format!(
            "the header {name} is given twice: the proxy must replace what a client sent"
        ))),
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    token: Option<String>,
    /// What the token allows; `None`: no tokens are configured, and everything is.
    scope: Option<Scope>,
    forwarded: Option<Vec<u8>>,
}

impl Caller {
    /// Whether they may do what needs this scope.
    pub(crate) fn may(&self, needed: Scope) -> bool {
        self.require(needed).is_ok()
    }

    /// What they are called; `None`: nobody in particular.
    pub(crate) fn who(&self) -> Option<String> {
        let is_somebody = self.token.is_some() || self.forwarded.is_some();
        is_somebody.then(|| self.signs_as())
    }

    /// The name that ratings of theirs are kept under, unless they give another.
    pub(crate) fn signs_as(&self) -> String {
        let name = self.name(FaultStatus::Unprocessable);
        name.unwrap_or_else(|_| NAMELESS.to_owned())
    }

    /// Whether they showed a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Asks for more than the route does: some requests of it go further than others.
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
                "your groups lack the scope {needed}; auth.proxy.groups says what each allows"
            )),
        })
    }

    /// Whose keys of requests theirs are: the token's, else those of a user who came in by groups; empty: everybody's. No token's name
    /// holds a colon.
    pub(crate) fn keys_of(&self) -> Vec<u8> {
        match (&self.token, &self.forwarded) {
            (Some(token), _) => token.as_bytes().to_vec(),
            (None, Some(user)) if self.scope.is_some() => [b":", user.as_slice()].concat(),
            (None, _) => Vec::new(),
        }
    }

    /// Returns the name to store with a job, and the token's.
    pub(crate) fn requester(&self, fault_status: FaultStatus) -> Result<Requester, ApiError> {
        Ok(Requester {
            user: self.name(fault_status)?,
            authenticated_as: self.token.clone(),
        })
    }

    /// Returns the user that a trusted proxy names, else the token's name, else `api-client`.
    pub(crate) fn name(&self, fault_status: FaultStatus) -> Result<String, ApiError> {
        let Some(forwarded) = &self.forwarded else {
            return Ok(self.token.clone().unwrap_or_else(|| NAMELESS.to_owned()));
        };
        let fault = |message: &str| {
            ApiError::fault(
                fault_status,
                "",
                format!("the forwarded user name {message}"),
            )
        };
        let name = std::str::from_utf8(forwarded)
            .map_err(|_| fault("is not UTF-8"))?
            .trim();
        if name.chars().any(char::is_control) {
            return Err(fault("holds control characters"));
        }
        if name.chars().count() > MAX_NAME {
            return Err(fault("is longer than 255 characters"));
        }
        Ok(name.to_owned())
    }
}

/// The address at the other end of the connection, if the server says so.
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
