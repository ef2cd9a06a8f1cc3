//! A rejected result: the job must not stay claimed by a worker that no longer runs it.

use super::on_every_setup;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::world::World;

on_every_setup!(job_fails_when_the_database_rejects_its_result);

async fn job_fails_when_the_database_rejects_its_result(home: Home) {
    let world = World::start(home, Reply::held(70)).await;
    let (_, job) = world.api.enqueue(session()).await;
    world.judge.until_in_flight(1).await;
    // The score's foreign key will refer to a deleted session.
    let url = world.home.database_url();
    crate::support::execute(&url, "delete from alert_sessions")
        .await
        .unwrap();
    world.judge.release();
    let ended = world.api.ended(job).await;
    assert_eq!(ended["state"], "failed", "{ended:#}");
    assert_eq!(ended["error"]["class"], "internal", "{ended:#}");
    world.end().await;
}
