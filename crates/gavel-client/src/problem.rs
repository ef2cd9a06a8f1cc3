use gavel_wire::Problem;

/// Error of a request to the service.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Invalid address.
    #[error(
        "--server (GAVEL_SERVER): {0:?} is not an address; give one such as http://127.0.0.1:8080"
    )]
    Address(String),
    /// No response.
    #[error("{base} doesn't answer: {reason}; is gavel running there?")]
    Unreachable {
        /// Address of the server.
        base: String,
        /// Transport error.
        reason: String,
    },
    /// Incomplete response.
    #[error("the answer of {base} broke off: {reason}")]
    BrokeOff {
        /// Address of the server.
        base: String,
        /// Transport error.
        reason: String,
    },
    /// Problem returned by the service.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// Response that is not from this API.
    #[error("{base} returned {what}: is this a gavel server of this version?")]
    Unexpected {
        /// Address and path.
        base: String,
        /// Description of the response.
        what: String,
    },
    /// A gateway reports the service as unavailable: a 429, 502, 503 or 504 without a problem body.
    #[error("{base} returned {status}: the service behind it is unavailable or overloaded")]
    Away {
        /// Address and path.
        base: String,
        /// HTTP status.
        status: u16,
    },
}

impl ClientError {
    /// Returns the problem's short name, the last part of its type. `None` for other errors.
    pub fn problem(&self) -> Option<&str> {
        let Self::Refused(problem) = self else {
            return None;
        };
        Some(problem.name())
    }

    /// Whether a retry of the request may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::BrokeOff { .. } | Self::Away { .. } => true,
            Self::Refused(problem) => match problem.name() {
                "judge-not-configured" | "scoring-disabled" => false,
                "idempotency-key-in-use" => true,
                _ => matches!(problem.status, 429 | 500 | 502 | 503 | 504),
            },
            Self::Address(_) | Self::Unexpected { .. } => false,
        }
    }
}
