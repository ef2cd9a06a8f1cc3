//! Who looks at a page, and the token that their forms carry. Never decides what a request may do: the guard and `ApiAccess` do.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use uuid::Uuid;

use crate::api::{Caller, Scope, Transport, cookie};

/// The cookie that a form's token must equal; signing in or out renews it. A page of another origin can neither read nor set it. It comes along when a link
/// from a chat or a mail is followed (`SameSite=Lax`): the pages that are open keep their token.
const FORM_COOKIE: &str = "gavel_form";

/// Who asks for a page.
#[derive(Debug, Clone)]
pub(super) struct SessionUser {
    /// For `ApiAccess`.
    pub(super) caller: Caller,
    /// What every form of the page carries.
    pub(super) form_token: String,
    /// Whether htmx asks for a piece of a page.
    pub(super) piece: bool,
    /// How the request came.
    transport: Transport,
}

impl SessionUser {
    /// Somebody of a service without tokens, who may do everything.
    #[cfg(test)]
    pub(super) fn anybody() -> Self {
        Self {
            caller: Caller::default(),
            form_token: String::new(),
            piece: false,
            transport: Transport::Plain,
        }
    }

    /// A cookie for their browser.
    pub(super) fn cookie(&self, name: &str, value: &str) -> String {
        cookie_for(self.transport, name, value)
    }

    /// The cookie of a form token that nobody has yet.
    pub(super) fn new_form_cookie(&self) -> String {
        self.cookie(FORM_COOKIE, &Uuid::new_v4().simple().to_string())
    }

    /// Whether they may ask for scores, upload, cancel and rate.
    pub(super) fn may_enqueue(&self) -> bool {
        self.caller.may(Scope::Enqueue)
    }

    /// Whether they may pause judges and store criteria.
    pub(super) fn may_admin(&self) -> bool {
        self.caller.may(Scope::Admin)
    }
}

/// Scripts can't read it, forms of other sites can't send it, links from elsewhere lead in; what came over TLS never leaves in the
/// clear.
fn cookie_for(transport: Transport, name: &str, value: &str) -> String {
    let secure = match transport {
        Transport::Plain => "",
        Transport::Tls => "; Secure",
    };
    let name = transport.cookie(name);
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}")
}

/// Whether htmx asks.
pub(super) fn asks_for_piece(headers: &HeaderMap) -> bool {
    headers.contains_key("hx-request") && !headers.contains_key("hx-boosted")
}

impl<S: Send + Sync> FromRequestParts<S> for SessionUser {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let form_token = parts.extensions.get::<FormToken>().cloned();
        Ok(Self {
            caller: parts.extensions.get().cloned().unwrap_or_default(),
            form_token: form_token.unwrap_or_default().0,
            piece: asks_for_piece(&parts.headers),
            transport: parts.extensions.get().copied().unwrap_or_default(),
        })
    }
}

#[derive(Debug, Clone, Default)]
struct FormToken(String);

/// Gives each browser a form token, and each page its policy.
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

/// By which a script knows an answer of these pages.
const PIECE_HEADER: header::HeaderName = header::HeaderName::from_static("gavel-page");

/// What a script knows a page by. It takes nothing for a piece that doesn't say so: what stands between may answer in the server's place.
pub(super) fn mark(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(PIECE_HEADER, HeaderValue::from_static("1"));
}
