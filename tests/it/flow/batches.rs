//! Batches from file to end, with workers.

use serde_json::{Value, json};

use super::on_every_setup;
use crate::support::client::PATIENCE;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::wait::eventually;
use crate::support::world::World;

on_every_setup!(
    thousands_of_items_are_accepted_at_once_and_end,
    paused_batch_starts_no_item_and_resumes_in_place,
    failed_items_are_retried_together,
    case_with_unreadable_sql_is_incomplete,
    listeners_receive_events_of_a_batch,
);

/// Number of items of the large batch; `GAVEL_TEST_ITEMS` overrides it.
fn items() -> usize {
    let asked = std::env::var("GAVEL_TEST_ITEMS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

async fn batch(world: &World, body: Value) -> String {
    let made = world
        .api
        .post_json("/api/v1/batches", body)
        .await
        .expect(202);
    made["links"]["self"].as_str().unwrap().to_owned()
}

async fn sessions(world: &World, n: usize) -> String {
    let mut items = Vec::new();
    for _ in 0..n {
        items.push(json!({"session_id": world.api.put(session()).await}));
    }
    batch(world, json!({"kind": "session", "items": items})).await
}

async fn until(world: &World, batch: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(PATIENCE, what, || async {
        let found = world.api.get(batch).await.expect(200);
        is(&found).then_some(found)
    })
    .await
}

async fn completed(world: &World, batch: &str) -> Value {
    until(world, batch, "the batch is completed", |found| {
        found["state"] == "completed"
    })
    .await
}

async fn thousands_of_items_are_accepted_at_once_and_end(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let n = items();
    let items: Value = (0..n)
        .map(|n| json!({"id": format!("q{n}"), "generated_kql": format!("T{n} | take 1"), "expected_kql": format!("T{n} | take 1")}))
        .collect();
    let at = batch(&world, json!({"kind": "query", "items": items})).await;
    let done = completed(&world, &at).await;
    assert_eq!(done["counts"]["total"], n);
    assert_eq!(done["counts"]["succeeded"], n);
    assert_eq!(world.judge.count(), 0);
    world.end().await;
}

async fn paused_batch_starts_no_item_and_resumes_in_place(mut home: Home) {
    home.set("GAVEL_WORKER_CONCURRENCY", "1");
    let world = World::start(home, Reply::held(70)).await;
    let at = sessions(&world, 3).await;
    world.judge.until_in_flight(1).await;
    let paused = world.api.post(&format!("{at}/pause")).await.expect(200);
    assert_eq!(paused["state"], "paused");
    world.judge.release();
    until(&world, &at, "what runs ends", |found| {
        found["counts"]["succeeded"] == 1
    })
    .await;
    // A later job runs in the same slot, but no item of the batch does.
    let (other, _) = world.api.enqueue(session()).await;
    world.api.scored(other).await;
    let still = world.api.get(&at).await.expect(200);
    assert_eq!(
        (&still["state"], &still["counts"]["queued"]),
        (&json!("paused"), &json!(2))
    );
    let jobs = still["links"]["jobs"].as_str().unwrap();
    let jobs = world
        .api
        .get(&format!("{jobs}&state=queued"))
        .await
        .expect(200);
    assert_eq!(jobs["items"][0]["wait"]["reason"], "paused");
    world.api.post(&format!("{at}/resume")).await.expect(200);
    let done = completed(&world, &at).await;
    assert_eq!(done["counts"]["succeeded"], 3);
    assert_eq!(world.judge.count(), 4);
    world.end().await;
}

async fn failed_items_are_retried_together(home: Home) {
    let world = World::start(home, Reply::Status(400)).await;
    let at = sessions(&world, 3).await;
    let done = completed(&world, &at).await;
    assert_eq!(done["counts"]["failed"], 3);
    world.judge.says(Reply::Score(81));
    let mut events = world.api.events("", None).await;
    let again = world
        .api
        .post(&format!("{at}/retry-errors"))
        .await
        .expect(200);
    assert_eq!(again["queued_again"], 3);
    assert_eq!(again["batch"]["state"], "running");
    while events.next().await.event != "batch.resumed" {}
    let done = until(&world, &at, "all are scored", |found| {
        found["state"] == "completed" && found["counts"]["succeeded"] == 3
    })
    .await;
    assert_eq!(done["counts"]["failed"], 0);
    world.end().await;
}

async fn case_with_unreadable_sql_is_incomplete(home: Home) {
    let world = World::start(home, Reply::Status(500)).await;
    let items = json!([
        {"id": "broken", "generated_sql": "SELEC name FORM users", "expected_tables": ["users"]},
        {"id": "right", "generated_sql": "select name from users", "expected_tables": ["users"]},
    ]);
    let made = batch(&world, json!({"kind": "sql_metrics", "items": items})).await;
    let verdict = &completed(&world, &made).await["verdict"];
    assert_eq!(
        (
            &verdict["passed"],
            &verdict["failed"],
            &verdict["incomplete"]
        ),
        (&json!(1), &json!(0), &json!(1)),
        "{verdict:#}"
    );
    assert_eq!(
        (
            &verdict["pass_rate"],
            &verdict["mean"],
            &verdict["coverage"]
        ),
        (&json!(1.0), &json!(1.0), &json!(0.5)),
        "an error is in no mean"
    );
    let listed = world
        .api
        .get(&format!("{made}/items?outcome=unscored"))
        .await
        .expect(200);
    assert_eq!(
        (&listed["items"][0]["name"], &listed["items"][0]["missing"]),
        (&json!("broken"), &json!(["table_accuracy"])),
        "{listed:#}"
    );
    // The report agrees.
    let report = world.api.get(&format!("{made}/report.json")).await;
    let summary = &report.expect(200)["summary"];
    assert_eq!(
        (
            &summary["passed"],
            &summary["incomplete"],
            &summary["pass_rate"]
        ),
        (&json!(1), &json!(1), &json!(1.0))
    );
    world.end().await;
}

async fn listeners_receive_events_of_a_batch(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let types = "?types=batch.created,batch.completed";
    let mut stream = world.api.events(types, None).await;
    assert_eq!(stream.next().await.event, "hello");
    let at = sessions(&world, 1).await;
    for expected in ["batch.created", "batch.completed"] {
        let told = stream.next().await;
        assert_eq!(told.event, expected);
        assert!(at.ends_with(told.data["batch_id"].as_str().unwrap()));
        assert_eq!(told.data["kind"], "session");
    }
    drop(stream);
    world.end().await;
}
