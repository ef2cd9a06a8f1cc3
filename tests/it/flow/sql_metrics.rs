//! Kind `sql_metrics` from POST to result: independent metrics, and a judge with a deadline.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use gavel::clock::SystemClock;
use gavel::job::{FailureClass, Job, JobState, Kind, NewJob};
use gavel::judge::gate::{Gate, GateOptions};
use gavel::judge::{Judges, Providers};
use gavel::score::Criteria;
use gavel::store::{Ending, Store};
use gavel::worker::ConcurrencyPermits;
use gavel::worker::process::Pipeline;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{ended_case, incomplete_case, on_every_setup};
use crate::support;
use crate::support::home::Home;
use crate::support::judge_server::{JudgeServer, Reply, TOKENS_IN, TOKENS_OUT};
use crate::support::world::World;

on_every_setup!(
    case_has_the_judge_label_as_a_metric_with_one_call,
    identical_queries_make_no_call,
    unavailable_judge_preserves_other_metrics_for_a_retry,
);

fn label(label: &str) -> Reply {
    Reply::Content(json!({ "reasoning": "The order is missing.", "label": label }).to_string())
}

fn payload() -> Value {
    json!({
        "id": "top-salaries", "generatedSql": "SELECT name FROM employees LIMIT 10",
        "expectedSql": "SELECT name FROM employees ORDER BY salary DESC LIMIT 10", "expectedTables": ["hr.employees"],
        "safetyValid": true, "shouldPass": true, "confidence": "medium",
    })
}

async fn case_has_the_judge_label_as_a_metric_with_one_call(home: Home) {
    let world = World::start(home, label("partial")).await;
    for _ in 0..2 {
        let job = ended_case(&world, "sql_metrics", payload()).await;
        assert_eq!(job["state"], "succeeded", "{job:#}");
        let result = &job["result"];
        assert_eq!(
            (&result["id"], &result["passed"]),
            (&json!("top-salaries"), &json!(false))
        );
        let total = result["total"].as_f64().unwrap();
        assert!((total - 2.5 / 3.0).abs() < 1e-9, "{total}");
        let correctness = &result["metrics"]["query_correctness"];
        assert_eq!(
            (&correctness["score"], &correctness["details"]["label"]),
            (&json!(0.5), &json!("partial"))
        );
        assert_eq!(result["metrics"]["table_accuracy"]["score"], 1.0);
    }
    assert_eq!(world.judge.count(), 1, "the second run makes no call");
    world.end().await;
}

async fn identical_queries_make_no_call(home: Home) {
    let world = World::start(home, Reply::Status(500)).await;
    let same = json!({ "generated_sql": "select 1 /* one */", "expected_sql": "SELECT 1;" });
    let job = ended_case(&world, "sql_metrics", same).await;
    assert_eq!(
        (&job["state"], &job["result"]["passed"]),
        (&json!("succeeded"), &json!(true)),
        "{job:#}"
    );
    assert_eq!(
        job["result"]["metrics"]["query_correctness"]["details"]["reasoning"],
        "Queries are identical"
    );
    assert_eq!(world.judge.count(), 0);
    world.end().await;
}

async fn unavailable_judge_preserves_other_metrics_for_a_retry(home: Home) {
    let world = World::start(home, Reply::Status(500)).await;
    let (id, result) = incomplete_case(&world, "sql_metrics", payload()).await;
    assert_eq!(
        (&result["total"], &result["passed"]),
        (&Value::Null, &Value::Null),
        "{result:#}"
    );
    let correctness = &result["metrics"]["query_correctness"];
    assert_eq!(
        (&correctness["score"], &correctness["error"]["class"]),
        (&json!(0.0), &json!("transient"))
    );
    let at: chrono::DateTime<Utc> = correctness["error"]["at"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((Utc::now() - at).num_seconds().abs() < 600, "{at}");
    assert_eq!(result["metrics"]["safety_validation"]["score"], 1.0);

    world.judge.says(label("correct"));
    world.api.post_job_action(id, "retry").await.expect(202);
    let job = world.api.ended(id).await;
    assert_eq!(
        (&job["state"], &job["result"]["passed"]),
        (&json!("succeeded"), &json!(true)),
        "{job:#}"
    );
    world.end().await;
}

fn criteria() -> Criteria {
    let content = json!({
        "kind": "sql_metrics", "scoring": { "llm_provider": "judge" },
        "judge_prompt": "{{EXPECTED_QUERY}} {{GENERATED_QUERY}} {{OUTPUT_SCHEMA}}",
    });
    Criteria::from_value(&content).unwrap()
}

/// Pipeline with a judge timeout of 0.2 s.
fn pipeline(store: &Arc<Store>, judge: &JudgeServer, worker: Uuid) -> Pipeline {
    // Another test of this process may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let entry = json!({ "judge": {
        "type": "openai", "base_url": judge.url("w"), "model": "m", "auth": "none",
    }});
    let providers = Providers::from_value(&entry, &|_| Err("none".to_owned())).unwrap();
    let gate = Arc::new(Gate::new(GateOptions::default()));
    let judges = Judges::new(&providers, gate, store.clone());
    let concurrency = ConcurrencyPermits::new(1, gavel::queue::backend::Prefetch::default());
    Pipeline::new(
        Arc::clone(store),
        Arc::new(judges),
        Arc::new(SystemClock),
        worker,
        concurrency,
        gavel::memory::MemoryBudget::new(512 << 20),
    )
    .with_deadline(Duration::from_millis(200))
}

async fn claimed(store: &Store, worker: Uuid) -> Job {
    let criteria = criteria();
    store.criteria().put(&criteria, Utc::now()).await.unwrap();
    let options = support::in_bulk("tester");
    let new = NewJob {
        judge: Some("judge".to_owned()),
        criteria_hash: criteria.hash.0.clone(),
        ..NewJob::new(Kind::SqlMetrics, payload(), options, Utc::now())
    };
    let id = new.job_id;
    store.jobs().accept(new).await.unwrap();
    let claimed = store.jobs().claim(&[id], worker, Utc::now()).await;
    claimed.unwrap().remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_judge_is_a_timeout_and_the_run_continues() {
    for test in support::stores().await {
        let judge = JudgeServer::start(Reply::held(1)).await;
        let worker = Uuid::now_v7();
        let job = claimed(&test.store, worker).await;

        let record = pipeline(&test.store, &judge, worker).process(&job).await;
        let Ending::Evaluated {
            result, failure, ..
        } = &record.ending
        else {
            panic!("expected an evaluation, got {:?}", record.ending);
        };
        let error = &result["metrics"]["query_correctness"]["error"];
        assert_eq!(
            (&error["message"], &error["class"]),
            (&json!("LLM judge timeout"), &json!("transient"))
        );
        assert_eq!(result["metrics"]["query_correctness"]["score"], 0.0);
        assert_eq!(result["metrics"]["table_accuracy"]["score"], 1.0);
        assert_eq!(
            (&result["total"], &result["passed"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(failure.as_ref().unwrap().class, FailureClass::Transient);
        assert_eq!(judge.count(), 1);

        let recorded = test.store.jobs().record(record).await.unwrap();
        recorded.committed().await.unwrap();
        let ended = test.store.jobs().get(job.job_id).await.unwrap().unwrap();
        assert_eq!(ended.state, JobState::Failed, "a retry can finish it");
        judge.release();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn earlier_call_of_a_cancelled_slow_question_is_billed() {
    for test in support::stores().await {
        let judge = JudgeServer::start(Reply::held(1)).await;
        judge.reply_in_order(vec![Reply::Content("hm".to_owned())], Reply::held(1));
        let worker = Uuid::now_v7();
        let job = claimed(&test.store, worker).await;
        let pipeline = pipeline(&test.store, &judge, worker);
        let pipeline = pipeline.with_deadline(Duration::from_secs(3));
        let record = pipeline.process(&job).await;
        assert_eq!(judge.count(), 2, "the reply, and its repair");
        assert_eq!(
            (record.usage.tokens_in, record.usage.tokens_out),
            (TOKENS_IN, TOKENS_OUT)
        );
        judge.release();
    }
}
