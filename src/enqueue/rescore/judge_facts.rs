//! Facts about judges for estimates. `app` builds them from `llm_providers.yaml`; enqueue doesn't depend on judges.

use crate::score::{Criteria, Scorable};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgeFacts {
    pub simulated: bool,
    pub priced: bool,
    /// Price of a call through the batch endpoint as a fraction of an ordinary call; `None`: no such endpoint.
    pub batch_price_factor: Option<f64>,
    pub requests_per_minute: Option<u64>,
    pub tokens_per_minute: Option<u64>,
    /// Assumed reply tokens for a session while no reply of this judge is stored.
    pub reply_tokens: f64,
}

pub trait JudgeDirectory: Send + Sync {
    /// Returns the facts about a judge, or `None` if it isn't configured.
    fn facts(&self, judge: &str) -> Option<JudgeFacts>;

    /// Returns entry and model, equal for all names of a judge, or `None` if it isn't configured.
    fn full_name(&self, judge: &str) -> Option<String>;

    /// Resolves the name of a judge or model to a judge, which may be unconfigured.
    fn named(&self, name: &str, default: &str) -> String;

    /// Returns the judge that is called when this one declines.
    fn fallback(&self, judge: &str) -> Option<String>;

    /// Returns the approximate prompt tokens; `None`: not configured, or the prompt doesn't fit.
    fn prompt_tokens(
        &self,
        judge: &str,
        scorable: &dyn Scorable,
        criteria: &Criteria,
    ) -> Option<f64>;

    /// Returns the cost of a call in USD; `None`: no price.
    fn cost_usd(&self, judge: &str, tokens_in: f64, tokens_out: f64) -> Option<f64>;
}
