//! What the service refuses, and how that reads: detail, each fault with its pointer, and the remedy. Decides nothing.

use serde::Serialize;
use serde_json::Value;

use super::{list, text};

/// What went wrong between us and the service.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none.
    #[error(
        "--server (GAVEL_SERVER): {0:?} is not an address; give one such as http://127.0.0.1:8080"
    )]
    Address(String),
    /// Nothing answers there.
    #[error("{base} doesn't answer: {reason}; is `gavel up` or `gavel serve` running there?")]
    Unreachable {
        /// The address.
        base: String,
        /// The transport's words.
        reason: String,
    },
    /// Its answer began, and didn't come to its end.
    #[error("the answer of {base} broke off: {reason}")]
    BrokeOff {
        /// The address.
        base: String,
        /// The transport's words.
        reason: String,
    },
    /// It answered with a problem.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// It answered with something that is not this API.
    #[error("{base} answered {what}: is this a gavel server of this version?")]
    Unexpected {
        /// The address and path.
        base: String,
        /// What came.
        what: String,
    },
    /// Something between us and the service says that it is away: a gateway's 502, 503 or 504 in its own words.
    #[error("{base} answered {status}: the service behind it is away")]
    Away {
        /// The address and path.
        base: String,
        /// The status.
        status: u16,
    },
}

impl ClientError {
    /// The problem's short name (the last part of its type), if it is one.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(problem.name()),
            Self::Address(_)
            | Self::Unreachable { .. }
            | Self::BrokeOff { .. }
            | Self::Unexpected { .. }
            | Self::Away { .. } => None,
        }
    }
}

/// A problem+json answer, RFC 9457, as far as people read it. It is written as its body.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Problem {
    /// The HTTP status.
    #[serde(skip)]
    pub status: u16,
    /// The whole body.
    pub body: Value,
}

impl Problem {
    /// The last part of its type: `session-not-found`.
    pub fn name(&self) -> &str {
        let kind = text(&self.body, "/type");
        kind.rsplit(['/', ':', '#']).next().unwrap_or(kind)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let detail = text(&self.body, "/detail");
        let title = text(&self.body, "/title");
        let said = [detail, title].into_iter().find(|said| !said.is_empty());
        write!(f, "{}", said.unwrap_or("the request was refused"))?;
        write!(f, " ({} {})", self.status, self.name())?;
        for error in list(&self.body, "/errors") {
            let pointer = text(error, "/pointer");
            let what = [text(error, "/detail"), text(error, "/message")];
            let what = what.into_iter().find(|what| !what.is_empty());
            let what = what.unwrap_or("is wrong");
            // A single fault is the detail already.
            if !detail.contains(what) {
                write!(f, "\n  {pointer}: {what}")?;
            }
        }
        let remedy = text(&self.body, "/remedy");
        if !remedy.is_empty() {
            write!(f, "\n  {remedy}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_that_the_detail_tells_is_not_told_twice() {
        let problem = Problem {
            status: 400,
            body: json!({
                "type": "urn:gavel:problem:invalid-request",
                "detail": "/criteria_hash: must be 64 hex digits",
                "errors": [{"pointer": "/criteria_hash", "message": "must be 64 hex digits"}],
            }),
        };
        assert_eq!(
            problem.to_string(),
            "/criteria_hash: must be 64 hex digits (400 invalid-request)"
        );
    }

    #[test]
    fn a_problem_reads_as_detail_errors_and_remedy() {
        let problem = Problem {
            status: 503,
            body: json!({
                "type": "/problems/judge-not-configured",
                "title": "Judge not configured",
                "detail": "judge \"openai-default\" has no key",
                "remedy": "set OPENAI_API_KEY",
                "errors": [{"pointer": "/criteria_hash", "detail": "is not stored"}],
            }),
        };
        assert_eq!(problem.name(), "judge-not-configured");
        assert_eq!(
            problem.to_string(),
            "judge \"openai-default\" has no key (503 judge-not-configured)\n  /criteria_hash: is not stored\n  set OPENAI_API_KEY"
        );
    }
}
