//! Work: take ids, run each job once, record its end, rescue what was lost.
//!
//! [`process`] is the pipeline; [`run`] puts it to work: concurrency, heartbeat, holds, rescue, drain. A worker trusts
//! nothing that it remembers: the claim in the store decides whether a job may run, the fence whether its end counts.

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
use self::heartbeat::Pulse;
use self::holds::{Holds, opened};
use self::leadership::{LeaderElection, Leadership, QueueConnection};
use self::process::Pipeline;
pub use self::provider_batches::ProviderBatchOptions;
use self::provider_batches::{ChunkLoop, Tries};
use self::rescue::{Rescue, RescueLimits};
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

/// How long after a hard stop the ends of runs may take to be recorded.
const RECORD_GRACE: Duration = Duration::from_secs(6);

/// After how long a silence another worker looks after a provider batch. The same in all of them, whatever their leases.
const CHUNK_SILENCE: Duration = Duration::from_secs(12);

/// What a worker works with.
#[derive(Clone)]
pub struct WorkerParts {
    pub store: Arc<Store>,
    pub queue: Arc<dyn Queue>,
    pub judges: Arc<Judges>,
    /// The one that the judges were built with.
    pub gate: Arc<Gate>,
    pub clock: Arc<dyn Clock>,
    pub events: Announcer,
    /// What large cases may take.
    pub memory: MemoryBudget,
    /// The names of the judges that this worker can ask.
    pub judge_names: Vec<String>,
    /// The same as other processes are told: beside names, `entry:*` for an entry that takes any model.
    pub published_judges: Vec<String>,
}

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Unique per start.
    pub worker_id: Uuid,
    /// Host and process, for people.
    pub name: String,
    /// Judge calls at once.
    pub concurrency: usize,
    /// How long a stopping worker lets its jobs finish.
    pub drain_timeout: Duration,
    /// Deaths of workers in the lane `suspect` until a job fails as poison.
    pub max_attempts: i32,
    /// Longest time in state waiting.
    pub max_wait: Duration,
    /// Bulk ids per lane that lie in the queue.
    pub bulk_window: usize,
    /// How long judge calls, jobs and sessions are kept.
    pub kept: RetentionPeriods,
    /// How provider batches are made and collected.
    pub provider_batches: ProviderBatchOptions,
    /// What judges may cost.
    pub caps: Caps,
    /// Who is told of what, and how.
    pub webhooks: WebhookOptions,
}

/// Why a worker ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// It could not register.
    #[error("a worker could not register: {0}")]
    Register(#[source] StoreError),
    /// The runner of handlers ended by itself.
    #[error("the worker's runner ended by itself: {0}")]
    Runner(String),
}

/// Works until `soft`; then takes nothing more, lets what runs finish until `hard` or the drain timeout, gives back the
/// rest, and returns when everything is recorded.
pub async fn run(
    parts: WorkerParts,
    options: WorkerOptions,
    soft: CancellationToken,
    hard: CancellationToken,
) -> Result<(), WorkerError> {
    let worker_id = options.worker_id;
    let (in_hand, prefetch) = (InHand::default(), Prefetch::default());
    let connection = QueueConnection::default();
    let pulse = register(
        &parts,
        &options,
        worker_id,
        (in_hand.clone(), connection.clone()),
    )
    .await?;
    let holds = open_holds(&parts, &options, worker_id).await;
    let ended = CancellationToken::new();
    let background = TaskTracker::new();
    background.spawn(pulse.clone().run(soft.clone(), ended.clone()));
    background.spawn(holds.clone().run(ended.clone()));
    // Of its own: a runner that ends by itself leaves `soft` alone.
    let draining = soft.child_token();
    keep_house(
        &background,
        &parts,
        &options,
        (worker_id, connection),
        &holds,
        &draining,
    );
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

    tracing::info!(worker = %options.name, %worker_id, concurrency = options.concurrency, "works");
    let settling = TaskTracker::new();
    // A chunk that is being sent has the drain's time, as a run has.
    settling.spawn(chunk_loop(&parts, &options, worker_id).run(draining.clone(), hard.clone()));
    let handler = Arc::new(Handler {
        pipeline: pipeline(
            &parts,
            worker_id,
            ConcurrencyPermits::new(options.concurrency, prefetch.clone()),
        ),
        store: parts.store.clone(),
        clock: parts.clock.clone(),
        events: parts.events.clone(),
        settling: settling.clone(),
        unrecorded: Arc::new(Semaphore::new(UNRECORDED)),
        hard: hard.clone(),
    });
    let running = backend::run_worker(
        backend::WorkerOptions {
            name: options.name.clone(),
            owner: worker_id,
            concurrency: options.concurrency,
            prefetch,
            in_hand,
            shutdown: soft,
        },
        parts.queue.clone(),
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
            // The rows are still this worker's: another one takes them back once it has stopped.
            tracing::error!(grace = ?RECORD_GRACE, "ends of runs could not be recorded in time; the jobs will run again");
            Ok(())
        }
    };
    draining.cancel();
    ended.cancel();
    background.close();
    background.wait().await;
    pulse.stop().await;
    tracing::info!(worker = %options.name, %worker_id, "stopped");
    ran.map_err(|error| WorkerError::Runner(error.to_string()))
}

/// Makes the worker known, and which judges it can ask.
async fn register(
    parts: &WorkerParts,
    options: &WorkerOptions,
    worker_id: Uuid,
    (in_hand, connection): (InHand, QueueConnection),
) -> Result<Pulse, WorkerError> {
    let beat = Heartbeat {
        worker_id,
        name: options.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        in_hand: 0,
        state: WorkerState::Running,
        lease: parts.queue.lease(),
        judges: Some(parts.published_judges.clone()),
        queue_away: false,
    };
    let pulse = Pulse::register(parts.store.clone(), beat, in_hand, connection)
        .await
        .map_err(WorkerError::Register)?;
    // Before the first job ends, so that endpoints from the settings get every event.
    let (webhooks, now) = (parts.store.webhooks(), parts.clock.now());
    let kept = webhooks.keep_settings(&options.webhooks.endpoints, now);
    match kept.await {
        Ok(()) => {}
        Err(error @ StoreError::Unavailable { .. }) => {
            tracing::warn!(%error, "could not store the webhooks of the settings yet; it tries again");
        }
        Err(error) => return Err(WorkerError::Register(error)),
    }
    Ok(pulse)
}

/// Gives judges whose key may have been corrected another chance, and reads the holds.
async fn open_holds(parts: &WorkerParts, options: &WorkerOptions, worker_id: Uuid) -> Arc<Holds> {
    let now = parts.clock.now();
    let names = &parts.judge_names;
    match parts.store.holds().release_misconfigured(names, now).await {
        Ok(released) => {
            for target in released {
                parts.events.announce(opened(target, now));
            }
        }
        Err(error) => {
            tracing::warn!(%error, "could not release the holds of judges that were misconfigured");
        }
    }
    let holds = Arc::new(Holds::new(
        parts,
        worker_id,
        options.name.clone(),
        options.caps.clone(),
    ));
    if let Err(error) = holds.sync().await {
        tracing::warn!(%error, "could not read the holds at start");
    }
    holds
}

/// Starts the work that one worker at a time does, and the watch that says which.
fn keep_house(
    background: &TaskTracker,
    parts: &WorkerParts,
    options: &WorkerOptions,
    (worker_id, connection): (Uuid, QueueConnection),
    holds: &Arc<Holds>,
    draining: &CancellationToken,
) {
    let leadership = Leadership::default();
    let election = LeaderElection::new(parts, worker_id, connection, leadership.clone());
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

fn push_of(job: DueJob) -> Push {
    Push {
        id: job.job_id,
        lane: job.lane,
        priority: job.priority,
        due_at: None,
    }
}

/// A database that is away holds every end; a process that was told to stop at once must not wait for it for ever.
async fn unrecorded(hard: &CancellationToken) {
    hard.cancelled().await;
    tokio::time::sleep(RECORD_GRACE).await;
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
        // It asks for questions alone, and takes no permits.
        pipeline: pipeline(
            parts,
            worker_id,
            ConcurrencyPermits::new(1, Prefetch::default()),
        ),
        worker_id,
        options: options.provider_batches,
        silent: CHUNK_SILENCE,
        rests: HashMap::new(),
        tries: Tries::default(),
        sending: Arc::default(),
    }
}

/// A drain has an end: `drain_timeout` after `soft` what still runs is given back.
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
            tracing::warn!(?drain_timeout, "the drain took too long; what still runs goes back to the queue");
            hard.cancel();
        }
        () = hard.cancelled() => {}
        () = ended.cancelled() => {}
    }
}
