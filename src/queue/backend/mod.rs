//! Runs handlers on the deliveries of a queue: apalis' `Backend` over any [`Queue`].
//!
//! ```text
//!             claim            admit                    handler
//!   Queue ────────▶ fetcher ────────▶ channel ─▶ apalis ────────▶ DeliveryGuard: slot freed, lease ended
//!     ▲                                                                     │
//!     └────────────── keeper: ack, later, release, renew ◀──────────────────┘
//! ```
//!
//! During an outage of the queue, the fetcher claims due jobs from the store. [`Admit`] and the handler read rows and decide outcomes.
//! Retries of apalis are disabled because they would occupy a slot.

mod fetcher;
mod lease;
mod shares;
mod slots;
mod source;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::{Event, Monitor, ParallelizeExt as _, WorkerBuilder, WorkerBuilderExt as _};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::{ClaimRequest, Claimed, LaneShare, Push, Queue};
use crate::job::Lane;

pub use lease::{Delivery, DeliveryGuard, Lease};
pub use slots::{InHand, Prefetch, Slot};

use fetcher::Fetcher;
use lease::Leases;
use slots::Slots;
use source::{Source, Stages};

/// Error of an admission: the store is unavailable. The ids return to the queue, and the fetcher waits.
#[derive(Debug, thiserror::Error)]
#[error("claimed ids not admitted: {reason}")]
pub struct Refused {
    pub reason: String,
}

/// A lane whose gate is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenLane {
    pub lane: Lane,
    /// Capacity; `None`: limited by the slots only.
    pub room: Option<LaneRoom>,
}

impl OpenLane {
    /// Returns the lane `suspect`. A worker runs one of its jobs at a time, so that a worker's death can be attributed to the job.
    fn of_suspects() -> Self {
        let room = LaneRoom {
            most: 1,
            more_in: None,
        };
        Self {
            lane: Lane::suspect(),
            room: Some(room),
        }
    }
}

#[derive(Debug)]
pub struct Admission<Item> {
    pub started: Vec<(Claimed, Item)>,
    /// Ids whose rows are due later, with the due time.
    pub early: Vec<(Push, DateTime<Utc>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneRoom {
    /// Maximum active jobs.
    pub most: usize,
    /// Time until there is room for more, if it depends on time. `None`: room appears when a job of the lane ends.
    pub more_in: Option<Duration>,
}

/// Steps between a claimed id and its handler. Implemented by the worker, which has access to the store.
#[async_trait]
pub trait Admit: Send + Sync + 'static {
    /// Input of the handler in addition to the id: the claimed row.
    type Item: Send + 'static;

    /// Returns the lanes whose gate is open, with their capacity. Called before each claim. The lane `suspect` isn't included: it is open
    /// unless no lane is, and has room for one extra job.
    async fn lanes(&self) -> Vec<OpenLane>;

    /// Claims the rows of these ids in one batch. Ids missing from the result are acked, because their rows are gone or claimed by another
    /// worker. On an error, all ids are released.
    ///
    /// Each started [`Claimed`] has the current lane of its row. If the row has become suspect since the push, it is put back, and its id
    /// moves to the lane `suspect`.
    async fn admit(&self, ids: Vec<Claimed>) -> Result<Admission<Self::Item>, Refused>;

    /// Claims due rows without the queue, within the limits of the claim. Called during an outage of the queue: once a second, ten times a
    /// second while rows are found. Returns no rows if the store is unavailable as well.
    async fn due_without_queue(&self, claim: ClaimRequest) -> Vec<(Claimed, Self::Item)>;

    /// Releases admitted rows whose handler didn't start, because of the shutdown or because the row became suspect. Their leases end when
    /// this returns.
    async fn put_back(&self, unstarted: Vec<(Claimed, Self::Item)>);
}

pub struct WorkerOptions {
    /// For logs; unique per start.
    pub name: String,
    /// Owner token of its leases; unique per start.
    pub owner: Uuid,
    /// Concurrent jobs, at least 1. A tenth of the slots is reserved for interactive work; with less than ten, none.
    pub concurrency: usize,
    /// Jobs that may be prefetched in addition; 0 at first. Not available to bulk work.
    pub prefetch: Prefetch,
    pub in_hand: InHand,
    /// Starts the drain: no more jobs are started, running jobs finish.
    pub shutdown: CancellationToken,
}

/// A worker ended without a shutdown request.
#[derive(Debug, thiserror::Error)]
#[error("worker {name} exited unexpectedly: {reason}")]
pub struct WorkerDied {
    pub name: String,
    pub reason: String,
}

/// Runs `handler` on the deliveries of the queue until the shutdown. Returns once every handler and every lease has ended.
///
/// A handler frees the slot and ends the lease through [`Delivery::guard`]. It should catch its own panics, because only the handler can
/// record the job's failure. After an uncaught panic, the slot is freed and the id released.
///
/// A drain has no deadline. To limit it, drop this future: running handlers then lose their leases.
///
/// During an outage of the queue, jobs are claimed from the store without a lease. [`DeliveryGuard`] then behaves the same; `later` and
/// `release` push the id if the queue is back by then.
pub async fn run_worker<A, F, Fut>(
    options: WorkerOptions,
    queue: Arc<dyn Queue>,
    admit: Arc<A>,
    handler: F,
) -> Result<(), WorkerDied>
where
    A: Admit,
    F: Fn(Delivery<A::Item>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let concurrency = options.concurrency.max(1);
    let (handlers, unstarted) = mpsc::channel(concurrency + Prefetch::MOST);
    let unstarted = Arc::new(Mutex::new(unstarted));
    let stages = Stages {
        stop: options.shutdown.child_token(),
        ..Stages::default()
    };
    let leases = Arc::new(Leases::new(Arc::clone(&queue), options.owner));
    let fetcher = Fetcher {
        queue,
        owner: options.owner,
        admit,
        slots: Arc::new(Slots::new(concurrency, options.prefetch, options.in_hand)),
        leases: Arc::clone(&leases),
        handlers,
        unstarted: Arc::clone(&unstarted),
        stop: stages.stop.clone(),
    };

    // Aborted if this future is dropped, otherwise joined below. The guards report the end of a task even after a panic.
    let mut tasks = JoinSet::new();
    let (fetched, kept) = (
        stages.fetched.clone().drop_guard(),
        stages.kept.clone().drop_guard(),
    );
    tasks.spawn(async move {
        let _fetched = fetched;
        fetcher.run().await;
    });
    let closing = stages.closing.clone();
    tasks.spawn(async move {
        let _kept = kept;
        leases.keep(closing).await;
    });

    let handling = run_handlers(options.name.clone(), unstarted, stages, handler);
    // A separate task, because on the main thread each start and end of a handler would wake that thread too.
    let ran = AbortOnDropHandle::new(tokio::spawn(handling)).await;
    let mut reason = ran
        .unwrap_or_else(|_| Err("its task died".to_owned()))
        .err();
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            reason = Some(format!("one of its tasks died: {error}"));
        }
    }
    if reason.is_none() && !options.shutdown.is_cancelled() {
        reason = Some("its stream of work ended".to_owned());
    }
    match reason {
        Some(reason) => Err(WorkerDied {
            name: options.name,
            reason,
        }),
        None => Ok(()),
    }
}

/// Runs the handlers in apalis until they have ended. If the keeper ends early, the drain starts, because leases would expire.
async fn run_handlers<Item, F, Fut>(
    name: String,
    unstarted: source::Unstarted<Item>,
    stages: Stages,
    handler: F,
) -> Result<(), String>
where
    Item: Send + 'static,
    F: Fn(Delivery<Item>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let ends = stages.clone();
    // On any exit, stop the fetcher, and renew no lease without a handler.
    let _closing = stages.closing.clone().drop_guard();
    let _stop = stages.stop.clone().drop_guard();
    let monitor = Monitor::new()
        .on_event(|worker, event| {
            if let Event::Error(_) = event {
                // The panic message may contain a payload, so only the panic hook's location is logged.
                tracing::error!(worker = worker.name(), "a handler panicked");
            }
        })
        .register(move |_| {
            // The first layer is the outermost. Each handler runs in its own task, which catches its panics.
            WorkerBuilder::new(name.clone())
                .backend(Source::new(Arc::clone(&unstarted), stages.clone()))
                .parallelize(tokio::spawn)
                .catch_panic()
                .build(handler.clone())
        });
    let monitor = monitor.run();
    tokio::pin!(monitor);
    let ran = tokio::select! {
        ran = &mut monitor => ran,
        () = ends.kept.cancelled() => {
            ends.stop.cancel();
            monitor.await
        }
    };
    ran.map_err(|error| error.to_string())
}
