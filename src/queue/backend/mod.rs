//! Runs handlers on what a queue delivers: apalis' `Backend` over any [`Queue`].
//!
//! ```text
//!             claim            admit                    handler
//!   Queue ────────▶ fetcher ────────▶ channel ─▶ apalis ────────▶ DeliveryGuard: slot freed, lease ended
//!     ▲                                                                     │
//!     └────────────── keeper: ack, later, release, renew ◀──────────────────┘
//! ```
//!
//! A queue that is away ends nothing: the fetcher takes due work from the store meanwhile. Nothing here reads a row or
//! decides what a job's end is; [`Admit`] and the handler do. apalis' own retries stay off: they would hold a slot.

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

/// Why ids could not be admitted: the store can't be asked. The ids go back into the queue, and the fetcher waits.
#[derive(Debug, thiserror::Error)]
#[error("claimed ids not admitted: {reason}")]
pub struct Refused {
    /// The store's words.
    pub reason: String,
}

/// A lane whose gate is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenLane {
    pub lane: Lane,
    /// For how many of its jobs there is room; `None`: for as many as there are slots.
    pub room: Option<LaneRoom>,
}

impl OpenLane {
    /// The lane `suspect`: a worker runs one of its jobs at a time, so that its death is that one's.
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

/// What became of claimed ids.
#[derive(Debug)]
pub struct Admission<Item> {
    /// Rows that were claimed, to be started.
    pub started: Vec<(Claimed, Item)>,
    /// Ids whose rows are due later, and when.
    pub early: Vec<(Push, DateTime<Utc>)>,
}

/// For how many jobs of a lane there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneRoom {
    /// The most of them in hand at once.
    pub most: usize,
    /// After how long there is room for more, if time makes room. Where there is none, a job of the lane that ends is looked for anyway.
    pub more_in: Option<Duration>,
}

/// What a worker does between a claimed id and its handler. Implemented by the worker, which knows the store.
#[async_trait]
pub trait Admit: Send + Sync + 'static {
    /// What a handler needs besides the id: the claimed row.
    type Item: Send + 'static;

    /// The lanes whose gate is open, and how much room each has. Asked before every claim. The lane `suspect` is none of
    /// them: it is open unless no lane is, and has room for one job, which runs beside the others.
    async fn lanes(&self) -> Vec<OpenLane>;

    /// Claims the rows of these ids, in one batch. Ids left out of the answer are acked: their rows are gone, or in other
    /// hands. On an error all ids are released.
    ///
    /// A [`Claimed`] that is started names the row's lane now. A row that has come to be in the lane `suspect` while its id
    /// lay elsewhere isn't started: it is put back, and its id moves to that lane.
    async fn admit(&self, ids: Vec<Claimed>) -> Result<Admission<Self::Item>, Refused>;

    /// Claims due rows: no more than the claim says, of each share and in all.
    /// Asked instead of the queue while that is away, once a second, and ten times while it finds something; answers nothing
    /// if the store can't be asked either.
    async fn due_without_queue(&self, claim: ClaimRequest) -> Vec<(Claimed, Self::Item)>;

    /// Gives back rows that were admitted and whose handler never started, because the shutdown came first or the row
    /// is in the lane `suspect`. Their leases end when this returns.
    async fn put_back(&self, unstarted: Vec<(Claimed, Self::Item)>);
}

/// One start of one worker.
pub struct WorkerOptions {
    /// For logs; unique per start.
    pub name: String,
    /// The token of its leases; unique per start.
    pub owner: Uuid,
    /// Jobs at once, at least 1. One slot in ten is kept for interactive work; with less than ten, none.
    pub concurrency: usize,
    /// How many jobs more than that may be made ready meanwhile; 0 to begin with. Bulk work gets none of it.
    pub prefetch: Prefetch,
    /// Counts the jobs in hand while the worker runs.
    pub in_hand: InHand,
    /// Starts the drain: nothing more is started, what runs goes on to its end.
    pub shutdown: CancellationToken,
}

/// A worker ended although nobody had asked it to.
#[derive(Debug, thiserror::Error)]
#[error("worker {name} ended by itself: {reason}")]
pub struct WorkerDied {
    pub name: String,
    /// What is known.
    pub reason: String,
}

/// Runs `handler` on what the queue delivers, until the shutdown; returns when every handler has ended and every lease
/// that a handler kept has too.
///
/// A handler frees the slot and ends the lease through [`Delivery::guard`], and is expected to catch its own panics (it
/// alone can record the job's failure). A panic that gets through is caught here: the slot is freed, the id released.
///
/// A drain has no deadline of its own: whoever has one drops this future, and the handlers that still run lose their
/// leases.
///
/// While the queue is away, work comes from the store without a lease; [`DeliveryGuard`] then behaves the same, `later` and
/// `release` become a push if the queue is back by then.
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

    // Aborted if this future is dropped; joined below otherwise. The guards speak of an end by panic too.
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
    // Its own task: on the main thread, each start and end of a handler would wake that thread too.
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

/// Lets apalis run the handlers; returns when they have ended. A keeper that died starts the drain, as leases would
/// expire in hand.
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
    // However this ends, nothing more is fetched, and no lease is kept that no handler has.
    let _closing = stages.closing.clone().drop_guard();
    let _stop = stages.stop.clone().drop_guard();
    let monitor = Monitor::new()
        .on_event(|worker, event| {
            if let Event::Error(_) = event {
                // The panic's own words may hold a payload; the panic hook has its place.
                tracing::error!(worker = worker.name(), "a handler panicked");
            }
        })
        .register(move |_| {
            // The layer added first is the outermost: each handler runs in a task of its own, its panics caught there.
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
