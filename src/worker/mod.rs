//! Worker: claims ids, runs each job once, records its outcome, rescues lost jobs.
//!
//! [`process`] is the pipeline. [`run`] adds concurrency, heartbeat, holds, rescue and drain. The claim in the store decides whether a job
//! may run, and the fence decides whether its outcome counts; memory decides neither of these.

mod admit;
mod after_ending;
mod batches;
mod caps;
mod chores;
mod claims;
mod concurrency;
mod deadline;
mod endings;
mod expand;
mod handle;
mod heartbeat;
mod holds;
mod leadership;
pub mod process;
mod provider_batches;
mod refill;
mod rescue;
pub mod table_queue;
mod wait;
mod webhooks;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::admit::StoreAdmit;
use self::chores::Chores;
pub use self::chores::RetentionPeriods;
use self::claims::ClaimRegistry;
pub use self::concurrency::ConcurrencyPermits;
pub use self::expand::{Expansion, ExpansionOutcome};
use self::handle::{Handler, UNRECORDED};
use self::heartbeat::HeartbeatTask;
use self::holds::{HoldSync, opened};
use self::leadership::{LeaderElection, Leadership, QueueConnection};
use self::process::Pipeline;
pub use self::provider_batches::ProviderBatchOptions;
use self::provider_batches::{ChunkLoop, FailureStreaks};
use self::rescue::{Rescue, RescueLimits};
use self::table_queue::{Readers, TableQueue};
pub use self::webhooks::WebhookOptions;
use self::webhooks::Webhooks;
use crate::clock::Clock;
use crate::events::Announcer;
use crate::judge::gate::Gate;
use crate::judge::{Caps, Judges};
use crate::memory::MemoryBudget;
use crate::queue::backend::{self, InHand, Prefetch};
use crate::queue::{Push, Queue};
use crate::store::{DueJob, Heartbeat, Store, StoreError};
use crate::wire::WorkerState;

/// Time after a hard stop in which outcomes of runs may still be recorded.
const RECORD_FLUSH_TIMEOUT: Duration = Duration::from_secs(6);

/// Silence after which another worker takes over a provider batch. The same in all workers, independent of their leases.
const CHUNK_LEASE: Duration = Duration::from_secs(12);

#[derive(Clone)]
pub struct WorkerParts {
    pub store: Arc<Store>,
    pub queue: Arc<dyn Queue>,
    pub judges: Arc<Judges>,
    /// Must be the gate that the judges were built with.
    pub gate: Arc<Gate>,
    pub clock: Arc<dyn Clock>,
    pub events: Announcer,
    /// Memory budget of large cases.
    pub memory: MemoryBudget,
    /// Names of the judges that this worker can call.
    pub judge_names: Vec<String>,
    /// The same for other processes: names, and `entry:*` for an entry that accepts any model.
    pub published_judges: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Unique per start.
    pub worker_id: Uuid,
    /// Host and process, for display.
    pub name: String,
    pub concurrency: usize,
    /// Silence after which other workers declare this one dead.
    pub lease: Duration,
    /// Time in which a stopping worker lets its jobs finish.
    pub drain_timeout: Duration,
    /// Worker deaths in the lane `suspect` after which a job fails as poison.
    pub max_attempts: i32,
    pub max_wait: Duration,
    /// Maximum bulk ids per lane in the queue.
    pub bulk_window: usize,
    pub kept: RetentionPeriods,
    pub provider_batches: ProviderBatchOptions,
    pub caps: Caps,
    pub webhooks: WebhookOptions,
}

/// Error that ended a worker without a shutdown request.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("failed to register a worker: {0}")]
    Register(#[source] StoreError),
    /// The task that runs the handlers ended unexpectedly.
    #[error("the worker's runner exited unexpectedly: {0}")]
    Runner(String),
}

/// Works until `soft`. Then stops claiming, lets active runs finish until `hard` or the drain timeout, releases the rest, and returns once
/// everything is recorded.
pub async fn run(
    parts: WorkerParts,
    options: WorkerOptions,
    soft: CancellationToken,
    hard: CancellationToken,
) -> Result<(), WorkerError> {
    let worker_id = options.worker_id;
    let (in_hand, prefetch) = (InHand::default(), Prefetch::default());
    let connection = QueueConnection::default();
    let pulse = register(&parts, &options, (in_hand.clone(), connection.clone())).await?;
    let holds = open_holds(&parts, &options).await;
    let ended = CancellationToken::new();
    let background = TaskTracker::new();
    background.spawn(pulse.clone().run(soft.clone(), ended.clone()));
    background.spawn(holds.clone().run(ended.clone()));
    // A child token, because an early exit of the fetcher must not cancel `soft`.
    let draining = soft.child_token();
    spawn_background_tasks(&background, &parts, &options, connection, &holds, &draining);
    let claims = ClaimRegistry::default();
    background.spawn(claims::reconcile(
        claims.clone(),
        worker_id,
        parts.store.clone(),
        parts.queue.clone(),
        parts.clock.clone(),
        ended.clone(),
    ));
    background.spawn(stop_hard_after_drain(
        soft.clone(),
        hard.clone(),
        ended.clone(),
        options.drain_timeout,
    ));

    tracing::info!(worker = %options.name, %worker_id, concurrency = options.concurrency, "worker started");
    let settling = TaskTracker::new();
    // A chunk that is being sent may finish during the drain, as a run may.
    settling.spawn(chunk_loop(&parts, &options, worker_id).run(draining.clone(), hard.clone()));
    let handler = Arc::new(Handler {
        pipeline: pipeline(
            &parts,
            worker_id,
            ConcurrencyPermits::new(options.concurrency, prefetch.clone()),
        ),
        store: parts.store.clone(),
        queue: parts.queue.clone(),
        clock: parts.clock.clone(),
        events: parts.events.clone(),
        settling: settling.clone(),
        unrecorded: Arc::new(Semaphore::new(UNRECORDED)),
        hard: hard.clone(),
    });
    let (store, clock) = (parts.store.clone(), parts.clock.clone());
    let fallback = TableQueue::new(store, clock, Readers::Several);
    let running = backend::run_worker(
        backend::WorkerOptions {
            name: options.name.clone(),
            concurrency: options.concurrency,
            prefetch,
            in_hand,
            shutdown: soft,
        },
        parts.queue.clone(),
        Arc::new(fallback),
        Arc::new(StoreAdmit::new(
            &parts,
            holds,
            worker_id,
            pulse.clone(),
            claims,
        )),
        move |delivery| {
            let handler = handler.clone();
            async move { handler.handle(delivery).await }
        },
    );
    let worked = async {
        let ran = running.await;
        draining.cancel();
        settling.close();
        settling.wait().await;
        ran
    };
    let ran = tokio::select! {
        ran = worked => ran,
        () = unrecorded(&hard) => {
            // The rows stay in this worker's name; another worker rescues them after its stop.
            tracing::error!(grace = ?RECORD_FLUSH_TIMEOUT, "failed to record results in time; the jobs will run again");
            Ok(())
        }
    };
    draining.cancel();
    ended.cancel();
    background.close();
    background.wait().await;
    pulse.stop().await;
    tracing::info!(worker = %options.name, %worker_id, "worker stopped");
    ran.map_err(|error| WorkerError::Runner(error.to_string()))
}

async fn register(
    parts: &WorkerParts,
    options: &WorkerOptions,
    (in_hand, connection): (InHand, QueueConnection),
) -> Result<HeartbeatTask, WorkerError> {
    let beat = Heartbeat {
        worker_id: options.worker_id,
        name: options.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        in_hand: 0,
        state: WorkerState::Running,
        lease: options.lease,
        judges: Some(parts.published_judges.clone()),
        queue_away: false,
    };
    let pulse = HeartbeatTask::register(parts.store.clone(), beat, in_hand, connection)
        .await
        .map_err(WorkerError::Register)?;
    // Before the first job ends, so that endpoints in the settings get every event.
    let (webhooks, now) = (parts.store.webhooks(), parts.clock.now());
    let kept = webhooks.keep_settings(&options.webhooks.endpoints, now);
    match kept.await {
        Ok(()) => {}
        Err(error @ StoreError::Unavailable { .. }) => {
            tracing::warn!(%error, "failed to store the webhooks of the settings; retrying");
        }
        Err(error) => return Err(WorkerError::Register(error)),
    }
    Ok(pulse)
}

/// Releases holds of judges with a possibly corrected key, and reads the others.
async fn open_holds(parts: &WorkerParts, options: &WorkerOptions) -> Arc<HoldSync> {
    let now = parts.clock.now();
    let names = &parts.judge_names;
    match parts.store.holds().release_misconfigured(names, now).await {
        Ok(released) => {
            for target in released {
                parts.events.announce(opened(target, now));
            }
        }
        Err(error) => {
            tracing::warn!(%error, "failed to release the holds of misconfigured judges");
        }
    }
    let holds = Arc::new(HoldSync::new(parts, options));
    if let Err(error) = holds.sync().await {
        tracing::warn!(%error, "failed to read the holds at start");
    }
    holds
}

/// Starts the background tasks and the election of the worker that runs them.
fn spawn_background_tasks(
    background: &TaskTracker,
    parts: &WorkerParts,
    options: &WorkerOptions,
    connection: QueueConnection,
    holds: &Arc<HoldSync>,
    draining: &CancellationToken,
) {
    let leadership = Leadership::default();
    let election = LeaderElection::new(parts, options, connection, leadership.clone());
    background.spawn(election.run(draining.clone()));
    let limits = RescueLimits {
        max_attempts: options.max_attempts,
        max_wait: options.max_wait,
        bulk_window: options.bulk_window,
    };
    let rescue = Rescue::new(parts, holds.clone(), leadership.clone(), limits);
    background.spawn(rescue.run(draining.clone()));
    let (store, clock) = (parts.store.clone(), parts.clock.clone());
    let expansion = Expansion::new(store.clone(), parts.queue.clone(), clock.clone());
    background.spawn(expansion.run(leadership.clone(), draining.clone()));
    let chores = Chores {
        store,
        clock,
        leadership,
        stop: draining.clone(),
    };
    background.spawn(chores.clone().roll_up_days());
    background.spawn(chores.clone().end_cancelled());
    let webhooks = Webhooks::new(chores.clone(), options.webhooks.clone());
    background.spawn(webhooks.run());
    background.spawn(chores.prune(options.kept));
}

fn to_push(job: DueJob) -> Push {
    Push {
        id: job.job_id,
        lane: job.lane,
        priority: job.priority,
        due_at: None,
    }
}

/// Returns `RECORD_FLUSH_TIMEOUT` after `hard`, because an outage of the database may delay outcomes without limit.
async fn unrecorded(hard: &CancellationToken) {
    hard.cancelled().await;
    tokio::time::sleep(RECORD_FLUSH_TIMEOUT).await;
}

fn pipeline(parts: &WorkerParts, worker_id: Uuid, permits: ConcurrencyPermits) -> Pipeline {
    let (store, judges) = (parts.store.clone(), parts.judges.clone());
    Pipeline::new(
        store,
        judges,
        parts.clock.clone(),
        worker_id,
        permits,
        parts.memory.clone(),
    )
}

fn chunk_loop(parts: &WorkerParts, options: &WorkerOptions, worker_id: Uuid) -> ChunkLoop {
    ChunkLoop {
        store: parts.store.clone(),
        judges: parts.judges.clone(),
        clock: parts.clock.clone(),
        // It only builds questions, so it needs no permits.
        pipeline: pipeline(
            parts,
            worker_id,
            ConcurrencyPermits::new(1, Prefetch::default()),
        ),
        worker_id,
        options: options.provider_batches,
        silent: CHUNK_LEASE,
        rests: HashMap::new(),
        tries: FailureStreaks::default(),
        sending: Arc::default(),
    }
}

/// Cancels `hard` `drain_timeout` after `soft`, so that remaining runs are released.
async fn stop_hard_after_drain(
    soft: CancellationToken,
    hard: CancellationToken,
    ended: CancellationToken,
    drain_timeout: Duration,
) {
    tokio::select! {
        () = soft.cancelled() => {}
        () = ended.cancelled() => return,
    }
    tokio::select! {
        () = tokio::time::sleep(drain_timeout) => {
            tracing::warn!(?drain_timeout, "drain timed out; running jobs return to the queue");
            hard.cancel();
        }
        () = hard.cancelled() => {}
        () = ended.cancelled() => {}
    }
}
