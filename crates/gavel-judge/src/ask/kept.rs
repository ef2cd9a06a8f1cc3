//! Calls that were logged: a good one may stand for another.

use chrono::TimeDelta;

use super::Inner;
use crate::{CacheKey, CallRecord, Question, Reply, reply};

/// The newest call with this key that is no older than `kept`.
pub(super) async fn find(judge: &Inner, key: CacheKey, kept: TimeDelta) -> Option<CallRecord> {
    let since = judge.wiring.clock.now() - kept;
    judge.wiring.log.find(key, since).await
}

/// A good call's reply, unless it no longer passes the question's check.
pub(super) async fn cached(
    judge: &Inner,
    question: &Question,
    key: CacheKey,
    kept: TimeDelta,
) -> Option<Reply> {
    let call = find(judge, key, kept).await?;
    // It has been accepted already, whatever stands beside its object.
    let value = reply::object(call.reply.as_deref()?)?;
    (question.check)(&value).ok()?;
    // A judge is called by its entry's name, or `entry:model`.
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
        // A good call has nothing else to tell.
        odd_finish: call.message.is_some(),
        trimmed_tokens: question.trimmed_tokens,
    })
}
