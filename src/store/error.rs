//! What can go wrong in the store, by what the caller does next.

/// A store error.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database can't be reached or failed for a passing reason, twice: 503 + Retry-After at the API, back off in a worker.
    #[error("database unavailable while {attempted}: {reason}")]
    Unavailable {
        /// What was attempted.
        attempted: &'static str,
        /// The driver's words.
        reason: String,
    },
    /// The schema is not the one this binary needs: `gavel migrate`.
    #[error("database schema: {0}")]
    Schema(String),
    /// A stored value doesn't read back, or a statement is wrong: a bug, or a hand in the tables.
    #[error("database answered unexpectedly while {attempted}: {reason}")]
    Unexpected {
        /// What was attempted.
        attempted: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A cursor that this list didn't give.
    #[error("cursor: {0}")]
    BadCursor(String),
}
