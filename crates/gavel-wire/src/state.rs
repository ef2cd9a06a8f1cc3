//! States of a job and the allowed transitions.
//!
//! ```text
//!              claim                 record
//!   ┌────────┐ ──────▶ ┌─────────┐ ─────────▶ succeeded
//!   │ queued │         │ running │ ─────────▶ failed ──┐ retry (same job, counters reset)
//!   └────────┘ ◀────── └─────────┘                     │
//!    ▲  ▲  │  drained,    │   ▲                        │
//!    │  │  │  rescued     │   │ claimed when due       │
//!    │  │  │              ▼   │                        │
//!    │  │  │           ┌─────────┐  wait_expired        │
//!    │  └──┼────────── │ waiting │ ─────────▶ failed    │
//!    │     │           └─────────┘                      │
//!    │     └──▶ cancelled (also from waiting, running)  │
//!    └──────────────────────────────────────────────────┘
//! ```
//!
//! `waiting` is only for jobs that were claimed. A pause belongs to a judge, the queue or a batch, never to a job.

use crate::text_enum;

text_enum! {
    pub enum JobState {
        /// Due, not claimed.
        Queued = "queued",
        Running = "running",
        /// Was claimed, then met a closed gate or a long delay. Makes no judge calls.
        Waiting = "waiting",
        Succeeded = "succeeded",
        /// Ended with an error class and a message.
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl JobState {
    /// Returns whether the job has ended. Only terminal rows have `finished_at`.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }

    pub fn successors(self) -> &'static [JobState] {
        match self {
            Self::Queued => &[Self::Running, Self::Cancelled],
            Self::Running => &[
                Self::Succeeded,
                Self::Failed,
                Self::Waiting,
                Self::Queued,
                Self::Cancelled,
            ],
            Self::Waiting => &[Self::Queued, Self::Running, Self::Failed, Self::Cancelled],
            Self::Failed => &[Self::Queued],
            Self::Succeeded | Self::Cancelled => &[],
        }
    }

    pub fn can_become(self, next: JobState) -> bool {
        self.successors().contains(&next)
    }
}

text_enum! {
    /// Reason of a wait. Rows store all but the first four.
    pub enum WaitReason {
        /// Other jobs go first.
        Queued = "queued",
        /// No worker is alive.
        NoWorker = "no_worker",
        /// No live worker can call its judge.
        NoWorkerForJudge = "no_worker_for_judge",
        /// The batch's replies are being fetched through the judge's batch endpoint, within a day. A POST to
        /// the session's score endpoint scores it immediately.
        Economy = "economy",
        /// The judge failed too often in a row. A probe follows after the cool-down.
        BreakerOpen = "breaker_open",
        /// The judge replied 429, or requested a delay over 10 s.
        Throttled = "throttled",
        /// The judge's requests or tokens per minute are used up (see GET /api/v1/judges). It resumes automatically.
        Paced = "paced",
        /// The judge's quota or spending limit is used up.
        Exhausted = "exhausted",
        /// The judge rejects the key, the model or the address.
        Misconfigured = "misconfigured",
        /// An operator paused the judge, the queue or the batch.
        Paused = "paused",
        /// The daily or monthly spending limit of its judge or of all judges is reached, or the batch's budget is used up.
        Budget = "budget",
        /// Transient failure of the store or of a source.
        Storage = "storage",
        /// The judge declined, and its fallback is unavailable now.
        Fallback = "fallback",
    }
}

impl WaitReason {
    /// Returns a short label for a queue or judge that is stopped.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::NoWorker => "no worker",
            Self::NoWorkerForJudge => "no worker for it",
            Self::Economy => "batch endpoint",
            Self::BreakerOpen => "failing",
            Self::Exhausted => "out of quota",
            Self::Budget => "spending cap reached",
            Self::Misconfigured => "rejected: key, model or address",
            Self::Throttled => "limits our rate",
            Self::Paced => "at its limit for this minute",
            Self::Paused => "paused",
            Self::Storage => "the database is unavailable",
            Self::Fallback => "its fallback can't be called",
        }
    }

    /// Returns the reason as a clause.
    pub fn description(self) -> &'static str {
        match self {
            Self::Queued => "it waits for its turn",
            Self::NoWorker => "no worker is alive",
            Self::NoWorkerForJudge => "no live worker can call its judge",
            Self::Paused => "its judge, its batch or the queue is paused",
            Self::Budget => "a budget or a spending cap is reached",
            Self::BreakerOpen => "its judge failed too often in a row and is paused for a while",
            Self::Throttled => "its judge limits our rate",
            Self::Paced => "its judge's requests or tokens a minute are used up for the moment",
            Self::Exhausted => "its judge's quota is used up",
            Self::Misconfigured => "its judge rejects the key, the model or the address",
            Self::Storage => "the database was unavailable",
            Self::Economy => {
                "its batch's replies are fetched by the judge's batch endpoint, within a day"
            }
            Self::Fallback => "its judge declined, and its fallback can't be called yet",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_transitions_match_the_diagram() {
        use JobState::{Cancelled, Failed, Queued, Running, Succeeded, Waiting};
        let legal = [
            (Queued, Running),
            (Queued, Cancelled),
            (Running, Succeeded),
            (Running, Failed),
            (Running, Waiting),
            (Running, Queued),
            (Running, Cancelled),
            (Waiting, Queued),
            (Waiting, Running),
            (Waiting, Failed),
            (Waiting, Cancelled),
            (Failed, Queued),
        ];
        for from in JobState::ALL {
            for to in JobState::ALL {
                assert_eq!(
                    from.can_become(*to),
                    legal.contains(&(*from, *to)),
                    "{from} -> {to}"
                );
            }
        }
    }

    #[test]
    fn only_retry_leaves_a_terminal_state() {
        for state in JobState::ALL.iter().filter(|s| s.is_terminal()) {
            let expected: &[JobState] = match state {
                JobState::Failed => &[JobState::Queued],
                JobState::Queued
                | JobState::Running
                | JobState::Waiting
                | JobState::Succeeded
                | JobState::Cancelled => &[],
            };
            assert_eq!(state.successors(), expected, "{state}");
        }
    }

    #[test]
    fn parses_names_and_lists_them_if_unknown() {
        for state in JobState::ALL {
            assert_eq!(state.as_str().parse::<JobState>().as_ref(), Ok(state));
        }
        let error = "done".parse::<JobState>().expect_err("not a state");
        assert!(error.to_string().contains("queued, running"), "{error}");
    }
}
