//! Path and query parameters. Unknown ones are errors that list the known ones.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::problem::{ApiError, escape};
use crate::api::ApiState;
use crate::clock::read_time;
use crate::store::Cursor;
use crate::wire::RequestFault;

pub(crate) const DEFAULT_LIMIT: u32 = 50;
pub(crate) const MAX_LIMIT: u32 = 500;

/// Query string of a request. Empty values count as absent, because forms send them.
pub(crate) struct Params {
    pairs: Vec<(String, String)>,
    known: Vec<&'static str>,
    faults: Vec<RequestFault>,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|error| ApiError::fault("", error.body_text()))?;
        Ok(Self::new(pairs))
    }
}

impl Params {
    pub(crate) fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self::new(pairs.iter().map(owned).collect())
    }

    fn new(pairs: Vec<(String, String)>) -> Self {
        Self {
            pairs,
            known: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Parses a parameter. Errors are collected for [`Params::finish`].
    pub(crate) fn take<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Option<T> {
        let text = self.text(name)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(name, format!("{error}"));
                None
            }
        }
    }

    /// Parses an integer in a range.
    pub(crate) fn whole<T: FromStr + PartialOrd + Display>(
        &mut self,
        name: &'static str,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        let read = self.text(name)?.parse::<T>().ok();
        let found = read.filter(|value| range.contains(value));
        if found.is_none() {
            let (least, most) = (range.start(), range.end());
            self.fault(name, format!("must be {least}-{most}"));
        }
        found
    }

    pub(crate) fn number(&mut self, name: &'static str) -> Option<f64> {
        let read = self.text(name)?.parse::<f64>().ok();
        if read.is_none() {
            self.fault(name, "must be a number, such as 0.5".to_owned());
        }
        read
    }

    pub(crate) fn time(&mut self, name: &'static str) -> Option<DateTime<Utc>> {
        let read = read_time(&self.text(name)?);
        read.map_err(|fault| self.fault(name, fault.to_owned()))
            .ok()
    }

    /// Returns a parameter as text.
    pub(crate) fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let mut found: Option<String> = None;
        let (mine, rest) = std::mem::take(&mut self.pairs)
            .into_iter()
            .partition(|(key, _)| key == name);
        self.pairs = rest;
        for (_, value) in mine {
            // Postgres can't store NUL, and no valid value has control characters.
            if value.chars().any(char::is_control) {
                self.fault(name, "contains control characters".to_owned());
                return None;
            }
            if found.replace(value).is_some() {
                self.fault(name, "is given more than once: keep one".to_owned());
            }
        }
        found.filter(|value| !value.is_empty())
    }

    /// Parses a boolean: `?name`, `?name=true`, `?name=1`; `false` and `0` are off.
    pub(crate) fn flag(&mut self, name: &'static str) -> bool {
        let given = self.pairs.iter().any(|(key, _)| key == name);
        match self.text(name).as_deref() {
            None | Some("true" | "1") => given,
            Some("false" | "0") => false,
            Some(_) => {
                self.fault(name, "must be true or false".to_owned());
                false
            }
        }
    }

    /// Parses `limit`, 1-500, default 50.
    pub(crate) fn limit(&mut self) -> u32 {
        self.whole("limit", 1..=MAX_LIMIT).unwrap_or(DEFAULT_LIMIT)
    }

    pub(crate) fn cursor(&mut self) -> Option<Cursor> {
        self.text("cursor").map(Cursor)
    }

    pub(crate) fn is_invalid(&self, name: &str) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| fault.pointer.strip_prefix('/') == Some(name))
    }

    /// Returns whether a parameter is present and not read yet.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.pairs.iter().any(|(key, _)| key == name)
    }

    /// Removes parameters with an error, so that it isn't reported twice.
    pub(crate) fn drop_invalid(&mut self) {
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.retain(|(name, _)| !self.is_invalid(name));
        self.pairs = pairs;
    }

    pub(crate) fn fault(&mut self, name: &str, message: String) {
        self.faults.push(RequestFault {
            pointer: format!("/{name}"),
            message,
        });
    }

    /// Returns all errors, including unknown parameters.
    pub(crate) fn finish(mut self) -> Result<(), ApiError> {
        let known = self.known.join(", ");
        for (name, _) in std::mem::take(&mut self.pairs) {
            let message = if known.is_empty() {
                "is unknown: this route has no parameters".to_owned()
            } else {
                format!("is unknown; known: {known}")
            };
            self.fault(&escape(&name), message);
        }
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(ApiError::Invalid(self.faults))
        }
    }
}

/// The single variable part of a path, decoded.
pub(crate) struct Segment(pub(crate) String);

impl FromRequestParts<ApiState> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let segment = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        match segment {
            Ok(axum::extract::Path(text)) if !text.chars().any(char::is_control) => Ok(Self(text)),
            Ok(_) | Err(_) => Err(ApiError::NoRoute),
        }
    }
}

/// Like [`Segment`], for a route without a query.
pub(crate) struct PathId(pub(crate) String);

impl FromRequestParts<ApiState> for PathId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let Segment(text) = Segment::from_request_parts(parts, state).await?;
        NoQuery::from_request_parts(parts, state).await?;
        Ok(Self(text))
    }
}

/// Rejects a query.
pub(crate) struct NoQuery;

impl FromRequestParts<ApiState> for NoQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let query = Params::from_request_parts(parts, state).await?;
        query.finish().map(|()| Self)
    }
}

pub(crate) fn uuid(text: &str, name: &str) -> Result<Uuid, ApiError> {
    // Only the hyphenated form, so that each session has one path.
    match Uuid::try_parse(text) {
        Ok(id) if text.len() == 36 => Ok(id),
        Ok(_) | Err(_) => Err(ApiError::fault(
            format!("/{name}"),
            "must be a UUID such as 0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(result: Result<(), ApiError>) -> Vec<String> {
        match result {
            Err(ApiError::Invalid(faults)) => {
                faults.into_iter().map(|fault| fault.pointer).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn reports_all_query_errors_at_once() {
        let mut query = Params::from_pairs(&[
            ("limit", "501"),
            ("n", "x"),
            ("typo", "1"),
            ("end", "maybe"),
        ]);
        assert_eq!(query.limit(), DEFAULT_LIMIT);
        assert_eq!(query.whole("n", 0..=9_u32), None);
        assert!(!query.flag("end"));
        assert_eq!(pointers(query.finish()), ["/limit", "/n", "/end", "/typo"]);
    }

    #[test]
    fn flag_is_on_if_present_and_not_false() {
        let given = [
            ("a", ""),
            ("b", "true"),
            ("c", "1"),
            ("d", "false"),
            ("e", "0"),
        ];
        let mut query = Params::from_pairs(&given);
        assert!(query.flag("a") && query.flag("b") && query.flag("c"));
        assert!(!query.flag("d") && !query.flag("e") && !query.flag("f"));
        assert_eq!(pointers(query.finish()), [""; 0]);
    }

    #[test]
    fn ignores_empty_and_rejects_duplicate_values() {
        let mut query = Params::from_pairs(&[("q", ""), ("limit", "2"), ("limit", "3")]);
        assert_eq!(query.text("q"), None);
        query.limit();
        assert_eq!(pointers(query.finish()), ["/limit"]);
    }
}
