//! Response to a form with an outdated token or from a signed-out user. No data changes, the page repeats the input, and the user can send
//! it again.
//!
//! The guard has already rejected forms of other sites. If the browser doesn't confirm that the form is from this site, the page has no
//! resend button, because an attacker may have filled it in.

use askama::Template;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};

use super::links::{PARTS, back, is_local, query};
use super::page::with_status;
use super::user::SessionUser;
use crate::api::{ApiError, FailedRequest};

/// Fields that the page doesn't repeat. The user enters them again.
const SECRET: [&str; 1] = ["token"];
/// Internal fields, not shown.
const UNSEEN: [&str; 5] = ["key", "back", "piece", "next", "sure"];

#[derive(Template)]
#[template(path = "stale_form.html")]
struct StaleForm {
    title: String,
    why: &'static str,
    sign_in: Option<String>,
    action: Option<String>,
    fields: Vec<(String, String)>,
    form_token: String,
    back: String,
}

impl StaleForm {
    fn parts() -> &'static [(&'static str, &'static str)] {
        PARTS
    }

    /// The visible input with labels.
    fn typed(&self) -> impl Iterator<Item = (String, &str)> {
        let shown = |name: &str, value: &str| !UNSEEN.contains(&name) && !value.trim().is_empty();
        let fields = self.fields.iter();
        fields
            .filter(move |(name, value)| shown(name, value))
            .map(|(name, value)| (name.replace('_', " "), value.as_str()))
    }
}

const CHANGED: &str = "This browser's cookie changed after you opened the form: you signed out, cleared it or closed the browser. The form had no effect.";
const SIGNED_OUT: &str =
    "You signed out in this browser, or your token is not valid any more. The form had no effect.";

/// Response to a form of a signed-out user. `None` if the form has no input to repeat, or if the form may be another site's.
pub(super) fn signed_out(asked: &FailedRequest) -> Option<Response> {
    if asked.form.is_empty() || !is_same_site(&asked.headers) {
        return None;
    }
    let sent = form_urlencoded::parse(&asked.form).into_owned();
    let (tokens, fields): (Vec<_>, Vec<_>) = sent.partition(|(name, _)| name == "form_token");
    if fields
        .iter()
        .any(|(name, _)| SECRET.contains(&name.as_str()))
    {
        return None;
    }
    let back = back(&fields).unwrap_or("/").to_owned();
    let path = asked.target.split('?').next().unwrap_or_default();
    let page = StaleForm {
        title: "You are signed out".to_owned(),
        why: SIGNED_OUT,
        sign_in: Some(format!("/sign-in{}", query(&[("next", back.as_str())]))),
        action: Some(path.to_owned()).filter(|path| is_local(path)),
        form_token: tokens
            .into_iter()
            .next()
            .map(|(_, token)| token)
            .unwrap_or_default(),
        back,
        fields,
    };
    page.typed().next()?;
    with_status(StatusCode::UNAUTHORIZED, &page).ok()
}

/// Whether the browser confirms that the form is from this site. The guard has compared both headers with this host.
fn is_same_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    text("origin").is_some() || text("sec-fetch-site") == Some("same-origin")
}

pub(super) fn answer(user: SessionUser, sent: &[(String, String)], parts: &Parts) -> Response {
    if user.fragment {
        return ApiError::StaleForm.into_response();
    }
    let same_site = is_same_site(&parts.headers);
    let typed = sent.iter().filter(|(name, _)| name != "form_token");
    let (secret, fields): (Vec<_>, Vec<_>) = typed
        .cloned()
        .partition(|(name, _)| SECRET.contains(&name.as_str()));
    let path = parts.uri.path();
    let page = StaleForm {
        title: ApiError::StaleForm.problem().title,
        why: CHANGED,
        sign_in: None,
        action: (same_site && secret.is_empty()).then(|| path.to_owned()),
        back: match secret.is_empty() {
            true => back(sent).unwrap_or("/").to_owned(),
            false => path.to_owned(),
        },
        fields,
        form_token: user.form_token,
    };
    with_status(StatusCode::FORBIDDEN, &page)
        .unwrap_or_else(axum::response::IntoResponse::into_response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_form_shows_only_typed_input() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let page = StaleForm {
            title: "The form is stale".to_owned(),
            why: CHANGED,
            sign_in: None,
            action: Some("/scores/1/rate".to_owned()),
            fields: vec![
                field("why", "<b>right</b>"),
                field("key", "secret-key"),
                field("your_name", " "),
            ],
            form_token: "new".to_owned(),
            back: "/scores/1".to_owned(),
        };
        let typed: Vec<_> = page.typed().collect();
        assert_eq!(typed, [("why".to_owned(), "<b>right</b>")]);
        let text = page.render().unwrap();
        assert!(
            text.contains("action=\"/scores/1/rate\"") && !text.contains("<b>right"),
            "{text}"
        );
        let none = StaleForm {
            action: None,
            ..page
        };
        assert!(
            !none.render().unwrap().contains("<form method=\"post\""),
            "nothing is sent from elsewhere"
        );
    }
}
