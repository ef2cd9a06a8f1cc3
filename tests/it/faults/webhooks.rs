//! Webhooks are sent despite crashes.

use std::collections::{BTreeMap, BTreeSet};

use super::fleet::end;
use super::{DEADLINE, all_scored_once, enqueue, shared};
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, PrivateRedis};
use crate::support::receiver::{Hook, Receiver};
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_worker_and_empty_redis_lose_no_webhook() {
    const JOBS: usize = 12;
    let Some(mut home) = shared().await else {
        return;
    };
    let Some(mut redis) = PrivateRedis::start().await else {
        return;
    };
    let receiver = Receiver::start(|_| 503).await;
    let endpoint = receiver.endpoint("ops", &["job.succeeded"], "standard");
    home.set("REDIS_URL", redis.url());
    home.set("GAVEL_WEBHOOKS_ENDPOINTS", serde_json::json!([endpoint]));
    home.set("GAVEL_WEBHOOKS_ALLOW_PRIVATE", "true");
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let mut killed = fleet.worker("killed", &judge.url("a"), 4);
    let jobs = enqueue(&fleet.api, JOBS / 2).await;
    all_scored_once(&fleet.home, JOBS / 2).await;
    redis.kill().await;
    let more = enqueue(&fleet.api, JOBS / 2).await;
    all_scored_once(&fleet.home, JOBS).await;
    eventually(DEADLINE, "it has tried", || async {
        (!receiver.hooks().is_empty()).then_some(())
    })
    .await;
    killed.kill();
    killed.exit_code().await;

    receiver.rule(|_| 200);
    redis.again().await;
    let mut worker = fleet.worker("b", &judge.url("b"), 4);
    let told = eventually(DEADLINE, "every job is told", || async {
        let hooks = receiver.hooks();
        let taken = hooks.iter().filter(|hook| hook.status == 200);
        let told: BTreeSet<String> = taken.map(job_of).collect();
        (told.len() == JOBS).then_some(hooks)
    })
    .await;
    let asked: BTreeSet<String> = jobs
        .iter()
        .chain(&more)
        .map(|(_, job)| job.to_string())
        .collect();
    assert_eq!(told.iter().map(job_of).collect::<BTreeSet<_>>(), asked);
    let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for hook in &told {
        ids.entry(job_of(hook))
            .or_default()
            .insert(hook.id().to_owned());
    }
    assert!(
        ids.values().all(|ids| ids.len() == 1),
        "a job has one id at every try: {ids:#?}"
    );
    worker.stop().await;
    end(fleet).await;
}

fn job_of(hook: &Hook) -> String {
    hook.verified()["data"]["job_id"]
        .as_str()
        .unwrap()
        .to_owned()
}
