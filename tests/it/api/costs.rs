//! Cost endpoints.

use chrono::TimeDelta;
use gavel::judge::{CallLog as _, CallRecord, CallUsage};

use super::*;
use crate::support::stores;

fn call(judge: &str, cost_usd: Option<f64>, ago: TimeDelta) -> CallRecord {
    CallRecord {
        judge: judge.to_owned(),
        at: SystemClock.now() - ago,
        latency: Duration::from_millis(5),
        usage: CallUsage {
            tokens_in: 100,
            tokens_in_cached: 0,
            tokens_out: 10,
            cost_usd,
        },
        ..crate::support::call(JobId::new())
    }
}

#[tokio::test]
async fn bill_lists_unknown_costs_next_to_known_ones() {
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
async fn invalid_range_or_value_is_named() {
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

async fn ends(server: &Server, id: JobId, cost_usd: Option<f64>) {
    let job = server.claim(id).await;
    let record = Record {
        fence: Fence {
            job_id: job.job_id,
            claim_no: job.claim_no,
            worker_id: server.worker_id,
        },
        ending: Ending::Failed(Failure {
            class: FailureClass::Unparsable,
            message: "no reply fits".to_owned(),
        }),
        retries: 0,
        usage: Usage {
            tokens_in: 100,
            tokens_out: 10,
            cost_usd,
        },
        at: SystemClock.now(),
    };
    server.store().log(CallRecord {
        asked_for: id.0,
        ..call("judge", cost_usd, TimeDelta::zero())
    });
    let ticket = server.store().jobs().record(record).await.unwrap();
    assert_eq!(ticket.committed().await.unwrap(), Recorded::Applied);
}

async fn batch(server: &Server, name: Option<&str>, cost_usd: Option<f64>) {
    let case = json!({"generated_sql": "select 1", "expected_sql": "select 2"});
    let body = json!({"kind": "sql_metrics", "name": name, "items": [case, case]});
    let made = server.batch_of(&body).await;
    let jobs = server.jobs_of(&made).await;
    for job in jobs["items"].as_array().unwrap() {
        ends(server, job_id(job), cost_usd).await;
    }
}

#[tokio::test]
async fn suites_are_billed_by_name_and_unpriced_is_not_zero() {
    for db in stores().await {
        let server = Server::over(db).await;
        for (name, cost) in [
            (Some("nightly"), Some(0.5)),
            (Some("nightly"), Some(0.25)),
            (Some("mixed"), Some(0.125)),
            (Some("mixed"), None),
            (None, None),
        ] {
            batch(&server, name, cost).await;
        }
        let path = "/api/v1/analytics/costs/batches";
        let bill = server.json_of(path).await;
        let line = |at: usize| {
            let item = &bill["items"][at];
            ["name", "batches", "cost_usd", "unpriced_calls", "tokens_in"]
                .map(|name| item[name].clone())
        };
        assert_eq!(
            line(0),
            [json!("nightly"), json!(2), json!(1.5), json!(0), json!(400)]
        );
        assert_eq!(
            line(1),
            [json!("mixed"), json!(2), json!(0.25), json!(2), json!(400)]
        );
        assert_eq!(
            line(2),
            [Value::Null, json!(1), Value::Null, json!(2), json!(200)]
        );
        assert_eq!(
            (&bill["batches"], &bill["warnings"]),
            (&json!(5), &json!([]))
        );

        let first = server.json_of(&format!("{path}?limit=1")).await;
        assert_eq!(first["items"].as_array().unwrap().len(), 1);
        assert!(
            first["warnings"][0]
                .as_str()
                .unwrap()
                .contains("1 most expensive")
        );
        let before = SystemClock.now().date_naive() - TimeDelta::days(3);
        let before = server.json_of(&format!("{path}?to={before}")).await;
        assert_eq!(
            (&before["items"], &before["batches"]),
            (&json!([]), &json!(0))
        );
    }
}

#[tokio::test]
async fn judge_latency_is_reported_by_judge() {
    for db in stores().await {
        let server = Server::over(db).await;
        let path = "/api/v1/analytics/latency";
        let none = server.json_of(path).await;
        assert_eq!(
            (&none["items"], &none["next_cursor"]),
            (&json!([]), &Value::Null)
        );
        let page = server.get("/insights").header("accept", "text/html");
        let page = page.send().await.unwrap().text().await.unwrap();
        assert!(page.contains("No judge gave a good reply in this time."));
        for n in 0..20 {
            let mut call = call("quick", None, TimeDelta::zero());
            call.latency = Duration::from_millis(if n < 15 { 128 } else { 4_096 });
            server.store().log(call);
        }
        server.store().log(call("rare", None, TimeDelta::days(2)));
        let found = server.json_of(path).await;
        let expected = json!([
            { "judge": "quick", "calls": 20, "p50_ms": 128, "p90_ms": 4_096, "p99_ms": 4_096 },
            { "judge": "rare", "calls": 1, "p50_ms": 5, "p90_ms": 5, "p99_ms": 5 },
        ]);
        assert_eq!(found["items"], expected);
        let today = found["to"].as_str().unwrap();
        let of_today = server.json_of(&format!("{path}?from={today}")).await;
        assert_eq!(of_today["items"].as_array().unwrap().len(), 1);
        let page = server.get("/insights").header("accept", "text/html");
        let page = page.send().await.unwrap().text().await.unwrap();
        for part in ["quick", "128 ms", "4.1 s", "rare", "needs at least 20"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let asked = server.get(&format!("{path}?from=2026-02-01&to=2026-01-01"));
        problem_of(asked.send().await.unwrap(), 422, "invalid-request").await;
    }
}
