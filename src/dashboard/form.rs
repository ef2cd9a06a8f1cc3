//! Extractor of a form's fields. Rejects a form if its token differs from the browser's cookie.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::links;
use super::page::{Page, PageError, redirect};
use super::stale;
use super::state::PageState;
use super::user::SessionUser;
use crate::api::{ApiError, ApiResult, Authorized, READ_TIMEOUT, in_time, problem};

#[derive(Debug)]
pub(super) struct Form {
    pub(super) user: SessionUser,
    fields: Vec<(String, String)>,
}

impl Form {
    /// Text of a field. `None` if it is missing or empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(key, _)| key == name);
        let text = found.next().map(|(_, value)| value.trim());
        text.filter(|text| !text.is_empty())
    }

    /// All values of a multi-select field, in order.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.fields.iter().filter(move |(key, _)| key == name);
        let texts = found.map(|(_, value)| value.trim());
        texts.filter(|text| !text.is_empty())
    }

    /// Parses a field. `None` if it is empty.
    ///
    /// # Errors
    /// The field can't be parsed; the message names it.
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

    /// The non-empty fields among `names`, as a JSON object for the API.
    pub(super) fn texts(&self, names: &[&str]) -> Map<String, Value> {
        let filled = names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.text(name)?.into())));
        filled.collect()
    }

    /// All fields except the token and the key, for the next form.
    pub(super) fn rest(&self) -> Vec<(String, String)> {
        let ours = |name: &str| matches!(name, "form_token" | "key");
        let filled = self.fields.iter();
        filled
            .filter(|(name, value)| !ours(name) && !value.trim().is_empty())
            .cloned()
            .collect()
    }

    pub(super) fn ticked(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = &(String, String)> {
        let fields = self.fields.iter();
        fields.filter(|(name, _)| name != "form_token")
    }

    /// Runs the API function of a POST route. A form with a `key` runs at most once. A keyed response is stored in the database for a day,
    /// so a form must not have a key if its response contains a secret.
    pub(super) async fn post<R: Serialize, T, F>(
        &self,
        state: &PageState,
        route: &str,
        request: R,
        act: impl FnOnce(Authorized, R) -> F,
    ) -> Result<T, PageError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Future<Output = ApiResult<T>> + Send + 'static,
    {
        let sent = (&self.user.caller, self.text("key"));
        Ok(state.api.post(sent, route, request, act).await?)
    }

    pub(super) fn back(&self) -> Option<&str> {
        links::back(&self.fields)
    }

    /// Redirects to the `back` path, otherwise to `page`.
    pub(super) fn back_to(&self, page: &str) -> Page {
        redirect(self.user.fragment, self.back().unwrap_or(page))
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
