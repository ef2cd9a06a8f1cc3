//! Servers that are unavailable for some time, or restart empty.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::Connection as _;

use super::fleet::end;
use super::{DEADLINE, all_scored_once, enqueue, number, private_postgres, shared};
use crate::support::home::Home;
use crate::support::judge_server::{JudgeServer, Reply};
use crate::support::process::{Fleet, PrivateRedis, free_address};
use crate::support::sessions::session;
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_that_loses_its_keys_loses_no_job() {
    const JOBS: usize = 60;
    let Some(home) = shared().await else { return };
    let judge = JudgeServer::start(Reply::held(70)).await;
    let fleet = Fleet::start(home).await;
    let mut workers = [
        fleet.worker("a", &judge.url("a"), 8),
        fleet.worker("b", &judge.url("b"), 8),
    ];
    enqueue(&fleet.api, JOBS).await;
    judge.until_in_flight(16).await;
    let deleted = delete_keys(&fleet.home).await;
    assert!(deleted > 0, "there was something to lose");
    judge.release();
    all_scored_once(&fleet.home, JOBS).await;

    // Again with idle workers: only the rows have these jobs.
    for worker in &mut workers {
        worker.stop().await;
    }
    enqueue(&fleet.api, JOBS).await;
    delete_keys(&fleet.home).await;
    let mut worker = fleet.worker("c", &judge.url("c"), 8);
    all_scored_once(&fleet.home, 2 * JOBS).await;
    assert_eq!(judge.count(), 2 * JOBS, "none is asked twice");
    worker.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_jobs_continue_while_redis_is_unavailable() {
    let Some(mut home) = shared().await else {
        return;
    };
    let Some(mut redis) = PrivateRedis::start().await else {
        return;
    };
    home.set("REDIS_URL", redis.url());
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let mut workers = [
        fleet.worker("a", &judge.url("a"), 4),
        fleet.worker("b", &judge.url("b"), 4),
    ];
    enqueue(&fleet.api, 5).await;
    all_scored_once(&fleet.home, 5).await;

    // Redis hangs. A probe responds sooner than the timeout of the Redis client.
    redis.freeze();
    let ready = fleet.api.get("/readyz").await.expect(200);
    redis.thaw();
    let said = ready["reasons"][0].as_str().unwrap();
    assert!(said.contains("it didn't answer within 300 ms"), "{said}");

    redis.kill().await;
    // Fails unless each request is a 202.
    enqueue(&fleet.api, 20).await;
    let ready = fleet.api.get("/readyz").await;
    assert_eq!(ready.body["status"], "degraded", "{:#}", ready.body);
    ready.expect(200);
    all_scored_once(&fleet.home, 25).await;

    redis.again().await;
    eventually(DEADLINE, "the API sees Redis again", || async {
        let ready = fleet.api.get("/readyz").await;
        (ready.body["status"] == "ok").then_some(())
    })
    .await;
    enqueue(&fleet.api, 20).await;
    all_scored_once(&fleet.home, 45).await;
    assert_eq!(judge.count(), 45);
    for worker in &mut workers {
        worker.stop().await;
    }
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_forbids_scripts_is_reported_once_and_stops_no_job() {
    let Some(mut home) = shared().await else {
        return;
    };
    let Some(redis) = PrivateRedis::start().await else {
        return;
    };
    home.set("REDIS_URL", redis.url());
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 4);
    enqueue(&fleet.api, 5).await;
    all_scored_once(&fleet.home, 5).await;
    redis
        .tell(&["ACL", "SETUSER", "default", "-eval", "-evalsha", "-script"])
        .await;
    let remedy = "ACL SETUSER .. ~{gavel:*";
    for jobs in [10, 15, 20] {
        enqueue(&fleet.api, 5).await;
        all_scored_once(&fleet.home, jobs).await;
        let ready = fleet.api.get("/readyz").await;
        assert_eq!(ready.body["status"], "degraded", "{:#}", ready.body);
        assert!(ready.body.to_string().contains(remedy), "{:#}", ready.body);
    }
    let said = worker.output();
    for line in ["queue unavailable", "Redis unavailable"] {
        assert_eq!(said.matches(line).count(), 1, "{line}: {said}");
    }
    assert!(said.contains(remedy), "{said}");
    let pushes = fleet.serve.output();
    assert_eq!(pushes.matches("can't be pushed").count(), 1, "{pushes}");

    redis.tell(&["ACL", "SETUSER", "default", "+@all"]).await;
    eventually(DEADLINE, "the worker uses Redis again", || async {
        let said = worker.output();
        let lines = ["queue available again", "Redis available again"];
        lines.iter().all(|line| said.contains(line)).then_some(())
    })
    .await;
    worker.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_installations_share_a_redis_and_no_keys() {
    let (Some(first), Some(mut second)) = (shared().await, shared().await) else {
        return;
    };
    let Some(redis) = PrivateRedis::start().await else {
        return;
    };
    let mut first = first;
    let judge = JudgeServer::start(Reply::Score(70)).await;
    for home in [&mut first, &mut second] {
        home.set("REDIS_URL", redis.url());
        home.set("GAVEL_REDIS_QUEUE", "main");
    }
    let (first, second) = (Fleet::start(first).await, Fleet::start(second).await);
    enqueue(&first.api, 4).await;
    enqueue(&second.api, 3).await;
    let mut worker = first.worker("a", &judge.url("a"), 4);
    all_scored_once(&first.home, 4).await;
    // Claimed ids of another database leave the queue, because no row matches.
    let left = redis.tell(&["EVAL", COUNT_READY, "0"]).await;
    assert_eq!(left, "3", "those of the other installation");
    let mut other = second.worker("b", &judge.url("b"), 4);
    all_scored_once(&second.home, 3).await;
    worker.stop().await;
    other.stop().await;
    end(first).await;
    end(second).await;
}

/// Counts the ready ids in all queues of a Redis.
const COUNT_READY: &str =
    "local n = 0 for _, key in ipairs(redis.call('KEYS', '{gavel:main:*}:ready:*')) do
    n = n + redis.call('ZCARD', key) end return n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_table_gives_503_and_is_named_by_readyz() {
    let Some(home) = shared().await else { return };
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 4);
    enqueue(&fleet.api, 2).await;
    all_scored_once(&fleet.home, 2).await;
    let id = fleet.api.put(session()).await;
    let mut db = sqlx::PgConnection::connect(fleet.home.get("DATABASE_URL"))
        .await
        .unwrap();
    let lock = sqlx::raw_sql("begin; lock table scoring_jobs in access exclusive mode");
    lock.execute(&mut db).await.unwrap();

    let asking = (0..4).map(|_| fleet.api.ask(id));
    for refused in futures::future::join_all(asking).await {
        let kind = "urn:gavel:problem:database-unavailable";
        assert_eq!(refused.body["type"], kind, "{:#}", refused.body);
        assert!(refused.header("retry-after").is_some());
        refused.expect(503);
    }
    eventually(DEADLINE, "/readyz names the lock", || async {
        let ready = fleet.api.get("/readyz").await.body.to_string();
        let parts = [
            "AccessExclusiveLock on table scoring_jobs",
            "pg_terminate_backend(",
        ];
        parts.iter().all(|part| ready.contains(part)).then_some(())
    })
    .await;
    db.close().await.unwrap();

    fleet.api.ask(id).await.expect(202);
    all_scored_once(&fleet.home, 3).await;
    worker.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_without_redis_does_not_block_other_workers() {
    const JOBS: usize = 8;
    let Some(mut home) = shared().await else {
        return;
    };
    let Some(redis) = PrivateRedis::start().await else {
        return;
    };
    home.set("REDIS_URL", redis.url());
    let (judge, held) = (
        JudgeServer::start(Reply::Score(70)).await,
        JudgeServer::start(Reply::held(70)).await,
    );
    let mut fleet = Fleet::start(home).await;
    fleet
        .home
        .set("REDIS_URL", format!("redis://{}", free_address()));
    let mut leader = fleet.worker("cut-off", &held.url("a"), 2);
    eventually(DEADLINE, "it leads", || async {
        let leads = "leadership changed";
        leader.output().contains(leads).then_some(())
    })
    .await;
    fleet.home.set("REDIS_URL", redis.url());
    let mut other = fleet.worker("b", &judge.url("b"), 4);
    let queue = "/api/v1/queue";
    fleet.api.post(&format!("{queue}/pause")).await.expect(200);
    enqueue(&fleet.api, JOBS).await;
    redis.tell(&["FLUSHALL"]).await;
    fleet.api.post(&format!("{queue}/resume")).await.expect(200);
    // New jobs arriving continuously don't delay the recovery of the lost ones.
    let more = AtomicUsize::new(0);
    let ended = "select count(*) from (select finished_at from scoring_jobs order by job_id limit 8) lost where finished_at is not null";
    eventually(DEADLINE, "the others work", || async {
        enqueue(&fleet.api, 1).await;
        more.fetch_add(1, Ordering::Relaxed);
        let in_hand = i64::try_from(held.in_flight()).unwrap();
        (number(&fleet.home, ended).await + in_hand == JOBS as i64).then_some(())
    })
    .await;
    held.release();
    all_scored_once(&fleet.home, JOBS + more.into_inner()).await;
    leader.stop().await;
    other.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_is_elected_without_redis() {
    let Some(mut home) = shared().await else {
        return;
    };
    home.set("REDIS_URL", format!("redis://{}", free_address()));
    let judge = JudgeServer::start(Reply::held(70)).await;
    let fleet = Fleet::start(home).await;
    let mut workers = ["a", "b"].map(|name| fleet.worker(name, &judge.url(name), 1));
    enqueue(&fleet.api, 1).await;
    judge.until_in_flight(1).await;
    let held_by = "select cast(substring(w.name from '[0-9]+$') as bigint)
        from scoring_jobs j join workers w on w.worker_id = j.worker_id";
    let pid = number(&fleet.home, held_by).await;
    let holder = usize::from(pid != i64::from(workers[0].pid()));
    workers[holder].kill();
    judge.release();
    // Only the leader requeues it.
    all_scored_once(&fleet.home, 1).await;
    workers[1 - holder].stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_unreachable_at_start_degrades_and_stops_no_process() {
    let Some(mut home) = shared().await else {
        return;
    };
    home.set("REDIS_URL", format!("redis://{}", free_address()));
    let judge = JudgeServer::start(Reply::Score(70)).await;
    let fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 4);
    let ready = fleet.api.get("/readyz").await;
    assert_eq!(ready.body["status"], "degraded", "{:#}", ready.body);
    ready.expect(200);
    enqueue(&fleet.api, 10).await;
    all_scored_once(&fleet.home, 10).await;
    worker.stop().await;
    end(fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_database_outage_loses_no_result() {
    const JOBS: usize = 12;
    let Some((home, mut postgres)) = private_postgres().await else {
        return;
    };
    let judge = JudgeServer::start(Reply::held(70)).await;
    let fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 6);
    enqueue(&fleet.api, JOBS).await;
    judge.until_in_flight(6).await;

    postgres.kill().await;
    let refused = fleet.api.ask(uuid::Uuid::now_v7()).await;
    assert_eq!(
        refused.body["type"], "urn:gavel:problem:database-unavailable",
        "{:#}",
        refused.body
    );
    assert!(refused.header("retry-after").is_some());
    refused.expect(503);
    let not_ready = fleet.api.get("/readyz").await;
    not_ready.expect(503);
    // The judge replies while no result can be recorded.
    judge.release();
    judge.until_in_flight(0).await;

    postgres.again().await;
    all_scored_once(&fleet.home, JOBS).await;
    assert!(worker.runs(), "{}", worker.output());
    let (_, job) = fleet.api.enqueue(session()).await;
    assert_eq!(fleet.api.ended(job).await["state"], "succeeded");
    assert_eq!(
        number(
            &fleet.home,
            "select count(*) from scoring_jobs where attempts > 0"
        )
        .await,
        0
    );
    worker.stop().await;
    let Fleet { mut serve, .. } = fleet;
    serve.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_stops_while_the_database_is_unavailable() {
    let Some((mut home, mut postgres)) = private_postgres().await else {
        return;
    };
    home.set("GAVEL_WORKER_DRAIN_TIMEOUT_S", 1);
    let judge = JudgeServer::start(Reply::held(70)).await;
    let fleet = Fleet::start(home).await;
    let mut worker = fleet.worker("a", &judge.url("a"), 2);
    enqueue(&fleet.api, 2).await;
    judge.until_in_flight(2).await;
    postgres.kill().await;
    judge.release();
    worker.terminate();
    let ended = tokio::time::timeout(Duration::from_secs(60), worker.exit_code()).await;
    assert!(ended.is_ok(), "it still waits:\n{}", worker.output());

    postgres.again().await;
    let mut other = fleet.worker("b", &judge.url("b"), 2);
    all_scored_once(&fleet.home, 2).await;
    other.stop().await;
    let Fleet { mut serve, .. } = fleet;
    serve.stop().await;
}

async fn delete_keys(home: &Home) -> usize {
    let client = redis::Client::open(home.get("REDIS_URL")).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let pattern = format!("{{gavel:{}:*", home.get("GAVEL_REDIS_QUEUE"));
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg(pattern)
        .query_async(&mut redis)
        .await
        .unwrap();
    if !keys.is_empty() {
        let _: usize = redis::cmd("DEL")
            .arg(&keys)
            .query_async(&mut redis)
            .await
            .unwrap();
    }
    keys.len()
}
