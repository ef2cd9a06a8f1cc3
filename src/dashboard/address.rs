//! Extractor of a page's query string, deserialized into the page's own type. A duplicate parameter is rejected because it is ambiguous.

use std::collections::BTreeMap;

use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::links::query;
use crate::api::{ApiError, Pairs, pairs_of, problem};

#[derive(Debug)]
pub(super) struct Address<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Address<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        Ok(Self(read(&parts.uri)?))
    }
}

/// Parameters of a list's address, as typed. An unknown filter is an error of the API, because ignoring it would apply an action to
/// all rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Filled(Pairs);

impl<S: Send + Sync> FromRequestParts<S> for Filled {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        read(&parts.uri).map(Self)
    }
}

impl Filled {
    #[cfg(test)]
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self(vec![(name.to_owned(), value.to_owned())])
    }

    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// Returns a parameter; empty if it isn't set.
    pub(super) fn of(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// Returns the filters, without order and position.
    pub(super) fn set(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter().filter(|(_, value)| !value.is_empty());
        let pairs = pairs.map(|(name, value)| (name.as_str(), value.as_str()));
        pairs.filter(|(name, _)| !matches!(*name, "sort" | "cursor"))
    }

    pub(super) fn is_set(&self) -> bool {
        self.set().next().is_some()
    }

    /// Returns the query string of another page: filters, order and position.
    pub(super) fn page(&self, cursor: &str) -> String {
        self.query(&[("sort", self.of("sort")), ("cursor", cursor)])
    }

    /// Returns the query string of the first page in another order.
    pub(super) fn sorted(&self, sort: &str) -> String {
        self.query(&[("sort", sort)])
    }

    pub(super) fn query(&self, more: &[(&str, &str)]) -> String {
        let pairs = self.set().chain(more.iter().copied());
        query(&pairs.collect::<Vec<_>>())
    }
}

fn read<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    let pairs = pairs_of(uri)?;
    let mut given = BTreeMap::<&str, usize>::new();
    for (name, _) in &pairs {
        *given.entry(name).or_default() += 1;
    }
    // PostgreSQL text can't contain NUL, and the page would be truncated there.
    if pairs.iter().any(|(_, value)| value.contains('\0')) {
        let message = "contains a NUL character: remove it from the query string";
        return Err(problem::of_field("query", message));
    }
    let repeated: Vec<(String, String)> = given
        .into_iter()
        .filter(|(_, times)| *times > 1)
        .map(|(name, times)| {
            let message = format!("is given {times} times: keep one of them in the address");
            (name.to_owned(), message)
        })
        .collect();
    if !repeated.is_empty() {
        return Err(problem::of_parameters(repeated));
    }
    let read = axum::extract::Query::<T>::try_from_uri(uri);
    read.map(|query| query.0).map_err(|error| {
        let why = error.body_text();
        let why = why
            .split_once("query string: ")
            .map_or(&*why, |(_, why)| why);
        match strange(why) {
            Some((name, known)) => {
                let message = format!("is not a filter of this page; use one of {known}");
                problem::of_field(name, &message)
            }
            None => {
                let message =
                    format!("can't be read: {why}; clear the address behind the question mark");
                problem::of_field("query", &message)
            }
        }
    })
}

/// Parses the unknown field and the list of known fields from serde's error message.
fn strange(why: &str) -> Option<(&str, String)> {
    let (_, after) = why.split_once("unknown field `")?;
    let (name, known) = after.split_once("`, expected ")?;
    let known = known.strip_prefix("one of ").unwrap_or(known);
    Some((name, known.replace('`', "")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Filter {
        q: String,
        tag: String,
    }

    fn asked(query: &str) -> Result<Filter, ApiError> {
        read(&format!("/sessions?{query}").parse().unwrap())
    }

    #[test]
    fn rejects_duplicate_parameters() {
        let problem = asked("q=a&tag=x&q=b&tag=&more=1&q=").unwrap_err().problem();
        let told: Vec<_> = problem
            .errors
            .iter()
            .map(|fault| (fault.pointer.as_str(), fault.message.as_str()))
            .collect();
        assert_eq!(problem.status, 422);
        assert_eq!(
            told,
            [
                ("/q", "is given 3 times: keep one of them in the address"),
                ("/tag", "is given 2 times: keep one of them in the address"),
            ]
        );
    }

    #[test]
    fn rejects_nul_characters() {
        let problem = asked("q=a%00b").unwrap_err().problem();
        assert!(
            problem.errors[0].message.contains("NUL character"),
            "{problem:?}"
        );
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Strict {
        min_score: String,
        tag: String,
    }

    #[test]
    fn rejects_unknown_filters_in_strict_types() {
        let uri = "/sessions?min=5".parse().unwrap();
        let problem = read::<Strict>(&uri).unwrap_err().problem();
        assert_eq!(
            (
                problem.errors[0].pointer.as_str(),
                problem.errors[0].message.as_str()
            ),
            (
                "/min",
                "is not a filter of this page; use one of min_score or tag"
            )
        );
    }

    #[test]
    fn ignores_unknown_parameters() {
        let filter = asked("tag=a%20b&q=&strange=1").unwrap();
        assert_eq!((filter.q.as_str(), filter.tag.as_str()), ("", "a b"));
        assert_eq!(asked("").unwrap(), Filter::default());
    }
}
