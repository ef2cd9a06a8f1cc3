//! Retries, breaker, throttling and waits.

use std::time::Duration;

use gavel::judge::gate::{BreakerState, GateOptions, HeldBack};
use gavel::judge::{AskContext, ErrorClass};
use serde_json::json;
use wiremock::ResponseTemplate;

use super::stage::*;

pub(super) fn down() -> ResponseTemplate {
    fails(500, json!({ "error": { "message": "boom" } }))
}

#[tokio::test]
async fn two_500s_then_a_good_reply_use_two_retries() {
    let stage = Stage::new(vec![down(), down(), good()]).await;
    let (reply, retries_spent, usage) = reply_of(stage.ask().await);
    assert_eq!(reply.value["total"], 61);
    assert_eq!(reply.provider, "test");
    assert_eq!(reply.model, "gpt-4o-mini-2024-07-18");
    assert!(!reply.simulated && !reply.repaired && !reply.cached);
    assert_eq!(retries_spent, 2);
    assert!(is_about(usage.cost_usd, COST));
    let transient = Some(ErrorClass::Transient);
    assert_eq!(stage.classes(), [transient, transient, None]);
    assert_eq!(stage.calls()[0].status, Some(500));
    assert_eq!(stage.gate.snapshot()[0].failures_in_row, 0);
}

#[tokio::test]
async fn question_fails_as_transient_after_four_failed_calls() {
    let stage = Stage::new(vec![down()]).await;
    let (error, retries_spent, usage) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Transient);
    assert!(error.message.contains("\"test\""), "{error}");
    assert!(error.message.contains("boom"), "{error}");
    assert!(error.message.contains("4 calls"), "{error}");
    assert_eq!(retries_spent, 3);
    assert_eq!(usage.cost_usd, Some(0.0));
    assert_eq!(stage.requests().await.len(), 4);
}

#[tokio::test]
async fn retries_of_earlier_runs_count() {
    let stage = Stage::new(vec![down()]).await;
    let context = AskContext {
        retries_spent: 2,
        ..context()
    };
    let (_, retries_spent, _) = error_of(stage.judge.ask(&question("e"), context).await);
    assert_eq!(retries_spent, 3);
    assert_eq!(stage.requests().await.len(), 2);
}

#[tokio::test]
async fn five_failures_open_the_breaker_and_next_question_waits() {
    let stage = Stage::new(vec![down()]).await;
    error_of(stage.ask().await);
    // The fifth failure in a row is this question's first call; its retry is denied.
    let ((why, _), retries_spent, _) = wait_of(stage.ask().await);
    assert_eq!((why, retries_spent), (HeldBack::BreakerOpen, 1));
    assert_eq!(stage.requests().await.len(), 5);

    let ((why, retry_in), retries_spent, usage) = wait_of(stage.ask().await);
    assert_eq!((why, retries_spent), (HeldBack::BreakerOpen, 0));
    let wait = retry_in.unwrap();
    assert!(wait > Duration::from_secs(20) && wait <= Duration::from_secs(30));
    assert_eq!((usage.tokens_in, usage.cost_usd), (0, Some(0.0)));
    assert_eq!(stage.requests().await.len(), 5);
}

fn short_cool_down() -> Staging {
    Staging {
        gate: GateOptions {
            cool_down: Duration::from_millis(20),
            ..GateOptions::default()
        },
        ..Staging::default()
    }
}

#[tokio::test]
async fn good_probe_closes_the_breaker_after_the_cool_down() {
    let mut answers = vec![down(); 5];
    answers.push(good());
    let stage = Stage::with(short_cool_down(), answers).await;
    error_of(stage.ask().await);
    // Its first call opens the breaker. The question sleeps through the short cool-down, and its retry is the probe.
    let (_, retries_spent, _) = reply_of(stage.ask().await);
    assert_eq!(retries_spent, 1);
    assert_eq!(stage.requests().await.len(), 6);
    assert_eq!(stage.gate.snapshot()[0].breaker, BreakerState::Closed);
}

#[tokio::test]
async fn probe_uses_a_retry_like_any_call() {
    let stage = Stage::with(short_cool_down(), vec![down()]).await;
    error_of(stage.ask().await);
    let (error, retries_spent, _) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Transient);
    assert_eq!(retries_spent, 3);
    assert_eq!(stage.requests().await.len(), 8);
    assert_eq!(stage.gate.snapshot()[0].failures_in_row, 8);
}

#[tokio::test]
async fn short_retry_after_on_a_429_waits_in_the_slot_without_a_retry() {
    let throttled = fails(429, json!({ "error": { "code": "rate_limit_exceeded" } }))
        .insert_header("retry-after", "1");
    let stage = Stage::new(vec![throttled, good()]).await;
    let (_, retries_spent, _) = reply_of(stage.ask().await);
    assert_eq!(retries_spent, 0);
    assert_eq!(stage.classes(), [Some(ErrorClass::Throttled), None]);
    let calls = stage.calls();
    let between = calls[1].at - calls[0].at;
    assert!(between >= chrono::TimeDelta::seconds(1), "{between}");
}

#[tokio::test]
async fn long_retry_after_on_a_429_makes_the_job_wait() {
    let throttled = fails(429, json!({})).insert_header("retry-after", "60");
    let stage = Stage::new(vec![throttled]).await;
    let ((why, retry_in), retries_spent, _) = wait_of(stage.ask().await);
    assert_eq!((why, retries_spent), (HeldBack::Throttled, 0));
    assert_eq!(retry_in, Some(Duration::from_secs(60)));
    assert_eq!(stage.gate.closed("test").unwrap().why, HeldBack::Throttled);
    assert_eq!(stage.gate.snapshot()[0].failures_in_row, 0);
    // The lane is closed: the next question makes no call.
    wait_of(stage.ask().await);
    assert_eq!(stage.requests().await.len(), 1);
}

#[tokio::test]
async fn rate_limit_without_a_delay_closes_the_lane_by_default() {
    let staging = Staging {
        gate: GateOptions {
            throttle_first: Duration::from_secs(40),
            ..GateOptions::default()
        },
        ..Staging::default()
    };
    let stage = Stage::with(staging, vec![fails(429, json!({}))]).await;
    let ((why, retry_in), ..) = wait_of(stage.ask().await);
    assert_eq!(why, HeldBack::Throttled);
    assert!(retry_in.unwrap() > Duration::from_secs(30));
}

#[tokio::test]
async fn long_retry_after_on_a_503_uses_a_retry_and_closes_no_lane() {
    let loading = fails(503, json!({})).insert_header("retry-after", "30");
    let stage = Stage::new(vec![loading]).await;
    let ((_, retry_in), retries_spent, _) = wait_of(stage.ask().await);
    assert_eq!(retry_in, Some(Duration::from_secs(30)));
    assert_eq!(retries_spent, 1);
    assert_eq!(stage.gate.closed("test"), None);
}

#[tokio::test]
async fn exhausted_quota_closes_the_lane_until_an_operator_acts() {
    let body = json!({ "error": { "message": "You exceeded your current quota", "code": "insufficient_quota" } });
    let stage = Stage::new(vec![fails(429, body)]).await;
    let (held, ..) = wait_of(stage.ask().await);
    assert_eq!(held, (HeldBack::Exhausted, None));
    let closures = stage.gate.take_closures();
    assert_eq!(closures[0].why, HeldBack::Exhausted);
    assert!(closures[0].message.contains("current quota"));
    wait_of(stage.ask().await);
    assert_eq!(stage.requests().await.len(), 1);
    stage.gate.open("test");
    stage.ask().await;
    assert_eq!(stage.requests().await.len(), 2);
}

#[tokio::test]
async fn paused_judge_is_not_called() {
    let stage = Stage::new(vec![good()]).await;
    stage.gate.close("test", HeldBack::Paused, None);
    let (held, ..) = wait_of(stage.ask().await);
    assert_eq!(held, (HeldBack::Paused, None));
    assert_eq!(stage.requests().await.len(), 0);
}

#[tokio::test]
async fn dropped_question_frees_its_slot() {
    let slow = good().set_delay(Duration::from_secs(60));
    let stage = Stage::new(vec![slow]).await;
    let dropped = tokio::time::timeout(Duration::from_millis(200), stage.ask()).await;
    assert!(dropped.is_err());
    assert_eq!(stage.gate.snapshot()[0].in_flight, 0);
    assert_eq!(stage.gate.snapshot()[0].failures_in_row, 0);
}
