//! Stopping a backlog by budgets and pauses, and requests for single sessions in between.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{Connection, Executor};

use super::backlogs::{ask, put, rescore, until};
use super::on_every_setup;
use crate::support::client::{PATIENCE, id_of};
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::{JudgeServer, Reply, call_cost};
use crate::support::wait::{eventually, stays};
use crate::support::world::World;

on_every_setup!(
    individual_requests_run_while_their_backlog_is_paused,
    plan_lists_active_holds,
    fallback_without_a_price_rejects_a_budget,
);

async fn individual_requests_run_while_their_backlog_is_paused(home: Home) {
    let mut world = World::idle(home, Reply::Score(70)).await;
    let sessions = put(&world, 3).await;
    let at = rescore(&world, json!({})).await;
    world.api.post(&format!("{at}/pause")).await.expect(200);
    world.work();
    let path = format!("/api/v1/scoring/sessions/{}/score", sessions[1]);
    let asked = world.api.post(&path).await.expect(202);
    let job = id_of(&asked["job_id"]);
    assert_eq!(world.api.ended(job).await["state"], "succeeded");
    let paused = until(&world, &at, "one has ended", |found| {
        found["counts"]["succeeded"] == 1
    })
    .await;
    assert_eq!(paused["state"], "paused");
    assert_eq!(paused["counts"]["queued"], 2);
    assert_eq!(world.judge.count(), 1);

    // The request survives the cancellation of a batch while its judge is paused.
    let judge = format!("/api/v1/judges/{JUDGE}");
    world.api.post(&format!("{judge}/pause")).await.expect(200);
    let path = format!("/api/v1/scoring/sessions/{}/score", sessions[2]);
    let asked = world.api.post(&path).await.expect(202);
    let job = id_of(&asked["job_id"]);
    world.api.post(&format!("{at}/cancel")).await.expect(200);
    world.api.post(&format!("{judge}/resume")).await.expect(200);
    assert_eq!(world.api.ended(job).await["state"], "succeeded");
    let done = until(&world, &at, "its items have ended", |found| {
        found["counts"]["succeeded"] == 2
    })
    .await;
    assert_eq!(
        (&done["state"], &done["counts"]["cancelled"]),
        (&json!("cancelled"), &json!(1))
    );
    world.end().await;
}

fn warned(plan: &Value, of: &str) -> bool {
    let warnings = plan["warnings"].as_array().unwrap();
    warnings
        .iter()
        .any(|warning| warning.as_str().unwrap().contains(of))
}

async fn plan(world: &World) -> Value {
    ask(world, json!({"dry_run": true})).await.expect(200)
}

async fn plan_lists_active_holds(home: Home) {
    let world = World::idle(home, Reply::Score(70)).await;
    put(&world, 2).await;
    assert!(!warned(&plan(&world).await, "is stopped"));
    for (what, says) in [
        ("queue".to_owned(), "the queue is stopped (paused"),
        (format!("judges/{JUDGE}"), "is stopped (paused"),
    ] {
        let what = format!("/api/v1/{what}");
        world.api.post(&format!("{what}/pause")).await.expect(200);
        let stopped = plan(&world).await;
        assert!(warned(&stopped, says), "{stopped:#}");
        assert!(
            warned(&stopped, "no job starts before that ends"),
            "{stopped:#}"
        );
        world.api.post(&format!("{what}/resume")).await.expect(200);
    }
    assert!(!warned(&plan(&world).await, "is stopped"));
    world.end().await;
}

async fn fallback_without_a_price_rejects_a_budget(home: Home) {
    let second = JudgeServer::start(Reply::Score(70)).await;
    let more = format!(
        "  fallback: second\nsecond:\n  type: openai\n  base_url: {}\n  key: other-key\n  model: judge-2\n",
        second.url("second")
    );
    let world = World::idle_with(home, Reply::Refusal, &more).await;
    put(&world, 2).await;
    let refused = ask(&world, json!({"budget_usd": 1.0})).await.expect(422);
    let text = refused.to_string();
    assert!(
        text.contains("/budget_usd") && text.contains("falls back to"),
        "{text}"
    );
    assert!(warned(&plan(&world).await, "falls back to \"second\""));
    world.end().await;
}

/// The judge replies at once and the database doesn't store the cost: no call is made beyond the active ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budget_is_enforced_while_the_database_is_slow() {
    let Some(mut home) = Home::shared().await else {
        eprintln!("NOT TESTED: DATABASE_URL and REDIS_URL name no servers");
        return;
    };
    home.set("GAVEL_WORKER_CONCURRENCY", "1");
    let mut world = World::idle(home, Reply::Score(70)).await;
    put(&world, 20).await;
    let url = world.home.get("DATABASE_URL").to_owned();
    let mut blocker = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut lock = blocker.begin().await.unwrap();
    lock.execute("lock table scoring_batch_usage in share row exclusive mode")
        .await
        .unwrap();
    let at = rescore(&world, json!({"budget_usd": call_cost() / 2.0})).await;
    world.work();
    eventually(PATIENCE, "the first call", || async {
        (world.judge.count() > 0).then_some(())
    })
    .await;
    stays(Duration::from_millis(500), "one call is asked", || async {
        world.judge.count() == 1
    })
    .await;
    lock.rollback().await.unwrap();
    until(&world, &at, "its budget is spent", |found| {
        found["state"] == "paused" && found["counts"]["running"] == 0
    })
    .await;
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}
