//! Stops of a batch with collected replies: pauses, cancellations and provider errors.

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
    no_chunk_is_submitted_while_the_queue_is_paused,
    no_chunk_is_submitted_while_its_judge_is_paused,
    pause_stops_unsent_chunks,
    chunk_in_flight_arrives_before_its_worker_ends,
    reply_to_an_outdated_session_is_paid_and_discarded,
    item_with_a_waiting_client_is_called_at_once,
    provider_that_rejects_is_retried_without_failed_chunks,
    slow_chunk_is_cancelled_and_then_abandoned,
    chunk_unknown_to_a_failing_provider_is_looked_up_again,
    unknown_chunk_is_cancelled_before_full_price_calls,
);

async fn no_chunk_is_submitted_while_the_queue_is_paused(home: Home) {
    assert_no_submission_while_paused(home, "/api/v1/queue").await;
}

async fn no_chunk_is_submitted_while_its_judge_is_paused(home: Home) {
    assert_no_submission_while_paused(home, &format!("/api/v1/judges/{JUDGE}")).await;
}

async fn assert_no_submission_while_paused(mut home: Home, what: &str) {
    let server = provider(&mut home, "openai").await;
    server.finish_immediately();
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

async fn pause_stops_unsent_chunks(mut home: Home) {
    let server = provider(&mut home, "openai").await;
    home.set("GAVEL_WORKER_ECONOMY_PART", 1);
    server.finish_immediately();
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

async fn chunk_in_flight_arrives_before_its_worker_ends(mut home: Home) {
    // Without our tag at the provider, a chunk with a lost response is paid for again.
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

async fn reply_to_an_outdated_session_is_paid_and_discarded(home: Home) {
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
    // The provider replied to both, and one was called again at the full price.
    spent(&done, 2.0 * call_cost() / 2.0 + call_cost());
    world.end().await;
}

async fn item_with_a_waiting_client_is_called_at_once(home: Home) {
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

async fn provider_that_rejects_is_retried_without_failed_chunks(mut home: Home) {
    let server = provider(&mut home, "anthropic").await;
    server.fail_requests("POST /v1/messages/batches", 429);
    let mut world = World::elsewhere(home).await;
    world.work();
    put(&world, 1).await;
    let batch = rescore(&world, json!({})).await;
    eventually(PATIENCE, "it is tried again", || async {
        (server.seen().len() > 2).then_some(())
    })
    .await;
    server.finish_immediately();
    server.clear_failures();
    let done = collected(&world, &batch, &server, (1, 1)).await;
    let parts = done["economy"]["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 1, "{done:#}");
    world.end().await;
}

async fn slow_chunk_is_cancelled_and_then_abandoned(home: Home) {
    let (server, world, batch, _) = rescored(home, "openai", 1).await;
    // The chunk continues as if the cancellation was lost.
    server.fail_requests("POST /v1/batches/batch_0/cancel", 503);
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

async fn chunk_unknown_to_a_failing_provider_is_looked_up_again(home: Home) {
    let (server, world, batch, _) = rescored(home, "openai", 2).await;
    server.fail_requests("GET /v1/batches/batch_0", 404);
    let found = waits_for(&world, &batch, "404").await;
    let part = &found["economy"]["parts"][0];
    assert_eq!(part["state"], "submitted", "{found:#}");
    server.finish();
    server.clear_failures();
    let done = collected(&world, &batch, &server, (2, 1)).await;
    spent(&done, 2.0 * call_cost() / 2.0);
    world.end().await;
}

async fn unknown_chunk_is_cancelled_before_full_price_calls(home: Home) {
    let (server, world, batch, _) = rescored(home, "anthropic", 1).await;
    server.fail_requests("GET /v1/messages/batches/batch_0", 404);
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
