//! Judge replies: repaired once, stored raw if unusable, and cached if usable.

use serde_json::json;

use super::on_every_setup;
use crate::support::home::Home;
use crate::support::judge_server::{Reply, good_reply};
use crate::support::sessions::{session, session_about};
use crate::support::world::World;

on_every_setup!(
    reply_that_is_not_json_gets_one_repair_turn_then_fails,
    score_of_a_repaired_reply_is_marked,
    total_out_of_range_is_repaired,
    wrong_sum_is_stored_with_a_flag_after_one_repair_turn,
    repair_turn_cannot_worsen_a_score,
    equal_evidence_makes_one_call,
    every_call_is_logged_with_its_cost,
);

const PROSE: &str = "I'd give this one about seventy points.";

async fn reply_that_is_not_json_gets_one_repair_turn_then_fails(home: Home) {
    let world = World::start(home, Reply::Content(PROSE.to_owned())).await;
    let (id, job) = world.api.enqueue(session()).await;
    let ended = world.api.ended(job).await;
    assert_eq!(ended["error"]["class"], "unparsable", "{ended:#}");
    assert!(
        !ended["error"]["message"]
            .as_str()
            .unwrap()
            .contains("seventy"),
        "{ended:#}"
    );
    let calls = world.judge.calls();
    assert_eq!(calls.len(), 2);
    let repair = calls[1].prompt();
    assert!(
        repair.contains(PROSE),
        "the repair turn shows the model its own reply"
    );
    assert!(repair.contains("JSON"), "{repair}");

    let shown = world
        .api
        .get(&format!("/api/v1/jobs/{job}?calls=true"))
        .await
        .expect(200);
    let raw: Vec<_> = shown["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["reply"])
        .collect();
    assert_eq!(raw, [PROSE, PROSE], "the raw replies are kept: {shown:#}");
    // Pages link to the raw replies, as the remedy claims.
    let page = |path: String| {
        let url = format!("{}{path}", world.api.base());
        async { reqwest::get(url).await.unwrap().text().await.unwrap() }
    };
    let standing = page(format!("/sessions/{id}")).await;
    let calls = format!("/jobs/{job}/calls");
    assert!(
        standing.contains("Read the raw reply") && standing.contains(&calls),
        "{standing}"
    );
    let told = page(calls).await;
    assert_eq!(told.matches("seventy points.").count(), 2, "{told}");
    assert!(told.contains(&format!("href=\"/sessions/{id}\"")), "{told}");
    world.api.score(id).await.expect(404);
    world.end().await;
}

async fn score_of_a_repaired_reply_is_marked(home: Home) {
    let world = World::start(home, Reply::Score(61)).await;
    world
        .judge
        .reply_in_order(vec![Reply::Content(PROSE.to_owned())], Reply::Score(61));
    let (id, job) = world.api.enqueue(session()).await;
    let score = world.api.scored(id).await;
    assert_eq!(score["total_score"], 61);
    assert_eq!(score["flags"], json!(["reply_repaired"]));
    // Both calls are billed.
    assert_eq!(world.api.ended(job).await["usage"]["tokens_in"], 2_000);
    world.end().await;
}

async fn total_out_of_range_is_repaired(home: Home) {
    let world = World::start(home, Reply::Score(70)).await;
    let mut wrong = good_reply(70, &json!(null));
    wrong["total_score"] = json!(700);
    world
        .judge
        .reply_in_order(vec![Reply::Content(wrong.to_string())], Reply::Score(70));
    let (id, _) = world.api.enqueue(session()).await;
    assert_eq!(world.api.scored(id).await["total_score"], 70);
    let repair = world.judge.calls()[1].prompt();
    assert!(
        repair.contains("total_score"),
        "the errors are shown: {repair}"
    );
    world.end().await;
}

/// Parts that add up to `3 * each + 19`.
fn points(each: u32) -> serde_json::Value {
    json!({ "logical_flow": each, "consistency": each, "tool_relevance": each, "synthesis_quality": 19 })
}

async fn wrong_sum_is_stored_with_a_flag_after_one_repair_turn(home: Home) {
    let mut reply = good_reply(67, &json!(null));
    reply["score_breakdown"] = points(20);
    let mut renamed = good_reply(67, &json!(null));
    renamed["score_breakdown"] = json!({ "flow": 40, "rest": 27 });
    let world = World::start(home, Reply::Score(60)).await;
    for (said, about) in [(reply, "a"), (renamed, "b")] {
        world.judge.says(Reply::Content(said.to_string()));
        let before = world.judge.calls().len();
        let (id, _) = world.api.enqueue(session_about(about)).await;
        let score = world.api.scored(id).await;
        assert_eq!(score["total_score"], 67);
        assert_eq!(score["flags"], json!(["total_not_sum"]));
        for (name, points) in said["score_breakdown"].as_object().unwrap() {
            assert_eq!(&score["score_breakdown"][name], points, "{score}");
        }
        assert_eq!(world.judge.calls().len(), before + 2);
    }
    world.end().await;
}

async fn repair_turn_cannot_worsen_a_score(home: Home) {
    let world = World::start(home, Reply::Score(67)).await;
    let mut thin = good_reply(67, &json!(null));
    thin["score_breakdown"] = points(16);
    thin["score_reasoning"] = json!("Too short.");
    world.judge.reply_in_order(
        vec![Reply::Content(thin.to_string())],
        Reply::Content(json!({ "total_score": 10 }).to_string()),
    );
    let (id, _) = world.api.enqueue(session()).await;
    let score = world.api.scored(id).await;
    assert_eq!(score["total_score"], 67);
    assert_eq!(score["flags"], json!(["reasoning_thin"]));
    let parts = score["score_breakdown"].as_object().unwrap();
    assert_eq!(parts.len(), 4, "{score}");
    world.end().await;
}

async fn equal_evidence_makes_one_call(home: Home) {
    let world = World::start(home, Reply::Score(67)).await;
    let (first, _) = world.api.enqueue(session_about("the same pod")).await;
    let first = world.api.scored(first).await;
    world.judge.says(Reply::Score(12));
    let (second, job) = world.api.enqueue(session_about("the same pod")).await;
    let second = world.api.scored(second).await;
    assert_eq!(world.judge.count(), 1);
    assert_eq!(second["total_score"], 67);
    assert_eq!(second["score_reasoning"], first["score_reasoning"]);
    assert_eq!(second["judge"], first["judge"]);
    let job = world.api.ended(job).await;
    assert_eq!(
        job["usage"],
        json!({ "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0 })
    );
    world.end().await;
}

async fn every_call_is_logged_with_its_cost(home: Home) {
    let world = World::start(home, Reply::Score(67)).await;
    world
        .judge
        .reply_in_order(vec![Reply::Status(503)], Reply::Score(67));
    let (_, job) = world.api.enqueue(session()).await;
    world.api.ended(job).await;
    let calls = world
        .app()
        .store()
        .calls()
        .of_job(job.to_string().parse().unwrap())
        .await
        .unwrap();
    let seen: Vec<_> = calls
        .iter()
        .map(|call| (call.status, call.usage.tokens_in))
        .collect();
    assert_eq!(seen, [(Some(503), 0), (Some(200), 1_000)]);
    assert!(calls[0].error.is_some() && calls[1].error.is_none());
    world.end().await;
}
