//! Replies that are no good: repaired, tried once more, or the end.

use std::sync::Arc;

use gavel::judge::{ErrorClass, Fault, Question};
use gavel::score::Weakness;
use gavel::wire::Flag;
use serde_json::json;

use super::stage::*;

#[tokio::test]
async fn a_reply_that_is_no_json_is_repaired_in_one_turn_that_shows_it_and_its_faults() {
    let stage = Stage::new(vec![says("I would say 61."), good()]).await;
    let (reply, retries_spent, usage) = reply_of(stage.ask().await);
    assert!(reply.repaired);
    assert_eq!(retries_spent, 0);
    assert_eq!((usage.tokens_in, usage.tokens_out), (2000, 200));
    assert_eq!(usage.tokens_in_cached, 800);
    assert!(is_about(usage.cost_usd, 2.0 * COST));
    let requests = stage.requests().await;
    let messages = requests[1]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[0], requests[0]["messages"][0]);
    assert_eq!(
        messages[1],
        json!({ "role": "assistant", "content": "I would say 61." })
    );
    assert_eq!(messages[2]["role"], "user");
    let faults = messages[2]["content"].as_str().unwrap();
    assert!(faults.contains("not JSON"), "{faults}");
}

#[tokio::test]
async fn a_reply_that_fails_its_check_is_told_where() {
    let stage = Stage::new(vec![says(r#"{"why": "", "total": 101}"#), good()]).await;
    assert!(reply_of(stage.ask().await).0.repaired);
    let requests = stage.requests().await;
    let faults = requests[1]["messages"][2]["content"].as_str().unwrap();
    assert!(faults.contains("/total: must be an integer of 0-100"));
}

#[tokio::test]
async fn a_weak_reply_gets_one_turn_to_be_better_and_counts_where_nothing_better_comes() {
    const BETTER: &str = r#"{"why": "The logs were read last.", "total": 60}"#;
    let question = Question {
        weakness: Some(|reply, question| {
            (reply["why"] == "because" && question.prompt.to_string().contains("evidence")).then(
                || Weakness {
                    flag: Flag::ReasoningThin,
                    fault: Fault {
                        pointer: "/why".to_owned(),
                        message: "says too little".to_owned(),
                    },
                },
            )
        }),
        ..question("evidence")
    };
    for (second, total, repaired) in [
        (says(BETTER), 60, true),
        (good(), 61, true),
        (says("no"), 61, false),
        (fails(401, json!({})), 61, false),
    ] {
        let stage = Stage::new(vec![good(), second]).await;
        let (reply, ..) = reply_of(stage.judge.ask(&question, context()).await);
        assert_eq!(
            (&reply.value["total"], reply.repaired),
            (&json!(total), repaired)
        );
        assert_eq!(reply.weakness.is_some(), total == 61, "{reply:?}");
        let requests = stage.requests().await;
        assert_eq!(requests.len(), 2);
        let told = requests[1]["messages"][2]["content"].as_str().unwrap();
        assert!(told.contains("/why: says too little"), "{told}");
        let keeps = stage.calls().last().unwrap().cache_key.is_some();
        assert_eq!(keeps, repaired, "what was to be bettered isn't kept");
    }
}

#[tokio::test]
async fn a_reply_that_stays_bad_is_unparsable_and_kept_raw() {
    let stage = Stage::new(vec![says("no"), says("still no")]).await;
    let (error, retries_spent, usage) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Unparsable);
    assert_eq!(error.raw_reply.as_deref(), Some("still no"));
    assert!(!error.message.contains("still no"), "{error}");
    assert_eq!(retries_spent, 0);
    assert!(is_about(usage.cost_usd, 2.0 * COST));
    let calls = stage.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].reply.as_deref(), Some("still no"));
    assert_eq!(calls[1].status, Some(200));
    assert_eq!(calls[1].usage.tokens_in, 1000);
    assert!(!stage.memory.keeps_a_reply());
    assert_eq!(stage.gate.snapshot()[0].failures_in_row, 0);
}

#[tokio::test]
async fn json_in_a_fenced_block_needs_no_repair() {
    let stage = Stage::new(vec![says("Sure:\n```json\n{\"total\": 9}\n```")]).await;
    let (reply, ..) = reply_of(stage.ask().await);
    assert_eq!(
        (reply.value, reply.repaired),
        (json!({ "total": 9 }), false)
    );
}

#[tokio::test]
async fn a_truncated_reply_is_asked_for_once_more_with_twice_the_cap() {
    let stage = Stage::new(vec![ends("{\"to", "length"), good()]).await;
    let (reply, ..) = reply_of(stage.ask().await);
    assert!(!reply.repaired);
    let caps: Vec<_> = stage.requests().await;
    assert_eq!(caps[0]["max_completion_tokens"], 8192);
    assert_eq!(caps[1]["max_completion_tokens"], 16384);
}

#[tokio::test]
async fn a_reply_truncated_twice_fails_and_the_cap_stays_within_the_window() {
    let staging = Staging {
        entry: json!({ "context_window": 10000 }),
        ..Staging::default()
    };
    let stage = Stage::with(staging, vec![ends("{\"to", "length")]).await;
    let (error, _, usage) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Truncated);
    assert_eq!(error.raw_reply.as_deref(), Some("{\"to"));
    assert!(is_about(usage.cost_usd, 2.0 * COST));
    let requests = stage.requests().await;
    assert_eq!(requests.len(), 2);
    // The prompt and the margin of a fiftieth have their place in it too.
    let cap = requests[1]["max_completion_tokens"].as_u64().unwrap();
    assert!((8_193..9_800).contains(&cap), "{cap}");
}

#[tokio::test]
async fn a_window_that_leaves_nothing_for_a_larger_cap_ends_it_there() {
    let staging = Staging {
        entry: json!({ "context_window": 8300 }),
        ..Staging::default()
    };
    let stage = Stage::with(staging, vec![ends("{\"to", "length")]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Truncated);
    assert_eq!(stage.requests().await.len(), 1);
}

#[tokio::test]
async fn a_larger_cap_that_the_server_refuses_costs_the_question_none_of_its_evidence() {
    for (code, message, class) in [
        (
            "context_length_exceeded",
            "This model's maximum context length is 128000 tokens",
            ErrorClass::TooLarge,
        ),
        (
            "invalid_value",
            "max_tokens is too large: 16384. This model supports at most 8192 completion tokens",
            ErrorClass::Rejected,
        ),
    ] {
        let refused = json!({ "error": { "code": code, "message": message } });
        let stage = Stage::new(vec![ends("{\"to", "length"), fails(400, refused), good()]).await;
        let smaller = Question {
            prompt: "half of it".into(),
            ..question("What?")
        };
        let question = Question {
            shrink: Some(Arc::new(move |_, _| Some(smaller.clone()))),
            ..question("What?")
        };
        let (error, ..) = error_of(stage.judge.ask(&question, context()).await);
        assert_eq!(error.class, ErrorClass::Truncated, "{error}");
        assert!(
            error.message.contains("cap of 16384 was refused"),
            "{error}"
        );
        assert_eq!(error.raw_reply.as_deref(), Some("{\"to"));
        assert_eq!(stage.requests().await.len(), 2);
        assert_eq!(stage.calls()[1].error, Some(class), "{code}");
    }
}

#[tokio::test]
async fn a_refusal_is_not_asked_again() {
    let mut declined = completion("", "stop");
    declined["choices"][0]["message"] = json!({ "content": null, "refusal": "I can't help." });
    let filtered = completion("half a", "content_filter");
    let azure = json!({ "error": { "code": "content_filter", "message": "filtered" } });
    for answer in [
        fails(200, declined),
        fails(200, filtered),
        fails(400, azure),
    ] {
        let stage = Stage::new(vec![answer]).await;
        let (error, ..) = error_of(stage.ask().await);
        assert_eq!(error.class, ErrorClass::Refused);
        assert!(!error.message.contains("can't help"), "{error}");
        assert_eq!(stage.calls()[0].reply, error.raw_reply);
        assert_eq!(stage.requests().await.len(), 1);
        assert_eq!(stage.gate.closed("test"), None);
    }
}

#[tokio::test]
async fn a_reply_that_quotes_another_score_beside_its_own_is_asked_which_it_means() {
    let quoting = r#"The session says {"total": 100}. I say {"total": 7}."#;
    let stage = Stage::new(vec![says(quoting), says(r#"{"total": 7}"#)]).await;
    let (reply, ..) = reply_of(stage.ask().await);
    assert_eq!(
        (reply.value["total"].as_u64(), reply.repaired),
        (Some(7), true)
    );
    let requests = stage.requests().await;
    let faults = requests[1]["messages"][2]["content"].as_str().unwrap();
    assert!(faults.contains("more than one JSON object"), "{faults}");
}

#[tokio::test]
async fn a_server_that_counts_and_names_without_end_is_kept_within_bounds() {
    let mut boastful = completion("hm", "stop");
    boastful["model"] = json!("m".repeat(100_000));
    boastful["usage"] = json!({ "prompt_tokens": i64::MAX, "completion_tokens": i64::MAX });
    let stage = Stage::new(vec![fails(200, boastful)]).await;
    let (error, _, usage) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Unparsable);
    assert_eq!(usage.tokens_in, 2_000_000_000);
    assert_eq!(stage.calls()[0].model.len(), 255);
}

#[tokio::test]
async fn an_unknown_stop_reason_is_an_error_that_names_it() {
    let stage = Stage::new(vec![ends("{\"total\": 1}", "tool_calls")]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Rejected);
    assert!(error.message.contains("tool_calls"), "{error}");
}

#[tokio::test]
async fn an_empty_reply_is_repaired_with_a_message_that_has_content() {
    let stage = Stage::new(vec![says(""), good()]).await;
    assert!(reply_of(stage.ask().await).0.repaired);
    let requests = stage.requests().await;
    assert_eq!(requests[1]["messages"][1]["content"], "(an empty reply)");
}
