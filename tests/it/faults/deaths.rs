//! Workers killed while they work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::mpsc;

use super::fleet::end;
use super::{DEADLINE, Tally, all_scored_once, enqueue, marked, shared};
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, Process};
use crate::support::redis_cluster;
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_worker_with_50_jobs_loses_none_and_scores_each_once() {
    const JOBS: usize = 50;
    let Some(home) = shared().await else { return };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    judge.block_calls_of("killed");
    let fleet = Fleet::start(home).await;
    let mut killed = fleet.worker("killed", &judge.url("killed"), JOBS);
    enqueue(&fleet.api, JOBS).await;
    judge.until_in_flight(JOBS).await;
    let mut others = [
        fleet.worker("b", &judge.url("b"), 16),
        fleet.worker("c", &judge.url("c"), 16),
    ];
    workers_alive(&fleet, 3).await;

    let killed_at = Instant::now();
    killed.kill();
    killed.exit_code().await;
    all_scored_once(&fleet.home, JOBS).await;
    let calls = judge.calls();
    let taken: Vec<_> = calls.iter().filter(|call| call.tag != "killed").collect();
    assert_eq!(taken.len(), JOBS, "each job is asked for once more");
    let first = taken.iter().map(|call| call.at).min().unwrap() - killed_at;
    let last = taken.iter().map(|call| call.at).max().unwrap() - killed_at;
    eprintln!(
        "takeover after kill -9 with a lease of 5 s: first call {first:?}, last call {last:?}"
    );
    for worker in &mut others {
        worker.stop().await;
    }
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_worker_on_a_redis_cluster_loses_no_job() {
    const JOBS: usize = 20;
    let (Some(mut home), Some(nodes)) = (shared().await, redis_cluster()) else {
        return;
    };
    // Processes get the address of only one node, which usually isn't the owner of the keys.
    home.set("REDIS_URL", &nodes[0]);
    let judge = JudgeServer::start(Reply::Score(70)).await;
    judge.block_calls_of("killed");
    let fleet = Fleet::start(home).await;
    let mut events = fleet.api.events("?types=job.succeeded", None).await;
    assert_eq!(events.next().await.event, "hello");
    let ready = fleet.api.get("/readyz").await;
    let reasons = ready.body["reasons"].as_array().unwrap();
    assert_eq!(reasons.len(), 1, "{:#}", ready.body);
    assert!(reasons[0].as_str().unwrap().contains("no worker"));
    let mut killed = fleet.worker("killed", &judge.url("killed"), 8);
    enqueue(&fleet.api, JOBS).await;
    judge.until_in_flight(8).await;
    killed.kill();
    killed.exit_code().await;
    let mut other = fleet.worker("b", &judge.url("b"), 8);
    all_scored_once(&fleet.home, JOBS).await;
    for _ in 0..JOBS {
        assert_eq!(events.next().await.event, "job.succeeded");
    }
    drop(events);
    other.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_kills_workers_fails_as_poison_and_no_other_does() {
    const BYSTANDERS: usize = 30;
    const MARK: &str = "this one kills its worker";
    let Some(mut home) = shared().await else {
        return;
    };
    home.set("GAVEL_WORKER_LEASE_S", "1.5");
    let (kill, to_kill) = mpsc::unbounded_channel::<String>();
    let judge = JudgeServer::start(Reply::Score(70)).await;
    judge.rule(move |call| {
        if call.prompt().contains(MARK) {
            kill.send(call.tag.clone()).unwrap();
            return Reply::held(1);
        }
        Reply::Score(70)
    });
    let fleet = Fleet::start(home).await;
    let workers = Supervised::start(&fleet, &judge, &["a", "b", "c"]);
    let supervising = workers.clone().supervise(to_kill);
    tokio::pin!(supervising);
    let scoring = async {
        enqueue(&fleet.api, BYSTANDERS / 2).await;
        let poison = fleet.api.enqueue(marked(MARK)).await.1;
        enqueue(&fleet.api, BYSTANDERS - BYSTANDERS / 2).await;
        let jobs = i64::try_from(BYSTANDERS).unwrap();
        let tally = eventually(DEADLINE, "all jobs end", || async {
            let tally = Tally::read(&fleet.home).await?;
            (tally.succeeded + tally.failed == jobs + 1).then_some(tally)
        })
        .await;
        let expected = Tally {
            jobs: jobs + 1,
            failed: 1,
            ..Tally::all_scored_once(jobs)
        };
        assert_eq!(tally, expected);
        fleet.api.job(poison).await
    };
    let job = tokio::select! {
        job = scoring => job,
        () = &mut supervising => unreachable!("it runs as long as the judge"),
    };
    assert_eq!(job["state"], "failed");
    assert_eq!(job["error"]["class"], "poison");
    assert_eq!(job["attempts"], 3);
    assert!(
        job["error"]["remedy"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "{job:#}"
    );
    // Two deaths in its normal lane, three in isolation.
    assert_eq!(*workers.deaths.lock().unwrap(), 5);
    workers.stop().await;
    end(fleet).await;
}

/// Workers that are restarted after each kill.
#[derive(Clone)]
struct Supervised {
    workers: Arc<Mutex<BTreeMap<String, Process>>>,
    start: Arc<dyn Fn(&str) -> Process + Send + Sync>,
    deaths: Arc<Mutex<usize>>,
}

impl Supervised {
    fn start(fleet: &Fleet, judge: &JudgeServer, names: &[&str]) -> Self {
        let start: BTreeMap<String, _> = names
            .iter()
            .map(|name| ((*name).to_owned(), judge.url(name)))
            .collect();
        let starter = fleet.starter(4);
        let start: Arc<dyn Fn(&str) -> Process + Send + Sync> =
            Arc::new(move |name| starter(name, &start[name]));
        let workers = names
            .iter()
            .map(|name| ((*name).to_owned(), start(name)))
            .collect();
        Self {
            workers: Arc::new(Mutex::new(workers)),
            start,
            deaths: Arc::default(),
        }
    }

    async fn supervise(self, mut to_kill: mpsc::UnboundedReceiver<String>) {
        while let Some(name) = to_kill.recv().await {
            let worker = self.workers.lock().unwrap().remove(&name);
            let mut worker = worker.expect("only workers that run ask");
            worker.kill();
            worker.exit_code().await;
            *self.deaths.lock().unwrap() += 1;
            let again = (self.start)(&name);
            self.workers.lock().unwrap().insert(name, again);
        }
    }

    async fn stop(&self) {
        let workers = std::mem::take(&mut *self.workers.lock().unwrap());
        for mut worker in workers.into_values() {
            worker.stop().await;
        }
    }
}

async fn workers_alive(fleet: &Fleet, count: usize) {
    eventually(DEADLINE, "the workers are registered", || async {
        let body = fleet.api.get("/api/v1/workers").await.expect(200);
        let items = body["items"].as_array().unwrap();
        let alive = items
            .iter()
            .filter(|worker| worker["alive"] == true)
            .count();
        (alive == count).then_some(())
    })
    .await;
}
