//! Who asks, and what they may do. Tokens are kept as digests and compared in constant time; none is ever logged.
//!
//! Scopes: admin includes enqueue, enqueue includes read. Without any token configured everyone may do everything, and
//! [`Auth::new`] refuses such a set-up on an address beyond loopback.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::problem::{ApiError, Refusal};
use super::proxies::Networks;
use super::strikes::Strikes;
use super::transport::Transport;
use crate::api::ApiState;
use crate::config::AuthSettings;

/// Who a request without a name is attributed to.
const NAMELESS: &str = "api-client";
/// The cookie in which a browser keeps the token that it signed in with, hex. Only pages set it.
pub(crate) const TOKEN_COOKIE: &str = "gavel_token";
/// A shorter token can be guessed, bytes.
const SHORTEST: usize = 16;
/// The longest name that is stored, characters.
const MAX_NAME: usize = 255;
/// Where a proxy that is trusted names the user; the first that is there counts.
const USER_HEADERS: [&str; 3] = ["x-forwarded-user", "x-forwarded-email", "x-remote-user"];

/// What a token allows; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Reading everything.
    Read,
    /// Putting sessions, asking for scores, cancelling and retrying.
    Enqueue,
    /// Holds and criteria.
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

    fn parse(text: &str) -> Option<Self> {
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

/// The scope that a route needs, by its pattern; `None`: no token at all. What isn't listed is read by GET and
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
    } else if ADMIN_ROUTES.contains(&route) {
        Some(Scope::Admin)
    } else {
        Some(Scope::Enqueue)
    }
}

#[derive(Debug)]
struct Token {
    name: String,
    scope: Scope,
    digest: [u8; 32],
}

/// The configured tokens and the proxies that are believed.
#[derive(Debug)]
pub(crate) struct Auth {
    tokens: Vec<Token>,
    proxies: Networks,
    strikes: Strikes,
}

impl Auth {
    /// Reads the settings; an error names the line and the remedy, and never the token.
    pub(crate) fn new(
        settings: &AuthSettings,
        proxies: &[String],
        bind: SocketAddr,
    ) -> Result<Self, String> {
        let mut lines: Vec<(String, String)> = settings
            .tokens
            .iter()
            .enumerate()
            .map(|(i, line)| (format!("auth.tokens, entry {}", i + 1), line.clone()))
            .collect();
        if !settings.tokens_file.is_empty() {
            lines.extend(lines_of_file(Path::new(&settings.tokens_file))?);
        }
        let mut tokens: Vec<Token> = Vec::new();
        for (place, line) in lines {
            let token = parse_token(&line).map_err(|fault| format!("{place}: {fault}"))?;
            if tokens.iter().any(|other| other.name == token.name) {
                return Err(format!("{place}: the name {:?} is given twice", token.name));
            }
            if tokens.iter().any(|other| other.digest == token.digest) {
                return Err(format!(
                    "{place}: {:?} has another entry's token",
                    token.name
                ));
            }
            tokens.push(token);
        }
        if tokens.is_empty()
            && !settings.insecure_no_auth
            && !bind.ip().to_canonical().is_loopback()
        {
            return Err(format!(
                "bind {bind} is reachable from outside, and nothing guards it: set auth.tokens (or auth.tokens_file) to what \
                 `gavel tokens new` prints, or say auth.insecure_no_auth = true (GAVEL_AUTH_INSECURE_NO_AUTH) if something in front of it does"
            ));
        }
        // Without tokens whoever reaches loopback may act under any name as it is.
        let usual = ["127.0.0.0/8", "::1"].map(str::to_owned);
        let proxies = match tokens.is_empty() && proxies.is_empty() {
            true => &usual,
            false => proxies,
        };
        Ok(Self {
            tokens,
            proxies: Networks::parse(proxies)
                .map_err(|fault| format!("http.trusted_proxies: {fault}"))?,
            strikes: Strikes::default(),
        })
    }

    /// Whether any token is configured.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Lets a request pass, or says why not. Many wrong tokens of one address are answered slowly, or refused; a right one never is.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        needed: Option<Scope>,
        peer: Option<IpAddr>,
    ) -> Result<Caller, ApiError> {
        let mut caller = Caller {
            token: None,
            scope: None,
            forwarded: self.forwarded(headers, peer),
        };
        let Some(needed) = needed.filter(|_| !self.tokens.is_empty()) else {
            return Ok(caller);
        };
        let sent = match headers.get(header::AUTHORIZATION) {
            Some(sent) => bearer(sent.as_bytes()).map(<[u8]>::to_vec),
            None => match cookie(headers, TOKEN_COOKIE) {
                Some(sent) => unhex(sent),
                None => {
                    return Err(ApiError::Unauthorized(
                        "the header Authorization is missing: send Bearer and a token",
                    ));
                }
            },
        };
        let found = sent.and_then(|sent| self.find(&sent));
        let token = self.strikes.check(peer, found).await?;
        if token.scope < needed {
            return Err(ApiError::Forbidden {
                needed: needed.as_str(),
                token: token.name.clone(),
            });
        }
        caller.token = Some(token.name.clone());
        caller.scope = Some(token.scope);
        Ok(caller)
    }

    /// Looks at every token, whichever fits, so that the time taken says nothing.
    fn find(&self, sent: &[u8]) -> Option<&Token> {
        let digest: [u8; 32] = Sha256::digest(sent).into();
        let (mut found, mut place) = (Choice::from(0), 0_u64);
        for (i, token) in (0_u64..).zip(&self.tokens) {
            let equal = token.digest.ct_eq(&digest);
            place.conditional_assign(&i, equal);
            found |= equal;
        }
        let place = usize::try_from(place).ok()?;
        bool::from(found).then(|| self.tokens.get(place)).flatten()
    }

    /// How a request came to the proxy that hands it on; only one that is trusted is believed.
    pub(crate) fn transport(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Transport {
        match peer.is_some_and(|peer| self.proxies.contain(peer)) {
            true => Transport::said(headers),
            false => Transport::Plain,
        }
    }

    /// The user that a trusted proxy names, as it came.
    fn forwarded(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Option<Vec<u8>> {
        if !peer.is_some_and(|peer| self.proxies.contain(peer)) {
            return None;
        }
        USER_HEADERS
            .iter()
            .filter_map(|name| headers.get(*name))
            .map(|value| value.as_bytes().trim_ascii().to_vec())
            .find(|value| !value.is_empty())
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
        let name = self.name(Refusal::Unprocessable);
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
        Err(ApiError::Forbidden {
            needed: needed.as_str(),
            token: self.token.clone().unwrap_or_default(),
        })
    }

    /// The token's name; empty without one.
    pub(crate) fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }

    /// The name that is stored with what they ask for: the token's, and behind it the user that a trusted proxy names; else that user,
    /// else `api-client`.
    pub(crate) fn name(&self, refusal: Refusal) -> Result<String, ApiError> {
        let Some(forwarded) = &self.forwarded else {
            return Ok(self.token.clone().unwrap_or_else(|| NAMELESS.to_owned()));
        };
        let fault = |message: &str| {
            ApiError::fault(refusal, "", format!("the forwarded user name {message}"))
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
        Ok(match &self.token {
            Some(token) => format!("{token} on behalf of {name}"),
            None => name.to_owned(),
        })
    }
}

impl FromRequestParts<ApiState> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        _state: &ApiState,
    ) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
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

/// A token as the value of its cookie: hex, since a token may hold what a cookie can't.
pub(crate) fn hex(token: &str) -> String {
    hex::encode(token)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    hex::decode(text).ok().filter(|token| !token.is_empty())
}

fn lines_of_file(path: &Path) -> Result<Vec<(String, String)>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("reading auth.tokens_file {}: {error}", path.display()))?;
    Ok(text
        .lines()
        .enumerate()
        .map(|(i, line)| {
            (
                format!("{}:{}", path.display(), i + 1),
                line.trim().to_owned(),
            )
        })
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect())
}

fn parse_token(line: &str) -> Result<Token, String> {
    let mut parts = line.trim().splitn(3, ':');
    let (Some(name), Some(scopes), Some(token)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("must be name:scopes:token, e.g. ci:read,enqueue:TOKEN".to_owned());
    };
    let (name, token) = (name.trim(), token.trim());
    if name.is_empty() || name.chars().any(char::is_control) || name.chars().count() > MAX_NAME {
        return Err("the name must be 1-255 printable characters".to_owned());
    }
    if token.len() < SHORTEST {
        return Err(format!(
            "{name:?} has a token of fewer than {SHORTEST} characters, which can be guessed: make one with `gavel tokens new`"
        ));
    }
    let mut widest = None;
    for scope in scopes.split(',').map(str::trim) {
        let scope = Scope::parse(scope).ok_or_else(|| {
            format!("{name:?} has the scope {scope:?}; known: read, enqueue, admin")
        })?;
        widest = widest.max(Some(scope));
    }
    Ok(Token {
        name: name.to_owned(),
        scope: widest.unwrap_or(Scope::Read),
        digest: Sha256::digest(token.as_bytes()).into(),
    })
}

#[cfg(test)]
mod tests;
