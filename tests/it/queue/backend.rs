//! Worker on a queue: slots, drain, suspects, and queue outages.
//!
//! Time is paused, so waits are instant.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gavel::job::{JobId, Lane, Priority};
use gavel::queue::backend::{ActiveJob, Delivery};
use gavel::queue::{ClaimRequest, Claimed, Depth, Push, Queue, QueueError};
use tokio::time::Instant;

use super::fifo::Fifo;
use super::toy::{Flaky, Log, Toy, Worker, eventually};
use super::{LONG, bulk, claimed, from, ids, interactive, lane, push};

fn queue() -> Arc<dyn Queue> {
    Fifo::new()
}

/// Whether the queue holds none of these ids.
async fn left_the_queue(queue: &Arc<dyn Queue>, pushed: &[gavel::queue::Push]) -> bool {
    queue.depth(&pushed[0].lane).await.unwrap() == Depth::default()
}

#[tokio::test(start_paused = true)]
async fn concurrent_runs_stay_within_the_slots() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a", "b"]), Log::new());
    queue.push(&interactive(10, "a")).await.unwrap();
    queue.push(&bulk(10, "b")).await.unwrap();
    let worker = Worker::start(&queue, &toy, 4, log.handler());
    eventually(async || log.started().len() == 4).await;
    assert_eq!(worker.in_hand.count(), 4);
    log.gate.add_permits(20);
    eventually(async || log.started().len() == 20 && worker.in_hand.count() == 0).await;
    assert_eq!(log.most.load(Ordering::SeqCst), 4);
    assert!(toy.largest_batch.load(Ordering::SeqCst) <= 4);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_slot_in_ten_is_reserved_for_interactive_work() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    queue.push(&bulk(50, "a")).await.unwrap();
    let worker = Worker::start(&queue, &toy, 20, log.handler());
    eventually(async || log.started().len() == 18).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(log.started().len(), 18);
    queue.push(&interactive(5, "a")).await.unwrap();
    eventually(async || log.started().len() == 20).await;
    // A freed bulk slot serves interactive work first.
    log.gate.add_permits(1);
    eventually(async || log.started().len() == 21).await;
    log.gate.add_permits(100);
    eventually(async || log.started().len() == 55).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn prefetch_is_ready_as_configured_and_excludes_bulk_work() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    queue.push(&bulk(50, "a")).await.unwrap();
    let worker = Worker::start(&queue, &toy, 20, log.handler());
    worker.prefetch.set(5);
    eventually(async || log.started().len() == 18).await;
    queue.push(&interactive(30, "a")).await.unwrap();
    eventually(async || log.started().len() == 25).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(log.started().len(), 25);
    // Without prefetch, the next job starts when fewer than twenty slots are in use.
    worker.prefetch.set(0);
    log.gate.add_permits(5);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(log.started().len(), 25);
    log.gate.add_permits(100);
    eventually(async || log.started().len() == 80).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_id_is_lost_or_run_again_in_10_000_jobs() {
    let (queue, toy) = (queue(), Toy::with_lanes(&["a", "b"]));
    let runs: Arc<Mutex<HashMap<JobId, usize>>> = Arc::default();
    let counted = Arc::clone(&runs);
    let workers: Vec<Worker> = (0..2)
        .map(|_| {
            let runs = Arc::clone(&counted);
            Worker::start(&queue, &toy, 32, move |delivery: Delivery<JobId>| {
                let runs = Arc::clone(&runs);
                async move {
                    tokio::task::yield_now().await;
                    *runs.lock().unwrap().entry(delivery.item).or_default() += 1;
                    drop(delivery.slot);
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let pushes = [bulk(5_000, "a"), interactive(5_000, "b")].concat();
    for slice in pushes.chunks(100) {
        queue.push(slice).await.unwrap();
        tokio::task::yield_now().await;
    }
    eventually(async || runs.lock().unwrap().len() == 10_000).await;
    for worker in workers {
        worker.stop().await;
    }
    assert!(runs.lock().unwrap().values().all(|runs| *runs == 1));
    assert!(left_the_queue(&queue, &pushes[..5_000]).await);
    assert!(left_the_queue(&queue, &pushes[5_000..]).await);
}

#[tokio::test(start_paused = true)]
async fn handler_panic_frees_its_slot() {
    let (queue, toy) = (queue(), Toy::with_lanes(&["a"]));
    let runs: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&runs);
    queue.push(&bulk(4, "a")).await.unwrap();
    let worker = Worker::start(&queue, &toy, 1, move |_| {
        let runs = Arc::clone(&counted);
        async move {
            if runs.fetch_add(1, Ordering::SeqCst) < 3 {
                panic!("as the test wants it");
            }
        }
    });
    eventually(async || runs.load(Ordering::SeqCst) == 4).await;
    eventually(async || worker.in_hand.count() == 0).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn job_is_active_after_its_slot_is_freed() {
    let (queue, toy) = (queue(), Toy::with_lanes(&["a"]));
    let kept: Arc<Mutex<Vec<ActiveJob>>> = Arc::default();
    let handed = Arc::clone(&kept);
    queue.push(&bulk(3, "a")).await.unwrap();
    let worker = Worker::start(&queue, &toy, 1, move |delivery: Delivery<JobId>| {
        let kept = Arc::clone(&handed);
        async move { kept.lock().unwrap().push(delivery.active) }
    });
    // All three run with one slot.
    eventually(async || kept.lock().unwrap().len() == 3).await;
    assert_eq!(worker.in_hand.count(), 3);
    kept.lock().unwrap().clear();
    assert_eq!(worker.in_hand.count(), 0);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_not_admitted_leave_the_queue() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    let pushes = bulk(5, "a");
    toy.gone.lock().unwrap().extend(ids(&pushes[1..4]));
    queue.push(&pushes).await.unwrap();
    log.gate.add_permits(10);
    let worker = Worker::start(&queue, &toy, 2, log.handler());
    eventually(async || log.started().len() == 2).await;
    worker.stop().await;
    assert_eq!(log.started(), [pushes[0].id, pushes[4].id]);
    assert!(left_the_queue(&queue, &pushes).await);
}

#[tokio::test(start_paused = true)]
async fn ids_that_cannot_run_block_no_others() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    let (dead, live) = (bulk(1_000, "a"), bulk(5, "a"));
    toy.gone.lock().unwrap().extend(ids(&dead));
    queue.push(&dead).await.unwrap();
    queue.push(&live).await.unwrap();
    // With 20 slots, 2 of them reserved, these are 56 claims: one poll interval for each would add up to a minute.
    let start = Instant::now();
    let worker = Worker::start(&queue, &toy, 20, log.handler());
    eventually(async || log.started().len() == 5).await;
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(log.started(), ids(&live));
    // With an empty queue, polls stay at their usual interval.
    let asked = toy.asked.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let more = toy.asked.load(Ordering::SeqCst) - asked;
    assert!(more < 10, "{more} rounds");
    log.gate.add_permits(5);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ids_return_to_the_queue_while_the_store_is_unavailable() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    toy.refusing.store(true, Ordering::SeqCst);
    let pushes = bulk(3, "a");
    queue.push(&pushes).await.unwrap();
    log.gate.add_permits(10);
    let worker = Worker::start(&queue, &toy, 2, log.handler());
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Delays of 0.1 s, 0.2 s, .. 2 s: about 34 tries in a minute.
    let refusals = toy.refusals.load(Ordering::SeqCst);
    assert!((20..45).contains(&refusals), "{refusals}");
    toy.refusing.store(false, Ordering::SeqCst);
    eventually(async || log.started().len() == 3).await;
    assert_eq!(log.started(), ids(&pushes));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_running_jobs_and_starts_no_more() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    let pushes = bulk(6, "a");
    queue.push(&pushes).await.unwrap();
    let worker = Worker::start(&queue, &toy, 3, log.handler());
    eventually(async || log.started().len() == 3).await;
    worker.shutdown.cancel();
    tokio::time::sleep(LONG).await;
    assert_eq!(worker.in_hand.count(), 3);
    // Unstarted jobs are claimable by others.
    let got = queue.claim(&from(&["a"], 9)).await.unwrap();
    assert_eq!(
        got.iter().map(|claimed| claimed.id).collect::<Vec<_>>(),
        ids(&pushes[3..])
    );
    log.gate.add_permits(3);
    worker.ended().await.unwrap();
    assert_eq!(log.started().len(), 3);
    assert!(left_the_queue(&queue, &pushes[..3]).await);
}

#[tokio::test(start_paused = true)]
async fn admitted_but_unstarted_ids_are_returned_at_the_drain() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    let shutdown: Arc<Mutex<Option<tokio_util::sync::CancellationToken>>> = Arc::default();
    let pushes = bulk(4, "a");
    let stop = Arc::clone(&shutdown);
    let started = Arc::clone(&log.started);
    let worker = Worker::start(&queue, &toy, 4, move |delivery: Delivery<JobId>| {
        // Called when apalis receives the delivery: the shutdown happens while the others are in the channel.
        if let Some(token) = stop.lock().unwrap().as_ref() {
            token.cancel();
        }
        started.lock().unwrap().push(delivery.item);
        async move { drop(delivery) }
    });
    *shutdown.lock().unwrap() = Some(worker.shutdown.clone());
    queue.push(&pushes).await.unwrap();
    worker.ended().await.unwrap();
    assert_eq!(log.started(), [pushes[0].id]);
    assert_eq!(*toy.put_back.lock().unwrap(), ids(&pushes[1..]));
    let depth = queue.depth(&lane("a")).await.unwrap();
    assert_eq!(depth.bulk, 3);
}

fn suspects(count: usize) -> Vec<gavel::queue::Push> {
    bulk(count, Lane::SUSPECT)
}

/// Handler that ends suspects at once, and blocks other jobs at the gate of the log.
fn suspects_end(
    log: &Log,
) -> impl Fn(Delivery<JobId>) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>
+ Clone
+ Send
+ Sync
+ 'static {
    let others = log.handler();
    let log = log.clone();
    move |delivery| {
        if delivery.claimed.lane.is_suspect() {
            log.started.lock().unwrap().push(delivery.item);
            return Box::pin(async move { drop(delivery) });
        }
        others(delivery)
    }
}

#[tokio::test(start_paused = true)]
async fn suspects_run_sequentially_next_to_other_work() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    queue.push(&interactive(2, "a")).await.unwrap();
    let worker = Worker::start(&queue, &toy, 4, log.handler());
    eventually(async || log.started().len() == 2).await;
    let suspects = suspects(3);
    queue.push(&suspects).await.unwrap();
    eventually(async || log.started().len() == 3).await;
    assert_eq!(log.started()[2], suspects[0].id);
    // The two blocked jobs don't delay it, and it delays only the next suspect.
    queue.push(&interactive(5, "a")).await.unwrap();
    eventually(async || log.started().len() == 4).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(log.started().len(), 4);
    log.gate.add_permits(100);
    eventually(async || log.started().len() == 10).await;
    assert_eq!(log.most.load(Ordering::SeqCst), 4);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ten_suspects_end_in_one_slot_while_others_have_long_calls() {
    for concurrency in [4, 20] {
        let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
        queue
            .push(&interactive(concurrency - 1, "a"))
            .await
            .unwrap();
        let worker = Worker::start(&queue, &toy, concurrency, suspects_end(&log));
        eventually(async || log.started().len() == concurrency - 1).await;
        let suspects = suspects(10);
        queue.push(&suspects).await.unwrap();
        eventually(async || log.started().len() == concurrency + 9).await;
        assert_eq!(log.started()[concurrency - 1..], ids(&suspects));
        assert_eq!(worker.in_hand.count(), concurrency - 1);
        log.gate.add_permits(100);
        worker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn suspects_and_other_work_continue_with_one_slot() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    let (others, suspects) = (bulk(100, "a"), suspects(5));
    queue.push(&others).await.unwrap();
    queue.push(&suspects).await.unwrap();
    let worker = Worker::start(&queue, &toy, 1, log.handler());
    log.gate.add_permits(12);
    eventually(async || log.started().len() == 13).await;
    let started = log.started();
    let ran = |pushed: &[gavel::queue::Push]| {
        let ran = pushed.iter().filter(|push| started.contains(&push.id));
        ran.count()
    };
    assert!(ran(&suspects) >= 4, "{}", ran(&suspects));
    assert!(ran(&others) >= 4, "{}", ran(&others));
    log.gate.add_permits(1_000);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn during_a_queue_outage_suspects_are_claimed_sequentially() {
    let (inner, fallback) = (queue(), queue());
    let (toy, log) = (Toy::with_lanes(&["a"]), Log::new());
    let flaky = Flaky::over(&inner);
    flaky.away.store(true, Ordering::SeqCst);
    let queue: Arc<dyn Queue> = flaky.clone();
    let suspects = suspects(2);
    fallback.push(&suspects).await.unwrap();
    let worker = Worker::with_fallback(&queue, &fallback, &toy, 4, log.handler());
    eventually(async || log.started() == [suspects[0].id]).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(log.started().len(), 1);
    log.gate.add_permits(1);
    eventually(async || log.started() == ids(&suspects)).await;
    log.gate.add_permits(1);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn suspect_stays_queued_while_no_lane_is_open() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&[]), Log::new());
    let suspect = push(JobId::new(), "suspect", Priority::Bulk);
    queue.push(std::slice::from_ref(&suspect)).await.unwrap();
    log.gate.add_permits(10);
    let worker = Worker::start(&queue, &toy, 2, log.handler());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(log.started().is_empty());
    toy.lanes.lock().unwrap().push(lane("a"));
    eventually(async || log.started() == [suspect.id]).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn row_that_became_suspect_moves_to_that_lane_unstarted() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&["a"]), Log::new());
    let pushes = bulk(3, "a");
    toy.suspects.lock().unwrap().insert(pushes[0].id);
    queue.push(&pushes).await.unwrap();
    let worker = Worker::start(&queue, &toy, 4, log.handler());
    eventually(async || log.started().len() == 2).await;
    assert_eq!(*toy.put_back.lock().unwrap(), [pushes[0].id]);
    assert_eq!(log.started(), ids(&pushes[1..]));
    log.gate.add_permits(10);
    eventually(async || log.started().len() == 3).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn during_a_queue_outage_due_work_is_claimed_from_the_store() {
    let (inner, fallback) = (queue(), queue());
    let (toy, log) = (Toy::with_lanes(&["a"]), Log::new());
    let flaky = Flaky::over(&inner);
    let queue: Arc<dyn Queue> = flaky.clone();
    log.gate.add_permits(1_000);
    let worker = Worker::with_fallback(&queue, &fallback, &toy, 4, log.handler());
    inner.push(&bulk(1, "a")).await.unwrap();
    eventually(async || log.started().len() == 1).await;

    flaky.away.store(true, Ordering::SeqCst);
    fallback.push(&bulk(10, "a")).await.unwrap();
    let start = Instant::now();
    eventually(async || log.started().len() == 11).await;
    // Four at a time, continuing as slots free up. Time is paused, so only waits count.
    assert!(start.elapsed() < Duration::from_secs(2));
    flaky.claims.store(0, Ordering::SeqCst);
    let asked = toy.asked.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    // The unavailable queue gets only pings.
    assert_eq!(flaky.claims.load(Ordering::SeqCst), 0);
    let rounds = toy.asked.load(Ordering::SeqCst) - asked;
    assert!((30..=150).contains(&rounds), "{rounds}");

    flaky.away.store(false, Ordering::SeqCst);
    inner.push(&bulk(3, "a")).await.unwrap();
    eventually(async || log.started().len() == 14).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn outage_lasts_until_a_claim_succeeds() {
    let (fifo, fallback) = (queue(), queue());
    let (toy, log) = (Toy::with_lanes(&["a"]), Log::new());
    let flaky = Flaky::over(&fifo);
    flaky.rejects_claims.store(true, Ordering::SeqCst);
    fallback.push(&bulk(1, "a")).await.unwrap();
    let reached = Arc::clone(&flaky) as Arc<dyn Queue>;
    let worker = Worker::with_fallback(&reached, &fallback, &toy, 4, log.handler());
    eventually(async || log.started().len() == 1).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let claims = flaky.claims.load(Ordering::SeqCst);
    assert!((5..20).contains(&claims), "{claims} claims in 20 s");
    flaky.rejects_claims.store(false, Ordering::SeqCst);
    fifo.push(&bulk(1, "a")).await.unwrap();
    eventually(async || log.started().len() == 2).await;
    log.gate.add_permits(2);
    worker.stop().await;
}

/// Queue that reads rows in pages and keeps the ids of a page until it is empty or discarded.
#[derive(Default)]
struct Paged {
    rows: Mutex<Vec<Claimed>>,
    page: Mutex<Vec<Claimed>>,
}

#[async_trait]
impl Queue for Paged {
    async fn push(&self, ids: &[Push]) -> Result<(), QueueError> {
        self.rows.lock().unwrap().extend(ids.iter().map(claimed));
        Ok(())
    }
    async fn push_first(&self, ids: &[Push]) -> Result<(), QueueError> {
        self.push(ids).await
    }
    async fn claim(&self, claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
        let (mut rows, mut page) = (self.rows.lock().unwrap(), self.page.lock().unwrap());
        if page.is_empty() {
            page.clone_from(&rows);
        }
        let count = claim.max.min(page.len());
        let taken: Vec<Claimed> = page.drain(..count).collect();
        rows.retain(|row| !taken.contains(row));
        Ok(taken)
    }
    async fn discard(&self) {
        self.page.lock().unwrap().clear();
    }
    async fn depth(&self, _: &Lane) -> Result<Depth, QueueError> {
        Ok(Depth::default())
    }
    async fn woken(&self, at_most: Duration) {
        tokio::time::sleep(at_most).await;
    }
    async fn ping(&self) -> Result<(), QueueError> {
        Ok(())
    }
    fn holds_ids(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_ended_after_they_were_read_delay_no_others() {
    let (paged, toy, log) = (
        Arc::new(Paged::default()),
        Toy::with_lanes(&["a"]),
        Log::new(),
    );
    let (ended, new) = (bulk(300, "a"), bulk(1, "a"));
    toy.gone.lock().unwrap().extend(ids(&ended));
    let mut page: Vec<Claimed> = ended.iter().map(claimed).collect();
    std::mem::swap(&mut *paged.page.lock().unwrap(), &mut page);
    paged.push(&new).await.unwrap();
    let start = Instant::now();
    let worker = Worker::start(&(paged as Arc<dyn Queue>), &toy, 2, log.handler());
    eventually(async || log.started() == ids(&new)).await;
    assert!(start.elapsed() < Duration::from_secs(1));
    log.gate.add_permits(1);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn closed_lanes_are_not_claimed_from() {
    let (queue, toy, log) = (queue(), Toy::with_lanes(&[]), Log::new());
    queue.push(&bulk(2, "a")).await.unwrap();
    log.gate.add_permits(10);
    let worker = Worker::start(&queue, &toy, 4, log.handler());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(log.started().is_empty());
    *toy.lanes.lock().unwrap() = vec![lane("a")];
    eventually(async || log.started().len() == 2).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn worker_that_exits_early_is_an_error() {
    struct Broken;
    #[async_trait::async_trait]
    impl gavel::queue::backend::Admit for Broken {
        type Item = ();
        async fn lanes(&self) -> Vec<gavel::queue::backend::OpenLane> {
            panic!("as the test wants it")
        }
        async fn admit(
            &self,
            _: Vec<Claimed>,
        ) -> Result<Vec<(Claimed, ())>, gavel::queue::backend::Refused> {
            panic!("no id was claimed")
        }
        async fn put_back(&self, _: Vec<(Claimed, ())>) {}
    }
    let options = gavel::queue::backend::WorkerOptions {
        name: "broken".to_owned(),
        concurrency: 2,
        prefetch: gavel::queue::backend::Prefetch::default(),
        in_hand: gavel::queue::backend::InHand::default(),
        shutdown: tokio_util::sync::CancellationToken::new(),
    };
    let run =
        gavel::queue::backend::run_worker(options, queue(), queue(), Arc::new(Broken), |_| async {
        });
    let died = tokio::time::timeout(super::LONG, run).await.unwrap();
    assert!(died.unwrap_err().to_string().contains("broken"));
}
