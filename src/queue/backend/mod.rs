//! Runs handlers on the ids of a queue: apalis' `Backend` over any [`Queue`].
//!
//! ```text
//!           claim            admit
//!   Queue ────────▶ fetcher ────────▶ channel ─▶ apalis ─▶ handler
//! ```
//!
//! A claimed id has left the queue; from its admission on, the row is the lease. During an outage of the queue, the fetcher claims due jobs
//! from the store. [`Admit`] and the handler read rows and decide outcomes. Retries of apalis are disabled because they would occupy a slot.

mod fetcher;
mod shares;
mod slots;
mod source;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::{
    Event, EventListenerExt as _, ParallelizeExt as _, WorkerBuilder, WorkerBuilderExt as _,
    WorkerContext,
};
use async_trait::async_trait;
use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{Claimed, LaneShare, Queue};
use crate::job::Lane;

pub use slots::{ActiveJob, Delivery, InHand, Prefetch, Slot};

use fetcher::Fetcher;
use slots::Slots;
use source::Source;

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

    /// Claims the rows of these ids in one batch and returns the claimed ones. The rest isn't due, or was claimed by another worker. On an
    /// error, all ids return to the queue.
    ///
    /// Each returned [`Claimed`] has the current lane of its row. If the row has become suspect since the push, it is put back.
    async fn admit(&self, ids: Vec<Claimed>) -> Result<Vec<(Claimed, Self::Item)>, Refused>;

    /// Releases admitted rows whose handler didn't start, because of the shutdown or because the row became suspect.
    async fn put_back(&self, unstarted: Vec<(Claimed, Self::Item)>);
}

pub struct WorkerOptions {
    /// For logs; unique per start.
    pub name: String,
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

/// Runs `handler` on the jobs of the queue until the shutdown. Returns once every handler has ended.
///
/// A handler frees its slot by dropping [`Delivery::slot`]. It should catch its own panics, because only the handler can record the job's
/// failure. After an uncaught panic, the slot is freed and the row stays claimed.
///
/// A drain has no deadline. To limit it, drop this future. During an outage of `queue`, jobs are claimed from `fallback`.
pub async fn run_worker<A, F, Fut>(
    options: WorkerOptions,
    queue: Arc<dyn Queue>,
    fallback: Arc<dyn Queue>,
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
    let (stop, fetched) = (options.shutdown.child_token(), CancellationToken::new());
    let fetcher = Fetcher {
        queue,
        fallback,
        admit,
        slots: Arc::new(Slots::new(concurrency, options.prefetch, options.in_hand)),
        handlers,
        unstarted: Arc::clone(&unstarted),
        stop: stop.clone(),
    };
    // Both tasks are aborted if this future is dropped. The guards end the other task, also after a panic.
    let ends = fetched.clone().drop_guard();
    let fetching = AbortOnDropHandle::new(tokio::spawn(async move {
        let _ends = ends;
        fetcher.run().await;
    }));
    // The first layer is the outermost. Each handler runs in its own task, which catches its panics.
    let worker = WorkerBuilder::new(options.name.clone())
        .backend(Source::new(unstarted, stop.clone(), fetched))
        .on_event(|worker: &WorkerContext, event: &Event| {
            if let Event::Error(_) = event {
                // The panic message may contain a payload, so only the panic hook's location is logged.
                tracing::error!(worker = worker.name(), "a handler panicked");
            }
        })
        .parallelize(tokio::spawn)
        .catch_panic()
        .build(handler);
    // A separate task, because on the main thread each start and end of a handler would wake that thread too.
    let handling = AbortOnDropHandle::new(tokio::spawn(async move {
        let _stop = stop.drop_guard();
        worker
            .run()
            .boxed()
            .await
            .map_err(|error| error.to_string())
    }));
    let handled = handling.await;
    let mut reason = handled
        .unwrap_or_else(|_| Err("its task died".to_owned()))
        .err();
    if let Err(error) = fetching.await {
        reason = Some(format!("its fetcher died: {error}"));
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
