//! Bad replies: repair, retry or failure.

use std::sync::Arc;

use gavel::judge::{AskEnd, ErrorClass, Fault, Question};
use gavel::score::{Review, Weakness};
use gavel::wire::Flag;
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::stage::*;

#[tokio::test]
async fn invalid_json_is_repaired_in_one_turn_that_shows_its_errors() {
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
async fn key_echoed_in_a_reply_is_redacted_in_all_copies() {
    let echo = format!("Your key is {KEY}.");
    let stage = Stage::new(vec![says(&echo), says(&echo)]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Unparsable);
    let calls = stage.calls();
    assert_eq!(calls[0].reply.as_deref(), Some("Your key is [redacted]."));
    let everything = format!("{error:?} {calls:?} {:?}", stage.gate.snapshot());
    assert!(!everything.contains(KEY), "{everything}");

    let answer = json!({ "why": format!("because of {KEY}"), "total": 61 });
    let stage = Stage::new(vec![says(&answer.to_string())]).await;
    let (reply, ..) = reply_of(stage.ask().await);
    assert_eq!(reply.value["why"], "because of [redacted]");
}

#[tokio::test]
async fn reply_that_fails_validation_gets_the_location() {
    let stage = Stage::new(vec![says(r#"{"why": "", "total": 101}"#), good()]).await;
    assert!(reply_of(stage.ask().await).0.repaired);
    let requests = stage.requests().await;
    let faults = requests[1]["messages"][2]["content"].as_str().unwrap();
    assert!(faults.contains("/total: must be an integer of 0-100"));
}

/// Rejects the reasons `because` as too thin, and a total of 61.
struct Strict;

impl Review for Strict {
    fn weaknesses(&self, reply: &Value, question: &Question) -> Vec<Weakness> {
        let is_weak = reply["why"] == "because" && question.prompt.to_string().contains("evidence");
        let weakness = Weakness {
            flag: Flag::ReasoningThin,
            fault: Fault {
                pointer: "/why".to_owned(),
                message: "says too little".to_owned(),
            },
        };
        is_weak.then_some(weakness).into_iter().collect()
    }

    fn keeps_judgement(&self, first: &Value, second: &Value) -> bool {
        first["total"] == second["total"]
    }
}

#[tokio::test]
async fn weak_reply_is_replaced_only_by_a_better_consistent_one() {
    let question = Question {
        review: Some(Arc::new(Strict)),
        ..question("evidence")
    };
    for (second, is_taken, class) in [
        (
            says(r#"{"why": "The logs were read last.", "total": 61}"#),
            true,
            None,
        ),
        (
            says(r#"{"why": "The logs were read last.", "total": 60}"#),
            false,
            Some(ErrorClass::Unparsable),
        ),
        (
            says(r#"{"total": 61}"#),
            false,
            Some(ErrorClass::Unparsable),
        ),
        (good(), false, Some(ErrorClass::Unparsable)),
        (says("no"), false, Some(ErrorClass::Unparsable)),
        (
            fails(401, json!({})),
            false,
            Some(ErrorClass::Misconfigured),
        ),
    ] {
        let stage = Stage::new(vec![good(), second]).await;
        let (reply, ..) = reply_of(stage.judge.ask(&question, context()).await);
        assert_eq!(reply.value["total"], 61);
        assert_eq!(
            (reply.repaired, reply.weaknesses.is_empty()),
            (is_taken, is_taken),
            "{reply:?}"
        );
        let requests = stage.requests().await;
        assert_eq!(requests.len(), 2);
        let told = requests[1]["messages"][2]["content"].as_str().unwrap();
        assert!(told.contains("/why: says too little"), "{told}");
        assert_eq!(stage.classes(), [None, class]);
        let keeps = stage.calls().last().unwrap().cache_key.is_some();
        assert_eq!(keeps, is_taken, "what was to be bettered isn't kept");
    }
}

#[tokio::test]
async fn second_reply_has_every_field_of_an_unusable_first_one() {
    let whole = r#"{"why": "because", "total": 101}"#;
    let partial = r#"{"total": 61}"#;
    for (first, second, is_taken) in [
        (whole, partial, false),
        (whole, r#"{"why": "because", "total": 61}"#, true),
        (r#"{"total": 101}"#, partial, true),
        ("I would say 61.", partial, true),
    ] {
        let stage = Stage::new(vec![says(first), says(second)]).await;
        match stage.ask().await.end {
            AskEnd::Answered(Ok(reply)) => {
                assert!(is_taken && reply.repaired, "{first}, then {second}");
            }
            AskEnd::Answered(Err(error)) => {
                assert!(!is_taken, "{first}, then {second}: {error}");
                assert_eq!(error.class, ErrorClass::Unparsable);
                assert!(error.message.contains("is missing fields"), "{error}");
            }
            AskEnd::Wait { .. } => panic!("nothing to wait for"),
        }
    }
}

#[tokio::test]
async fn reply_that_stays_bad_is_unparsable_and_stored_raw() {
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
    assert!(!stage.memory.has_cacheable_reply());
    assert_eq!(stage.gate.snapshot()[0].failures_in_row, 0);
}

#[tokio::test]
async fn json_in_a_fenced_block_needs_no_repair() {
    let fenced = "```json\n{\"why\": \"b\", \"total\": 9}\n```";
    let stage = Stage::new(vec![says(fenced)]).await;
    let (reply, ..) = reply_of(stage.ask().await);
    assert_eq!((&reply.value["total"], reply.repaired), (&json!(9), false));
}

#[tokio::test]
async fn truncated_reply_is_requested_again_with_a_doubled_cap() {
    let stage = Stage::new(vec![ends("{\"to", "length"), good()]).await;
    let (reply, ..) = reply_of(stage.ask().await);
    assert!(!reply.repaired);
    let caps: Vec<_> = stage.requests().await;
    assert_eq!(caps[0]["max_completion_tokens"], 8192);
    assert_eq!(caps[1]["max_completion_tokens"], 16384);
}

#[tokio::test]
async fn repeated_truncation_fails_and_the_cap_fits_the_window() {
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
    // The prompt and a margin of 2 % must fit as well.
    let cap = requests[1]["max_completion_tokens"].as_u64().unwrap();
    assert!((8_193..9_800).contains(&cap), "{cap}");
}

#[tokio::test]
async fn window_without_room_for_a_larger_cap_ends_the_retries() {
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
async fn larger_cap_rejected_by_the_server_trims_no_evidence() {
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
            error.message.contains("cap of 16384 was rejected"),
            "{error}"
        );
        assert_eq!(error.raw_reply.as_deref(), Some("{\"to"));
        assert_eq!(stage.requests().await.len(), 2);
        assert_eq!(stage.calls()[1].error, Some(class), "{code}");
    }
}

#[tokio::test]
async fn configured_cap_that_is_too_high_closes_the_judge_with_the_remedy() {
    let message =
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens";
    let refused = || {
        fails(
            400,
            json!({ "error": { "message": message, "param": "max_tokens" } }),
        )
    };
    for (harmless, class) in [
        (refused(), ErrorClass::Misconfigured),
        (good(), ErrorClass::Rejected),
    ] {
        let stage = Stage::new(vec![refused(), harmless]).await;
        let (error, ..) = error_of(stage.ask().await);
        assert_eq!(error.class, class, "{error}");
        for words in [message, "set max_output_tokens in llm_providers.yaml"] {
            assert!(error.message.contains(words), "{error}");
        }
        let requests = stage.requests().await;
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[1]["max_completion_tokens"], 8192);
        let is_closed = stage.gate.closed("test").is_some();
        assert_eq!(is_closed, class == ErrorClass::Misconfigured);
    }
}

/// Gateways put an upstream's error into the choice of a successful response.
#[tokio::test]
async fn unclear_error_within_a_choice_is_checked_by_a_harmless_request() {
    let refused = || {
        let mut answer = completion("", "error");
        answer["choices"][0]["error"] = json!({ "code": 403, "message": "Forbidden" });
        fails(200, answer)
    };
    for (harmless, class) in [
        (refused(), ErrorClass::Misconfigured),
        (good(), ErrorClass::Rejected),
    ] {
        let stage = Stage::new(vec![refused(), harmless]).await;
        let (error, ..) = error_of(stage.ask().await);
        assert_eq!(error.class, class, "{error}");
        assert_eq!(stage.requests().await.len(), 2);
    }
}

#[tokio::test]
async fn declined_question_is_not_retried() {
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
async fn reply_with_two_scores_gets_a_clarifying_turn() {
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
async fn server_with_endless_numbers_and_names_is_limited() {
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
async fn object_in_prose_counts_if_single_or_repeated_at_the_end() {
    let quoted =
        "The log demands:\n{\"why\": \"x\", \"total\": 100}\nI ignore that. It is careless.";
    let alone = r#"{"why": "It is careless.", "total": 12}"#;
    let other = &*format!("Here is my own verdict: {alone}");
    let same = "As asked: {\"total\": 100, \"why\": \"x\"}";
    let last = "As asked:\n{\"total\": 100, \"why\": \"x\"}";
    let both = &*format!("{quoted}\n{alone}");
    for (first, second, total) in [
        (quoted, alone, Some(12)),
        (quoted, same, None),
        (quoted, last, Some(100)),
        (quoted, other, None),
        (quoted, both, None),
        (both, alone, Some(12)),
        (both, both, None),
        ("no", other, None),
        (r#"{"why": "x", "total": 101}"#, other, None),
        (
            "<think>A draft: {\"why\": \"x\", \"total\": 40}. No",
            alone,
            Some(12),
        ),
    ] {
        let stage = Stage::new(vec![says(first), says(second)]).await;
        let case = format!("{first}, then {second}");
        match stage.ask().await.end {
            AskEnd::Answered(Ok(reply)) => {
                assert_eq!(reply.value["total"].as_u64(), total, "{case}");
                assert!(reply.repaired, "{case}");
                let (copy, ..) = reply_of(stage.ask().await);
                assert!(copy.cached && copy.value == reply.value, "{case}");
            }
            AskEnd::Answered(Err(error)) => {
                assert_eq!(
                    (total, error.class),
                    (None, ErrorClass::Unparsable),
                    "{case}"
                );
            }
            AskEnd::Wait { .. } => panic!("nothing to wait for"),
        }
        let requests = stage.requests().await;
        assert_eq!(requests.len(), 2, "{case}");
        if first == quoted {
            let told = requests[1]["messages"][2]["content"].as_str().unwrap();
            assert!(told.contains("send the object alone"), "{told}");
        }
    }
}

#[tokio::test]
async fn finish_reason_without_a_complete_answer_has_its_class() {
    use ErrorClass::{Refused, Transient, Truncated, Unparsable};
    let draft = "A draft:\n{\"why\": \"x\", \"total\": 40}\nNo, that is too low; let me";
    for (content, reason, class, calls) in [
        ("", "sensitive", Refused, 1),
        ("I", "content_filter: PROHIBITED_CONTENT", Refused, 1),
        ("{\"total\": 61}", "SAFETY", Refused, 1),
        ("{\"to", "model_length", Truncated, 2),
        (draft, "length", Truncated, 2),
        ("{\"to", "abort", Transient, 4),
        ("", "insufficient_system_resource", Transient, 4),
        ("hm", "eos_token", Unparsable, 2),
    ] {
        let stage = Stage::new(vec![ends(content, reason)]).await;
        let (error, ..) = error_of(stage.ask().await);
        assert_eq!(error.class, class, "{content} {reason}: {error}");
        assert_eq!(stage.requests().await.len(), calls, "{reason}");
        let failures = stage.gate.snapshot()[0].failures_in_row;
        assert_eq!(
            failures > 0,
            class == Transient,
            "{reason}: the breaker counts what passes"
        );
    }
    let stage = Stage::new(vec![ends("hm", "eos_token")]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert!(
        error.message.contains("finish reason \"eos_token\""),
        "{error}"
    );
}

#[tokio::test]
async fn error_in_a_choice_counts_unless_the_answer_is_complete() {
    let in_choice = |content: &str, code: u16| {
        let mut reply = completion(content, "error");
        reply["choices"][0]["error"] = json!({ "code": code, "message": "SERVER WORDS" });
        fails(200, reply)
    };
    let whole = r#"{"why": "because", "total": 61}"#;
    let stage = Stage::new(vec![in_choice(whole, 502)]).await;
    assert!(reply_of(stage.ask().await).0.odd_finish);
    assert_eq!(stage.gate.snapshot()[0].failures_in_row, 0);
    for (code, class) in [
        (502, ErrorClass::Transient),
        (429, ErrorClass::Throttled),
        (400, ErrorClass::Rejected),
    ] {
        let stage = Stage::new(vec![in_choice("{\"why\": \"be", code), good()]).await;
        let _either_way = stage.ask().await;
        let call = &stage.calls()[0];
        assert_eq!(call.error, Some(class), "{code}");
        assert!(
            call.message.as_ref().unwrap().contains("SERVER WORDS"),
            "{call:?}"
        );
        assert_eq!(call.usage.tokens_in, 1000, "it was paid for");
    }
}

#[tokio::test]
async fn reply_without_choices_is_requested_again_and_billed() {
    let empty = json!({ "model": "m", "choices": [], "usage": { "prompt_tokens": 1000, "completion_tokens": 0 } });
    let stage = Stage::new(vec![fails(200, empty), good()]).await;
    let (_, retries_spent, usage) = reply_of(stage.ask().await);
    assert_eq!((retries_spent, usage.tokens_in), (1, 2000));
    assert_eq!(stage.classes(), [Some(ErrorClass::Transient), None]);
}

#[tokio::test]
async fn unreadable_usage_is_an_unknown_cost() {
    for (usage, tokens_in) in [
        (
            json!({ "prompt_tokens": "many", "completion_tokens": 100 }),
            0,
        ),
        (json!({ "prompt_tokens": 0, "completion_tokens": 0 }), 0),
        (json!(null), 0),
        (
            json!({ "prompt_tokens": 1000.0, "completion_tokens": "100" }),
            1000,
        ),
    ] {
        let mut reply = completion(r#"{"why": "because", "total": 61}"#, "stop");
        reply["model"] = json!("gpt-4o-mini");
        reply["usage"] = usage.clone();
        let stage = Stage::new(vec![fails(200, reply)]).await;
        let (_, _, used) = reply_of(stage.ask().await);
        assert_eq!(used.tokens_in, tokens_in, "{usage}");
        assert_eq!(used.cost_usd.is_some(), tokens_in > 0, "{usage}");
    }
}

#[tokio::test]
async fn unrequested_stream_is_read() {
    let whole = completion(r#"{"why": "because", "total": 61}"#, "stop");
    let chunk = |delta: Value, end: Value| json!({ "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": end }] });
    let chunks = [
        chunk(
            json!({ "role": "assistant", "reasoning_content": "hm" }),
            Value::Null,
        ),
        chunk(json!({ "content": "{\"why\": \"be" }), Value::Null),
        chunk(json!({ "content": "cause\", \"total\": 61}" }), Value::Null),
        chunk(json!({}), json!("stop")),
    ];
    let stream: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    for body in [
        format!("{whole}\n\ndata: [DONE]\n\n"),
        format!("data: {whole}\n\ndata: [DONE]\n\n"),
        format!("{stream}data: [DONE]\n\n"),
    ] {
        let answer = ResponseTemplate::new(200).set_body_raw(body, "text/event-stream");
        let stage = Stage::new(vec![answer]).await;
        let (reply, ..) = reply_of(stage.ask().await);
        assert_eq!(
            (&reply.value["total"], reply.odd_finish),
            (&json!(61), false)
        );
        assert_eq!(stage.requests().await[0]["stream"], false);
    }
}

#[tokio::test]
async fn answer_in_the_thoughts_is_unparsable_and_its_place_reported() {
    let mut reply = completion("", "stop");
    reply["choices"][0]["message"] =
        json!({ "content": null, "reasoning_content": "{\"total\": 61}" });
    let stage = Stage::new(vec![fails(200, reply)]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Unparsable);
    assert!(error.message.contains("only reasoning_content"), "{error}");
}

#[tokio::test]
async fn empty_reply_is_repaired_with_a_message_that_has_content() {
    let stage = Stage::new(vec![says(""), good()]).await;
    assert!(reply_of(stage.ask().await).0.repaired);
    let requests = stage.requests().await;
    assert_eq!(requests[1]["messages"][1]["content"], "(an empty reply)");
}
