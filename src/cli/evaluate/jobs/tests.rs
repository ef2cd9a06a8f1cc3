//! Tests of idempotency keys and of items made from jobs, without a service.

use serde_json::Value;

use super::*;
use crate::job::Kind;

fn case(kind: Kind) -> CaseToScore {
    CaseToScore {
        item_no: 3,
        kind,
        id: Some("a".to_owned()),
        payload: json!({"id": "a"}),
        attempt: 0,
    }
}

fn job(change: &Value) -> Job {
    serde_json::from_value(crate::tests::job(change)).unwrap()
}

#[test]
fn idempotency_key_differs_per_attempt_and_request() {
    let asking = |payload: i32| JobRequest::new(Kind::Query, json!(payload));
    let body = asking(1);
    let first = key("run", &case(Kind::Query), &body);
    assert_eq!(first, key("run", &case(Kind::Query), &body));
    let mut again = case(Kind::Query);
    again.attempt = 1;
    for other in [
        key("run", &again, &body),
        key("other", &case(Kind::Query), &body),
        key("run", &case(Kind::Query), &asking(2)),
    ] {
        assert_ne!(first, other);
    }
    assert!(first.len() < 100, "{first}");
}

#[test]
fn item_reads_the_result_fields_of_its_kind() {
    for (kind, result, expected) in [
        (
            Kind::Query,
            json!({"total_score": 0.95, "is_successful": true}),
            (Some(0.95), Some(true)),
        ),
        (
            Kind::Qas,
            json!({"final_score": 0.4, "passed": false}),
            (Some(0.4), Some(false)),
        ),
        (
            Kind::SqlMetrics,
            json!({"total": 1.0, "passed": true}),
            (Some(1.0), Some(true)),
        ),
    ] {
        let job = job(&json!({"state": "succeeded", "result": result, "simulated": true}));
        let item = item(case(kind), &job);
        assert_eq!((item.total, item.passed), expected, "{kind}");
        assert_eq!((item.outcome, item.simulated), (Outcome::Scored, true));
    }
}

#[test]
fn failed_judge_gives_incomplete_item_and_failed_job_failed_one() {
    let error = json!({"class": "transient", "message": "503", "remedy": "retry"});
    let unjudged = job(&json!({
        "state": "failed", "error": error, "result": {"total_score": null, "is_successful": false, "status": "incomplete"},
    }));
    let incomplete = item(case(Kind::Query), &unjudged);
    assert_eq!(incomplete.outcome, Outcome::Incomplete);
    assert_eq!((incomplete.total, incomplete.passed), (None, None));
    assert_eq!(incomplete.error.unwrap().class, "transient");
    let failed = item(
        case(Kind::Query),
        &job(&json!({"state": "failed", "error": error, "result": null})),
    );
    assert_eq!(failed.outcome, Outcome::Failed);
    let cancelled = item(case(Kind::Query), &job(&json!({"state": "cancelled"})));
    assert_eq!(cancelled.error.unwrap().class, "cancelled");
}

#[test]
fn incomplete_item_has_no_score() {
    let result = json!({"total": 1.0, "passed": false, "status": "incomplete", "missing": ["table_accuracy"]});
    let job = job(&json!({"state": "succeeded", "result": result}));
    let incomplete = item(case(Kind::SqlMetrics), &job);
    assert_eq!(incomplete.outcome, Outcome::Incomplete);
    assert_eq!((incomplete.total, incomplete.passed), (None, None));
}

#[test]
fn only_payload_errors_concern_the_case() {
    let problem = |name: &str, pointer: &str| -> Problem {
        serde_json::from_value(json!({
            "type": format!("urn:gavel:problem:{name}"), "title": "", "status": 422, "detail": "",
            "errors": [{"pointer": pointer, "message": "is wrong"}],
        }))
        .unwrap()
    };
    assert!(concerns_case(&problem("invalid-request", "/payload/model")));
    assert!(!concerns_case(&problem(
        "invalid-request",
        "/criteria_hash"
    )));
    assert!(!concerns_case(&problem("judge-not-configured", "/payload")));
}
