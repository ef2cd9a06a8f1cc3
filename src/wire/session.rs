//! Agents' sessions, as `/api/v1/sessions` tells of them.

use crate::job::text_enum;

text_enum! {
    /// Where an agent's session stands, as TARSy names it.
    pub enum SessionStatus {
        /// Not begun.
        Pending = "pending",
        /// Under way.
        InProgress = "in_progress",
        /// Halted.
        Paused = "paused",
        /// Being cancelled (Go's spelling).
        Canceling = "canceling",
        /// Being cancelled (Python's spelling).
        Cancelling = "cancelling",
        /// Ended well.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Ended by somebody.
        Cancelled = "cancelled",
        /// Ended by the clock.
        TimedOut = "timed_out",
    }
}

impl SessionStatus {
    /// Whether the session has ended; only such sessions are scored.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled | Self::TimedOut => true,
            Self::Pending
            | Self::InProgress
            | Self::Paused
            | Self::Canceling
            | Self::Cancelling => false,
        }
    }
}
