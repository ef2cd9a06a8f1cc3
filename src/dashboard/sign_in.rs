//! Sign-in with a configured token. Sets an HTTP-only cookie with an id that represents the token until sign-out.
//!
//! The cookie is `SameSite=Lax`, so it is sent when a user follows a link from a chat or a mail. It isn't sent with forms of other sites,
//! which are also rejected by their origin and their form token.

use std::net::SocketAddr;

use askama::Template;
use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::routing::get;
use serde::Deserialize;

use super::address::Address;
use super::form::Form;
use super::links::is_local;
use super::page::{Page, html, redirect, with_status};
use super::state::PageState;
use super::user::SessionUser;
use crate::api::{ApiError, SIGN_IN_COOKIE};

pub(super) fn routes() -> Router<PageState> {
    Router::new()
        .route("/sign-in", get(show_form).post(sign_in))
        .route("/sign-out", axum::routing::post(sign_out))
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    form_token: String,
    next: String,
    has_tokens: bool,
    rejected: bool,
}

#[derive(Debug, Deserialize)]
struct Next {
    #[serde(default)]
    next: String,
}

async fn show_form(
    State(state): State<PageState>,
    user: SessionUser,
    Address(Next { next }): Address<Next>,
) -> Page {
    html(&SignIn {
        form_token: user.form_token,
        next,
        has_tokens: state.api.is_guarded(),
        rejected: false,
    })
}

async fn sign_in(
    State(state): State<PageState>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    form: Form,
) -> Page {
    let token = form.text("token").unwrap_or_default();
    let next = form.text("next").filter(|to| is_local(to)).unwrap_or("/");
    let peer = peer.ip().to_canonical();
    match state.api.sign_in(token, &headers, peer).await {
        Ok(id) => set(redirect(false, next)?, &form.user, &id, ""),
        Err(ApiError::Unauthorized(_) | ApiError::TooManyAttempts) => with_status(
            StatusCode::UNAUTHORIZED,
            &SignIn {
                form_token: form.user.form_token.clone(),
                next: next.to_owned(),
                has_tokens: state.api.is_guarded(),
                rejected: true,
            },
        ),
        Err(error) => Err(error.into()),
    }
}

async fn sign_out(
    State(state): State<PageState>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    form: Form,
) -> Page {
    let peer = peer.ip().to_canonical();
    state.api.sign_out(&headers, peer).await?;
    set(
        redirect(form.user.fragment, "/sign-in")?,
        &form.user,
        "",
        "; Max-Age=0",
    )
}

/// Sets the sign-in cookie and a new form token.
fn set(mut response: axum::response::Response, user: &SessionUser, id: &str, end: &str) -> Page {
    let cookie = format!("{}{end}", user.cookie(SIGN_IN_COOKIE, id));
    for cookie in [cookie, user.new_form_cookie()] {
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(header::SET_COOKIE, value);
        }
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_sign_in_shows_reason_and_keeps_target() {
        let page = |has_tokens, rejected| {
            let page = SignIn {
                form_token: "t".to_owned(),
                next: "/queue\"><script>".to_owned(),
                has_tokens,
                rejected,
            };
            page.render().unwrap()
        };
        let (first, again) = (page(true, false), page(true, true));
        assert!(!first.contains("This token is not configured"));
        assert!(again.contains("This token is not configured"), "{again}");
        for text in [first, again] {
            assert!(
                text.contains("type=\"password\"") && text.contains("value=\"/queue"),
                "{text}"
            );
            assert!(!text.contains("\"><script>"), "{text}");
        }
        assert!(
            !page(false, false).contains("type=\"password\""),
            "there is nothing to sign in with"
        );
    }
}
