//! A batch as clients see it: where it stands, how many of its items stand where, and what they came to.

use axum::http::HeaderValue;
use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::ApiState;
use crate::events::EventType;
use crate::job::{JobState, Kind};
use crate::store::{BatchFigures, BatchOrigin, BatchRow, BatchState, StoreError, Verdict};

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
    /// Cases whose judge's part failed or wasn't run: never passed.
    pub(super) incomplete: i64,
    /// Cases without a score that counts: not ended, failed, cancelled, or scored by a simulated judge beside real ones.
    pub(super) unscored: i64,
    /// `passed` of `passed` + `failed`, 0-1; null where there are neither.
    pub(super) pass_rate: Option<f64>,
    /// The mean of whole totals, 0-1; null where there is none.
    pub(super) mean: Option<f64>,
    /// The share of cases that passed or didn't, or have a whole total, 0-1.
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
    /// POST there to stop it; while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pause: Option<String>,
    /// POST there to let it go on; while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resume: Option<String>,
    /// POST there to end it; while it runs or is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancel: Option<String>,
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
    /// USD of its judge calls so far; null where a model has no price.
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
        let figures = state.store.batch_figures(&batch).await?;
        if batch.state == BatchState::Running && figures.unfinished() == 0 {
            let now = state.clock.now();
            if let Some(done) = state.store.complete_batch(batch.batch_id, now).await? {
                state.enqueue.tell_batch(EventType::BatchCompleted, &done);
                state.store.keep_figures(&batch, &figures).await?;
                return Ok(Self::of(done, &figures));
            }
            // Something came in between: another look at both.
            if let Some(batch) = state.store.batch(batch.batch_id).await? {
                let figures = state.store.batch_figures(&batch).await?;
                return Ok(Self::of(batch, &figures));
            }
        }
        Ok(Self::of(batch, &figures))
    }

    fn of(batch: BatchRow, figures: &BatchFigures) -> Self {
        let this = batch_path(batch.batch_id);
        let (failed, state) = (figures.count(JobState::Failed), batch.state);
        let link = |shown: bool, verb: &str| shown.then(|| format!("{this}/{verb}"));
        let (running, paused) = (state == BatchState::Running, state == BatchState::Paused);
        Self {
            links: BatchLinks {
                jobs: format!("/api/v1/jobs?batch_id={}", batch.batch_id),
                pause: link(running, "pause"),
                resume: link(paused, "resume"),
                cancel: link(running || paused, "cancel"),
                retry_errors: link(
                    failed > 0 && (running || paused || state == BatchState::Completed),
                    "retry-errors",
                ),
                this: this.clone(),
            },
            batch_id: batch.batch_id,
            name: batch.name,
            kind: batch.kind,
            origin: batch.origin,
            state,
            counts: BatchCounts {
                total: batch.total,
                queued: figures.count(JobState::Queued),
                running: figures.count(JobState::Running),
                waiting: figures.count(JobState::Waiting),
                succeeded: figures.count(JobState::Succeeded),
                failed,
                cancelled: figures.count(JobState::Cancelled),
            },
            verdict: figures.verdict.map(VerdictView::from),
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
