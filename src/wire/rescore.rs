//! What asking for the scores of a backlog would come to, as a dry run of `/api/v1/rescore` tells of it.

use serde::{Deserialize, Serialize};

use super::Skipped;
use crate::job::text_enum;

text_enum! {
    /// Where a count of tokens is from.
    pub enum TokensFrom {
        /// What earlier jobs of the judge used.
        History = "history",
        /// The sessions' own prompts, by rules of thumb for the judge's family of models.
        Counted = "counted",
        /// Nothing is known yet: a usual length, half or twice as long.
        Assumed = "assumed",
    }
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
    /// How the figures were come by.
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
    /// What a batch passes over too.
    #[serde(flatten)]
    pub found: Skipped,
    /// Not in the sample.
    pub not_sampled: u64,
    /// Behind the last of `max`.
    pub beyond_max: u64,
}

/// A judge that would be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlannedJudge {
    /// Its name.
    pub judge: String,
    /// Whether its model has a price.
    pub priced: bool,
}

/// So many tokens, about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenRange {
    /// About.
    pub expected: u64,
    /// Hardly fewer.
    pub low: u64,
    /// Hardly more.
    pub high: u64,
}

/// So much money, about, USD.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostRange {
    /// About.
    pub expected: f64,
    /// Hardly less.
    pub low: f64,
    /// Hardly more.
    pub high: f64,
}

/// How the figures of a plan were come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Estimate {
    /// Sessions whose questions were built and counted.
    pub sampled_sessions: u64,
    /// Earlier jobs of the judges whose tokens were looked at.
    pub history_jobs: u64,
    /// Where the tokens of prompts are from.
    pub tokens_in: TokensFrom,
    /// Where the tokens of replies are from.
    pub tokens_out: TokensFrom,
}

/// How fast jobs end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Pace {
    /// Jobs a second.
    pub jobs_per_s: f64,
    /// Where that is from.
    pub of: PaceOf,
}
