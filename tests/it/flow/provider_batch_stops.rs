//! What stops a batch whose replies are collected, on its way to the provider and back, and what passes it by.

use std::time::Duration;

use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::backlogs::until;
use super::on_every_setup;
use super::provider_batches::{
    collected, completed, provider, put, rescore, rescored, spent, waits_for,
};
use crate::support::client::PATIENCE;
use crate::support::execute;
use crate::support::home::{Home, JUDGE};
use crate::support::judge_server::call_cost;
use crate::support::sessions::session_about;
use crate::support::wait::{eventually, stays};
use crate::support::world::World;

on_every_setup!(
    nothing_is_handed_over_while_the_queue_is_paused,
    nothing_is_handed_over_while_its_judge_is_paused,
    a_pause_stops_the_parts_that_have_not_gone_out,
    a_part_that_is_on_its_way_arrives_before_its_worker_ends,
    a_reply_to_what_a_session_was_before_is_paid_and_not_kept,
    an_item_that_somebody_waits_for_is_asked_at_once,
    a_provider_that_says_no_is_asked_again_and_leaves_no_failed_parts,
    a_part_that_takes_too_long_is_cancelled_and_then_given_up,
    a_part_that_a_provider_in_trouble_does_not_know_is_looked_for_again,
    a_part_that_stays_unknown_is_cancelled_before_its_items_are_asked_in_full,
);

async fn nothing_is_handed_over_while_the_queue_is_paused(home: Home) {
    nothing_while_paused(home, "/api/v1/queue").await;
}

async fn nothing_is_handed_over_while_its_judge_is_paused(home: Home) {
    nothing_while_paused(home, &format!("/api/v1/judges/{JUDGE}")).await;
}

async fn nothing_while_paused(mut home: Home, what: &str) {
    let server = provider(&mut home, "openai").await;
    server.finishes_at_once();
    let mut world = World::elsewhere(home).await;
    world.api.post(&format!("{what}/pause")).await.expect(200);
    put(&world, 2).await;
    let batch = rescore(&world, json!({})).await;
    world.work();
    waits_for(&world, &batch, "stopped (paused)").await;
    stays(Duration::from_millis(500), "nothing goes out", || async {
        server.seen().is_empty()
    })
    .await;
    world.api.post(&format!("{what}/resume")).await.expect(200);
    collected(&world, &batch, &server, (2, 1)).await;
    world.end().await;
}

async fn a_pause_stops_the_parts_that_have_not_gone_out(mut home: Home) {
    let server = provider(&mut home, "openai").await;
    home.set("GAVEL_WORKER_ECONOMY_PART", 1);
    server.finishes_at_once();
    let permits = server.holds("POST /v1/files");
    let mut world = World::elsewhere(home).await;
    world.work();
    put(&world, 4).await;
    let batch = rescore(&world, json!({})).await;
    permits.add_permits(1);
    eventually(PATIENCE, "the second part is on its way", || async {
        let seen = server.seen();
        let files = seen.iter().filter(|seen| *seen == "POST /v1/files");
        (files.count() == 2).then_some(())
    })
    .await;
    world.api.post(&format!("{batch}/pause")).await.expect(200);
    permits.add_permits(100);
    let rests = |found: &Value| {
        let parts = found["economy"]["parts"].as_array().unwrap();
        parts.iter().all(|part| part["state"] == "collected")
    };
    let found = until(&world, &batch, "the second part is forgotten", rests).await;
    assert_eq!(found["economy"]["parts"].as_array().unwrap().len(), 1);
    stays(Duration::from_millis(500), "no other goes out", || async {
        server.batches().len() == 1
    })
    .await;
    world.api.post(&format!("{batch}/resume")).await.expect(200);
    collected(&world, &batch, &server, (4, 4)).await;
    world.end().await;
}

async fn a_part_that_is_on_its_way_arrives_before_its_worker_ends(mut home: Home) {
    // Where a part has no name of ours, one whose answer nobody heard is paid twice.
    let server = provider(&mut home, "anthropic").await;
    let permits = server.holds("POST /v1/messages/batches");
    let mut world = World::elsewhere(home).await;
    put(&world, 2).await;
    let batch = rescore(&world, json!({})).await;
    let first = world.worker();
    eventually(PATIENCE, "a part is on its way", || async {
        let seen = server.seen();
        seen.contains(&"POST /v1/messages/batches".to_owned())
            .then_some(())
    })
    .await;
    first.stop.soft.cancel();
    eventually(PATIENCE, "the worker says that it drains", || async {
        let workers = world.api.get("/api/v1/workers").await.expect(200);
        let items = workers["items"].as_array().unwrap();
        items
            .iter()
            .any(|worker| worker["state"] == "draining")
            .then_some(())
    })
    .await;
    permits.add_permits(100);
    first.ended().await;
    let found = world.api.get(&batch).await.expect(200);
    let part = &found["economy"]["parts"][0];
    assert_eq!(part["state"], "submitted", "{found:#}");
    server.finish();
    world.work();
    collected(&world, &batch, &server, (2, 1)).await;
    world.end().await;
}

async fn a_reply_to_what_a_session_was_before_is_paid_and_not_kept(home: Home) {
    let (server, world, batch, sessions) = rescored(home, "openai", 2).await;
    let path = format!("/api/v1/sessions/{}", sessions[0]);
    let changed = session_about(&format!("{}-changed", Uuid::now_v7()));
    let put = world.api.send("PUT", &path, Some(changed), &[]).await;
    assert!(put.status < 300, "{}", put.body);
    server.finish();
    let done = completed(&world, &batch).await;
    assert_eq!(done["counts"]["succeeded"], 2, "{done:#}");
    let economy = &done["economy"];
    let counts = (&economy["replied"], &economy["failed"]);
    assert_eq!(counts, (&json!(1), &json!(1)), "{economy:#}");
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].to_string().contains("-changed"));
    // Both were answered there, and one was asked again in full.
    spent(&done, 2.0 * call_cost() / 2.0 + call_cost());
    world.end().await;
}

async fn an_item_that_somebody_waits_for_is_asked_at_once(home: Home) {
    let (server, world, batch, sessions) = rescored(home, "openai", 2).await;
    let items = server.batches()[0].calls.clone();
    for (id, _) in &items {
        let job = world
            .api
            .get(&format!("/api/v1/jobs/{id}"))
            .await
            .expect(200);
        assert_eq!(job["wait"]["reason"], "economy", "{job:#}");
    }
    let asked = world.api.ask(sessions[0]).await;
    assert_eq!(asked.status, 202, "{}", asked.body);
    assert_ne!(asked.body["wait"]["reason"], "economy", "{}", asked.body);
    world.api.scored(sessions[0]).await;
    assert_eq!(server.asked().len(), 1);
    let found = world.api.get(&batch).await.expect(200);
    assert_eq!(found["counts"]["queued"], 1, "{found:#}");
    server.finish();
    let done = completed(&world, &batch).await;
    assert_eq!(done["counts"]["succeeded"], 2, "{done:#}");
    assert_eq!(server.asked().len(), 1);
    spent(&done, call_cost() + 2.0 * call_cost() / 2.0);
    world.end().await;
}

async fn a_provider_that_says_no_is_asked_again_and_leaves_no_failed_parts(mut home: Home) {
    let server = provider(&mut home, "anthropic").await;
    server.troubles("POST /v1/messages/batches", 429);
    let mut world = World::elsewhere(home).await;
    world.work();
    put(&world, 1).await;
    let batch = rescore(&world, json!({})).await;
    eventually(PATIENCE, "it is tried again", || async {
        (server.seen().len() > 2).then_some(())
    })
    .await;
    server.finishes_at_once();
    server.recovers();
    let done = collected(&world, &batch, &server, (1, 1)).await;
    let parts = done["economy"]["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 1, "{done:#}");
    world.end().await;
}

async fn a_part_that_takes_too_long_is_cancelled_and_then_given_up(home: Home) {
    let (server, world, batch, _) = rescored(home, "openai", 1).await;
    // It goes on as if nobody had told it to end.
    server.troubles("POST /v1/batches/batch_0/cancel", 503);
    let url = world.home.database_url();
    let handed_over_before = async |hours: i64| {
        let at = Utc::now() - TimeDelta::hours(hours);
        let at = at.to_rfc3339_opts(SecondsFormat::Micros, true);
        let older = format!("update provider_chunks set submitted_at = '{at}'");
        execute(&url, older.leak()).await.unwrap();
    };
    handed_over_before(24).await;
    let tells = || server.seen().iter().any(|seen| seen.ends_with("/cancel"));
    stays(Duration::from_millis(500), "it may take a day", || async {
        !tells()
    })
    .await;
    handed_over_before(26).await;
    eventually(PATIENCE, "it is cancelled", || async {
        tells().then_some(())
    })
    .await;
    assert_eq!(server.asked().len(), 0, "what it answered is waited for");
    handed_over_before(31).await;
    let done = completed(&world, &batch).await;
    assert_eq!(done["counts"]["succeeded"], 1, "{done:#}");
    assert_eq!(done["economy"]["parts"][0]["state"], "failed", "{done:#}");
    assert_eq!(server.asked().len(), 1);
    world.end().await;
}

async fn a_part_that_a_provider_in_trouble_does_not_know_is_looked_for_again(home: Home) {
    let (server, world, batch, _) = rescored(home, "openai", 2).await;
    server.troubles("GET /v1/batches/batch_0", 404);
    let found = waits_for(&world, &batch, "404").await;
    let part = &found["economy"]["parts"][0];
    assert_eq!(part["state"], "submitted", "{found:#}");
    server.finish();
    server.recovers();
    let done = collected(&world, &batch, &server, (2, 1)).await;
    spent(&done, 2.0 * call_cost() / 2.0);
    world.end().await;
}

async fn a_part_that_stays_unknown_is_cancelled_before_its_items_are_asked_in_full(home: Home) {
    let (server, world, batch, _) = rescored(home, "anthropic", 1).await;
    server.troubles("GET /v1/messages/batches/batch_0", 404);
    let done = completed(&world, &batch).await;
    assert_eq!(done["counts"]["succeeded"], 1, "{done:#}");
    assert_eq!(done["economy"]["parts"][0]["state"], "failed", "{done:#}");
    assert!(server.batches()[0].is_cancelled(), "nobody waits for it");
    let seen = server.seen();
    let looks = |seen: &[String]| {
        let looks = seen.iter().filter(|seen| seen.starts_with("GET "));
        looks.count()
    };
    assert!(looks(&seen) >= 6, "{seen:?}");
    let at = |what: &str| seen.iter().position(|seen| seen == what).unwrap();
    let cancelled = at("POST /v1/messages/batches/batch_0/cancel");
    assert!(cancelled < at("POST /v1/messages"), "{seen:?}");
    world.end().await;
}
