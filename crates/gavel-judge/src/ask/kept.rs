//! Replies that were kept: a good one may stand for a call.

use super::Inner;
use crate::{CacheKey, CachedReply, Question, Reply};

/// A reply from the cache, unless it no longer passes the question's check.
pub(super) async fn cached(judge: &Inner, question: &Question, key: &CacheKey) -> Option<Reply> {
    let kept = judge.wiring.cache.get(key).await?;
    (question.check)(&kept.reply).ok()?;
    Some(Reply {
        weakness: question.weakness(&kept.reply),
        value: kept.reply,
        provider: kept.provider,
        model: kept.model,
        simulated: kept.simulated || judge.spec.simulated(),
        repaired: kept.repaired,
        cached: true,
        by_fallback: false,
        trimmed_tokens: question.trimmed_tokens,
    })
}

pub(super) fn kept(reply: &Reply) -> CachedReply {
    CachedReply {
        provider: reply.provider.clone(),
        model: reply.model.clone(),
        reply: reply.value.clone(),
        simulated: reply.simulated,
        repaired: reply.repaired,
    }
}
