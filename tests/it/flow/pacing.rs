//! Pacing of a judge: by concurrency cap, by rate-limit headers, and by calls per minute.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::on_every_setup;
use crate::support::client::PATIENCE;
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::wait::eventually;
use crate::support::world::World;

on_every_setup!(
    concurrency_cap_of_two_is_respected_without_waiting_jobs,
    no_call_is_made_before_an_exhausted_limit_resets,
    limit_per_minute_spreads_the_calls_and_shows_its_use,
);

async fn enqueued(world: &World, count: usize) -> Vec<Uuid> {
    let mut jobs = Vec::new();
    for _ in 0..count {
        jobs.push(world.api.enqueue(session()).await.1);
    }
    jobs
}

async fn states(world: &World, jobs: &[Uuid]) -> Vec<Value> {
    let mut found = Vec::new();
    for job in jobs {
        found.push(world.api.job(*job).await);
    }
    found
}

async fn concurrency_cap_of_two_is_respected_without_waiting_jobs(mut home: Home) {
    home.set("GAVEL_WORKER_CONCURRENCY", 16);
    let mut world = World::idle_with(home, Reply::held(75), "  max_concurrency: 2\n").await;
    let jobs = enqueued(&world, 40).await;
    world.work();
    world.judge.until_in_flight(2).await;
    let running = states(&world, &jobs).await;
    let of = |state: &str| running.iter().filter(|job| job["state"] == state).count();
    assert_eq!(
        (of("running"), of("queued")),
        (2, 38),
        "none is claimed in vain"
    );
    world.judge.release();
    eventually(PATIENCE, "all are scored", || async {
        let jobs = states(&world, &jobs).await;
        for job in &jobs {
            assert_ne!(job["state"], "waiting", "{job:#}");
        }
        jobs.iter()
            .all(|job| job["state"] == "succeeded")
            .then_some(())
    })
    .await;
    assert_eq!(world.judge.max_in_flight(), 2);
    assert_eq!(world.judge.count(), 40);
    world.end().await;
}

async fn no_call_is_made_before_an_exhausted_limit_resets(mut home: Home) {
    home.set("GAVEL_WORKER_CONCURRENCY", 4);
    let used_up = [("limit", "60"), ("remaining", "0"), ("reset", "4s")];
    let names = [
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ];
    let headers = names
        .into_iter()
        .zip(used_up)
        .map(|(name, (_, value))| (name, value.to_owned()));
    let world = World::start(home, Reply::Score(75)).await;
    world.judge.reply_in_order(
        vec![Reply::ScoreWith(70, headers.collect())],
        Reply::Score(75),
    );
    let (_, first) = world.api.enqueue(session()).await;
    assert_eq!(world.api.ended(first).await["state"], "succeeded");

    let behind = enqueued(&world, 2).await;
    let held = eventually(
        PATIENCE,
        "a job says that it is held back by the pace",
        || async {
            let job = world.api.job(behind[0]).await;
            (job["wait"]["reason"] == "paced").then_some(job)
        },
    )
    .await;
    assert_eq!(held["state"], "queued", "{held:#}");
    assert!(held["wait"]["until"].is_string(), "{held:#}");
    let judge = world.api.judge(JUDGE).await.unwrap();
    let gate = &judge["gates"][0];
    assert_eq!(gate["reason"], "paced", "{judge:#}");
    assert!(gate["pace"]["held_until"].is_string(), "{judge:#}");
    assert!(gate["pace"]["shrunk_until"].is_null(), "{judge:#}");
    assert_eq!(gate["pace"]["requests"]["used_last_minute"], 1, "{judge:#}");
    for job in behind {
        let ended = world.api.ended(job).await;
        assert_eq!(ended["state"], "succeeded", "{ended:#}");
        assert_eq!(
            (&ended["retries"], &ended["attempts"]),
            (&0.into(), &0.into())
        );
    }
    let calls = world.judge.calls();
    assert_eq!(calls.len(), 3);
    // Less than the latency of the reply.
    let pause = calls[1].at - calls[0].at;
    assert!(pause >= Duration::from_secs(4), "{pause:?}");
    world.end().await;
}

async fn limit_per_minute_spreads_the_calls_and_shows_its_use(mut home: Home) {
    home.set("GAVEL_WORKER_CONCURRENCY", 16);
    let limit = "  requests_per_minute: 120\n  tokens_per_minute: 1000000\n";
    let mut world = World::idle_with(home, Reply::Score(75), limit).await;
    let jobs = enqueued(&world, 8).await;
    world.work();
    for job in &jobs {
        assert_eq!(world.api.ended(*job).await["state"], "succeeded");
    }
    let calls = world.judge.calls();
    assert_eq!(calls.len(), jobs.len());
    // Seven pauses of 61.5 s / 120, minus the tolerance of a call: calls leave no sooner, and arrive in that order.
    let took = calls[7].at - calls[0].at;
    assert!(took >= Duration::from_millis(7 * 512 - 500), "{took:?}");
    let gate = eventually(PATIENCE, "the page shows the minute", || async {
        let judge = world.api.judge(JUDGE).await.unwrap();
        let gate = judge["gates"][0].clone();
        (gate["pace"]["requests"]["used_last_minute"] == 8).then_some(gate)
    })
    .await;
    let requests = &gate["pace"]["requests"];
    assert_eq!(
        (&requests["limit"], &requests["configured"]),
        (&120.into(), &120.into())
    );
    assert!(requests["learned"].is_null(), "{requests:#}");
    assert_eq!(gate["pace"]["tokens"]["configured"], 1_000_000);
    world.end().await;
}
