//! A stopping worker finishes jobs if possible, requeues the rest, and loses none.

use std::time::Duration;

use super::on_every_setup;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::wait::stays;
use crate::support::world::World;

on_every_setup!(
    soft_stop_finishes_running_jobs_and_claims_no_more,
    hard_stop_requeues_unfinished_jobs_for_another_worker,
    slow_drain_becomes_a_hard_stop,
);

async fn soft_stop_finishes_running_jobs_and_claims_no_more(home: Home) {
    let world = World::idle(home, Reply::held(70)).await;
    let worker = world.worker();
    let (_, first) = world.api.enqueue(session()).await;
    world.judge.until_in_flight(1).await;
    worker.stop.soft.cancel();
    let (_, second) = world.api.enqueue(session()).await;
    stays(
        Duration::from_millis(1_200),
        "the second job isn't taken",
        || async { world.judge.count() == 1 },
    )
    .await;
    world.judge.release();
    worker.ended().await;
    assert_eq!(world.api.job(first).await["state"], "succeeded");
    assert_eq!(world.api.job(second).await["state"], "queued");
    world.end().await;
}

async fn hard_stop_requeues_unfinished_jobs_for_another_worker(home: Home) {
    let mut world = World::idle(home, Reply::held(70)).await;
    let worker = world.worker();
    let (id, job) = world.api.enqueue(session()).await;
    world.judge.until_in_flight(1).await;
    worker.stop.soft.cancel();
    worker.stop.hard.cancel();
    worker.ended().await;
    let back = world.api.job(job).await;
    assert_eq!(back["state"], "queued", "{back:#}");
    assert_eq!(
        (back["attempts"].as_i64(), back["retries"].as_i64()),
        (Some(0), Some(0))
    );

    world.judge.release();
    world.work();
    world.api.scored(id).await;
    assert_eq!(world.api.history(id).await.len(), 1);
    assert_eq!(world.judge.count(), 2);
    world.end().await;
}

async fn slow_drain_becomes_a_hard_stop(mut home: Home) {
    home.set("GAVEL_WORKER_DRAIN_TIMEOUT_S", "1");
    let world = World::idle(home, Reply::held(70)).await;
    let worker = world.worker();
    let (_, job) = world.api.enqueue(session()).await;
    world.judge.until_in_flight(1).await;
    worker.drain().await;
    assert_eq!(world.api.job(job).await["state"], "queued");
    world.end().await;
}
