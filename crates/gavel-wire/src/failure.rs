//! Failure classes of jobs, each with a remedy.

use crate::text_enum;

text_enum! {
    /// Class of a failure, as stored in `error_class`.
    pub enum FailureClass {
        /// The judge was unreachable or replied 5xx, also on retries.
        Transient = "transient",
        Throttled = "throttled",
        /// Quota or spending limit used up.
        Exhausted = "exhausted",
        /// Key, model or address rejected.
        Misconfigured = "misconfigured",
        /// The judge rejects a request field that couldn't be dropped or renamed.
        Capability = "capability",
        /// The prompt exceeds the judge's context window.
        TooLarge = "too_large",
        /// Two replies were cut off.
        Truncated = "truncated",
        /// The judge declined to reply.
        Refused = "refused",
        /// The judge replied with a permanent error status.
        Rejected = "rejected",
        /// The reply didn't match the schema, also after a repair.
        Unparsable = "unparsable",
        /// The stored subject or criteria can't be judged.
        BadInput = "bad_input",
        /// A bug in Gavel: a caught panic.
        Internal = "internal",
        /// The job's workers died while running it.
        Poison = "poison",
        /// Waited longer than `max_wait`.
        WaitExpired = "wait_expired",
    }
}

impl FailureClass {
    /// Returns the suggested fix, one sentence.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Transient => {
                "Check that the judge's address is reachable and healthy, then retry the job."
            }
            Self::Throttled => {
                "Lower the concurrency or raise the provider's rate limit, then retry the job."
            }
            Self::Exhausted => {
                "Top up the provider's quota or spend limit, resume the judge, then retry the job."
            }
            Self::Misconfigured => {
                "Correct the judge's key, model or base_url (its variables, such as OPENAI_API_KEY, or llm_providers.yaml), restart or resume the judge, then retry the job."
            }
            Self::Capability => {
                "Choose a model that accepts structured replies, or remove the rejected parameter from llm_providers.yaml."
            }
            Self::TooLarge => {
                "Choose a judge with a larger context window, correct context_window in llm_providers.yaml, let the criteria trim (judge.trim: auto), or send less to judge."
            }
            Self::Truncated => {
                "Raise the judge's max_output_tokens in llm_providers.yaml, then retry the job."
            }
            Self::Refused => {
                "Check the judged content for material that the provider declines, use another judge, or give this one a fallback in llm_providers.yaml."
            }
            Self::Rejected => {
                "Read the judge's message: it rejected the request; check base_url and the model's documentation."
            }
            Self::Unparsable => {
                "Read the raw reply among the job's judge calls (`gavel jobs show ID --calls`); choose a model that follows a JSON schema."
            }
            Self::BadInput => {
                "Correct the judged content or the criteria according to the message, then retry the job."
            }
            Self::Internal => {
                "This is a bug in gavel: report it with the job's id and the log around it."
            }
            Self::Poison => {
                "This job was running each time its worker died: check the workers' logs for out-of-memory kills."
            }
            Self::WaitExpired => {
                "Find out why the judge was closed, reopen it, then retry the job."
            }
        }
    }
}
