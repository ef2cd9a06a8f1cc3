//! Prices, limits and prompt sizes of judges for estimates.

use crate::enqueue::Enqueue;
use crate::judge::{JudgeSpec, Nonce};
use crate::score::{Criteria, Scorable};

/// Assumed tokens of a reply about a session without earlier replies.
const REPLY: f64 = 900.0;
const SIMULATED_REPLY: f64 = 260.0;
/// Bytes per token of the simulated judge.
const SIMULATED_BYTES: u64 = 4;

/// Returns the assumed reply tokens for a session while no reply of this judge is stored.
pub(super) fn assumed_reply_tokens(judge: &JudgeSpec) -> f64 {
    match judge.simulated() {
        true => SIMULATED_REPLY,
        false => REPLY,
    }
}

/// Returns the approximate prompt tokens, or `None` if the prompt doesn't fit.
pub(super) fn prompt_tokens(
    judge: &JudgeSpec,
    scorable: &dyn Scorable,
    criteria: &Criteria,
) -> Option<u64> {
    let limits = judge.limits();
    let nonce = Nonce::from_bits(fastrand::u128(..));
    let questions = scorable.questions(criteria, &limits, &nonce).ok()?;
    let tokens = questions.iter().map(|question| match judge.simulated() {
        true => (question.prompt.bytes() as u64).div_ceil(SIMULATED_BYTES),
        false => question.tokens(limits.family),
    });
    Some(tokens.sum())
}

pub(super) fn is_priced(judge: &JudgeSpec) -> bool {
    judge.cost_usd(0, 0).is_some()
}

impl Enqueue {
    /// Returns the fallback of a judge if it is configured and has no price.
    pub(super) fn unpriced_fallback(&self, judge: &str) -> Option<String> {
        let fallback = self.providers.fallback(judge)?;
        let spec = self.providers.spec(&fallback).ok()?;
        (!is_priced(&spec)).then_some(fallback)
    }
}
