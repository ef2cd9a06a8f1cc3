//! An end that the database refuses: the job must not stay in the hand of a worker that no longer runs it.

use super::on_every_setup;
use crate::support::home::Home;
use crate::support::judge_server::Say;
use crate::support::sessions::session;
use crate::support::world::World;

on_every_setup!(a_job_whose_end_the_database_refuses_fails_and_is_told_so);

async fn a_job_whose_end_the_database_refuses_fails_and_is_told_so(home: Home) {
    let world = World::start(home, Say::held(70)).await;
    let (_, job) = world.api.enqueue(session()).await;
    world.judge.until_in_flight(1).await;
    // The score's row will name a session that is no longer there.
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
