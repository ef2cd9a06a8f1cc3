//! Types of `/api/v1/batches`.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{JobId, Kind, Priority, Purpose, text_enum};

text_enum! {
    pub enum BatchState {
        /// Its items are being inserted. Items of a rescore already run, others don't.
        Expanding = "expanding",
        Running = "running",
        /// Its items don't run until an operator resumes it.
        Paused = "paused",
        Completed = "completed",
        /// Cancelled by an operator. Results so far remain valid.
        Cancelled = "cancelled",
    }
}

text_enum! {
    /// Source of a batch's items.
    pub enum BatchOrigin {
        /// The client sent the items.
        Suite = "suite",
        /// A filter selected the items.
        Rescore = "rescore",
    }
}

text_enum! {
    pub enum PausedBy {
        Operator = "operator",
        /// Its call costs reached its budget.
        Budget = "budget",
    }
}

text_enum! {
    /// State of collecting replies through the provider's batch endpoint.
    pub enum ProviderBatchState {
        /// Replies are being fetched. No item runs.
        Asked = "asked",
        /// Replies are collected. Items run and call the judge for missing replies.
        Collected = "collected",
    }
}

text_enum! {
    pub enum ChunkState {
        Making = "making",
        Submitted = "submitted",
        Collected = "collected",
        Failed = "failed",
    }
}

/// A batch: many items of one kind in one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Batch {
    pub batch_id: Uuid,
    pub name: Option<String>,
    pub kind: Kind,
    /// `suite`: the client sent the items. `rescore`: a filter selected them.
    pub origin: BatchOrigin,
    pub state: BatchState,
    pub counts: BatchCounts,
    /// Aggregate result of its cases so far. Null before the first case ends, and for kind `session`.
    pub verdict: Option<BatchVerdict>,
    /// Purpose of its items. Only `score` produces current scores.
    pub purpose: Purpose,
    /// Hash of the criteria. Null for batches created before this field existed.
    pub criteria_hash: Option<String>,
    /// Session filter of a rescore. For `ids`, their count.
    #[schema(value_type = Option<Object>)]
    pub filter: Option<Value>,
    /// Reason of the pause. Null if it isn't paused.
    pub paused: Option<BatchPause>,
    /// Reason why no item starts although the batch isn't paused. Null if items can start.
    pub stopped: Option<Stopped>,
    /// Whether all items are inserted.
    pub expanded: bool,
    /// Rescore only: number of sessions skipped so far.
    pub skipped: Option<Skipped>,
    /// First 100 sessions skipped because they were being scored. Empty in lists.
    pub in_progress: Vec<InProgress>,
    /// Progress at the provider's batch endpoint. Null if the batch doesn't use it. Absent in lists.
    pub economy: Option<ProviderBatch>,
    pub progress: BatchProgress,
    /// Budget in USD. The batch pauses once it has spent this, or after a call without a price. Null: no budget.
    pub budget_usd: Option<f64>,
    /// USD of its judge calls so far, including retries of its items. Excludes models without a price. The budget limits this value.
    pub spent_usd: f64,
    /// Number of item runs, not calls, with at least one unpriced call. If above 0, the real cost exceeds `spent_usd`.
    pub unpriced_calls: i64,
    pub tokens: BatchTokens,
    /// USD of its items' judge calls so far. Null if a model has no price.
    pub cost_usd: Option<f64>,
    /// Threshold of items without their own.
    pub threshold: Option<f64>,
    pub created_by: String,
    /// Name of the token that authenticated the request.
    pub authenticated_as: Option<String>,
    pub links: BatchLinks,
    pub times: BatchTimes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchCounts {
    /// All items. Rises while the batch is `expanding`.
    pub total: i64,
    /// Not started, or requeued.
    pub queued: i64,
    pub running: i64,
    pub waiting: i64,
    pub succeeded: i64,
    /// Ended without a score, or with only the part computed without a judge.
    pub failed: i64,
    pub cancelled: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchVerdict {
    pub passed: i64,
    /// Cases that failed their threshold.
    pub failed: i64,
    /// Cases with a partial score: the judge failed or wasn't called, or a metric couldn't be computed (invalid SQL).
    pub incomplete: i64,
    /// Cases without a valid score: not ended, failed, cancelled, or scored by a simulated judge in a batch that also uses real ones.
    pub unscored: i64,
    /// `passed` / (`passed` + `failed`), 0-1. Null if both are 0.
    pub pass_rate: Option<f64>,
    /// Mean of the cases' totals, 0-1. Null without totals.
    pub mean: Option<f64>,
    /// Share of cases with a score, 0-1.
    pub coverage: f64,
    /// Whether a simulated judge produced these values. They don't measure quality.
    pub simulated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchPause {
    /// `operator`: resume the batch. `budget`: the budget is used up, or a call had no price and the budget can't be
    /// enforced. `reason` has the details and the fix.
    pub by: PausedBy,
    pub reason: String,
}

/// A session skipped because it was being scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InProgress {
    pub session_id: Uuid,
    /// Its job. Null if the job had ended by the time of the lookup.
    #[schema(value_type = Option<Uuid>)]
    pub job_id: Option<JobId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchTokens {
    #[serde(rename = "in")]
    pub tokens_in: i64,
    #[serde(rename = "out")]
    pub tokens_out: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchProgress {
    pub done: i64,
    /// All items. Rises until the batch is `expanded`.
    pub total: i64,
    /// Items per second in the last minute. Null once the batch has ended.
    pub rate_per_s: Option<f64>,
    /// Estimated seconds to the end at that rate. Null without an estimate, and while the batch is `stopped`.
    pub eta_s: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchLinks {
    #[serde(rename = "self")]
    pub this: String,
    /// Its items as jobs: a page of GET /api/v1/jobs.
    pub jobs: String,
    /// Spread of its scores. Only for repeats and juries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<String>,
    /// POST pauses it. Present while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// POST resumes it. Present while it is paused and has budget left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// POST cancels it. Present while it runs or is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    pub budget: String,
    /// POST requeues its failed items. Present if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_errors: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchTimes {
    pub created_at: DateTime<Utc>,
    /// Time of completion or cancellation. Null before.
    pub finished_at: Option<DateTime<Utc>>,
}

/// Reason why no item of a batch can start: all its judges are stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Stopped {
    /// `paused`, `budget` (a spending limit is reached), `breaker_open`, `exhausted`, `misconfigured` or
    /// `no_worker_for_judge`. With several judges, the reason of the first to resume.
    pub reason: String,
    pub message: String,
    /// Time at which it resumes automatically. Null if unknown, or if an operator must act first.
    pub until: Option<DateTime<Utc>>,
}

/// Number of sessions that a rescore skipped, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Skipped {
    /// Sessions with a current score by these criteria.
    pub already_current: i64,
    pub in_progress: i64,
    /// Sessions that haven't ended or have an empty conversation.
    pub not_scorable: i64,
    /// Requested ids without a stored session.
    pub unknown: i64,
}

impl Skipped {
    /// Returns the count and text of each reason.
    pub fn reasons(&self) -> [(i64, &'static str); 4] {
        [
            (self.already_current, "scored by these criteria already"),
            (self.in_progress, "being scored"),
            (self.not_scorable, "can't be scored"),
            (self.unknown, "unknown"),
        ]
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProviderBatch {
    /// `asked`: replies are being fetched and no item runs. `collected`: replies are stored and items run.
    pub state: ProviderBatchState,
    /// Blocking condition. Null while waiting for the provider's replies.
    pub waits_for: Option<String>,
    pub replied: i64,
    /// Number of items that call the judge individually at full price, because the provider's reply was missing or unusable.
    pub failed: i64,
    /// The provider's batches, in order of creation.
    pub parts: Vec<ProviderChunk>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProviderChunk {
    pub state: ChunkState,
    /// The provider's id of it. Null until the provider confirmed it.
    pub provider_id: Option<String>,
    pub submitted_at: Option<DateTime<Utc>>,
    pub requests: i64,
    /// Number of its ended items, as reported by the provider.
    pub done: i64,
    pub error: Option<String>,
}

/// A page of batches, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Batches {
    pub items: Vec<Batch>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchRetried {
    pub queued_again: u64,
    pub batch: Batch,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetBody {
    /// USD, more than 0. Null: no budget.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, exclusive_minimum = 0)]
    pub budget_usd: Option<f64>,
}

/// A batch in JSON. The other formats pass all fields except `items` in the query string.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    pub kind: Kind,
    /// Display name, at most 200 characters.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    pub name: Option<String>,
    /// Threshold, 0-1, of items without their own. Only for kinds with a threshold.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub threshold: Option<f64>,
    /// Budget in USD. The batch pauses when its judge calls reach it, or after a call without a price. It resumes with
    /// a larger budget. The judge needs a price.
    #[serde(default)]
    #[schema(exclusive_minimum = 0)]
    pub budget_usd: Option<f64>,
    /// Stored criteria of this kind: 64 hex digits, a prefix of at least 8, or `current`. Default: the current criteria.
    #[serde(default)]
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    pub criteria_hash: Option<String>,
    /// Priority. With `bulk` (default), `interactive` work goes first.
    #[serde(default)]
    pub priority: Option<Priority>,
    /// Whether to bypass cached replies.
    #[serde(default)]
    pub force_rescore: bool,
    /// Payloads as for POST /api/v1/jobs. At most 1,000,000 of 8 MiB each.
    // Always empty here, because items are streamed from the file.
    #[serde(default)]
    #[schema(required, value_type = Vec<Object>)]
    pub items: Vec<Value>,
}
