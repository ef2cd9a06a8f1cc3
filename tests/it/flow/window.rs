//! Sessions larger than the judge's context window: trimmed and flagged, or rejected with both sizes.

use serde_json::{Value, json};

use super::on_every_setup;
use crate::support::home::Home;
use crate::support::judge_server::Reply;
use crate::support::sessions::session;
use crate::support::world::World;

on_every_setup!(
    oversized_session_is_trimmed_and_its_score_flagged,
    judge_that_reports_too_large_gets_one_smaller_request,
    judge_that_reports_too_large_again_fails_the_job,
    criteria_without_trimming_fail_an_oversized_session,
    criteria_without_trimming_send_no_smaller_request,
);

const WINDOW: &str = "  context_window: 32768\n";

fn too_large() -> Reply {
    Reply::StatusWith(400, Vec::new(), "context_length_exceeded")
}

/// About 500 kB in three tool results.
fn large() -> Value {
    let mut session = session();
    let result = "cart-7d9f 0/1 CrashLoopBackOff, last state OOMKilled\n".repeat(3_200);
    for n in 0..3 {
        let message = json!({
            "role": "tool", "tool_name": "kubectl-logs", "content": format!("BEGIN {n}\n{result}END {n}"),
        });
        session["conversation"]
            .as_array_mut()
            .unwrap()
            .push(message);
    }
    session
}

/// Three results that fit into the window.
fn medium() -> Value {
    let mut session = large();
    for message in session["conversation"].as_array_mut().unwrap() {
        let content = message["content"].as_str().unwrap();
        let cut: String = content.chars().take(9_000).collect();
        message["content"] = json!(cut);
    }
    session
}

async fn world(home: Home, say: Reply) -> World {
    let mut world = World::idle_with(home, say, WINDOW).await;
    world.work();
    world
}

async fn never(home: Home, say: Reply) -> World {
    let criteria = home.dir().join("scoring_config.yaml");
    let text = std::fs::read_to_string(&criteria).unwrap();
    let never = text.replace("trim: ${SCORING_TRIM:-auto}", "trim: never");
    assert_ne!(never, text);
    std::fs::write(&criteria, never).unwrap();
    world(home, say).await
}

async fn oversized_session_is_trimmed_and_its_score_flagged(home: Home) {
    let world = world(home, Reply::Score(64)).await;
    let (id, job) = world.api.enqueue(large()).await;
    let score = world.api.scored(id).await;
    assert_eq!(score["flags"], json!(["input_trimmed"]));
    let job = world.api.ended(job).await;
    assert_eq!(job["result"]["flags"], json!(["input_trimmed"]));
    let gone = job["trimmed_tokens"].as_u64().unwrap();
    assert!(gone > 50_000, "{gone}");
    let prompt = world.judge.calls()[0].prompt();
    assert!(prompt.len() < 150_000, "{}", prompt.len());
    for whole in [
        "BEGIN 0",
        "END 2",
        "The pod is out of memory.",
        "- kubectl-get",
        "=== trimmed to fit",
    ] {
        assert!(prompt.contains(whole), "{whole}");
    }
    assert_eq!(world.judge.count(), 1);

    // The flag is stored, and sessions that fit aren't flagged.
    assert_eq!(
        world.api.history(id).await[0]["flags"],
        json!(["input_trimmed"])
    );
    let (id, job) = world.api.enqueue(medium()).await;
    assert_eq!(world.api.scored(id).await["flags"], json!([]));
    assert_eq!(world.api.ended(job).await["trimmed_tokens"], Value::Null);
    world.end().await;
}

async fn judge_that_reports_too_large_gets_one_smaller_request(home: Home) {
    let world = world(home, Reply::Score(64)).await;
    world
        .judge
        .reply_in_order(vec![too_large()], Reply::Score(64));
    let body = medium();
    let (id, job) = world.api.enqueue(body.clone()).await;
    assert_eq!(
        world.api.scored(id).await["flags"],
        json!(["input_trimmed"])
    );
    let job = world.api.ended(job).await;
    assert!(job["trimmed_tokens"].as_u64().unwrap() > 1_000, "{job:#}");
    assert_eq!(job["retries"], 0, "it spends no retry");
    let calls = world.judge.calls();
    assert_eq!(calls.len(), 2);
    let (first, second) = (calls[0].prompt(), calls[1].prompt());
    assert!(!first.contains("=== trimmed"), "it was thought to fit");
    assert!(second.contains("=== trimmed") && second.len() < first.len());

    // The cache is written at shutdown.
    let mut world = world.restart().await;
    world.work();
    // The cache has only the reply to the smaller request: the full session is sent again, and is rejected.
    world
        .judge
        .reply_in_order(vec![too_large()], Reply::Score(1));
    let (again, job) = world.api.enqueue(body).await;
    let score = world.api.scored(again).await;
    assert_eq!(score["total_score"], 64, "the smaller question is known");
    assert_eq!(score["flags"], json!(["input_trimmed"]));
    world.api.ended(job).await;
    assert_eq!(world.judge.count(), 3);
    world.end().await;
}

async fn judge_that_reports_too_large_again_fails_the_job(home: Home) {
    let world = world(home, too_large()).await;
    let (_, job) = world.api.enqueue(medium()).await;
    let job = world.api.ended(job).await;
    assert_eq!(job["error"]["class"], "too_large", "{job:#}");
    let message = job["error"]["message"].as_str().unwrap();
    assert!(message.contains("tokens were omitted"), "{message}");
    assert!(message.contains("context_window of 32768"), "{message}");
    assert_eq!(world.judge.count(), 2);
    world.end().await;
}

async fn criteria_without_trimming_fail_an_oversized_session(home: Home) {
    let world = never(home, Reply::Score(64)).await;
    let (_, job) = world.api.enqueue(large()).await;
    let job = world.api.ended(job).await;
    assert_eq!(job["error"]["class"], "too_large", "{job:#}");
    let message = job["error"]["message"].as_str().unwrap();
    assert!(message.contains("judge.trim: never"), "{message}");
    assert!(message.contains("a context_window of 32768"), "{message}");
    assert!(
        job["error"]["remedy"]
            .as_str()
            .unwrap()
            .contains("judge.trim: auto")
    );
    assert_eq!(world.judge.count(), 0, "nothing is paid for");
    world.end().await;
}

async fn criteria_without_trimming_send_no_smaller_request(home: Home) {
    let world = never(home, too_large()).await;
    let (_, job) = world.api.enqueue(medium()).await;
    let job = world.api.ended(job).await;
    assert_eq!(job["error"]["class"], "too_large", "{job:#}");
    assert_eq!(world.judge.count(), 1);
    world.end().await;
}
