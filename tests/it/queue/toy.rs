//! In-memory backend of a worker: admission, and a queue with simulated outages.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gavel::job::{JobId, Lane};
use gavel::queue::backend::{
    Admit, Delivery, InHand, LaneRoom, OpenLane, Prefetch, Refused, WorkerDied, WorkerOptions,
    run_worker,
};
use gavel::queue::{ClaimRequest, Claimed, Depth, Push, Queue, QueueError};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::LONG;
use super::fifo::Fifo;

/// Admits every id not in `gone`, like a store with a row for each.
#[derive(Default)]
pub(super) struct Toy {
    pub(super) lanes: Mutex<Vec<Lane>>,
    /// Capacity of lanes with less capacity than slots.
    pub(super) rooms: Mutex<HashMap<Lane, LaneRoom>>,
    pub(super) asked: AtomicUsize,
    pub(super) gone: Mutex<HashSet<JobId>>,
    pub(super) suspects: Mutex<HashSet<JobId>>,
    pub(super) refusing: AtomicBool,
    pub(super) refusals: AtomicUsize,
    pub(super) largest_batch: AtomicUsize,
    pub(super) put_back: Mutex<Vec<JobId>>,
}

impl Toy {
    pub(super) fn with_lanes(lanes: &[&str]) -> Arc<Self> {
        let toy = Self::default();
        *toy.lanes.lock().unwrap() = lanes.iter().map(|name| Lane::of_judge(*name)).collect();
        Arc::new(toy)
    }
}

#[async_trait]
impl Admit for Toy {
    type Item = JobId;

    async fn lanes(&self) -> Vec<OpenLane> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let rooms = self.rooms.lock().unwrap();
        let lanes = self.lanes.lock().unwrap().clone();
        let open = |lane: Lane| OpenLane {
            room: rooms.get(&lane).copied(),
            lane,
        };
        lanes.into_iter().map(open).collect()
    }

    async fn admit(&self, ids: Vec<Claimed>) -> Result<Vec<(Claimed, JobId)>, Refused> {
        if self.refusing.load(Ordering::SeqCst) {
            self.refusals.fetch_add(1, Ordering::SeqCst);
            let reason = "the store is away".to_owned();
            return Err(Refused { reason });
        }
        self.largest_batch.fetch_max(ids.len(), Ordering::SeqCst);
        let (gone, suspects) = (self.gone.lock().unwrap(), self.suspects.lock().unwrap());
        let with_lane_of_row = |mut claimed: Claimed| {
            if suspects.contains(&claimed.id) {
                claimed.lane = Lane::suspect();
            }
            (claimed.clone(), claimed.id)
        };
        let ids = ids.into_iter();
        let admitted = ids.filter(|claimed| !gone.contains(&claimed.id));
        Ok(admitted.map(with_lane_of_row).collect())
    }

    async fn put_back(&self, unstarted: Vec<(Claimed, JobId)>) {
        let ids = unstarted.into_iter().map(|(_, id)| id);
        self.put_back.lock().unwrap().extend(ids);
    }
}

#[derive(Clone)]
pub(super) struct Log {
    pub(super) started: Arc<Mutex<Vec<JobId>>>,
    running: Arc<AtomicUsize>,
    pub(super) most: Arc<AtomicUsize>,
    pub(super) gate: Arc<Semaphore>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            started: Arc::default(),
            running: Arc::default(),
            most: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    /// Handler that records its start and waits for the gate.
    async fn handle(self, delivery: Delivery<JobId>) {
        self.started.lock().unwrap().push(delivery.item);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        self.running.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn handler(
        &self,
    ) -> impl Fn(Delivery<JobId>) -> BoxedHandler + Clone + Send + Sync + 'static {
        let log = self.clone();
        move |delivery| Box::pin(log.clone().handle(delivery))
    }

    pub(super) fn started(&self) -> Vec<JobId> {
        self.started.lock().unwrap().clone()
    }
}

type BoxedHandler = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Worker {
    pub(super) in_hand: InHand,
    pub(super) prefetch: Prefetch,
    pub(super) shutdown: CancellationToken,
    run: JoinHandle<Result<(), WorkerDied>>,
}

impl Worker {
    pub(super) fn start<F, Fut>(
        queue: &Arc<dyn Queue>,
        toy: &Arc<Toy>,
        concurrency: usize,
        handler: F,
    ) -> Self
    where
        F: Fn(Delivery<JobId>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self::with_fallback(
            queue,
            &(Fifo::new() as Arc<dyn Queue>),
            toy,
            concurrency,
            handler,
        )
    }

    pub(super) fn with_fallback<F, Fut>(
        queue: &Arc<dyn Queue>,
        fallback: &Arc<dyn Queue>,
        toy: &Arc<Toy>,
        concurrency: usize,
        handler: F,
    ) -> Self
    where
        F: Fn(Delivery<JobId>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (in_hand, shutdown) = (InHand::default(), CancellationToken::new());
        let prefetch = Prefetch::default();
        let options = WorkerOptions {
            name: "toy".to_owned(),
            concurrency,
            prefetch: prefetch.clone(),
            in_hand: in_hand.clone(),
            shutdown: shutdown.clone(),
        };
        let (queue, fallback) = (Arc::clone(queue), Arc::clone(fallback));
        let run = run_worker(options, queue, fallback, Arc::clone(toy), handler);
        let run = tokio::spawn(run);
        Self {
            in_hand,
            prefetch,
            shutdown,
            run,
        }
    }

    pub(super) async fn stop(self) {
        self.shutdown.cancel();
        self.ended().await.unwrap();
    }

    pub(super) async fn ended(self) -> Result<(), WorkerDied> {
        tokio::time::timeout(LONG * 100, self.run)
            .await
            .unwrap()
            .unwrap()
    }
}

/// Waits until a condition is true. Time is paused, so the wait is instant.
pub(super) async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG * 10, wait).await.unwrap();
}

pub(super) struct Flaky {
    pub(super) inner: Arc<dyn Queue>,
    pub(super) away: AtomicBool,
    /// Whether claims fail although the server answers.
    pub(super) rejects_claims: AtomicBool,
    pub(super) claims: AtomicUsize,
}

impl Flaky {
    pub(super) fn over(inner: &Arc<dyn Queue>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            away: AtomicBool::new(false),
            rejects_claims: AtomicBool::new(false),
            claims: AtomicUsize::new(0),
        })
    }

    fn reach(&self) -> Result<&Arc<dyn Queue>, QueueError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(QueueError::Unreachable {
                attempted: "reaching the queue",
                reason: "cut off".to_owned(),
            });
        }
        Ok(&self.inner)
    }
}

#[async_trait]
impl Queue for Flaky {
    async fn push(&self, ids: &[Push]) -> Result<(), QueueError> {
        self.reach()?.push(ids).await
    }
    async fn push_first(&self, ids: &[Push]) -> Result<(), QueueError> {
        self.reach()?.push_first(ids).await
    }
    async fn claim(&self, claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        if self.rejects_claims.load(Ordering::SeqCst) {
            return Err(QueueError::Unexpected {
                attempted: "claiming ids",
                reason: "no permission".to_owned(),
            });
        }
        self.reach()?.claim(claim).await
    }
    async fn depth(&self, lane: &Lane) -> Result<Depth, QueueError> {
        self.reach()?.depth(lane).await
    }
    async fn woken(&self, at_most: Duration) {
        match self.reach() {
            Ok(inner) => inner.woken(at_most).await,
            Err(_) => tokio::time::sleep(at_most).await,
        }
    }
    async fn ping(&self) -> Result<(), QueueError> {
        self.reach()?.ping().await
    }
    fn holds_ids(&self) -> bool {
        true
    }
}
