//! Batches, as `/api/v1/batches` tells of them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{JobId, Kind, Priority, Purpose, text_enum};

text_enum! {
    /// Where a batch stands.
    pub enum BatchState {
        /// Its items are being inserted. Those of a rescore run already, others don't.
        Expanding = "expanding",
        /// Its items run.
        Running = "running",
        /// Its items don't run, until somebody resumes it.
        Paused = "paused",
        /// Each item has ended.
        Completed = "completed",
        /// Somebody ended it; what ran until then stands.
        Cancelled = "cancelled",
    }
}

text_enum! {
    /// What made a batch what it is.
    pub enum BatchOrigin {
        /// Its items were given.
        Suite = "suite",
        /// Its items were found by a filter.
        Rescore = "rescore",
    }
}

text_enum! {
    /// Who paused a batch.
    pub enum PausedBy {
        /// Somebody.
        Operator = "operator",
        /// What its calls cost has come to its budget.
        Budget = "budget",
    }
}

text_enum! {
    /// Whether the replies of a batch are collected.
    pub enum ProviderBatchState {
        /// They are being fetched; none of its items runs.
        Asked = "asked",
        /// They were; its items run, and ask for what is missing.
        Collected = "collected",
    }
}

text_enum! {
    /// Where a chunk stands.
    pub enum ChunkState {
        /// It is being handed over.
        Making = "making",
        /// The provider has it.
        Submitted = "submitted",
        /// Its answers are here.
        Collected = "collected",
        /// Nothing came of it.
        Failed = "failed",
    }
}

/// A batch: many items of one kind, asked for together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Batch {
    pub batch_id: Uuid,
    /// What its maker calls it.
    pub name: Option<String>,
    pub kind: Kind,
    /// Whether its items were given (`suite`) or found by a filter (`rescore`).
    pub origin: BatchOrigin,
    /// Where it stands.
    pub state: BatchState,
    /// How many of its items stand where.
    pub counts: BatchCounts,
    /// What its cases came to so far; null before the first, and for kind `session`.
    pub verdict: Option<BatchVerdict>,
    /// Why its items are judged; only `score` makes current scores.
    pub purpose: Purpose,
    /// What they are judged by; null for batches that are older than this field.
    pub criteria_hash: Option<String>,
    /// Of a rescore: which sessions; of `ids` their count.
    #[schema(value_type = Option<Object>)]
    pub filter: Option<Value>,
    /// Why it is paused; null: it isn't.
    pub paused: Option<BatchPause>,
    /// Why none of its items begins, although it isn't paused; null: some may.
    pub stopped: Option<Stopped>,
    /// Whether all its items are there.
    pub expanded: bool,
    /// Of a rescore: how many sessions were found and skipped so far.
    pub skipped: Option<Skipped>,
    /// The first 100 sessions that were skipped since they were being scored; empty in lists.
    pub in_progress: Vec<InProgress>,
    /// How provider batches collect its replies; null: they aren't. Left out of lists.
    pub economy: Option<ProviderBatch>,
    /// How far it is.
    pub progress: BatchProgress,
    /// It is paused once it has spent this, USD, or once a call had no price; null: no budget.
    pub budget_usd: Option<f64>,
    /// USD of its judge calls so far, as far as models have prices; retries of its items included. It is what a budget is held against.
    pub spent_usd: f64,
    /// Runs of its items, not calls, of which some call has no price: with any, it has spent more than `spent_usd`.
    pub unpriced_calls: i64,
    /// Tokens of its judge calls so far.
    pub tokens: BatchTokens,
    /// USD of its items' judge calls so far; null where a model has no price.
    pub cost_usd: Option<f64>,
    /// What its items are held against where they name nothing themselves.
    pub threshold: Option<f64>,
    pub created_by: String,
    /// Name of the token that authenticated the request.
    pub authenticated_as: Option<String>,
    /// Where to go from here.
    pub links: BatchLinks,
    pub times: BatchTimes,
}

/// How many items of a batch stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchCounts {
    /// All; still rising while the batch is `expanding`.
    pub total: i64,
    /// Not begun, or queued again.
    pub queued: i64,
    /// In a worker's hand.
    pub running: i64,
    /// Waiting with a reason.
    pub waiting: i64,
    /// Ended with a score.
    pub succeeded: i64,
    /// Ended without one, or with what could be computed alone.
    pub failed: i64,
    /// Cancelled.
    pub cancelled: i64,
}

/// What the cases of a batch came to so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchVerdict {
    /// Cases that passed.
    pub passed: i64,
    /// Cases that didn't.
    pub failed: i64,
    /// Cases without a score, since a part of it is missing: the judge failed or wasn't asked, or it couldn't be computed (SQL that can't
    /// be read).
    pub incomplete: i64,
    /// Cases without a score that counts: not ended, failed, cancelled, or scored by a simulated judge beside real ones.
    pub unscored: i64,
    /// `passed` of `passed` + `failed`, 0-1; null where there are neither.
    pub pass_rate: Option<f64>,
    /// The mean of the cases' totals, 0-1; null where there is none.
    pub mean: Option<f64>,
    /// The share of cases with a score, 0-1.
    pub coverage: f64,
    /// Whether these are figures of a simulated judge: they say nothing of the work.
    pub simulated: bool,
}

/// Why a batch is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchPause {
    /// `operator`: resume it. `budget`: it has spent that, or a call had no price, so that no budget holds; `reason` says which, and what to do.
    pub by: PausedBy,
    /// In words.
    pub reason: String,
}

/// A session that was skipped since it was being scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InProgress {
    pub session_id: Uuid,
    /// The job; null: it had ended by the time that it was looked for.
    #[schema(value_type = Option<Uuid>)]
    pub job_id: Option<JobId>,
}

/// Tokens of a batch's calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchTokens {
    /// Of prompts.
    #[serde(rename = "in")]
    pub tokens_in: i64,
    /// Of replies.
    #[serde(rename = "out")]
    pub tokens_out: i64,
}

/// How far a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchProgress {
    /// Items that have ended.
    pub done: i64,
    /// All; still rising until the batch is `expanded`.
    pub total: i64,
    /// Items a second within the last minute; null once the batch has ended.
    pub rate_per_s: Option<f64>,
    /// Seconds to its end at that rate; null where there is none to be seen, and while it is `stopped`.
    pub eta_s: Option<f64>,
}

/// Where to go from a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchLinks {
    #[serde(rename = "self")]
    pub this: String,
    /// Its items as jobs: a page of GET /api/v1/jobs.
    pub jobs: String,
    /// How far its scores lie apart; of repeats and juries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<String>,
    /// POST there to stop it; while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// POST there to let it go on; while it is paused, and has money left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// POST there to end it; while it runs or is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// POST another budget there.
    pub budget: String,
    /// POST there to queue its failed items again; while there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_errors: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchTimes {
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When it was completed or cancelled; null before.
    pub finished_at: Option<DateTime<Utc>>,
}

/// Why no item of a batch begins at the moment: all judges that it asks are stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Stopped {
    /// `paused`, `budget` (a cap is reached), `breaker_open`, `exhausted`, `misconfigured` or `no_worker_for_judge`; with several judges, of the one
    /// that goes on first.
    pub reason: String,
    /// In words.
    pub message: String,
    /// When it goes on by itself; null where that isn't known, or somebody must act first.
    pub until: Option<DateTime<Utc>>,
}

/// How many sessions were found and skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Skipped {
    /// Their current score is by these criteria already.
    pub already_current: i64,
    /// A job was active for them.
    pub in_progress: i64,
    /// They haven't ended, or have an empty conversation.
    pub not_scorable: i64,
    /// Ids that were named and aren't stored.
    pub unknown: i64,
}

impl Skipped {
    /// How many are skipped for which reason, in words.
    pub fn reasons(&self) -> [(i64, &'static str); 4] {
        [
            (self.already_current, "scored by these criteria already"),
            (self.in_progress, "being scored"),
            (self.not_scorable, "can't be scored"),
            (self.unknown, "unknown"),
        ]
    }
}

/// How the replies of a batch are fetched by its judge's batch endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProviderBatch {
    /// `asked`: they are being fetched, and none of its items runs; `collected`: they are here, and its items run.
    pub state: ProviderBatchState,
    /// What it waits for, in words; null: for the provider to answer.
    pub waits_for: Option<String>,
    /// Items whose replies were fetched.
    pub replied: i64,
    /// Items that are asked one by one, at the full price: the provider left them unanswered, or the answer can't be used.
    pub failed: i64,
    /// The provider's batches, in the order in which they were made.
    pub parts: Vec<ProviderChunk>,
}

/// One of the provider's batches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProviderChunk {
    /// Where it stands.
    pub state: ChunkState,
    /// The provider's name for it; null: it isn't known to have arrived.
    pub provider_id: Option<String>,
    /// When it was handed over.
    pub submitted_at: Option<DateTime<Utc>>,
    /// How many items it holds.
    pub requests: i64,
    /// How many of them have ended, as the provider says.
    pub done: i64,
    /// Why nothing came of it.
    pub error: Option<String>,
}

/// A page of batches, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Batches {
    pub items: Vec<Batch>,
    /// Where the next page begins; null on the last one.
    pub next_cursor: Option<String>,
}

/// What queueing a batch's failed items again did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchRetried {
    /// How many items were queued again.
    pub queued_again: u64,
    /// As it stands after that.
    pub batch: Batch,
}

/// The budget that a batch is to have from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetBody {
    /// USD, more than 0; null: none.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, exclusive_minimum = 0)]
    pub budget_usd: Option<f64>,
}

/// A batch in JSON; of other forms all but the items stands in the query string.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// The kind of all items.
    pub kind: Kind,
    /// What you call it; at most 200 characters.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// 0-1: what items are held against that name no threshold, where items of the kind have one.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub threshold: Option<f64>,
    /// USD: once its judge calls cost this, the batch is paused, and goes on with a larger one; a call without a price pauses it too.
    /// Its judge needs a price.
    #[serde(default)]
    #[schema(exclusive_minimum = 0)]
    pub budget_usd: Option<f64>,
    /// Stored criteria of the kind: 64 hex digits, at least the first 8, or `current`; left out: the current ones.
    #[serde(default)]
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    pub criteria_hash: Option<String>,
    /// Who waits: `bulk` (default) lets `interactive` work go first.
    #[serde(default)]
    pub priority: Option<Priority>,
    /// Whether cached replies are skipped.
    #[serde(default)]
    pub force_rescore: bool,
    /// The payloads, each as POST /api/v1/jobs takes it; at most 1,000,000 of 8 MiB.
    // Read from the file, one after the other: they never stand here.
    #[serde(default)]
    #[schema(required, value_type = Vec<Object>)]
    pub items: Vec<Value>,
}
