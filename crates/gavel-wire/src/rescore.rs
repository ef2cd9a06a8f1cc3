//! What a rescore would come to, as POST `/api/v1/rescore` with `dry_run` tells.

use serde::{Deserialize, Serialize};

use super::Skipped;
use crate::text_enum;

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
    /// Its name.
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
    /// About.
    pub expected: u64,
    /// A quarter less.
    pub low: u64,
    /// A quarter more.
    pub high: u64,
}

/// USD: the estimate, and 25 % to either side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostRange {
    /// About.
    pub expected: f64,
    /// A quarter less.
    pub low: f64,
    /// A quarter more.
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
