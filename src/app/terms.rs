//! What estimates may know of judges: prices, limits, and how large a question would be. Asks nobody.

use crate::enqueue::{JudgeTerms, Terms};
use crate::judge::{Nonce, Providers};
use crate::score::{Criteria, Request};

/// Tokens of a reply about a session while none was seen: about, at least, at most.
const REPLY: (f64, f64, f64) = (900.0, 450.0, 1_800.0);
/// The same of the simulated judge, whose replies are all alike.
const SIMULATED_REPLY: (f64, f64, f64) = (260.0, 200.0, 320.0);
/// The estimate of a prompt's tokens leans to more, so that questions fit.
const PROMPT_ERROR: (f64, f64) = (0.6, 1.1);
/// How the simulated judge counts: bytes to a token.
const SIMULATED_BYTES: u64 = 4;

/// The terms of `llm_providers.yaml`.
pub(super) struct FileTerms(pub(super) Providers);

impl JudgeTerms for FileTerms {
    fn terms(&self, judge: &str) -> Option<Terms> {
        let spec = self.0.spec(judge).ok()?;
        let pace = self.0.paces().remove(spec.provider()).unwrap_or_default();
        let simulated = spec.simulated();
        Some(Terms {
            simulated,
            batch_price_factor: spec.batch_price_factor(),
            priced: spec.cost_usd(0, 0).is_some(),
            requests_per_minute: pace.requests_per_minute,
            tokens_per_minute: pace.tokens_per_minute,
            reply_tokens: if simulated { SIMULATED_REPLY } else { REPLY },
            prompt_error: if simulated { (1.0, 1.0) } else { PROMPT_ERROR },
        })
    }

    fn full_name(&self, judge: &str) -> Option<String> {
        let spec = self.0.spec(judge).ok()?;
        Some(format!("{}:{}", spec.provider(), spec.model()))
    }

    fn prompt_tokens(
        &self,
        judge: &str,
        request: &dyn Request,
        criteria: &Criteria,
    ) -> Option<u64> {
        let spec = self.0.spec(judge).ok()?;
        let limits = spec.limits();
        let nonce = Nonce::draw(&mut fastrand::Rng::new());
        let questions = request.questions(criteria, &limits, &nonce).ok()?;
        let tokens = questions.iter().map(|question| {
            if spec.simulated() {
                (question.prompt.len() as u64).div_ceil(SIMULATED_BYTES)
            } else {
                question.tokens(limits.family)
            }
        });
        Some(tokens.sum())
    }

    fn cost_usd(&self, judge: &str, tokens_in: f64, tokens_out: f64) -> Option<f64> {
        let spec = self.0.spec(judge).ok()?;
        spec.cost_usd(whole(tokens_in), whole(tokens_out))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "tokens of one call, far below 2^53"
)]
fn whole(tokens: f64) -> i64 {
    tokens.max(0.0).round() as i64
}
