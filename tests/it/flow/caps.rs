//! Cost caps: jobs of a judge wait, with a reason, for the next day or month or for a higher cap.

use std::time::Duration;

use serde_json::Value;

use super::on_every_setup;
use crate::support::client::PATIENCE;
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::wait::{eventually, stays};
use crate::support::world::World;

on_every_setup!(
    reached_cap_stops_the_judge_until_it_is_raised,
    cap_over_all_judges_stops_each_of_them,
);

/// Less than the cost of one call.
const LITTLE: &str = "0.001";

fn is_one_call(usd: &Value) -> bool {
    usd.as_f64().is_some_and(|usd| (usd - 0.0014).abs() < 1e-9)
}

/// Scores one session, then waits until its cost closes the judge; returns the judge.
async fn capped(world: &World) -> Value {
    let (id, _) = world.api.enqueue(session()).await;
    world.api.scored(id).await;
    eventually(PATIENCE, "the judge is stopped", || async {
        let judge = world.api.judge(JUDGE).await?;
        (judge["hold"]["reason"] == "budget").then_some(judge)
    })
    .await
}

async fn reached_cap_stops_the_judge_until_it_is_raised(home: Home) {
    let cap = format!("  daily_cap_usd: {LITTLE}\n  monthly_cap_usd: 50\n");
    let mut world = World::idle_with(home, Reply::Score(70), &cap).await;
    world.work();
    let judge = capped(&world).await;
    let message = judge["hold"]["message"].as_str().unwrap();
    assert!(
        message.contains("daily cap of judge, 0.001 USD"),
        "{message}"
    );
    assert_eq!(judge["cap"]["monthly_cap_usd"], 50.0);
    assert!(
        is_one_call(&judge["cap"]["spent"]["today_usd"]),
        "{judge:#}"
    );

    let (id, job) = world.api.enqueue(session()).await;
    stays(Duration::from_millis(1_200), "nothing is asked", || async {
        world.judge.count() == 1
    })
    .await;
    let held = world.api.job(job).await;
    assert_eq!(held["state"], "queued", "{held:#}");
    assert_eq!(held["wait"]["reason"], "budget");
    assert_eq!(held["wait"]["until"], judge["hold"]["until"]);
    let resume = format!("/api/v1/judges/{JUDGE}/resume");
    world.api.post(&resume).await.expect(409);

    // A pause replaces the cap, and the cap replaces the released pause, without a call in between.
    let pause = format!("/api/v1/judges/{JUDGE}/pause");
    world.api.post(&pause).await.expect(200);
    world.api.post(&resume).await.expect(200);
    eventually(PATIENCE, "the cap stops it again", || async {
        let judge = world.api.judge(JUDGE).await?;
        (judge["hold"]["reason"] == "budget").then_some(())
    })
    .await;
    assert_eq!(world.judge.count(), 1);

    let url = world.judge.url("w");
    world.home.judge_at(&url, "  daily_cap_usd: 50\n");
    let mut world = world.restart().await;
    world.work();
    assert_eq!(world.api.scored(id).await["total_score"], 70);
    let open = world.api.judge(JUDGE).await.unwrap();
    assert_eq!(open["hold"], Value::Null, "{open:#}");
    world.end().await;
}

async fn cap_over_all_judges_stops_each_of_them(mut home: Home) {
    home.set("GAVEL_JUDGE_MONTHLY_CAP_USD", LITTLE);
    let world = World::start(home, Reply::Score(70)).await;
    let judge = capped(&world).await;
    let message = judge["hold"]["message"].as_str().unwrap();
    assert!(
        message.contains("monthly cap of all judges, 0.001 USD"),
        "{message}"
    );
    let list = world.api.get("/api/v1/judges").await.expect(200);
    assert_eq!(list["cap"]["monthly_cap_usd"], 0.001);
    assert!(is_one_call(&list["cap"]["spent"]["month_usd"]), "{list:#}");
    assert_eq!(judge["cap"], Value::Null);
    world.end().await;
}
