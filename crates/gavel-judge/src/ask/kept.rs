use chrono::TimeDelta;

use super::Inner;
use crate::{CacheKey, CallRecord, Question, Reply, reply};

/// Finds the newest call with this key, at most `kept` old.
pub(super) async fn find(judge: &Inner, key: CacheKey, kept: TimeDelta) -> Option<CallRecord> {
    let since = judge.wiring.clock.now() - kept;
    judge.wiring.log.find(key, since).await
}

/// Returns the reply of a successful call if it still passes the question's check.
pub(super) async fn cached(
    judge: &Inner,
    question: &Question,
    key: CacheKey,
    kept: TimeDelta,
) -> Option<Reply> {
    let call = find(judge, key, kept).await?;
    // Text next to the object is ignored, because the reply was already accepted.
    let value = reply::object(call.reply.as_deref()?)?;
    (question.check)(&value).ok()?;
    // The judge's name is `entry` or `entry:model`.
    let entry = call.judge.split(':').next().unwrap_or_default();
    Some(Reply {
        weaknesses: question.weaknesses(&value),
        value,
        provider: entry.to_owned(),
        model: call.model,
        simulated: call.simulated || judge.spec.simulated(),
        repaired: call.repaired,
        cached: true,
        by_fallback: false,
        // Successful calls have no other message.
        odd_finish: call.message.is_some(),
        trimmed_tokens: question.trimmed_tokens,
    })
}
