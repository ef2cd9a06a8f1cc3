//! Transport of a request: plain or TLS.

use axum::http::HeaderMap;

/// Transport between the client and the first proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Transport {
    /// Without TLS, or without a trusted proxy that reports TLS.
    #[default]
    Plain,
    /// Over TLS, terminated by a trusted proxy.
    Tls,
}

impl Transport {
    /// Returns the client's scheme.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls => "https",
        }
    }

    /// Returns the name of our cookie. Browsers accept the prefix `__Host-` only over TLS and for this exact host.
    pub(crate) fn cookie(self, name: &str) -> String {
        match self {
            Self::Plain => name.to_owned(),
            Self::Tls => format!("__Host-{name}"),
        }
    }

    /// Parses the forwarded protocol, without checking the sender. With several proxies, the first value is from the
    /// one that met the client.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let protocol = headers.get("x-forwarded-proto");
        let protocol = protocol.and_then(|value| value.to_str().ok()?.split(',').next());
        match protocol {
            Some(name) if name.trim().eq_ignore_ascii_case("https") => Self::Tls,
            Some(_) | None => Self::Plain,
        }
    }
}
