//! What POST `/api/v1/rescore` is asked, and what it would come to, as `dry_run` tells.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Skipped;
use crate::{Priority, Purpose, Rating, Scored, SessionStatus, text_enum};

/// Which sessions: the words of GET /api/v1/sessions, each of which narrows. Without any: all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RescoreFilter {
    /// Part of an alert type, agent or author, or what an id or an `external_id` begins with; case-insensitive but for `external_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Where the session stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SessionStatus>,
    /// `yes`: has a score; `no`: has none; `running`: has an active job; `failed`: its newest job failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scored: Option<Scored>,
    /// The current score's rating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating: Option<Rating>,
    /// Current score at least, 0-100.
    #[schema(maximum = 100)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_score: Option<u8>,
    /// Current score at most, 0-100.
    #[schema(maximum = 100)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_score: Option<u8>,
    /// `current`, `not_current`, or a hash of 64 hex digits, at least its first 8: the criteria of the current score.
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current|not_current)$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria: Option<String>,
    /// The current score misses this tool, however it is spelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_tool: Option<String>,
    /// Has this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The agent's name, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The alert type, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alert_type: Option<String>,
    /// `true`: people rated it, or a score of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rated: bool,
    /// Completed (else first seen) at or after.
    #[serde(
        default,
        deserialize_with = "crate::time::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub from: Option<DateTime<Utc>>,
    /// Completed (else first seen) before.
    #[serde(
        default,
        deserialize_with = "crate::time::or_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub to: Option<DateTime<Utc>>,
    /// Only these; 1-100,000. Those that aren't stored are counted.
    #[schema(min_items = 1, max_items = 100_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<Uuid>>,
}

/// A backlog to be scored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RescoreRequest {
    /// What you call it; at most 200 characters.
    #[schema(min_length = 1, max_length = 200)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which sessions, of those stored by now; left out: all.
    #[serde(default)]
    pub filter: RescoreFilter,
    /// Stored criteria for sessions: 64 hex digits, at least the first 8, or `current`; left out: the current ones.
    #[schema(pattern = "^([0-9A-Fa-f]{8,64}|current)$")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria_hash: Option<String>,
    /// Whether sessions are scored that have a score by these criteria, and cached replies are skipped. Those that the filter finds
    /// by `scored: failed` are scored in any case.
    #[serde(default)]
    pub force_rescore: bool,
    /// Answers what it would come to, and does nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Sessions at most, the newest first; named or drawn ones in the order of their ids.
    #[schema(minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// USD: once its judge calls cost this, the batch is paused, and goes on with a larger one; a call without a price pauses it too.
    /// Its judges need prices.
    #[schema(exclusive_minimum = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// Who waits: `bulk` (default) lets `interactive` work go first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Why: `score` (default) makes current scores; `preview`, `repeat` and `jury` leave them as they are, and skip nothing
    /// that can be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    /// Only so many of the sessions that can be judged, the same ones whenever `seed` is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Fetches the replies by the judge's batch endpoint, within a day and for a part of the price, before items run. Its entry needs
    /// a `batch_price_factor`; goes with neither `budget_usd` nor priority `interactive` nor purpose `jury`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub economy: bool,
    /// `repeat` only: how often each session is judged, 2-20.
    #[schema(minimum = 2, maximum = 20)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// `jury` only: who judges each session once, 2-9 names of as many judges.
    #[schema(min_items = 2, max_items = 9)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judges: Option<Vec<String>>,
}

/// So many of the sessions, the same ones whenever they are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// How many, 1-100,000.
    #[schema(minimum = 1, maximum = 100_000)]
    pub size: u64,
    /// What they are drawn with; left out: 0.
    #[serde(default)]
    pub seed: u64,
}

/// What a request would come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RescorePlan {
    /// Sessions that the filter finds.
    pub matching: u64,
    /// Sessions that would be scored.
    pub to_score: u64,
    /// The rest of them, by reason.
    pub skipped: SkippedPlan,
    /// Jobs: the sessions to be scored, each as often as `repeats` or `judges` say.
    pub items: u64,
    /// Who would be asked.
    pub judges: Vec<PlannedJudge>,
    /// Tokens of prompts.
    pub tokens_in: TokenRange,
    /// Tokens of replies.
    pub tokens_out: TokenRange,
    /// USD; null where a judge has no price.
    pub cost_usd: Option<CostRange>,
    /// What the figures are made from.
    pub estimate: Estimate,
    /// Seconds at that pace; null where none is known.
    pub duration_s: Option<f64>,
    /// How fast jobs of the slowest judge end; null where that isn't known.
    pub pace: Option<Pace>,
    /// What they would be judged by.
    pub criteria_hash: String,
    /// What to know before asking for it.
    pub warnings: Vec<String>,
}

/// Sessions that the filter finds and that would not be scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SkippedPlan {
    /// What a batch skips too.
    #[serde(flatten)]
    pub found: Skipped,
    /// Not in the sample.
    pub not_sampled: u64,
    /// Behind the last of `max`.
    pub beyond_max: u64,
}

impl SkippedPlan {
    /// How many are skipped for which reason, in words.
    pub fn reasons(&self) -> [(i64, &'static str); 6] {
        let count = |n| i64::try_from(n).unwrap_or(i64::MAX);
        let [current, in_progress, not_scorable, unknown] = self.found.reasons();
        [
            current,
            in_progress,
            not_scorable,
            unknown,
            (count(self.not_sampled), "not in the sample"),
            (count(self.beyond_max), "more than were asked for"),
        ]
    }
}

/// A judge that would be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlannedJudge {
    pub judge: String,
    /// Whether its model has a price.
    pub priced: bool,
}

/// What the figures of a plan are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Estimate {
    /// Sessions whose prompts were built and counted.
    pub sampled_sessions: u64,
    /// Earlier jobs of the judges whose replies were counted; 0: the length of replies is assumed.
    pub history_jobs: u64,
}

/// Tokens: the estimate, and 25 % to either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenRange {
    pub expected: u64,
    /// A quarter less than `expected`.
    pub low: u64,
    /// A quarter more than `expected`.
    pub high: u64,
}

/// USD: the estimate, and 25 % to either side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostRange {
    pub expected: f64,
    /// A quarter less than `expected`.
    pub low: f64,
    /// A quarter more than `expected`.
    pub high: f64,
}

/// How fast jobs end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pace {
    /// Jobs a second.
    pub jobs_per_s: f64,
    /// Where that is from.
    pub of: PaceOf,
}

text_enum! {
    /// Where a pace is from.
    pub enum PaceOf {
        /// Jobs of the judge that ended within the last 10 minutes.
        Lately = "last 10 minutes",
        /// Its limits a minute, by configuration.
        Limits = "the judge's limits",
    }
}
