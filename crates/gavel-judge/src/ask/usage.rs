use crate::call_log::CallUsage;
use crate::entries::{JudgeSpec, price_of};
use crate::provider::ProviderReply;

pub(super) fn zero() -> CallUsage {
    CallUsage {
        cost_usd: Some(0.0),
        ..CallUsage::default()
    }
}

/// Returns the usage of one reply. Unpriced if the responding model has no price or the provider reported no tokens.
pub(super) fn of_reply(spec: &JudgeSpec, reply: &ProviderReply) -> CallUsage {
    let Some(tokens) = reply.usage else {
        return CallUsage::default();
    };
    let cost_usd = price_of(&spec.entry().prices, &reply.model).map(|price| price.cost(tokens));
    CallUsage {
        tokens_in: tokens.input,
        tokens_in_cached: tokens.cached,
        tokens_out: tokens.output,
        cost_usd,
    }
}

/// Adds one call. The sum is unpriced if one part is.
pub(super) fn add(sum: &mut CallUsage, call: CallUsage) {
    sum.tokens_in = sum.tokens_in.saturating_add(call.tokens_in);
    sum.tokens_in_cached = sum.tokens_in_cached.saturating_add(call.tokens_in_cached);
    sum.tokens_out = sum.tokens_out.saturating_add(call.tokens_out);
    sum.cost_usd = sum
        .cost_usd
        .zip(call.cost_usd)
        .map(|(sum, call)| sum + call);
}
