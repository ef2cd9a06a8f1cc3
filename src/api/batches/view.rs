//! Converts a batch for clients: state, counts and results.

use serde_json::Value;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::jobs::waits::WaitContext;
use crate::events::EventType;
use crate::job::{JobState, Purpose};
use crate::store::{BatchFigures, BatchPace, BatchRow, BatchSkip, BatchUsage, StoreError};
use crate::wire::{
    Batch, BatchCounts, BatchLinks, BatchPause, BatchProgress, BatchState, BatchTimes, BatchTokens,
    InProgress, PausedBy, ProviderBatch, Stopped,
};

/// Counts a batch's items. Completes a batch with only ended items, if rescue hasn't done so.
pub(crate) async fn load(state: &ApiState, batch: BatchRow) -> Result<Batch, StoreError> {
    let has_provider_batch = batch.plan.as_ref().is_some_and(|plan| plan.economy);
    let mut view = listed(state, batch).await?;
    if has_provider_batch {
        let provider_batch = state.store.provider_batches().get(view.batch_id).await?;
        view.economy = provider_batch.map(ProviderBatch::from);
    }
    if view.skipped.is_some_and(|skipped| skipped.in_progress > 0) {
        let skips = state.store.budgets().batch_skips(view.batch_id).await?;
        view.in_progress = skips.into_iter().map(InProgress::from).collect();
    }
    Ok(view)
}

/// Like [`load`], for lists.
pub(crate) async fn listed(state: &ApiState, batch: BatchRow) -> Result<Batch, StoreError> {
    let figures = state.store.batches().figures(&batch).await?;
    if batch.state == BatchState::Running && figures.unfinished() == 0 {
        let now = state.clock.now();
        if let Some(done) = state.store.batches().complete(batch.batch_id, now).await? {
            state.enqueue.tell_batch(EventType::BatchCompleted, &done);
            state.store.batches().keep_figures(&batch, &figures).await?;
            return known(state, done, figures).await;
        }
        // The batch changed in between: read both again.
        if let Some(batch) = state.store.batches().get(batch.batch_id).await? {
            let figures = state.store.batches().figures(&batch).await?;
            return known(state, batch, figures).await;
        }
    }
    known(state, batch, figures).await
}

async fn known(
    state: &ApiState,
    batch: BatchRow,
    figures: BatchFigures,
) -> Result<Batch, StoreError> {
    let usage = state.store.budgets().batch_usage(batch.batch_id).await?;
    let pace = match batch.finished_at {
        None => Some(
            state
                .store
                .budgets()
                .batch_pace(&batch, state.clock.now())
                .await?,
        ),
        Some(_) => None,
    };
    let stopped = if batch.goes_on() && !figures.lanes.is_empty() {
        WaitContext::of_all(state).await?.stopped(&figures.lanes)
    } else {
        None
    };
    Ok(batch_of(batch, &figures, usage, (pace, stopped)))
}

fn batch_of(
    batch: BatchRow,
    figures: &BatchFigures,
    usage: BatchUsage,
    (pace, stopped): (Option<BatchPace>, Option<Stopped>),
) -> Batch {
    Batch {
        links: links(&batch, figures, usage),
        filter: filter_view(&batch),
        paused: pause_view(&batch, usage),
        progress: progress(&batch, figures, pace, stopped.as_ref()),
        stopped,
        batch_id: batch.batch_id,
        name: batch.name,
        kind: batch.kind,
        origin: batch.origin,
        state: batch.state,
        counts: counts(figures),
        verdict: figures.verdict,
        purpose: batch.purpose,
        criteria_hash: batch.criteria_hash,
        expanded: batch.expanded,
        skipped: batch.skipped,
        in_progress: Vec::new(),
        economy: None,
        budget_usd: batch.budget_usd,
        spent_usd: usage.spent_usd,
        unpriced_calls: usage.unpriced,
        tokens: BatchTokens {
            tokens_in: usage.tokens_in,
            tokens_out: usage.tokens_out,
        },
        cost_usd: figures.cost_usd,
        threshold: batch.threshold,
        created_by: batch.created_by.user,
        authenticated_as: batch.created_by.authenticated_as,
        times: BatchTimes {
            created_at: batch.created_at,
            finished_at: batch.finished_at,
        },
    }
}

fn batch_path(id: Uuid) -> String {
    format!("/api/v1/batches/{id}")
}

/// All counts and the total are from one query, because items may have changed since the batch's row was read.
fn counts(figures: &BatchFigures) -> BatchCounts {
    BatchCounts {
        total: figures.total(),
        queued: figures.count(JobState::Queued),
        running: figures.count(JobState::Running),
        waiting: figures.count(JobState::Waiting),
        succeeded: figures.count(JobState::Succeeded),
        failed: figures.count(JobState::Failed),
        cancelled: figures.count(JobState::Cancelled),
    }
}

fn links(batch: &BatchRow, figures: &BatchFigures, usage: BatchUsage) -> BatchLinks {
    let this = batch_path(batch.batch_id);
    let link = |shown: bool, verb: &str| shown.then(|| format!("{this}/{verb}"));
    let (runs, paused) = (batch.goes_on(), batch.state == BatchState::Paused);
    // A batch with a used-up budget resumes only with a larger one.
    let has_money = batch
        .budget_usd
        .is_none_or(|budget| budget > usage.spent_usd);
    let failed = figures.count(JobState::Failed) > 0;
    BatchLinks {
        jobs: format!("/api/v1/jobs?batch_id={}", batch.batch_id),
        spread: link(is_repeated_scoring(batch.purpose), "spread"),
        pause: link(runs, "pause"),
        resume: link(paused && has_money, "resume"),
        cancel: link(runs || paused, "cancel"),
        budget: format!("{this}/budget"),
        retry_errors: link(failed && batch.takes_retries(), "retry-errors"),
        this,
    }
}

/// Returns whether a session is scored several times for this purpose.
fn is_repeated_scoring(purpose: Purpose) -> bool {
    match purpose {
        Purpose::Repeat | Purpose::Jury => true,
        Purpose::Score | Purpose::Preview => false,
    }
}

/// Returns the filter, with the number of ids instead of the ids.
fn filter_view(batch: &BatchRow) -> Option<Value> {
    let mut filter = batch.filter.clone()?;
    if let Value::Object(words) = &mut filter
        && let Some(ids) = batch.plan.as_ref().and_then(|plan| plan.ids)
    {
        words.insert("ids".to_owned(), Value::from(ids));
    }
    Some(filter)
}

fn pause_view(batch: &BatchRow, usage: BatchUsage) -> Option<BatchPause> {
    if batch.state != BatchState::Paused {
        return None;
    }
    let by = batch.paused_by.unwrap_or(PausedBy::Operator);
    let reason = match by {
        PausedBy::Operator if batch.budget_usd.is_some() && usage.unpriced > 0 => format!(
            "paused by a user: resume it to continue; {}, so its budget isn't enforced",
            without_price(usage.unpriced)
        ),
        PausedBy::Operator => "paused by a user: resume it to continue".to_owned(),
        PausedBy::Budget if batch.budget_usd > Some(usage.spent_usd) => format!(
            "{}, so no budget can be enforced: give the model a price (llm_providers.yaml), or make its server report token \
             usage, and resume it; or remove the budget",
            without_price(usage.unpriced)
        ),
        PausedBy::Budget => format!(
            "it has used {:.4} of {} USD: raise its budget to continue",
            usage.spent_usd,
            batch.budget_usd.unwrap_or_default()
        ),
    };
    Some(BatchPause { by, reason })
}

/// Formats the number of runs with an unknown price: the model has no price or the server reported no tokens.
fn without_price(runs: i64) -> String {
    match runs {
        1 => "the cost of 1 call is unknown".to_owned(),
        calls => format!("the cost of {calls} calls is unknown"),
    }
}

fn progress(
    batch: &BatchRow,
    figures: &BatchFigures,
    pace: Option<BatchPace>,
    stopped: Option<&Stopped>,
) -> BatchProgress {
    let ended = [JobState::Succeeded, JobState::Failed, JobState::Cancelled];
    let done: i64 = ended.iter().map(|state| figures.count(*state)).sum();
    let rate = pace.map(|pace| pace.per_s);
    let left = u32::try_from(figures.total() - done).unwrap_or(u32::MAX);
    let goes_on = batch.expanded && batch.state == BatchState::Running && stopped.is_none();
    BatchProgress {
        done,
        total: figures.total(),
        rate_per_s: rate,
        eta_s: rate
            .filter(|rate| goes_on && *rate > 0.0)
            .map(|rate| f64::from(left) / rate),
    }
}

impl From<BatchSkip> for InProgress {
    fn from(skip: BatchSkip) -> Self {
        Self {
            session_id: skip.session_id,
            job_id: skip.job_id,
        }
    }
}
