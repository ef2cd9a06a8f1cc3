//! Queue: the rules in Redis, the queue of due rows, and the worker that runs on a queue.

mod backend;
mod delays;
pub(crate) mod fifo;
mod order;
mod outage;
mod pacing;
mod servers;
mod table;
mod toy;

use std::sync::Arc;
use std::time::Duration;

use gavel::clock::SystemClock;
use gavel::job::{JobId, Lane, Priority};
use gavel::queue::redis::{RedisOptions, RedisQueue};
use gavel::queue::{ClaimRequest, Claimed, Push, Queue};
use gavel::redis_client::RedisClient;
use uuid::Uuid;

use crate::support::{redis_cluster, redis_server};

/// Timeout of each step of a test.
const LONG: Duration = Duration::from_secs(20);

struct TestQueue {
    queue: Arc<dyn Queue>,
    servers: Vec<String>,
    prefix: String,
}

impl TestQueue {
    /// On these servers. The queue gets only the address of the first.
    fn new(servers: Vec<String>) -> Self {
        let name = format!("test-{}", Uuid::now_v7().simple());
        let options = RedisOptions {
            client: RedisClient::new(&servers[0]).unwrap(),
            queue: name.clone(),
        };
        let queue = RedisQueue::new(options, Arc::new(SystemClock)).unwrap();
        Self {
            queue: Arc::new(queue),
            servers,
            prefix: format!("{{gavel:{name}}}"),
        }
    }

    /// Names of this queue's keys.
    async fn keys(&self) -> Vec<String> {
        self.on_each_server("return redis.call('KEYS', ARGV[1] .. ':*')")
            .await
    }

    async fn forget_everything(&self) {
        let all = "local keys = redis.call('KEYS', ARGV[1] .. ':*')
                   for _, key in ipairs(keys) do redis.call('DEL', key) end
                   return keys";
        self.on_each_server(all).await;
    }

    async fn on_each_server(&self, script: &str) -> Vec<String> {
        let mut answers = Vec::new();
        for server in &self.servers {
            let client = redis::Client::open(server.as_str()).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            let mut eval = redis::cmd("EVAL");
            eval.arg(script).arg(0).arg(&self.prefix);
            let answer: Vec<String> = eval.query_async(&mut connection).await.unwrap();
            answers.extend(answer);
        }
        answers
    }
}

/// Runs a rule on a single server and on a cluster.
async fn on_each(rule: impl AsyncFn(&TestQueue)) {
    let single = redis_server().map(|server| vec![server]);
    if single.is_none() {
        no_redis("not tested");
    }
    for servers in [single, redis_cluster()].into_iter().flatten() {
        let queue = TestQueue::new(servers);
        rule(&queue).await;
        queue.forget_everything().await;
    }
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs the tests is told what they leave out"
)]
fn no_redis(so: &str) {
    eprintln!("REDIS_URL names no Redis: {so}");
}

fn lane(name: &str) -> Lane {
    Lane::of_judge(name)
}

fn push(id: JobId, lane_name: &str, priority: Priority) -> Push {
    Push {
        id,
        lane: lane(lane_name),
        priority,
        due_at: None,
    }
}

fn bulk(count: usize, lane_name: &str) -> Vec<Push> {
    (0..count)
        .map(|_| push(JobId::new(), lane_name, Priority::Bulk))
        .collect()
}

fn interactive(count: usize, lane_name: &str) -> Vec<Push> {
    (0..count)
        .map(|_| push(JobId::new(), lane_name, Priority::Interactive))
        .collect()
}

fn ids(pushes: &[Push]) -> Vec<JobId> {
    pushes.iter().map(|push| push.id).collect()
}

fn from(lanes: &[&str], max: usize) -> ClaimRequest {
    let lanes = lanes.iter().map(|name| lane(name)).collect();
    ClaimRequest::of_lanes(lanes, max)
}

async fn take(queue: &Arc<dyn Queue>, claim: &ClaimRequest) -> Vec<JobId> {
    let claimed = queue.claim(claim).await.unwrap();
    claimed.into_iter().map(|claimed| claimed.id).collect()
}

/// Claims until `count` ids were returned, or panics after a timeout.
async fn take_in_time(queue: &Arc<dyn Queue>, claim: &ClaimRequest, count: usize) -> Vec<Claimed> {
    let mut claimed = Vec::new();
    let wait = async {
        loop {
            claimed.extend(queue.claim(claim).await.unwrap());
            if claimed.len() >= count {
                return;
            }
            queue.woken(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.unwrap();
    claimed
}

fn claimed(push: &Push) -> Claimed {
    Claimed {
        id: push.id,
        lane: push.lane.clone(),
        priority: push.priority,
    }
}
