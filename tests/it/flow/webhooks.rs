//! Webhooks about jobs, batches and judges: signed, retried until accepted, in order.

use std::time::Duration;

use gavel::store::{DeliveryFilter, DeliveryRow};
use gavel::wire::DeliveryState;
use serde_json::{Value, json};

use super::on_every_setup;
use crate::support::client::PATIENCE;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::receiver::{Hook, Receiver};
use crate::support::sessions::session;
use crate::support::wait::{eventually, stays};
use crate::support::world::World;

on_every_setup!(
    job_webhooks_are_signed_ordered_and_retried,
    private_address_is_rejected_and_redirects_not_followed,
    batch_webhook_reports_its_end_once_and_a_dropped_mean,
    judge_closing_and_opening_sends_webhooks,
    no_delivery_is_stored_without_endpoints,
);

async fn world(mut home: Home, endpoints: &[Value], say: Reply) -> World {
    home.set("GAVEL_WEBHOOKS_ENDPOINTS", json!(endpoints));
    home.set("GAVEL_WEBHOOKS_ALLOW_PRIVATE", "true");
    World::start(home, say).await
}

async fn deliveries(world: &World) -> Vec<DeliveryRow> {
    let store = world.app().store();
    let filter = DeliveryFilter::default();
    store
        .webhooks()
        .deliveries(filter, None, 500)
        .await
        .unwrap()
        .items
}

async fn came(receiver: &Receiver, n: usize) -> Vec<Hook> {
    eventually(PATIENCE, "so many requests came", || async {
        let hooks = receiver.hooks();
        (hooks.len() >= n).then_some(hooks)
    })
    .await
}

fn types(hooks: &[Hook]) -> Vec<String> {
    let name = |hook: &Hook| hook.verified()["type"].as_str().unwrap().to_owned();
    hooks.iter().map(name).collect()
}

async fn job_webhooks_are_signed_ordered_and_retried(home: Home) {
    let first = std::sync::atomic::AtomicBool::new(true);
    let receiver =
        Receiver::start(
            move |_| match first.swap(false, std::sync::atomic::Ordering::SeqCst) {
                true => 503,
                false => 204,
            },
        )
        .await;
    let slack = Receiver::start(|_| 200).await;
    let endpoints = [
        receiver.endpoint("ops", &["job.failed", "job.succeeded"], "standard"),
        slack.endpoint("channel", &["job.succeeded"], "slack"),
    ];
    let world = world(home, &endpoints, Reply::Refusal).await;
    let (session_id, job) = world.api.enqueue(session()).await;
    assert_eq!(world.api.ended(job).await["state"], "failed");
    came(&receiver, 1).await;
    // It is scored long before the first retry.
    world.judge.rule(|_| Reply::Score(70));
    world.api.post_job_action(job, "retry").await.expect(202);
    assert_eq!(world.api.ended(job).await["state"], "succeeded");

    let hooks = came(&receiver, 3).await;
    assert_eq!(types(&hooks), ["job.failed", "job.failed", "job.succeeded"]);
    assert_eq!(
        (hooks[0].id(), &hooks[0].body),
        (hooks[1].id(), &hooks[1].body)
    );
    assert_ne!(hooks[1].id(), hooks[2].id());
    let (failed, succeeded) = (hooks[0].verified(), hooks[2].verified());
    assert_eq!(failed["data"]["class"], "refused", "{failed:#}");
    let data = &succeeded["data"];
    assert_eq!(
        (&data["job_id"], &data["session_id"], &data["total_score"]),
        (&json!(job), &json!(session_id), &json!(70)),
        "{data:#}"
    );
    assert_eq!(
        (&data["state"], &data["simulated"]),
        (&json!("succeeded"), &json!(false))
    );
    let at = world.api.job(job).await["times"]["finished_at"].clone();
    let time = |value: &Value| {
        value
            .as_str()
            .unwrap()
            .parse::<chrono::DateTime<chrono::Utc>>()
            .unwrap()
    };
    assert_eq!(time(&succeeded["timestamp"]), time(&at));

    let said = came(&slack, 1).await[0].verified();
    assert_eq!(
        said["text"],
        format!("Job {job} succeeded: session {session_id} has 70 of 100 points.")
    );
    let log = eventually(PATIENCE, "all are delivered", || async {
        let log = deliveries(&world).await;
        let delivered = log.iter().all(|row| row.state == DeliveryState::Delivered);
        delivered.then_some(log)
    })
    .await;
    let attempts: i32 = log.iter().map(|row| row.attempts).sum();
    assert_eq!((log.len(), attempts), (3, 4), "{log:#?}");
    world.end().await;
}

async fn private_address_is_rejected_and_redirects_not_followed(mut home: Home) {
    let (private, redirects) = (
        Receiver::start(|_| 200).await,
        Receiver::start(|_| 307).await,
    );
    let only =
        |receiver: &Receiver| json!([receiver.endpoint("ops", &["job.succeeded"], "standard")]);
    home.set("GAVEL_WEBHOOKS_ENDPOINTS", only(&private));
    let mut world = World::start(home, Reply::Score(70)).await;
    world.api.enqueue(session()).await;
    let tried = async |world: &World, status: Option<i32>| {
        eventually(PATIENCE, "it was tried", || async {
            let row = deliveries(world).await.into_iter().next()?;
            (row.attempts > 0 && row.status == status).then_some(row)
        })
        .await
    };
    let refused = tried(&world, None).await;
    assert!(
        refused
            .error
            .as_deref()
            .unwrap()
            .contains("webhooks.allow_private"),
        "{refused:#?}"
    );
    assert_eq!(refused.state, DeliveryState::Pending);

    // The same endpoint, allowed and at another address: pending deliveries are sent there.
    world.home.set("GAVEL_WEBHOOKS_ENDPOINTS", only(&redirects));
    world.home.set("GAVEL_WEBHOOKS_ALLOW_PRIVATE", "true");
    world = world.restart().await;
    world.work();
    let redirected = tried(&world, Some(307)).await;
    assert_eq!(redirected.state, DeliveryState::Pending);
    assert_eq!(redirected.delivery_id, refused.delivery_id);
    assert!(private.hooks().is_empty());
    assert!(redirects.hooks().iter().all(|hook| hook.path == "/hook"));
    world.end().await;
}

/// Cases with generated SQL that is either equal to the expected SQL or needs a judge.
fn suite(generated: &str) -> Value {
    let item = |id: &str| json!({"id": id, "generated_sql": generated, "expected_sql": "SELECT name FROM users"});
    json!({"kind": "sql_metrics", "name": "nightly", "items": [item("a"), item("b")]})
}

async fn batch_webhook_reports_its_end_once_and_a_dropped_mean(home: Home) {
    let receiver = Receiver::start(|_| 200).await;
    let all = [
        "batch.mean_dropped",
        "batch.completed",
        "job.succeeded",
        "job.failed",
    ];
    let world = world(
        home,
        &[receiver.endpoint("ops", &all, "standard")],
        Reply::Content(json!({"reasoning": "Half of it.", "label": "partial"}).to_string()),
    )
    .await;
    let (good, bad) = ("SELECT name FROM users", "SELECT id FROM orders");
    let mut told = Vec::new();
    for (n, (generated, commit)) in [
        (good, ""),
        (bad, " main@0f3c2a9b"),
        (good, ""),
        (bad, ""),
        (bad, ""),
        (good, " dev@0f3c2a9b"),
        (bad, " dev@4e5f6071"),
    ]
    .iter()
    .enumerate()
    {
        let mut body = suite(generated);
        body["name"] = json!(format!("nightly{commit}"));
        let made = world
            .api
            .post_json("/api/v1/batches", body)
            .await
            .expect(202);
        let hooks = eventually(PATIENCE, "the batch is told", || async {
            let hooks = receiver.hooks();
            let completed = types(&hooks)
                .iter()
                .filter(|name| *name == "batch.completed")
                .count();
            let settled = deliveries(&world)
                .await
                .iter()
                .all(|row| row.state == DeliveryState::Delivered);
            (completed == n + 1 && settled).then_some(hooks)
        })
        .await;
        let completed = hooks
            .iter()
            .map(Hook::verified)
            .rfind(|hook| hook["type"] == "batch.completed")
            .unwrap();
        assert_eq!(
            (&completed["data"]["batch_id"], &completed["data"]["items"]),
            (&made["batch_id"], &json!(2))
        );
        told.push(made["batch_id"].clone());
    }
    let dropped: Vec<Value> = receiver
        .hooks()
        .iter()
        .map(Hook::verified)
        .filter(|hook| hook["type"] == "batch.mean_dropped")
        .collect();
    // A branch has another name, and an equally bad run isn't reported again.
    let about: Vec<&Value> = dropped
        .iter()
        .map(|hook| &hook["data"]["batch_id"])
        .collect();
    assert_eq!(about, [&told[3], &told[6]], "{dropped:#?}");
    let data = &dropped[0]["data"];
    assert_eq!(data["batch_before"], told[2]);
    assert_eq!(
        (&data["mean"], &data["mean_before"]),
        (&json!(0.5), &json!(1.0))
    );
    // Items of a batch cause no webhooks.
    assert_eq!(receiver.hooks().len(), 9);
    world.end().await;
}

async fn judge_closing_and_opening_sends_webhooks(mut home: Home) {
    home.set("GAVEL_JUDGE_MAX_RETRIES", "0");
    home.set("GAVEL_JUDGE_BREAKER_FAILURES", "1");
    home.set("GAVEL_JUDGE_BREAKER_COOLDOWN_S", "5.0");
    home.set("GAVEL_JUDGE_MAX_SLOT_WAIT_S", "0");
    let receiver = Receiver::start(|_| 200).await;
    let endpoint = receiver.endpoint("ops", &["judge.closed", "judge.opened"], "standard");
    let world = world(home, &[endpoint], Reply::Status(500)).await;
    let (_, job) = world.api.enqueue(session()).await;
    assert_eq!(world.api.ended(job).await["state"], "failed");
    // It waits for the breaker, and is the successful probe.
    world.api.enqueue(session()).await;
    let closed = came(&receiver, 1).await[0].verified();
    assert_eq!(
        (&closed["type"], &closed["data"]["reason"]),
        (&json!("judge.closed"), &json!("breaker_open")),
        "{closed:#}"
    );
    world.judge.rule(|_| Reply::Score(70));
    let hooks = came(&receiver, 2).await;
    assert_eq!(types(&hooks), ["judge.closed", "judge.opened"]);
    assert_eq!(
        hooks[1].verified()["data"]["judge"],
        closed["data"]["judge"]
    );
    world.end().await;
}

async fn no_delivery_is_stored_without_endpoints(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let (_, job) = world.api.enqueue(session()).await;
    world.api.ended(job).await;
    // A later endpoint gets no earlier events.
    let receiver = Receiver::start(|_| 200).await;
    let new =
        serde_json::from_value(receiver.endpoint("late", &["job.succeeded"], "standard")).unwrap();
    let store = world.app().store();
    store
        .webhooks()
        .add(&new, "ann", chrono::Utc::now())
        .await
        .unwrap()
        .unwrap();
    assert!(
        store
            .webhooks()
            .add(&new, "ann", chrono::Utc::now())
            .await
            .unwrap()
            .is_none()
    );
    stays(
        Duration::from_millis(1_500),
        "nothing is delivered",
        || async { deliveries(&world).await.is_empty() },
    )
    .await;
    world.end().await;
}
