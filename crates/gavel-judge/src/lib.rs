//! Puts one question to one model: flight -> cache -> permit -> gate -> provider -> parse -> (repair), with retries.
//!
//! Judges know no jobs, sessions or database rows: they map a [`Question`] to a [`JudgeAnswer`] or a wait. They store calls through the
//! trait [`CallLog`], which the store implements and `app` connects.

mod ask;
mod cache;
mod call_log;
mod concurrency;
mod entries;
pub mod gate;
mod json;
mod probe;
pub mod provider;
mod reply;
mod retry;
mod timer;

use gavel_rules::{error, question, tokens};

pub use ask::{
    AskContext, AskEnd, AskOutcome, BatchEndpoint, Collected, HandedOver, Judge, JudgeWiring,
    Judges, Precomputed,
};
pub use cache::CacheKey;
pub use call_log::{CallLog, CallRecord, CallUsage};
pub use concurrency::{CallPermits, ConcurrencyPermit, PermitHooks, Unbounded};
pub use entries::{Cap, Caps, EntryCap, JudgeSpec, NotConfigured, Providers};
pub use gavel_rules::{
    Check, ErrorClass, Fault, JudgeAnswer, JudgeError, Limits, ModelFamily, Nonce, PromptText,
    Question, Reply, ReplySchema, Shrink, Target,
};
pub use probe::{Probed, probe};
pub use provider::{
    Added, Answers, Chunk, ChunkLookup, ChunkSize, CollectedAnswer, Progress, Uploaded,
};
pub use retry::{Jitter, RetryOptions};
pub use timer::sleep_awake;
