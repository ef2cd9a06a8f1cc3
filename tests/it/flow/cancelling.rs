//! A cancelled job has no score, regardless of its state before.

use super::on_every_setup;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::world::World;

on_every_setup!(
    result_of_a_job_cancelled_while_running_is_dropped,
    job_cancelled_before_it_runs_calls_no_judge,
);

async fn result_of_a_job_cancelled_while_running_is_dropped(mut home: Home) {
    home.set("GAVEL_WORKER_CONCURRENCY", "1");
    let world = World::start(home, Reply::held(70)).await;
    let (id, job) = world.api.enqueue(session()).await;
    world.judge.until_in_flight(1).await;
    let cancelled = world.api.post_job_action(job, "cancel").await.expect(200);
    assert_eq!(cancelled["state"], "cancelled");
    // With one slot, a score of the next job means that the cancelled one's end was recorded.
    let (next, next_job) = world.api.enqueue(session()).await;
    world.judge.release();
    world.api.scored(next).await;
    world.api.ended(next_job).await;
    assert_eq!(world.api.job(job).await["state"], "cancelled");
    world.api.score(id).await.expect(404);
    assert_eq!(world.api.history(id).await.len(), 0);

    // The session can be scored again.
    let again = world.api.ask(id).await.expect(202);
    assert_ne!(again["job_id"], serde_json::json!(job));
    world.api.scored(id).await;
    world.end().await;
}

async fn job_cancelled_before_it_runs_calls_no_judge(home: Home) {
    let mut world = World::idle(home, Reply::Score(70)).await;
    let (id, job) = world.api.enqueue(session()).await;
    world.api.post_job_action(job, "cancel").await.expect(200);
    let ended = world.api.post_job_action(job, "cancel").await;
    assert!([200, 409].contains(&ended.status), "{ended:?}");
    world.work();
    let (next, _) = world.api.enqueue(session()).await;
    world.api.scored(next).await;
    assert_eq!(world.judge.count(), 1);
    world.api.score(id).await.expect(404);
    world.end().await;
}
