//! Stores the replies of an ended chunk. Each is billed, and logged if its item still asks the same question.

use uuid::Uuid;

use super::{ChunkError, ChunkLoop, trouble};
use crate::job::{Job, JobId, JobState, Usage};
use crate::judge::{
    BatchEndpoint, CacheKey, CallUsage, Collected, CollectedAnswer, ErrorClass, HandedOver,
    Question,
};
use crate::store::{ChunkRow, ItemAnswer};
use crate::wire::ChunkState;

const KEPT_AT_ONCE: usize = 100;

impl ChunkLoop {
    pub(super) async fn collect(
        &self,
        endpoint: &BatchEndpoint,
        chunk: &ChunkRow,
        theirs: &str,
    ) -> Result<(), ChunkError> {
        let mut answers = endpoint.collect(theirs).await?;
        let mut waiting = Vec::with_capacity(KEPT_AT_ONCE);
        while let Some(answer) = answers.next().await? {
            waiting.push(answer);
            if waiting.len() >= KEPT_AT_ONCE {
                self.keep(endpoint, chunk, theirs, std::mem::take(&mut waiting))
                    .await?;
            }
        }
        self.keep(endpoint, chunk, theirs, waiting).await?;
        let ended =
            self.store
                .provider_batches()
                .end_chunk(chunk.chunk_id, ChunkState::Collected, None);
        Ok(ended.await?)
    }

    async fn keep(
        &self,
        endpoint: &BatchEndpoint,
        chunk: &ChunkRow,
        theirs: &str,
        answers: Vec<CollectedAnswer>,
    ) -> Result<(), ChunkError> {
        let handed_over = HandedOver {
            batch: theirs,
            at: chunk.submitted_at.unwrap_or_else(|| self.clock.now()),
        };
        let ids: Vec<Uuid> = answers.iter().map(|answer| answer.asked_for).collect();
        let jobs = self
            .store
            .provider_batches()
            .unanswered_of_chunk(chunk.chunk_id, &ids)
            .await?;
        let mut kept: Vec<ItemAnswer> = Vec::with_capacity(jobs.len());
        for answer in answers {
            let id = JobId(answer.asked_for);
            let known = kept.iter().any(|one| one.job_id == id);
            let item = jobs.iter().find(|(job, _)| job.job_id == id && !known);
            // A foreign or already stored line.
            let Some((job, asked)) = item else { continue };
            let accepted = match self
                .matching_question(endpoint, job, asked.as_ref())
                .await?
            {
                Ok(question) => endpoint.accept(handed_over, &question, answer),
                // The provider bills it anyway.
                Err(why) => Collected {
                    usage: endpoint.bill(handed_over, answer),
                    error: Some(trouble(ErrorClass::Rejected, why.to_owned())),
                },
            };
            kept.push(ItemAnswer {
                job_id: id,
                error: accepted.error.map(|error| error.message),
                usage: usage(accepted.usage),
            });
        }
        let kept = self.store.provider_batches().keep_answers(chunk, &kept);
        Ok(kept.await?)
    }

    /// Returns the question of a reply if its item still asks it, otherwise the reason.
    async fn matching_question(
        &self,
        endpoint: &BatchEndpoint,
        job: &Job,
        asked: Option<&CacheKey>,
    ) -> Result<Result<Question, &'static str>, ChunkError> {
        if matches!(job.state, JobState::Succeeded | JobState::Failed) {
            return Ok(Err("it ended before its reply arrived"));
        }
        let Some(question) = self.question(job).await? else {
            return Ok(Err("its question can't be built any more"));
        };
        let same = asked.is_none_or(|key| *key == endpoint.key(job.job_id.0, &question));
        Ok(match same {
            true => Ok(question),
            false => Err("its session was changed after it was handed over"),
        })
    }
}

fn usage(used: CallUsage) -> Usage {
    Usage {
        tokens_in: used.tokens_in,
        tokens_out: used.tokens_out,
        cost_usd: used.cost_usd,
    }
}
