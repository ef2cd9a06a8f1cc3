//! Builds the question of a job before its run, for provider batches.

use super::{
    Ending, FailureClass, Job, Nonce, Pipeline, Scorable, class_of_bad, failed, judge_needed,
};
use crate::judge::Question;

impl Pipeline {
    pub(in crate::worker) async fn question(&self, job: &Job) -> Result<Question, Ending> {
        let criteria = self.criteria(&job.criteria_hash).await?;
        let subject = self.subject(job).await?;
        let judge = self.judge(job)?.ok_or_else(judge_needed)?;
        let (limits, nonce) = (judge.limits(), Nonce::from_bits(fastrand::u128(..)));
        let asking = move |scorable: &dyn Scorable| scorable.questions(&criteria, &limits, &nonce);
        let questions = subject.with(&self.memory, asking).await?;
        let questions =
            questions.map_err(|error| failed(class_of_bad(&error), error.to_string()))?;
        let mut questions = questions.into_iter();
        match (questions.next(), questions.next()) {
            (Some(question), None) => Ok(question),
            (None, _) | (Some(_), Some(_)) => Err(failed(
                FailureClass::Internal,
                "it isn't one question".to_owned(),
            )),
        }
    }
}
