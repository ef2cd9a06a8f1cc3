//! Worker on lanes with little capacity: it claims exactly the jobs that may start.
//!
//! Time is paused, so waits are instant.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gavel::job::JobId;
use gavel::judge::gate::{CallOutcome, Gate, GateOptions, Load, PaceLimits};
use gavel::queue::backend::{
    Admit, Delivery, InHand, LaneRoom, OpenLane, Prefetch, Refused, WorkerOptions, run_worker,
};
use gavel::queue::{Claimed, Queue};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::fifo::Fifo;
use super::toy::{Log, Toy, Worker, eventually};
use super::{bulk, interactive, lane};

const MINUTE: Duration = Duration::from_secs(60);

fn queue() -> Arc<dyn Queue> {
    Fifo::new()
}

fn give_room(toy: &Toy, name: &str, most: usize, more_in: Option<Duration>) {
    let room = LaneRoom { most, more_in };
    toy.rooms.lock().unwrap().insert(lane(name), room);
}

#[tokio::test(start_paused = true)]
async fn lane_is_claimed_only_up_to_its_capacity_and_others_continue() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["tight", "free"]), Log::new());
    give_room(&toy, "tight", 2, None);
    let tight = interactive(40, "tight");
    queue.push(&tight).await.unwrap();
    queue.push(&bulk(5, "free")).await.unwrap();
    let worker = Worker::start(&queue, &toy, 16, log.handler());
    eventually(async || log.started().len() == 7).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let of_tight = |log: &Log| {
        let started = log.started();
        started
            .iter()
            .filter(|id| tight.iter().any(|push| push.id == **id))
            .count()
    };
    assert_eq!((log.started().len(), of_tight(&log)), (7, 2));
    // An ended job of the lane admits the next one at once.
    let before = Instant::now();
    log.gate.add_permits(7);
    eventually(async || of_tight(&log) > 3).await;
    assert!(
        before.elapsed() < Duration::from_millis(100),
        "{:?}",
        before.elapsed()
    );
    log.gate.add_permits(100);
    eventually(async || log.started().len() == 45).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn full_lane_is_polled_when_capacity_returns_without_a_loop() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    give_room(&toy, "a", 0, Some(Duration::from_secs(30)));
    queue.push(&interactive(3, "a")).await.unwrap();
    let worker = Worker::start(&queue, &toy, 4, log.handler());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let looks = toy.asked.load(Ordering::SeqCst);
    assert!(looks <= 60, "{looks} looks in 20 s");
    assert!(log.started().is_empty());
    give_room(&toy, "a", 1, None);
    eventually(async || log.started().len() == 1).await;
    log.gate.add_permits(3);
    eventually(async || log.started().len() == 3).await;
    worker.stop().await;
}

struct Gated(Arc<Gate>);

#[async_trait]
impl Admit for Gated {
    type Item = JobId;

    async fn lanes(&self) -> Vec<OpenLane> {
        let open = |name: &str| {
            let room = self.0.room(name).ok()?;
            let by_pace = room.starts.map(|starts| room.in_flight + starts);
            let most = by_pace.into_iter().chain(room.cap).min();
            Some(OpenLane {
                lane: lane(name),
                room: most.map(|most| LaneRoom {
                    most,
                    more_in: room.more_in,
                }),
            })
        };
        ["paced", "free"].into_iter().filter_map(open).collect()
    }

    async fn admit(&self, ids: Vec<Claimed>) -> Result<Vec<(Claimed, JobId)>, Refused> {
        let with_id = |claimed: Claimed| (claimed.clone(), claimed.id);
        Ok(ids.into_iter().map(with_id).collect())
    }

    async fn put_back(&self, _: Vec<(Claimed, JobId)>) {}
}

/// Runs jobs at a limit per minute; returns the start times of their calls. Fails the test on a denied call.
async fn starts_of(limit: u64, jobs: usize, call: Duration) -> Vec<Instant> {
    let gate = Arc::new(Gate::new(GateOptions {
        paces: BTreeMap::from([(
            "paced".to_owned(),
            PaceLimits {
                requests_per_minute: Some(limit),
                tokens_per_minute: None,
            },
        )]),
        ..GateOptions::default()
    }));
    let queue = queue();
    queue.push(&interactive(jobs, "paced")).await.unwrap();
    queue.push(&bulk(10, "free")).await.unwrap();
    let starts: Arc<Mutex<Vec<(String, Instant)>>> = Arc::default();
    let shutdown = CancellationToken::new();
    let options = WorkerOptions {
        name: "paced".to_owned(),
        concurrency: 64,
        prefetch: Prefetch::default(),
        in_hand: InHand::default(),
        shutdown: shutdown.clone(),
    };
    let handler = {
        let (gate, starts) = (Arc::clone(&gate), Arc::clone(&starts));
        move |delivery: Delivery<JobId>| {
            let (gate, starts) = (Arc::clone(&gate), Arc::clone(&starts));
            async move {
                let Delivery { claimed, slot, .. } = delivery;
                let judge = claimed.lane.as_str().to_owned();
                let patience = Duration::from_secs(10);
                let permit = gate.enter(&judge, patience, &Load::default).await.unwrap();
                starts.lock().unwrap().push((judge.clone(), Instant::now()));
                tokio::time::sleep(call).await;
                gate.report(&judge, permit, &CallOutcome::Alive.into());
                drop(slot);
            }
        }
    };
    let running = tokio::spawn(run_worker(
        options,
        queue,
        Fifo::new(),
        Arc::new(Gated(gate)),
        handler,
    ));
    let all = jobs + 10;
    while starts.lock().unwrap().len() < all {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let starts = std::mem::take(&mut *starts.lock().unwrap());
    let free = starts
        .iter()
        .filter(|(judge, _)| judge == "free")
        .map(|(_, at)| *at)
        .max()
        .unwrap();
    let paced: Vec<Instant> = starts
        .into_iter()
        .filter(|(judge, _)| judge == "paced")
        .map(|(_, at)| at)
        .collect();
    assert!(
        free - paced[0] < Duration::from_secs(10),
        "the other lane had to wait"
    );
    paced
}

#[tokio::test(start_paused = true)]
async fn hundred_jobs_at_60_per_minute_use_95_percent_of_the_limit() {
    for (limit, jobs, call) in [
        (60, 100, Duration::from_millis(200)),
        (60, 100, Duration::from_secs(40)),
        (600, 1_500, Duration::from_secs(2)),
        (6_000, 9_000, Duration::from_millis(200)),
    ] {
        let starts = starts_of(limit, jobs, call).await;
        let (mut first, mut most) = (0, 0);
        for (at, start) in starts.iter().enumerate() {
            while *start - starts[first] >= MINUTE {
                first += 1;
            }
            most = most.max(at - first + 1);
        }
        assert!(most as u64 <= limit, "{most} at {limit}");
        let span = (*starts.last().unwrap() - starts[0]).as_secs_f64();
        let used = (jobs - 1) as f64 / span * 60.0 / limit as f64;
        assert!(used >= 0.95, "{used} of {limit}, calls of {call:?}");
    }
}
