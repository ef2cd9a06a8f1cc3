//! User of a page and their form token. Doesn't authorize requests; the guard and `ApiAccess` do.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use uuid::Uuid;

use crate::api::{Caller, Scope, Transport, cookie};

/// Cookie that must equal a form's token. Renewed by sign-in and sign-out. Pages of other origins can't read or set it. It is
/// `SameSite=Lax`, so that following a link from a chat or a mail keeps the token of open pages.
const FORM_COOKIE: &str = "gavel_form";

#[derive(Debug, Clone)]
pub(super) struct SessionUser {
    /// Passed to `ApiAccess`.
    pub(super) caller: Caller,
    pub(super) form_token: String,
    pub(super) fragment: bool,
    transport: Transport,
}

impl SessionUser {
    /// A user of a service without tokens, with all scopes.
    #[cfg(test)]
    pub(super) fn without_tokens() -> Self {
        Self {
            caller: Caller::default(),
            form_token: String::new(),
            fragment: false,
            transport: Transport::Plain,
        }
    }

    pub(super) fn cookie(&self, name: &str, value: &str) -> String {
        cookie_for(self.transport, name, value)
    }

    pub(super) fn new_form_cookie(&self) -> String {
        self.cookie(FORM_COOKIE, &Uuid::new_v4().simple().to_string())
    }

    /// Whether the user may request scores, upload, cancel and rate.
    pub(super) fn may_enqueue(&self) -> bool {
        self.caller.may(Scope::Enqueue)
    }

    /// Whether the user may pause judges and store criteria.
    pub(super) fn may_admin(&self) -> bool {
        self.caller.may(Scope::Admin)
    }
}

/// Cookies are HTTP-only and `SameSite=Lax`: other sites' links send them, their forms don't. `Secure` if the request used TLS.
fn cookie_for(transport: Transport, name: &str, value: &str) -> String {
    let secure = match transport {
        Transport::Plain => "",
        Transport::Tls => "; Secure",
    };
    let name = transport.cookie(name);
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}")
}

pub(super) fn wants_fragment(headers: &HeaderMap) -> bool {
    headers.contains_key("hx-request") && !headers.contains_key("hx-boosted")
}

impl<S: Send + Sync> FromRequestParts<S> for SessionUser {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let form_token = parts.extensions.get::<FormToken>().cloned();
        Ok(Self {
            caller: parts.extensions.get().cloned().unwrap_or_default(),
            form_token: form_token.unwrap_or_default().0,
            fragment: wants_fragment(&parts.headers),
            transport: parts.extensions.get().copied().unwrap_or_default(),
        })
    }
}

#[derive(Debug, Clone, Default)]
struct FormToken(String);

/// Sets the form token cookie, and the content security policy of each page.
pub(super) async fn visit(mut request: Request, next: Next) -> Response {
    let transport: Transport = request.extensions().get().copied().unwrap_or_default();
    let known = cookie(request.headers(), &transport.cookie(FORM_COOKIE))
        .filter(|token| Uuid::try_parse(token).is_ok())
        .map(ToOwned::to_owned);
    let token = known
        .clone()
        .unwrap_or_else(|| Uuid::new_v4().simple().to_string());
    request.extensions_mut().insert(FormToken(token.clone()));
    let mut response = next.run(request).await;
    if known.is_none() {
        let cookie = cookie_for(transport, FORM_COOKIE, &token);
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
    mark(&mut response);
    response
}

/// Header that marks responses of pages for scripts.
const PAGE_HEADER: header::HeaderName = header::HeaderName::from_static("gavel-page");

/// Marks a response as a page. Scripts ignore unmarked ones, because a proxy may respond instead of the server.
pub(super) fn mark(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(PAGE_HEADER, HeaderValue::from_static("1"));
}
