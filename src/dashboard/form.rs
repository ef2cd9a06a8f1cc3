//! What a form sends: its fields, once its token has been held against the browser's. A form that a page of ours didn't make is
//! refused.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::links;
use super::page::{Page, PageError, go};
use super::stale;
use super::state::PageState;
use super::user::SessionUser;
use crate::api::{ApiError, Authorized, READ_TIMEOUT, in_time, problem};

/// The fields of a form of ours.
#[derive(Debug)]
pub(super) struct Form {
    /// Who sent it.
    pub(super) user: SessionUser,
    fields: Vec<(String, String)>,
}

impl Form {
    /// A field's text; `None` where it is missing or empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(key, _)| key == name);
        let text = found.next().map(|(_, value)| value.trim());
        text.filter(|text| !text.is_empty())
    }

    /// Every value of a field that may be chosen several times, in order.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.fields.iter().filter(move |(key, _)| key == name);
        let texts = found.map(|(_, value)| value.trim());
        texts.filter(|text| !text.is_empty())
    }

    /// A field as a number or another value that is written as text; `None` where it is left empty.
    ///
    /// # Errors
    /// The field's name in words, if it can't be read.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        name: &str,
        wanted: &str,
    ) -> Result<Option<T>, ApiError> {
        self.text(name)
            .map(|text| serde_json::from_str(text))
            .transpose()
            .map_err(|_| problem::of_field(name, &format!("is not {wanted}")))
    }

    /// Those of these fields that are filled in, as the API's bodies have them.
    pub(super) fn texts(&self, names: &[&str]) -> Map<String, Value> {
        let filled = names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.text(name)?.into())));
        filled.collect()
    }

    /// What was filled in, for a form that comes next.
    pub(super) fn rest(&self) -> Vec<(String, String)> {
        let ours = |name: &str| matches!(name, "form_token" | "key");
        let filled = self.fields.iter();
        filled
            .filter(|(name, value)| !ours(name) && !value.trim().is_empty())
            .cloned()
            .collect()
    }

    /// Whether a box is ticked.
    pub(super) fn ticked(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// Every field but the token, in the form's order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &(String, String)> {
        let fields = self.fields.iter();
        fields.filter(|(name, _)| name != "form_token")
    }

    /// Does what POST to a route of the API does; a form with a field `key` once, however often it is sent. What a key keeps of an
    /// answer lies in the database for a day: no key where it holds a secret.
    pub(super) async fn post<R: Serialize, T, F>(
        &self,
        state: &PageState,
        route: &str,
        request: R,
        act: impl FnOnce(Authorized, R) -> F,
    ) -> Result<T, PageError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Future<Output = Result<T, ApiError>> + Send + 'static,
    {
        let sent = (&self.user.caller, self.text("key"));
        Ok(state.api.post(sent, route, request, act).await?)
    }

    /// Where to go afterwards: a path of ours.
    pub(super) fn back(&self) -> Option<&str> {
        links::back(&self.fields)
    }

    /// Leads there, or to this page.
    pub(super) fn back_to(&self, page: &str) -> Page {
        go(self.user.piece, self.back().unwrap_or(page))
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let Ok(user) = <SessionUser as axum::extract::FromRequestParts<S>>::from_request_parts(
            &mut parts, state,
        )
        .await;
        let request = Request::from_parts(parts.clone(), body);
        let reading = axum::Form::<Vec<(String, String)>>::from_request(request, state);
        let axum::Form(fields) = in_time(READ_TIMEOUT, reading)
            .await
            .map_err(IntoResponse::into_response)?
            .map_err(|error| problem::of_field("form", &error.body_text()).into_response())?;
        let form = Self { user, fields };
        if form.text("form_token") == Some(form.user.form_token.as_str()) {
            Ok(form)
        } else {
            Err(stale::answer(form.user, &form.fields, &parts))
        }
    }
}
