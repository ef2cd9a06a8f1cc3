//! A batch as clients see it: where it stands, how many of its items stand where, and what they came to.

use axum::http::HeaderValue;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::ApiState;
use super::economy_view::EconomyView;
use super::lanes::{Lanes, StoppedView};
use crate::events::EventType;
use crate::job::{JobId, JobState, Kind, Purpose};
use crate::store::{
    BatchFigures, BatchOrigin, BatchPace, BatchRow, BatchSkip, BatchState, BatchUsage, PausedBy,
    Skipped, StoreError, Verdict,
};

/// How many items of a batch stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchCounts {
    /// All; still rising while the batch is `expanding`.
    pub(super) total: i64,
    /// Not begun, or queued again.
    pub(super) queued: i64,
    /// In a worker's hand.
    pub(super) running: i64,
    /// Waiting with a reason.
    pub(super) waiting: i64,
    /// Ended with a score.
    pub(super) succeeded: i64,
    /// Ended without one, or with what could be computed alone.
    pub(super) failed: i64,
    /// Cancelled.
    pub(super) cancelled: i64,
}

/// What the cases of a batch came to so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct VerdictView {
    /// Cases that passed.
    pub(super) passed: i64,
    /// Cases that didn't.
    pub(super) failed: i64,
    /// Cases without a score, since a part of it is missing: the judge failed or wasn't asked, or it couldn't be computed (SQL that can't
    /// be read).
    pub(super) incomplete: i64,
    /// Cases without a score that counts: not ended, failed, cancelled, or scored by a simulated judge beside real ones.
    pub(super) unscored: i64,
    /// `passed` of `passed` + `failed`, 0-1; null where there are neither.
    pub(super) pass_rate: Option<f64>,
    /// The mean of the cases' totals, 0-1; null where there is none.
    pub(super) mean: Option<f64>,
    /// The share of cases with a score, 0-1.
    pub(super) coverage: f64,
    /// Whether these are figures of a simulated judge: they say nothing of the work.
    pub(super) simulated: bool,
}

/// Where to go from a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchLinks {
    /// The batch.
    #[serde(rename = "self")]
    pub(super) this: String,
    /// Its items.
    pub(super) jobs: String,
    /// How far its scores lie apart; of repeats and juries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spread: Option<String>,
    /// POST there to stop it; while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pause: Option<String>,
    /// POST there to let it go on; while it is paused, and has money left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resume: Option<String>,
    /// POST there to end it; while it runs or is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancel: Option<String>,
    /// POST another budget there.
    pub(super) budget: String,
    /// POST there to queue its failed items again; while there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_errors: Option<String>,
}

/// A batch's times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchTimes {
    /// When it was asked for.
    pub(super) created_at: DateTime<Utc>,
    /// When it was completed or cancelled.
    pub(super) finished_at: Option<DateTime<Utc>>,
}

/// Why a batch is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct PauseView {
    /// `operator`: resume it. `budget`: it has spent that, or a call had no price, so that no budget holds; `reason` says which, and what to do.
    pub(super) by: PausedBy,
    /// In words.
    pub(super) reason: String,
}

/// A session that was passed over since it was being scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct InProgressView {
    /// The session.
    pub(super) session_id: Uuid,
    /// The job; null: it had ended by the time that it was looked for.
    #[schema(value_type = Option<Uuid>)]
    pub(super) job_id: Option<JobId>,
}

/// Tokens of a batch's calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchTokens {
    /// Of prompts.
    #[serde(rename = "in")]
    pub(super) tokens_in: i64,
    /// Of replies.
    #[serde(rename = "out")]
    pub(super) tokens_out: i64,
}

/// How far a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct ProgressView {
    /// Items that have ended.
    pub(super) done: i64,
    /// All; still rising until the batch is `expanded`.
    pub(super) total: i64,
    /// Items a second within the last minute; null once the batch has ended.
    pub(super) rate_per_s: Option<f64>,
    /// Seconds to its end at that rate; null where there is none to be seen, and while it is `stopped`.
    pub(super) eta_s: Option<f64>,
}

/// A batch: many items of one kind, asked for together.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchView {
    /// The batch's id.
    pub(super) batch_id: Uuid,
    /// What its maker calls it.
    pub(super) name: Option<String>,
    /// What is scored.
    pub(super) kind: Kind,
    /// Whether its items were given (`suite`) or found by a filter (`rescore`).
    pub(super) origin: BatchOrigin,
    /// Where it stands.
    pub(super) state: BatchState,
    /// How many of its items stand where.
    pub(super) counts: BatchCounts,
    /// What its cases came to so far; null before the first, and for kind `session`.
    pub(super) verdict: Option<VerdictView>,
    /// Why its items are judged; only `score` makes current scores.
    pub(super) purpose: Purpose,
    /// What they are judged by; null for batches that are older than this field.
    pub(super) criteria_hash: Option<String>,
    /// Of a rescore: which sessions; of `ids` their count.
    #[schema(value_type = Option<Object>)]
    pub(super) filter: Option<Value>,
    /// Why it is paused; null: it isn't.
    pub(super) paused: Option<PauseView>,
    /// Why none of its items begins, although it isn't paused; null: some may.
    pub(super) stopped: Option<StoppedView>,
    /// Whether all its items are there.
    pub(super) expanded: bool,
    /// Of a rescore: how many sessions were found and passed over so far.
    pub(super) skipped: Option<Skipped>,
    /// The first 100 sessions that were passed over since they were being scored; empty in lists.
    pub(super) in_progress: Vec<InProgressView>,
    /// How its replies are fetched ahead; null: they aren't. Left out of lists.
    pub(super) economy: Option<EconomyView>,
    /// How far it is.
    pub(super) progress: ProgressView,
    /// It is paused once it has spent this, USD, or once a call had no price; null: no budget.
    pub(super) budget_usd: Option<f64>,
    /// USD of its judge calls so far, as far as models have prices; retries of its items included. It is what a budget is held against.
    pub(super) spent_usd: f64,
    /// Runs of its items, not calls, of which some call has no price: with any, it has spent more than `spent_usd`.
    pub(super) unpriced_calls: i64,
    /// Tokens of its judge calls so far.
    pub(super) tokens: BatchTokens,
    /// USD of its items' judge calls so far; null where a model has no price.
    pub(super) cost_usd: Option<f64>,
    /// What its items are held against where they name nothing themselves.
    pub(super) threshold: Option<f64>,
    /// Who asked.
    pub(super) created_by: String,
    /// Where to go from here.
    pub(super) links: BatchLinks,
    /// Its times.
    pub(super) times: BatchTimes,
}

impl From<Verdict> for VerdictView {
    fn from(verdict: Verdict) -> Self {
        Self {
            passed: verdict.passed,
            failed: verdict.failed,
            incomplete: verdict.incomplete,
            unscored: verdict.unscored,
            pass_rate: verdict.pass_rate,
            mean: verdict.mean,
            coverage: verdict.coverage,
            simulated: verdict.simulated,
        }
    }
}

impl BatchView {
    /// Counts a batch's items. One whose items have all ended is completed on the way, if rescue hasn't come to it yet.
    pub(super) async fn load(state: &ApiState, batch: BatchRow) -> Result<Self, StoreError> {
        let ahead = batch.plan.as_ref().is_some_and(|plan| plan.economy);
        let mut view = Self::listed(state, batch).await?;
        if ahead {
            let economy = state.store.economy(view.batch_id).await?;
            view.economy = economy.map(EconomyView::from);
        }
        if view.skipped.is_some_and(|skipped| skipped.in_progress > 0) {
            let skips = state.store.batch_skips(view.batch_id).await?;
            view.in_progress = skips.into_iter().map(InProgressView::from).collect();
        }
        Ok(view)
    }

    /// As [`Self::load`], as a list has it.
    pub(super) async fn listed(state: &ApiState, batch: BatchRow) -> Result<Self, StoreError> {
        let figures = state.store.batch_figures(&batch).await?;
        if batch.state == BatchState::Running && figures.unfinished() == 0 {
            let now = state.clock.now();
            if let Some(done) = state.store.complete_batch(batch.batch_id, now).await? {
                state.enqueue.tell_batch(EventType::BatchCompleted, &done);
                state.store.keep_figures(&batch, &figures).await?;
                return Self::known(state, done, figures).await;
            }
            // Something came in between: another look at both.
            if let Some(batch) = state.store.batch(batch.batch_id).await? {
                let figures = state.store.batch_figures(&batch).await?;
                return Self::known(state, batch, figures).await;
            }
        }
        Self::known(state, batch, figures).await
    }

    async fn known(
        state: &ApiState,
        batch: BatchRow,
        figures: BatchFigures,
    ) -> Result<Self, StoreError> {
        let usage = state.store.batch_usage(batch.batch_id).await?;
        let pace = match batch.finished_at {
            None => Some(state.store.batch_pace(&batch, state.clock.now()).await?),
            Some(_) => None,
        };
        let stopped = if batch.goes_on() && !figures.lanes.is_empty() {
            Lanes::of_all(state).await?.stopped(&figures.lanes)
        } else {
            None
        };
        Ok(Self::of(batch, &figures, usage, (pace, stopped)))
    }

    fn of(
        batch: BatchRow,
        figures: &BatchFigures,
        usage: BatchUsage,
        (pace, stopped): (Option<BatchPace>, Option<StoppedView>),
    ) -> Self {
        Self {
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
            verdict: figures.verdict.map(VerdictView::from),
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
            created_by: batch.created_by,
            times: BatchTimes {
                created_at: batch.created_at,
                finished_at: batch.finished_at,
            },
        }
    }

    /// Its path, for the header Location.
    pub(super) fn location(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.links.this).ok()
    }
}

/// The path of a batch.
fn batch_path(id: Uuid) -> String {
    format!("/api/v1/batches/{id}")
}

/// Of one look, the total too: items may have come since the batch's row was read.
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
    // What has spent its budget is resumed by a larger one alone.
    let has_money = batch
        .budget_usd
        .is_none_or(|budget| budget > usage.spent_usd);
    let failed = figures.count(JobState::Failed) > 0;
    BatchLinks {
        jobs: format!("/api/v1/jobs?batch_id={}", batch.batch_id),
        spread: link(asks_again(batch.purpose), "spread"),
        pause: link(runs, "pause"),
        resume: link(paused && has_money, "resume"),
        cancel: link(runs || paused, "cancel"),
        budget: format!("{this}/budget"),
        retry_errors: link(failed && batch.takes_retries(), "retry-errors"),
        this,
    }
}

/// Whether items of this purpose ask the same of one session several times.
fn asks_again(purpose: Purpose) -> bool {
    match purpose {
        Purpose::Repeat | Purpose::Jury => true,
        Purpose::Score | Purpose::Preview => false,
    }
}

/// The words of the filter; ids are many, and are counted.
fn filter_view(batch: &BatchRow) -> Option<Value> {
    let mut filter = batch.filter.clone()?;
    if let Value::Object(words) = &mut filter
        && let Some(ids) = batch.plan.as_ref().and_then(|plan| plan.ids)
    {
        words.insert("ids".to_owned(), Value::from(ids));
    }
    Some(filter)
}

fn pause_view(batch: &BatchRow, usage: BatchUsage) -> Option<PauseView> {
    if batch.state != BatchState::Paused {
        return None;
    }
    let by = batch.paused_by.unwrap_or(PausedBy::Operator);
    let reason = match by {
        PausedBy::Operator if batch.budget_usd.is_some() && usage.unpriced > 0 => format!(
            "somebody paused it: resume it, and it goes on; {}, so its budget doesn't hold",
            without_price(usage.unpriced)
        ),
        PausedBy::Operator => "somebody paused it: resume it, and it goes on".to_owned(),
        PausedBy::Budget if batch.budget_usd > Some(usage.spent_usd) => format!(
            "{}, so no budget holds: give the model a price (llm_providers.yaml), or have its server report the tokens that it \
             uses, and resume it; or take the budget away",
            without_price(usage.unpriced)
        ),
        PausedBy::Budget => format!(
            "it has spent {:.4} of {} USD: give it a larger budget, and it goes on",
            usage.spent_usd,
            batch.budget_usd.unwrap_or_default()
        ),
    };
    Some(PauseView { by, reason })
}

/// What isn't known of runs whose model has no price, or whose server told no tokens.
fn without_price(runs: i64) -> String {
    match runs {
        1 => "what 1 call cost isn't known".to_owned(),
        calls => format!("what {calls} calls cost isn't known"),
    }
}

fn progress(
    batch: &BatchRow,
    figures: &BatchFigures,
    pace: Option<BatchPace>,
    stopped: Option<&StoppedView>,
) -> ProgressView {
    let ended = [JobState::Succeeded, JobState::Failed, JobState::Cancelled];
    let done: i64 = ended.iter().map(|state| figures.count(*state)).sum();
    let rate = pace.map(|pace| pace.per_s);
    let left = u32::try_from(figures.total() - done).unwrap_or(u32::MAX);
    let goes_on = batch.expanded && batch.state == BatchState::Running && stopped.is_none();
    ProgressView {
        done,
        total: figures.total(),
        rate_per_s: rate,
        eta_s: rate
            .filter(|rate| goes_on && *rate > 0.0)
            .map(|rate| f64::from(left) / rate),
    }
}

impl From<BatchSkip> for InProgressView {
    fn from(skip: BatchSkip) -> Self {
        Self {
            session_id: skip.session_id,
            job_id: skip.job_id,
        }
    }
}
