//! Whether a request came over TLS.

use axum::http::HeaderMap;

/// How a request came from its client, as far as we can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Transport {
    /// In the clear, or nobody whom we believe says otherwise.
    #[default]
    Plain,
    /// Over TLS, which a proxy that we trust took off.
    Tls,
}

impl Transport {
    /// The scheme that the client asked by.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls => "https",
        }
    }

    /// What a cookie of ours is called there. Browsers take `__Host-` of this very host alone, and over TLS.
    pub(crate) fn cookie(self, name: &str) -> String {
        match self {
            Self::Plain => name.to_owned(),
            Self::Tls => format!("__Host-{name}"),
        }
    }

    /// What a request says of itself, whoever sent it. Of several proxies each adds its own: the first met the client.
    pub(super) fn said(headers: &HeaderMap) -> Self {
        let protocol = headers.get("x-forwarded-proto");
        let protocol = protocol.and_then(|value| value.to_str().ok()?.split(',').next());
        match protocol {
            Some(name) if name.trim().eq_ignore_ascii_case("https") => Self::Tls,
            Some(_) | None => Self::Plain,
        }
    }
}
