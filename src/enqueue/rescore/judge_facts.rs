//! What an estimate must know of judges. `app` makes it from `llm_providers.yaml`; enqueue knows no judge.

use crate::score::{Criteria, Scorable};

/// What is known of a judge without asking it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgeFacts {
    /// Whether whatever answers there is simulated.
    pub simulated: bool,
    /// Whether its model has a price.
    pub priced: bool,
    /// What a call of its batch endpoint costs of an ordinary one; `None`: it has no such endpoint.
    pub batch_price_factor: Option<f64>,
    /// Requests a minute, by configuration.
    pub requests_per_minute: Option<u64>,
    /// Tokens a minute, by configuration.
    pub tokens_per_minute: Option<u64>,
    /// Tokens of a reply about a session while none of this judge is known.
    pub reply_tokens: f64,
}

/// Knows the judges by configuration.
pub trait JudgeDirectory: Send + Sync {
    /// Those of a judge; `None`: it can't be asked.
    fn facts(&self, judge: &str) -> Option<JudgeFacts>;

    /// Its full name, entry and model: the same for all names of a judge; `None`: it can't be asked.
    fn full_name(&self, judge: &str) -> Option<String>;

    /// The judge that a request means by a judge's name or a model's; it may be one that can't be asked.
    fn named(&self, name: &str, default: &str) -> String;

    /// Who is asked what this judge declines; `None`: nobody.
    fn fallback(&self, judge: &str) -> Option<String>;

    /// About how many tokens the judge is sent about this; `None`: it can't be asked, or it doesn't fit.
    fn prompt_tokens(
        &self,
        judge: &str,
        scorable: &dyn Scorable,
        criteria: &Criteria,
    ) -> Option<f64>;

    /// USD of one call; `None`: unpriced.
    fn cost_usd(&self, judge: &str, tokens_in: f64, tokens_out: f64) -> Option<f64>;
}
