//! A form whose token isn't the browser's: nothing is done, what was typed is kept, and the person may send it again.
//!
//! The guard has refused forms of other sites before. Where a browser doesn't say that the form is this site's, there is no button
//! that sends it again: somebody else may have filled it in.

use askama::Template;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};

use super::form::Form;
use super::frame::PARTS;
use super::page::with_status;
use crate::api::Problem;

/// Fields that are never shown, nor sent back: they are entered anew.
const SECRET: [&str; 1] = ["token"];
/// Fields that mean something to the server alone.
const UNSEEN: [&str; 5] = ["key", "back", "piece", "next", "sure"];

/// What was typed, and a button that sends it again.
#[derive(Template)]
#[template(path = "stale_form.html")]
struct StaleForm {
    title: String,
    action: Option<String>,
    fields: Vec<(String, String)>,
    form_token: String,
    back: String,
}

impl StaleForm {
    fn parts() -> [(&'static str, &'static str); 6] {
        PARTS
    }

    /// What was typed, with names for people.
    fn typed(&self) -> impl Iterator<Item = (String, &str)> {
        let shown = |name: &str, value: &str| !UNSEEN.contains(&name) && !value.trim().is_empty();
        let fields = self.fields.iter();
        fields
            .filter(move |(name, value)| shown(name, value))
            .map(|(name, value)| (name.replace('_', " "), value.as_str()))
    }
}

/// What a browser gets for such a form.
pub(super) fn answer(form: &Form, parts: &Parts) -> Response {
    let problem = Problem::stale_form();
    if form.visitor.piece {
        return problem.into_response();
    }
    let text = |name: &str| parts.headers.get(name)?.to_str().ok();
    // Both were held against this host by the guard.
    let same_site = text("origin").is_some() || text("sec-fetch-site") == Some("same-origin");
    let (secret, fields): (Vec<_>, Vec<_>) = form
        .pairs()
        .cloned()
        .partition(|(name, _)| SECRET.contains(&name.as_str()));
    let path = parts.uri.path();
    let page = StaleForm {
        title: problem.title,
        action: (same_site && secret.is_empty()).then(|| path.to_owned()),
        back: if secret.is_empty() {
            form.back().unwrap_or("/").to_owned()
        } else {
            path.to_owned()
        },
        fields,
        form_token: form.visitor.form_token.clone(),
    };
    with_status(StatusCode::FORBIDDEN, &page)
        .unwrap_or_else(axum::response::IntoResponse::into_response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_shown_and_sent_again_and_nothing_else_is_seen() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let page = StaleForm {
            title: "The form is stale".to_owned(),
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
