//! Storage of jobs, sessions, scores and replies in Postgres or SQLite. The only module that uses sqlx.
//!
//! Does not call judges or the queue, and awaits only the database within a transaction.
//!
//! Three tasks write in groups: rows that arrive during a commit are written by the next one. Two tasks read in groups. Failed
//! records are retried by another task. [`Store::close`] waits for all of them. Accepts, records and logged calls are durable
//! when they are acknowledged. A claim may be lost if Postgres crashes, because it is only repeated.
//!
//! Times have microseconds. NUL characters in text and JSON are stored as U+FFFD, because Postgres rejects them.

mod analytics;
mod batches;
mod budgets;
mod calls;
mod criteria;
mod database;
mod holds;
mod idempotency;
mod imports;
mod jobs;
mod judges;
mod open;
mod provider_batches;
mod ratings;
mod repositories;
mod retention;
mod scores;
mod sessions;
mod sign_ins;
mod webhooks;
mod workers;

pub use crate::wire::{SessionFilter, SessionOrder};
pub use analytics::rollup::DaysRolledUp;
pub use analytics::{
    Analytics, By, MadeBy, NameCount, Named, ScoreFilter, ScoreOf, ToolElsewhere, TotalCount,
};
pub use batches::backlog_steps::StepOutcome;
pub use batches::backlogs::{BacklogPlan, NewBacklog};
pub use batches::cancelling::{CancelStep, Cancelling};
pub use batches::figures::BatchFigures;
pub use batches::items::{AskedOfPanel, BatchItem, ConfidenceCount};
pub use batches::moves::{Added, Moved};
pub use batches::{BatchFilter, BatchRow, Batches, NewBatch};
pub use budgets::usage::{JudgeSpent, UsageSum, known_usd};
pub use budgets::{BatchPace, BatchSkip, BatchUsage, Budgets};
pub use calls::{Calls, JudgeCallRow};
pub use criteria::{
    Basis, CriteriaChoice, CriteriaDefinition, CriteriaName, CriteriaPairs, CriteriaVersions,
};
pub use database::db::StoreOptions;
pub use database::dialect::Dialect;
pub use database::error::{Outage, StoreError};
pub use database::last_outage::KnownOutage;
pub use database::page::{Cursor, Page};
pub use holds::{Hold, HoldTarget, Holds};
pub use idempotency::{IdempotencyKeys, KeptAnswer, KeyReservation, KeyUse, Reserved};
pub use imports::steps::{ImportEnd, ImportStep, Walked};
pub use imports::{ImportRow, Imports, NewImport, WalkPlace};
pub use jobs::accept::Accepted;
pub use jobs::claim::{CLAIM_GIVEN_UP, DueJob};
pub use jobs::figures::JobsFigure;
pub use jobs::first::FirstOutcome;
pub use jobs::record::{Ending, Fence, Record, RecordTicket, Recorded};
pub use jobs::rescue::{Died, Rescued};
pub use jobs::{JobCounts, JobFilter, Jobs};
pub use judges::{
    JudgeRow, JudgeTotal, Judges, MeterRow, PaceRow, PastReplies, RecentPace, wait_reason,
};
pub use open::{PoolUse, Store};
pub use provider_batches::chunks::{ChunkRow, NewChunk};
pub use provider_batches::{ItemAnswer, ProviderBatchRow, ProviderBatches};
pub use ratings::{GivenBy, NewRating, RatingOf, Ratings, RatingsMet, Unrated};
pub use retention::erasure::{Erased, Erasure};
pub use retention::{Aged, Expired, PruneStep, Pruning, Retention};
pub use scores::{GoodScores, NewEvaluation, NewSessionScore, Scores, SessionScoreRow};
pub use sessions::classify::{ClassifyRules, Disposition, Found, FoundPage, SessionPlace};
pub use sessions::facts::{KnownScore, ScoringFacts};
pub use sessions::list::SessionSummary;
pub use sessions::{SessionRecord, Sessions, StoredSession};
pub use sign_ins::{SignIn, SignIns};
pub use webhooks::{DeliveryFilter, DeliveryRow, DeliveryTry, MeanDrop, WebhookEndpoint, Webhooks};
pub use workers::{Heartbeat, RollCall, WorkerPulse, WorkerRow, Workers};

pub use crate::wire::SessionStatus;
