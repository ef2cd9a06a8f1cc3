//! Backlogs from request to end, with workers.

use serde_json::{Value, json};
use uuid::Uuid;

use super::on_every_setup;
use crate::support::client::{PATIENCE, id_of};
use crate::support::home::Home;
use crate::support::judge_server::{Reply, TOKENS_IN, call_cost};
use crate::support::sessions::session;
use crate::support::wait::eventually;
use crate::support::world::World;

on_every_setup!(
    backlog_is_scored_to_its_end_without_duplicates,
    backlog_resumes_after_a_restart,
    exhausted_budget_stops_a_backlog_and_a_larger_one_resumes_it,
    backlog_without_a_session_completes_at_once,
    preview_preserves_scores_and_repeats_call_again,
    dry_run_matches_the_run_and_its_cost,
);

pub(super) async fn ask(world: &World, body: Value) -> crate::support::client::Answer {
    world.api.post_json("/api/v1/rescore", body).await
}

pub(super) async fn rescore(world: &World, body: Value) -> String {
    let made = ask(world, body).await.expect(202);
    assert_eq!(made["origin"], "rescore");
    made["links"]["self"].as_str().unwrap().to_owned()
}

pub(super) async fn put(world: &World, n: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for _ in 0..n {
        ids.push(world.api.put(session()).await);
    }
    ids
}

pub(super) async fn until(
    world: &World,
    batch: &str,
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> Value {
    eventually(PATIENCE, what, || async {
        let found = world.api.get(batch).await.expect(200);
        adds_up(&found);
        is(&found).then_some(found)
    })
    .await
}

fn adds_up(batch: &Value) {
    let counts = &batch["counts"];
    let of = |name: &str| counts[name].as_i64().unwrap();
    let states = [
        "queued",
        "running",
        "waiting",
        "succeeded",
        "failed",
        "cancelled",
    ];
    let sum: i64 = states.iter().map(|state| of(state)).sum();
    assert_eq!(sum, of("total"), "{batch:#}");
    assert_eq!(sum, batch["progress"]["total"], "{batch:#}");
}

pub(super) async fn completed(world: &World, batch: &str) -> Value {
    until(world, batch, "the batch is completed", |found| {
        found["state"] == "completed"
    })
    .await
}

async fn backlog_is_scored_to_its_end_without_duplicates(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    put(&world, 12).await;
    let at = rescore(&world, json!({"name": "spring"})).await;
    let done = completed(&world, &at).await;
    assert_eq!(
        (&done["counts"]["total"], &done["counts"]["succeeded"]),
        (&json!(12), &json!(12))
    );
    assert_eq!(
        (&done["purpose"], &done["progress"]["done"]),
        (&json!("score"), &json!(12))
    );
    assert_eq!(done["tokens"]["in"], 12 * TOKENS_IN);
    let spent = done["spent_usd"].as_f64().unwrap();
    assert!((spent - 12.0 * call_cost()).abs() < 1e-9, "{spent}");
    assert_eq!(world.judge.count(), 12);

    // All scores are current now. `force_rescore` rescores them, except for active sessions.
    let again = completed(&world, &rescore(&world, json!({})).await).await;
    assert_eq!(
        (
            &again["counts"]["total"],
            &again["skipped"]["already_current"]
        ),
        (&json!(0), &json!(12))
    );
    world.judge.says(Reply::held(80));
    let busy = put(&world, 1).await[0];
    world.api.ask(busy).await.expect(202);
    let at = rescore(&world, json!({"force_rescore": true})).await;
    let made = world.api.get(&at).await.expect(200);
    assert_eq!(
        (&made["counts"]["total"], &made["skipped"]["in_progress"]),
        (&json!(12), &json!(1))
    );
    assert_eq!(id_of(&made["in_progress"][0]["session_id"]), busy);
    world.judge.release();
    let done = completed(&world, &at).await;
    assert_eq!(done["counts"]["succeeded"], 12);
    assert_eq!(world.judge.count(), 25);
    world.end().await;
}

async fn backlog_resumes_after_a_restart(home: Home) {
    // More than the first step, which the request itself runs.
    const SESSIONS: usize = 260;
    let world = World::idle(home, Reply::Score(70)).await;
    put(&world, SESSIONS).await;
    let at = rescore(&world, json!({})).await;
    let made = world.api.get(&at).await.expect(200);
    assert_eq!(
        (&made["state"], &made["expanded"]),
        (&json!("expanding"), &json!(false))
    );
    let begun = made["counts"]["total"].as_u64().unwrap();
    assert!(0 < begun && begun < SESSIONS as u64, "{begun}");
    let mut world = world.restart().await;
    let paused = world.api.post(&format!("{at}/pause")).await.expect(200);
    assert_eq!(
        (&paused["state"], &paused["paused"]["by"]),
        (&json!("paused"), &json!("operator"))
    );
    let resumed = world.api.post(&format!("{at}/resume")).await.expect(200);
    assert_eq!(
        (&resumed["state"], &resumed["paused"]),
        (&json!("expanding"), &json!(null))
    );
    world.work();
    let done = completed(&world, &at).await;
    assert_eq!(done["counts"]["succeeded"], SESSIONS);
    assert_eq!(world.judge.count(), SESSIONS, "no session twice");
    world.end().await;
}

async fn exhausted_budget_stops_a_backlog_and_a_larger_one_resumes_it(mut home: Home) {
    home.set("GAVEL_WORKER_CONCURRENCY", "1");
    let world = World::start(home, Reply::Score(70)).await;
    // The fourth call waits for the test, so that the third result is stored before it ends, even on a slow disk.
    world
        .judge
        .reply_in_order(vec![Reply::Score(70); 3], Reply::held(70));
    put(&world, 40).await;
    let mut stream = world.api.events("?types=batch.paused", None).await;
    assert_eq!(stream.next().await.event, "hello");
    let budget = call_cost() * 2.5;
    let at = rescore(&world, json!({"budget_usd": budget})).await;
    until(&world, &at, "its budget is spent", |found| {
        found["state"] == "paused"
    })
    .await;
    world.judge.release();
    let paused = until(&world, &at, "nothing runs", |found| {
        found["counts"]["running"] == 0
    })
    .await;
    assert_eq!(
        (&paused["state"], &paused["paused"]["by"]),
        (&json!("paused"), &json!("budget"))
    );
    // Calls in flight ended and were paid for: at most one, the number of worker slots.
    let asked = world.judge.count();
    assert!((3..=4).contains(&asked), "{asked} calls");
    let spent = paused["spent_usd"].as_f64().unwrap();
    let calls = f64::from(u32::try_from(asked).unwrap());
    assert!((spent - calls * call_cost()).abs() < 1e-9, "{spent}");
    assert_eq!(paused["counts"]["queued"], 40 - asked);
    let told = stream.next().await;
    assert_eq!(
        (told.event.as_str(), &told.data["reason"]),
        ("batch.paused", &json!("budget"))
    );
    let jobs = paused["links"]["jobs"].as_str().unwrap();
    let queued = world
        .api
        .get(&format!("{jobs}&state=queued"))
        .await
        .expect(200);
    assert_eq!(queued["items"][0]["wait"]["reason"], "budget");
    let refused = world.api.post(&format!("{at}/resume")).await.expect(409);
    assert_eq!(refused["type"], "urn:gavel:problem:batch-budget");

    let more = json!({"budget_usd": 1.0});
    let path = format!("{at}/budget");
    let raised = world.api.post_json(&path, more).await.expect(200);
    assert_eq!(
        (&raised["state"], &raised["budget_usd"]),
        (&json!("running"), &json!(1.0))
    );
    let done = completed(&world, &at).await;
    assert_eq!(done["counts"]["succeeded"], 40);
    assert_eq!(
        world.judge.count(),
        40,
        "nothing is lost, and nothing asked twice"
    );
    let spent = done["spent_usd"].as_f64().unwrap();
    assert!((spent - 40.0 * call_cost()).abs() < 1e-9, "{spent}");
    drop(stream);
    world.end().await;
}

async fn backlog_without_a_session_completes_at_once(home: Home) {
    let world = World::idle(home, Reply::Score(70)).await;
    let made = ask(&world, json!({"filter": {"agent": "nobody"}}))
        .await
        .expect(202);
    assert_eq!(
        (&made["state"], &made["counts"]["total"]),
        (&json!("completed"), &json!(0))
    );
    assert_eq!(made["verdict"], json!(null));
    world.end().await;
}

async fn preview_preserves_scores_and_repeats_call_again(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let (session, job) = world.api.enqueue(session()).await;
    world.api.ended(job).await;
    world.judge.says(Reply::Score(20));
    for (body, items) in [
        (json!({"purpose": "preview", "force_rescore": true}), 1),
        (json!({"purpose": "repeat", "repeats": 3}), 3),
        (
            json!({"purpose": "preview", "sample": {"size": 5, "seed": 1}}),
            1,
        ),
    ] {
        let done = completed(&world, &rescore(&world, body.clone()).await).await;
        assert_eq!(done["counts"]["succeeded"], items, "{body}");
        assert_eq!(done["purpose"], body["purpose"]);
    }
    // The last preview used the cached replies of the others.
    assert_eq!(world.judge.count(), 1 + 1 + 3);
    let score = world.api.score(session).await.expect(200);
    assert_eq!(score["total_score"], 70);
    assert_eq!(world.api.history(session).await.len(), 1);
    world.end().await;
}

fn priced_simulator(address: std::net::SocketAddr) -> String {
    format!(
        "\nsimulator:\n  type: openai\n  base_url: http://{address}/v1\n  auth: none\n  model: simulated-judge-v1\n  \
         simulated: true\n  prices:\n    simulated-judge-v1: {{ input_per_mtok: 3.0, output_per_mtok: 15.0, as_of: 2026-01-01, source: a test }}\n"
    )
}

fn long_session(n: usize) -> Value {
    let mut session = session();
    let said =
        "The node reports memory pressure, and the kubelet evicts what it may. ".repeat(n * n);
    session["conversation"][1]["content"] = json!(said);
    session
}

async fn dry_run_matches_the_run_and_its_cost(mut home: Home) {
    use gavel::app::simulated::{SimulatorOptions, bind, serve};
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let simulator = tokio::spawn(serve(listener, SimulatorOptions::default(), stop.clone()));
    home.set("DEFAULT_LLM_PROVIDER", "simulator");
    let mut world = World::idle_with(home, Reply::Score(70), &priced_simulator(address)).await;
    for n in 0..20 {
        world.api.put(long_session(n)).await;
    }
    world.work();
    // Once without a history, and once with one.
    for force in [false, true] {
        let body = json!({"force_rescore": force, "max": 15});
        let mut dry = body.clone();
        dry["dry_run"] = json!(true);
        let plan = ask(&world, dry).await.expect(200);
        let listed = world.api.get("/api/v1/batches").await.expect(200);
        assert_eq!(
            listed["items"].as_array().unwrap().len(),
            usize::from(force),
            "nothing is stored"
        );
        let done = completed(&world, &rescore(&world, body).await).await;
        assert_eq!(plan["to_score"], done["counts"]["succeeded"], "{plan:#}");
        assert_eq!(
            (&plan["matching"], &plan["skipped"]["beyond_max"]),
            (&json!(20), &json!(5))
        );
        let (cost, spent) = (&plan["cost_usd"], done["spent_usd"].as_f64().unwrap());
        let expected = cost["expected"].as_f64().unwrap();
        assert!(
            (expected - spent).abs() <= 0.2 * spent,
            "{expected} of {spent}: {plan:#}"
        );
        let (low, high) = (
            cost["low"].as_f64().unwrap(),
            cost["high"].as_f64().unwrap(),
        );
        assert!(low <= expected && expected <= high, "{plan:#}");
        let pace = if force {
            json!("last 10 minutes")
        } else {
            json!(null)
        };
        assert_eq!(plan["pace"]["of"], pace, "{plan:#}");
        let history = plan["estimate"]["history_jobs"].as_u64().unwrap();
        assert_eq!(history > 0, force, "{plan:#}");
        assert!(plan["warnings"][0].as_str().unwrap().contains("simulated"));
    }
    world.end().await;
    stop.cancel();
    simulator.await.unwrap().unwrap();
}
