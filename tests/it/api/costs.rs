//! What was spent, as clients see it.

use chrono::TimeDelta;
use gavel::judge::{CallLog as _, CallRecord, CallUsage};

use super::*;
use crate::support::stores;

fn call(judge: &str, cost_usd: Option<f64>, ago: TimeDelta) -> CallRecord {
    CallRecord {
        call_id: Uuid::now_v7(),
        asked_for: Uuid::now_v7(),
        judge: judge.to_owned(),
        model: "model-1".to_owned(),
        at: SystemClock.now() - ago,
        latency: Duration::from_millis(5),
        error: None,
        message: None,
        status: Some(200),
        usage: CallUsage {
            tokens_in: 100,
            tokens_in_cached: 0,
            tokens_out: 10,
            cost_usd,
        },
        reply: None,
    }
}

#[tokio::test]
async fn a_bill_names_what_is_unknown_beside_what_is_known() {
    for db in stores().await {
        let server = Server::over(db).await;
        for (judge, cost, days) in [
            ("priced", Some(0.5), 0),
            ("priced", Some(0.25), 2),
            ("unpriced", None, 0),
            ("priced", Some(9.0), 40),
        ] {
            server.store().log(call(judge, cost, TimeDelta::days(days)));
        }
        let path = "/api/v1/analytics/costs";
        let bill = server.json_of(&format!("{path}?by=judge")).await;
        let line = |n: usize| {
            let item = &bill["items"][n];
            (
                item["judge"].clone(),
                item["calls"].clone(),
                item["cost_usd"].clone(),
            )
        };
        assert_eq!(line(0), (json!("priced"), json!(2), json!(0.75)));
        assert_eq!(line(1), (json!("unpriced"), json!(1), Value::Null));
        let total = &bill["total"];
        assert_eq!(
            (&total["cost_usd"], &total["unpriced_calls"]),
            (&json!(0.75), &json!(1))
        );
        assert!(bill["items"][0].get("day").is_none(), "{bill:#}");

        let days = server.json_of(path).await;
        assert_eq!(
            (&days["by"], days["items"].as_array().unwrap().len()),
            (&json!("day"), 2)
        );
        let today = SystemClock.now().date_naive();
        let asked = format!(
            "{path}?from={}&to={today}&by=model",
            today - TimeDelta::days(41)
        );
        let all = server.json_of(&asked).await;
        assert_eq!(all["total"]["cost_usd"], 9.75);
        assert_eq!(all["items"][0]["model"], "model-1");
    }
}

#[tokio::test]
async fn a_bad_range_or_word_is_named() {
    let server = Server::with(Setup::default()).await;
    for (query, pointer, part) in [
        ("from=yesterday", "/from", "such as 2026-01-31"),
        ("from=2026-02-01&to=2026-01-01", "/from", "is after to"),
        ("from=1990-01-01&to=2026-01-01", "/from", "at most 3660"),
        ("by=hour", "/by", "day, judge, model"),
    ] {
        let asked = server.get(&format!("/api/v1/analytics/costs?{query}"));
        let problem = problem_of(asked.send().await.unwrap(), 422, "invalid-request").await;
        let fault = &problem["errors"][0];
        assert_eq!(fault["pointer"], pointer, "{query}");
        assert!(fault["message"].as_str().unwrap().contains(part), "{fault}");
    }
}
