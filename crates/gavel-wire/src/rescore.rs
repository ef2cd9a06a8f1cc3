//! Types of POST `/api/v1/rescore`, including the plan of a `dry_run`.

use serde::{Deserialize, Serialize};

use super::Skipped;
use crate::{Priority, Purpose, SessionFilter, text_enum};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RescoreRequest {
    /// Display name, at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Filter of the sessions stored so far. Default: all.
    #[serde(default)]
    pub filter: SessionFilter,
    /// Stored criteria for sessions: 64 hex digits, a prefix of at least 8, or `current`. Default: the current criteria.
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria_hash: Option<String>,
    /// Whether to include sessions with a score by these criteria and to bypass cached replies. Sessions matched by
    /// `scored: failed` are always included.
    #[serde(default)]
    pub force_rescore: bool,
    /// Whether to return only the plan, without creating a batch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Maximum number of sessions, newest first. With `ids` or `sample`, in order of the ids.
    #[schema(minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// Budget in USD. The batch pauses when its judge calls reach it, or after a call without a price. It resumes with
    /// a larger budget. The judges need prices.
    #[schema(exclusive_minimum = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// With `bulk` (default), `interactive` work goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// `score` (default) sets current scores. `preview`, `repeat` and `jury` don't, and skip only sessions that can't be scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    /// Random sample of the scorable sessions, determined by `seed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Whether to fetch replies through the judge's batch endpoint before items run: within a day, at a reduced price. The provider entry
    /// needs a `batch_price_factor`. Incompatible with `budget_usd`, priority `interactive` and purpose `jury`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub economy: bool,
    /// `repeat` only: number of runs per session, 2-20.
    #[schema(minimum = 2, maximum = 20)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// `jury` only: 2-9 distinct judges. Each scores each session once.
    #[schema(min_items = 2, max_items = 9)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judges: Option<Vec<String>>,
}

/// A random sample of sessions. The same seed selects the same sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Number of sessions, 1-100,000.
    #[schema(minimum = 1, maximum = 100_000)]
    pub size: u64,
    /// Random seed. Default: 0.
    #[serde(default)]
    pub seed: u64,
}

/// Plan of a request, as returned by `dry_run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RescorePlan {
    /// Sessions matched by the filter.
    pub matching: u64,
    pub to_score: u64,
    pub skipped: SkippedPlan,
    /// Number of jobs: the sessions to score times `repeats` or the number of `judges`.
    pub items: u64,
    pub judges: Vec<PlannedJudge>,
    pub tokens_in: TokenRange,
    pub tokens_out: TokenRange,
    /// USD. Null if a judge has no price.
    pub cost_usd: Option<CostRange>,
    pub estimate: Estimate,
    /// Estimated seconds at `pace`. Null without a pace.
    pub duration_s: Option<f64>,
    /// Job rate of the slowest judge. Null if unknown.
    pub pace: Option<Pace>,
    pub criteria_hash: String,
    pub warnings: Vec<String>,
}

/// Matched sessions that would not be scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SkippedPlan {
    /// Skip reasons shared with batches.
    #[serde(flatten)]
    pub found: Skipped,
    pub not_sampled: u64,
    pub beyond_max: u64,
}

impl SkippedPlan {
    /// Returns the count and text of each reason.
    pub fn reasons(&self) -> [(i64, &'static str); 6] {
        let count = |n| i64::try_from(n).unwrap_or(i64::MAX);
        let [current, in_progress, not_scorable, unknown] = self.found.reasons();
        [
            current,
            in_progress,
            not_scorable,
            unknown,
            (count(self.not_sampled), "not in the sample"),
            (count(self.beyond_max), "more than requested"),
        ]
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlannedJudge {
    pub judge: String,
    /// Whether its model has a price.
    pub priced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Estimate {
    /// Sessions whose prompts were built to count tokens.
    pub sampled_sessions: u64,
    /// Earlier jobs of the judges used for the length of replies. 0: the length is assumed.
    pub history_jobs: u64,
}

/// Estimated tokens, ±25 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenRange {
    pub expected: u64,
    pub low: u64,
    pub high: u64,
}

/// Estimated USD, ±25 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostRange {
    pub expected: f64,
    pub low: f64,
    pub high: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pace {
    pub jobs_per_s: f64,
    pub of: PaceOf,
}

text_enum! {
    /// Source of a pace.
    pub enum PaceOf {
        /// The judge's jobs that ended in the last 10 minutes.
        Lately = "last 10 minutes",
        /// The judge's configured limits per minute.
        Limits = "the judge's limits",
    }
}
