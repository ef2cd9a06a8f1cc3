//! Backlogs through a provider's batch API, from the request to the scores, in both wire formats.

use serde_json::{Value, json};
use uuid::Uuid;

use super::backlogs::until;
use super::on_every_setup;
use crate::support::batch_server::{BatchServer, Fate, marker};
use crate::support::client::PATIENCE;
use crate::support::home::Home;
use crate::support::judge_server::{Reply, TOKENS_IN, call_cost};
use crate::support::sessions::session_about;
use crate::support::wait::eventually;
use crate::support::world::World;

on_every_setup!(
    replies_are_collected_at_half_the_price_by_openais_batches,
    replies_are_collected_at_half_price_by_anthropic_batches,
    items_missing_in_a_provider_batch_are_called_directly,
    interrupted_step_is_resumed_by_another_worker_and_paid_once,
    cancelled_batch_is_cancelled_at_the_provider,
    replies_are_collected_in_a_paused_batch_and_no_item_runs,
    large_batch_is_split_into_chunks_and_smaller_ones_on_limits,
    unavailable_provider_is_shown_as_the_wait_reason,
    rejected_chunk_is_replaced_by_single_calls,
    options_incompatible_with_economy_are_rejected,
);

pub(super) async fn provider(home: &mut Home, family: &str) -> BatchServer {
    let server = BatchServer::start(Fate::Score(70)).await;
    home.judge_of(family, &server.url(family), "  batch_price_factor: 0.5\n");
    home.set("GAVEL_WORKER_ECONOMY_POLL_S", 0.1);
    server
}

/// Stores sessions with the markers 0, 1, 2 .. in their prompts.
pub(super) async fn put(world: &World, n: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for n in 0..n {
        let about = format!("{}{n}-", Uuid::now_v7());
        ids.push(
            world
                .api
                .put(session_about(&format!("{about}marker-{n}.")))
                .await,
        );
    }
    ids
}

/// Starts a service and submits a rescore of `n` sessions to a provider; returns batch and sessions.
pub(super) async fn rescored(
    mut home: Home,
    family: &str,
    n: usize,
) -> (BatchServer, World, String, Vec<Uuid>) {
    let server = provider(&mut home, family).await;
    let mut world = World::elsewhere(home).await;
    world.work();
    let sessions = put(&world, n).await;
    let batch = rescore(&world, json!({})).await;
    handed_over(&world, &batch, n as i64).await;
    (server, world, batch, sessions)
}

pub(super) async fn rescore(world: &World, more: Value) -> String {
    let mut body = json!({ "economy": true });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    let answer = world.api.post_json("/api/v1/rescore", body);
    let made = answer.await.expect(202);
    // A fast worker may be done before the response is written.
    assert!(made["economy"]["state"].is_string(), "{made:#}");
    made["links"]["self"].as_str().unwrap().to_owned()
}

/// Waits until the wait reason of a batch contains this text.
pub(super) async fn waits_for(world: &World, batch: &str, words: &str) -> Value {
    let says = |found: &Value| found["economy"]["waits_for"].is_string();
    let found = until(world, batch, "it says what it waits for", says).await;
    let said = found["economy"]["waits_for"].as_str().unwrap();
    assert!(said.contains(words), "{said}");
    found
}

pub(super) async fn completed(world: &World, batch: &str) -> Value {
    let done =
        |found: &Value| found["state"] == "completed" && found["economy"]["state"] == "collected";
    until(world, batch, "the batch is completed", done).await
}

/// Waits until this number of items are scored by this number of provider batches, without single calls.
pub(super) async fn collected(
    world: &World,
    batch: &str,
    server: &BatchServer,
    (items, batches): (i64, usize),
) -> Value {
    let done = completed(world, batch).await;
    assert_eq!(done["counts"]["succeeded"], items, "{done:#}");
    let asked = (server.batches().len(), server.asked().len());
    assert_eq!(asked, (batches, 0));
    done
}

async fn handed_over(world: &World, batch: &str, requests: i64) -> Value {
    until(world, batch, "everything is handed over", |found| {
        let parts = found["economy"]["parts"].as_array().unwrap();
        let there = parts.iter().filter(|part| part["state"] == "submitted");
        there
            .map(|part| part["requests"].as_i64().unwrap())
            .sum::<i64>()
            == requests
    })
    .await
}

pub(super) fn spent(batch: &Value, expected: f64) {
    let spent = batch["spent_usd"].as_f64().unwrap();
    assert!(
        (spent - expected).abs() < 1e-9,
        "{spent} for {expected}: {batch:#}"
    );
    assert!(
        (batch["cost_usd"].as_f64().unwrap() - expected).abs() < 1e-9,
        "{batch:#}"
    );
}

async fn replies_are_collected_at_half_the_price_by_openais_batches(home: Home) {
    replies_are_collected(home, "openai").await;
}

async fn replies_are_collected_at_half_price_by_anthropic_batches(home: Home) {
    replies_are_collected(home, "anthropic").await;
}

async fn replies_are_collected(mut home: Home, family: &str) {
    let server = provider(&mut home, family).await;
    let mut world = World::elsewhere(home).await;
    world.work();
    let sessions = put(&world, 5).await;
    let plan = |economy: bool| {
        let body = json!({ "economy": economy, "dry_run": true });
        world.api.post_json("/api/v1/rescore", body)
    };
    let (cheap, dear) = (plan(true).await.expect(200), plan(false).await.expect(200));
    let cost = |plan: &Value| plan["cost_usd"]["expected"].as_f64().unwrap();
    // Each estimate builds new prompts, with fences that differ by a few tokens.
    let times = cost(&dear) / cost(&cheap);
    assert!((times - 2.0).abs() < 0.05, "{cheap:#} {dear:#}");

    // With `force_rescore` as well: replies collected for an item aren't in the cache.
    let batch = rescore(&world, json!({ "force_rescore": true })).await;
    let waits = handed_over(&world, &batch, 5).await;
    assert_eq!(waits["counts"]["queued"], 5, "{waits:#}");
    assert_eq!(server.batches()[0].calls.len(), 5);
    assert_eq!(server.asked().len(), 0);

    server.finish();
    let done = completed(&world, &batch).await;
    assert_eq!(done["counts"]["succeeded"], 5, "{done:#}");
    let economy = &done["economy"];
    assert_eq!(
        (&economy["replied"], &economy["failed"]),
        (&json!(5), &json!(0))
    );
    assert_eq!(economy["parts"][0]["done"], 5);
    assert_eq!((server.batches().len(), server.asked().len()), (1, 0));
    spent(&done, 5.0 * call_cost() / 2.0);
    assert_eq!(done["tokens"]["in"], 5 * TOKENS_IN);
    for session in sessions {
        world.api.scored(session).await;
    }
    for (id, _) in &server.batches()[0].calls {
        let job = world
            .api
            .get(&format!("/api/v1/jobs/{id}?calls=true"))
            .await
            .expect(200);
        let calls = job["calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{job:#}");
        let half = |of: &Value| {
            let cost = of["usage"]["cost_usd"].as_f64().unwrap();
            assert!((cost - call_cost() / 2.0).abs() < 1e-9, "{of:#}");
        };
        half(&calls[0]);
        half(&job);
    }
    world.end().await;
}

async fn items_missing_in_a_provider_batch_are_called_directly(mut home: Home) {
    let server = provider(&mut home, "openai").await;
    server.rule(|body| match marker(body) {
        Some(0) => Fate::Score(40),
        Some(1) => Fate::Errored(400),
        Some(2) => Fate::Expired,
        Some(3) => Fate::Content("about forty".to_owned()),
        Some(4) => Fate::Missing,
        _ => Fate::Rubbish,
    });
    server.finish_immediately();
    let mut world = World::elsewhere(home).await;
    world.work();
    put(&world, 6).await;
    let done = completed(&world, &rescore(&world, json!({})).await).await;
    assert_eq!(done["counts"]["succeeded"], 6, "{done:#}");
    let economy = &done["economy"];
    assert_eq!(
        (&economy["replied"], &economy["failed"]),
        (&json!(1), &json!(5))
    );
    assert_eq!(server.asked().len(), 5);
    // The good reply and the unusable one cost half the price, and five the full price.
    spent(&done, call_cost() + 5.0 * call_cost());
    world.end().await;
}

async fn interrupted_step_is_resumed_by_another_worker_and_paid_once(mut home: Home) {
    let server = provider(&mut home, "openai").await;
    let world = World::elsewhere(home).await;
    put(&world, 3).await;
    let batch = rescore(&world, json!({})).await;
    let refused = |verb: &'static str, times: usize| {
        let server = &server;
        async move {
            eventually(PATIENCE, "it was tried", || async {
                let seen = server.seen().into_iter().filter(|seen| seen == verb);
                (seen.count() > times).then_some(())
            })
            .await;
        }
    };

    // The file exists, the batch doesn't.
    server.fail_requests("POST /v1/batches", 503);
    let first = world.worker();
    refused("POST /v1/batches", 0).await;
    first.drain().await;
    server.clear_failures();
    assert_eq!(server.batches().len(), 0);

    // The batch exists, but the response was lost.
    server.drop_response_to("POST /v1/batches");
    let second = world.worker();
    refused("POST /v1/batches", 1).await;
    second.drain().await;
    assert_eq!(server.batches().len(), 1);

    // The batch id is stored, but the download of its results breaks off.
    let third = world.worker();
    handed_over(&world, &batch, 3).await;
    server.truncate_response_at(900);
    server.finish();
    refused("GET /v1/files/output-batch_0/content", 0).await;
    third.drain().await;

    let mut world = world.restart().await;
    world.work();
    let done = collected(&world, &batch, &server, (3, 1)).await;
    spent(&done, 3.0 * call_cost() / 2.0);
    world.end().await;
}

async fn cancelled_batch_is_cancelled_at_the_provider(home: Home) {
    let (server, world, batch, _) = rescored(home, "anthropic", 2).await;
    world.api.post(&format!("{batch}/cancel")).await.expect(200);
    let ended = |found: &Value| found["economy"]["state"] == "collected";
    let done = until(&world, &batch, "the parts have ended", ended).await;
    assert_eq!(done["state"], "cancelled", "{done:#}");
    assert_eq!(done["counts"]["cancelled"], 2, "{done:#}");
    assert!(server.batches()[0].is_cancelled());
    assert_eq!(server.asked().len(), 0);
    world.end().await;
}

async fn replies_are_collected_in_a_paused_batch_and_no_item_runs(home: Home) {
    let (server, world, batch, _) = rescored(home, "openai", 3).await;
    world.api.post(&format!("{batch}/pause")).await.expect(200);
    let path = format!("{batch}/budget");
    let budget = json!({ "budget_usd": 5 });
    let refused = world.api.post_json(&path, budget).await;
    let problem = refused.expect(422);
    assert_eq!(
        problem["errors"][0]["pointer"], "/budget_usd",
        "{problem:#}"
    );
    let none = json!({ "budget_usd": null });
    let none = world.api.post_json(&path, none).await;
    none.expect(200);
    server.finish();
    let replied = |found: &Value| found["economy"]["replied"] == 3;
    let found = until(&world, &batch, "the replies are here", replied).await;
    assert_eq!(
        (&found["state"], &found["counts"]["queued"]),
        (&json!("paused"), &json!(3))
    );
    // After a resume, no item runs before all replies are collected.
    world.api.post(&format!("{batch}/resume")).await.expect(200);
    let done = completed(&world, &batch).await;
    assert_eq!(done["counts"]["succeeded"], 3, "{done:#}");
    assert_eq!(server.asked().len(), 0);
    world.end().await;
}

async fn large_batch_is_split_into_chunks_and_smaller_ones_on_limits(mut home: Home) {
    let server = provider(&mut home, "openai").await;
    home.set("GAVEL_WORKER_ECONOMY_PART", 4);
    let mut world = World::elsewhere(home).await;
    world.work();
    put(&world, 6).await;
    let batch = rescore(&world, json!({})).await;
    handed_over(&world, &batch, 6).await;
    let sizes = || -> Vec<usize> {
        let batches = server.batches();
        batches.iter().map(|batch| batch.calls.len()).collect()
    };
    assert_eq!(sizes(), [4, 2]);
    server.refuse("token_limit_exceeded");
    server.finish_immediately();
    let done = completed(&world, &batch).await;
    assert_eq!(done["counts"]["succeeded"], 6, "{done:#}");
    // Two chunks were rejected, so a quarter of a chunk is sent.
    assert_eq!(sizes(), [4, 2, 1, 1, 1, 1, 1, 1]);
    assert_eq!(server.asked().len(), 0);
    spent(&done, 6.0 * call_cost() / 2.0);
    world.end().await;
}

async fn unavailable_provider_is_shown_as_the_wait_reason(mut home: Home) {
    let server = provider(&mut home, "openai").await;
    server.fail_requests("", 503);
    let mut world = World::elsewhere(home).await;
    world.work();
    put(&world, 1).await;
    let batch = rescore(&world, json!({})).await;
    let found = waits_for(&world, &batch, "503").await;
    assert_eq!(found["counts"]["queued"], 1, "{found:#}");
    server.finish_immediately();
    server.clear_failures();
    let done = collected(&world, &batch, &server, (1, 1)).await;
    assert_eq!(done["economy"]["waits_for"], Value::Null);
    world.end().await;
}

async fn rejected_chunk_is_replaced_by_single_calls(mut home: Home) {
    let server = provider(&mut home, "anthropic").await;
    server.fail_requests("POST /v1/messages/batches", 400);
    let mut world = World::elsewhere(home).await;
    world.work();
    put(&world, 2).await;
    let batch = rescore(&world, json!({})).await;
    let done = completed(&world, &batch).await;
    assert_eq!(done["counts"]["succeeded"], 2, "{done:#}");
    let part = &done["economy"]["parts"][0];
    assert_eq!(part["state"], "failed", "{done:#}");
    assert!(part["error"].as_str().unwrap().contains("400"), "{part}");
    assert_eq!((server.batches().len(), server.asked().len()), (0, 2));
    spent(&done, 2.0 * call_cost());
    world.end().await;
}

async fn options_incompatible_with_economy_are_rejected(home: Home) {
    let world = World::idle_with(home, Reply::Score(70), "").await;
    for (body, pointer, words) in [
        (json!({}), "/economy", "batch_price_factor"),
        (
            json!({ "priority": "interactive" }),
            "/economy",
            "interactive",
        ),
        (json!({ "budget_usd": 5 }), "/economy", "no budget can stop"),
        (
            json!({ "purpose": "jury", "judges": ["a", "b"] }),
            "/economy",
            "jury",
        ),
    ] {
        let mut body = body;
        body["economy"] = json!(true);
        let answer = world.api.post_json("/api/v1/rescore", body).await;
        let problem = answer.expect(422);
        let fault = &problem["errors"][0];
        assert_eq!(fault["pointer"], pointer, "{problem:#}");
        assert!(
            fault["message"].as_str().unwrap().contains(words),
            "{problem:#}"
        );
    }
    world.end().await;
}
