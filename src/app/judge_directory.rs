//! Facts about judges for estimates, from configuration: prices, limits, and prompt sizes.

use crate::enqueue::{JudgeDirectory, JudgeFacts};
use crate::judge::{Nonce, Providers};
use crate::score::{Criteria, Scorable};

/// Assumed tokens of a reply about a session without earlier replies.
const REPLY: f64 = 900.0;
const SIMULATED_REPLY: f64 = 260.0;
/// Bytes per token of the simulated judge.
const SIMULATED_BYTES: u64 = 4;

pub(super) struct FileDirectory(pub(super) Providers);

impl JudgeDirectory for FileDirectory {
    fn facts(&self, judge: &str) -> Option<JudgeFacts> {
        let spec = self.0.spec(judge).ok()?;
        let pace = self.0.paces().remove(spec.entry_name()).unwrap_or_default();
        let simulated = spec.simulated();
        Some(JudgeFacts {
            simulated,
            batch_price_factor: spec.batch_price_factor(),
            priced: spec.cost_usd(0, 0).is_some(),
            requests_per_minute: pace.requests_per_minute,
            tokens_per_minute: pace.tokens_per_minute,
            reply_tokens: if simulated { SIMULATED_REPLY } else { REPLY },
        })
    }

    fn full_name(&self, judge: &str) -> Option<String> {
        let spec = self.0.spec(judge).ok()?;
        Some(format!("{}:{}", spec.entry_name(), spec.model()))
    }

    fn named(&self, name: &str, default: &str) -> String {
        self.0.named(name, default)
    }

    fn fallback(&self, judge: &str) -> Option<String> {
        self.0.fallback(judge)
    }

    fn prompt_tokens(
        &self,
        judge: &str,
        scorable: &dyn Scorable,
        criteria: &Criteria,
    ) -> Option<f64> {
        let spec = self.0.spec(judge).ok()?;
        let limits = spec.limits();
        let nonce = Nonce::from_bits(fastrand::u128(..));
        let questions = scorable.questions(criteria, &limits, &nonce).ok()?;
        let tokens = questions.iter().map(|question| match spec.simulated() {
            true => (question.prompt.bytes() as u64).div_ceil(SIMULATED_BYTES),
            false => question.tokens(limits.family),
        });
        Some(float(tokens.sum()))
    }

    fn cost_usd(&self, judge: &str, tokens_in: f64, tokens_out: f64) -> Option<f64> {
        let spec = self.0.spec(judge).ok()?;
        spec.cost_usd(whole(tokens_in), whole(tokens_out))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "tokens of a prompt, far below 2^52"
)]
fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "tokens of one call, far below 2^53"
)]
fn whole(tokens: f64) -> i64 {
    tokens.max(0.0).round() as i64
}
