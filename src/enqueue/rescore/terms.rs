//! What an estimate must know of judges. `app` makes it from `llm_providers.yaml`; enqueue knows no judge.

use crate::score::{Criteria, Request};

/// What is known of a judge without asking it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
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

/// Knows the judges' terms.
pub trait JudgeTerms: Send + Sync {
    /// Those of a judge; `None`: it can't be asked.
    fn terms(&self, judge: &str) -> Option<Terms>;

    /// Its full name, entry and model: the same for all names of a judge; `None`: it can't be asked.
    fn full_name(&self, judge: &str) -> Option<String>;

    /// The judge that a request means by a judge's name or a model's; it may be one that can't be asked.
    fn named(&self, name: &str, default: &str) -> String;

    /// Who is asked what this judge declines; `None`: nobody.
    fn fallback(&self, judge: &str) -> Option<String>;

    /// About how many tokens the judge is sent about this; `None`: it can't be asked, or it doesn't fit.
    fn prompt_tokens(&self, judge: &str, request: &dyn Request, criteria: &Criteria)
    -> Option<f64>;

    /// USD of one call; `None`: unpriced.
    fn cost_usd(&self, judge: &str, tokens_in: f64, tokens_out: f64) -> Option<f64>;
}
