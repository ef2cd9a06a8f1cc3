//! URL of a TARSy: http or https, a host, and optionally a path before `/api`. No credentials.

use std::fmt;

use crate::outbound::Route;

/// Base URL of a TARSy, without a trailing slash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    base: String,
    origin: String,
    route: Route,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAddress(&'static str);

impl Address {
    /// Parses a URL. Different spellings of one location give the same address.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let url = reqwest::Url::parse(text.trim()).map_err(|_| {
            BadAddress("is not an address; give one such as https://tarsy.example.com")
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadAddress("must start with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadAddress(
                "contains a user or a password; set a token in history.token (GAVEL_HISTORY_TOKEN)",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BadAddress("contains a query or a fragment; remove it"));
        }
        if url.host_str().is_none() {
            return Err(BadAddress("has no host"));
        }
        Ok(Self {
            base: url.as_str().trim_end_matches('/').to_owned(),
            origin: url.origin().ascii_serialization(),
            route: Route::to(url.as_str()),
        })
    }

    /// Returns whether scheme, host and port are equal, so that a secret of one may be sent to the other.
    pub fn same_origin(&self, other: &Self) -> bool {
        self.origin == other.origin
    }

    /// Returns whether requests may use the system's proxy.
    pub(super) fn route(&self) -> Route {
        self.route
    }

    /// Returns the URL of a path that starts with a slash.
    pub(super) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_spellings_are_equal() {
        let one = Address::parse("HTTPS://Tarsy.Example.com:443/").unwrap();
        assert_eq!(one, Address::parse("https://tarsy.example.com").unwrap());
        assert_eq!(one.to_string(), "https://tarsy.example.com");
        let below = Address::parse("https://tarsy.example.com/team/").unwrap();
        assert_eq!(
            below.join("/api/v1/sessions"),
            "https://tarsy.example.com/team/api/v1/sessions"
        );
        assert!(below.same_origin(&one) && below != one);
        let other = Address::parse("http://tarsy.example.com").unwrap();
        assert!(!other.same_origin(&one));
    }

    #[test]
    fn rejects_invalid_urls() {
        for text in [
            "",
            "tarsy",
            "tarsy.example.com:80",
            "ftp://host",
            "file:///etc/passwd",
            "http://user@host",
            "http://user:pass@host",
            "http://host/?a=1",
            "http://host/#a",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
