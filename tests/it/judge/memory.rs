//! Cache, questions in flight, and cost.

use std::sync::Arc;
use std::time::Duration;

use gavel::judge::gate::{Gate, GateOptions};
use gavel::judge::{AskContext, AskEnd, AskOutcome, NotConfigured};
use serde_json::{Value, json};
use uuid::Uuid;

use super::stage::*;

#[tokio::test]
async fn equal_questions_in_flight_make_one_call() {
    let slow = good().set_delay(Duration::from_millis(100));
    let stage = Stage::new(vec![slow]).await;
    let question = question("same");
    let (one, two, three) = tokio::join!(
        stage.judge.ask(&question, context()),
        stage.judge.ask(&question, context()),
        stage.judge.ask(&question, context()),
    );
    let replies = [one, two, three].map(reply_of);
    assert_eq!(stage.requests().await.len(), 1);
    let paid: Vec<_> = replies.iter().filter(|(reply, ..)| !reply.cached).collect();
    assert_eq!(paid.len(), 1);
    assert!(is_about(paid[0].2.cost_usd, COST));
    let free = replies.iter().filter(|(reply, ..)| reply.cached);
    for (reply, _, usage) in free {
        assert_eq!(reply.value["total"], 61);
        assert_eq!((usage.tokens_in, usage.cost_usd), (0, Some(0.0)));
    }
}

#[tokio::test]
async fn cached_reply_makes_no_call_and_has_no_cost() {
    let stage = Stage::new(vec![good()]).await;
    reply_of(stage.ask().await);
    let (reply, _, usage) = reply_of(stage.ask().await);
    assert!(reply.cached);
    assert_eq!(reply.model, "gpt-4o-mini-2024-07-18");
    assert_eq!((usage.tokens_in, usage.cost_usd), (0, Some(0.0)));
    assert_eq!(stage.requests().await.len(), 1);
    assert_eq!(stage.calls().len(), 1);
}

#[tokio::test]
async fn other_evidence_criteria_template_or_parameters_differ() {
    let stage = Stage::new(vec![good()]).await;
    let mut others = vec![question("a"), question("b"), question("a"), question("a")];
    others[2].criteria_hash = "other".to_owned();
    others[3].template_hash = "other".to_owned();
    for question in &others {
        assert!(
            !reply_of(stage.judge.ask(question, context()).await)
                .0
                .cached
        );
    }
    let mut prompted = question("a");
    prompted.prompt = "the same under another nonce".to_owned().into();
    assert!(
        reply_of(stage.judge.ask(&prompted, context()).await)
            .0
            .cached
    );
    for parameters in [
        json!({ "temperature": 1 }),
        json!({ "structured": "json_object" }),
        json!({ "max_output_tokens": 100 }),
        json!({ "extra_body": { "seed": 1 } }),
    ] {
        let base_url = format!("{}/v1", stage.server.uri());
        let judges = judges(&base_url, &parameters, &stage.gate, &stage.memory);
        let judge = judges.get("test").unwrap();
        let reply = reply_of(judge.ask(&question("a"), context()).await).0;
        assert!(!reply.cached, "{parameters}");
    }
}

#[tokio::test]
async fn entries_with_other_headers_or_type_share_no_replies() {
    let stage = Stage::new(vec![good()]).await;
    let finds = async |entry: Value| {
        let base_url = format!("{}/v1", stage.server.uri());
        let judges = judges(&base_url, &entry, &stage.gate, &stage.memory);
        let judge = judges.get("test").unwrap();
        let asked = judge.ask(&question("a"), context()).await;
        matches!(asked, AskOutcome { end: AskEnd::Answered(Ok(reply)), .. } if reply.cached)
    };
    let a = json!({ "headers": { "x-route": "a" } });
    assert!(!finds(a.clone()).await);
    assert!(finds(a).await, "an entry finds its own");
    assert!(finds(json!({ "headers": { "X-Route": "a" } })).await);
    for other in [
        json!({}),
        json!({ "headers": { "x-route": "b" } }),
        json!({ "headers": { "x-rout": "ea" } }),
        json!({ "headers": { "x-route": "a", "x-tenant": "a" } }),
    ] {
        assert!(!finds(other.clone()).await, "{other}");
    }
    // Another wire format at the same address is another judge, even if the rest is equal.
    assert!(finds(json!({ "path": "/chat/completions" })).await);
    assert!(!finds(json!({ "type": "anthropic", "path": "/chat/completions" })).await);
}

#[tokio::test]
async fn skipping_the_cache_calls_and_stores_the_reply() {
    let stage = Stage::new(vec![good(), says(r#"{"total": 12}"#)]).await;
    reply_of(stage.ask().await);
    let skip = AskContext {
        skip_cache: true,
        ..context()
    };
    let (reply, ..) = reply_of(stage.judge.ask(&question("evidence"), skip).await);
    assert_eq!(
        (reply.value["total"].as_u64(), reply.cached),
        (Some(12), false)
    );
    let (reply, ..) = reply_of(stage.ask().await);
    assert_eq!(
        (reply.value["total"].as_u64(), reply.cached),
        (Some(12), true)
    );
}

#[tokio::test]
async fn cached_reply_that_no_longer_validates_is_requested_again() {
    let stage = Stage::new(vec![good()]).await;
    reply_of(stage.ask().await);
    for call in stage.memory.calls.lock().unwrap().iter_mut() {
        call.reply = Some(r#"{ "total": 4000 }"#.to_owned());
    }
    assert!(!reply_of(stage.ask().await).0.cached);
}

#[tokio::test]
async fn every_call_is_logged_with_its_usage() {
    let down = fails(502, json!({}));
    let stage = Stage::new(vec![down, says("hm"), good()]).await;
    let asked_for = Uuid::from_u128(7);
    let context = AskContext {
        asked_for,
        ..context()
    };
    let asked = stage.judge.ask(&question("e"), context).await;
    let (_, retries_spent, usage) = reply_of(asked);
    assert_eq!(retries_spent, 1);
    assert_eq!((usage.tokens_in, usage.tokens_out), (2000, 200));
    assert!(is_about(usage.cost_usd, 2.0 * COST));
    let calls = stage.calls();
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!((call.asked_for, call.judge.as_str()), (asked_for, "test"));
    }
    assert_eq!(calls[0].model, "gpt-4o-mini");
    assert_eq!(calls[2].model, "gpt-4o-mini-2024-07-18");
    assert_eq!(calls[1].reply.as_deref(), Some("hm"));
    assert!(is_about(calls[2].usage.cost_usd, COST));
    assert!(calls[0].call_id != calls[1].call_id);
}

#[tokio::test]
async fn model_without_a_price_is_unpriced_and_not_free() {
    let mut other = completion(r#"{"total": 1}"#, "stop");
    other["model"] = json!("some-other-model");
    let mut silent = completion(r#"{"total": 1}"#, "stop");
    silent["usage"] = json!(null);
    for answer in [other, silent] {
        let stage = Stage::new(vec![fails(200, answer)]).await;
        let (_, _, usage) = reply_of(stage.ask().await);
        assert_eq!(usage.cost_usd, None);
        assert_eq!(stage.calls()[0].usage.cost_usd, None);
    }
    let mut unpriced = completion("hm", "stop");
    unpriced["model"] = json!("some-other-model");
    let stage = Stage::new(vec![fails(200, unpriced), good()]).await;
    let (_, _, usage) = reply_of(stage.ask().await);
    assert_eq!((usage.tokens_in, usage.cost_usd), (2000, None));
}

#[tokio::test]
async fn long_reply_is_stored_up_to_64_kib() {
    let stage = Stage::new(vec![says(&"é".repeat(50_000))]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(error.raw_reply.unwrap().len(), 64 * 1024);
    assert_eq!(stage.calls()[0].reply.as_ref().unwrap().len(), 64 * 1024);
}

#[tokio::test]
async fn judges_are_found_by_entry_and_by_any_model() {
    let gate = Arc::new(Gate::new(GateOptions::default()));
    let memory = Arc::new(Memory::default());
    let more = json!({ "models": ["gpt-4o"], "context_window": 5, "max_output_tokens": 3 });
    let judges = judges("http://127.0.0.1:1/v1", &more, &gate, &memory);
    let judge = judges.get("test:gpt-4o").unwrap();
    assert_eq!(judge.name(), "test:gpt-4o");
    assert_eq!(judge.limits().context_window, 5);
    assert_eq!(judge.limits().max_output_tokens, 3);
    assert_eq!(judges.get("test:gpt-9").unwrap().name(), "test:gpt-9");
    assert!(matches!(
        judges.get("other:gpt-4o"),
        Err(NotConfigured::Unknown { .. })
    ));
}
