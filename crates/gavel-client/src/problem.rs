//! What goes wrong between a caller and the service, and how that reads. Decides nothing.

use gavel_wire::Problem;

/// What went wrong between us and the service.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none.
    #[error(
        "--server (GAVEL_SERVER): {0:?} is not an address; give one such as http://127.0.0.1:8080"
    )]
    Address(String),
    /// Nothing answers there.
    #[error("{base} doesn't answer: {reason}; is gavel running there?")]
    Unreachable {
        /// The server that was asked.
        base: String,
        /// The transport's words.
        reason: String,
    },
    /// Its answer began, and didn't come to its end.
    #[error("the answer of {base} broke off: {reason}")]
    BrokeOff {
        /// The server that was asked.
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
    /// Something between us and the service says that it is away: a gateway's 429, 502, 503 or 504 in its own words.
    #[error("{base} answered {status}: the service behind it is away, or has too much to do")]
    Away {
        /// The address and path.
        base: String,
        /// The HTTP status.
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
