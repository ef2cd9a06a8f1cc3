//! Golden files of judge requests: one for each kind and form of question.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::golden;
use crate::interfaces::pretty;
use crate::mask::Mask;
use crate::seeded_service::answered_questions;
use crate::support::client::id_of;
use crate::support::home::{Home, built_in};
use crate::support::judge_server::Reply;
use crate::support::world::World;

/// Formats a request as JSON followed by the unescaped texts of its messages.
fn readable(mut body: Value) -> String {
    let mut texts = Vec::new();
    for message in body["messages"].as_array_mut().unwrap() {
        let content = message["content"].take();
        let text = content
            .as_str()
            .map_or_else(|| pretty(&content), str::to_owned);
        texts.push(format!(
            "--- {}\n{text}\n",
            message["role"].as_str().unwrap()
        ));
    }
    format!("{}\n{}", pretty(&body), texts.concat())
}

/// Returns the value of a JSON file, or the first value of a JSONL file.
fn first(path: &str) -> Value {
    let text = std::fs::read_to_string(built_in(path)).unwrap();
    let mut values = serde_json::Deserializer::from_str(&text).into_iter();
    values.next().unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_match_golden_files() {
    let world = World::start(Home::embedded(), Reply::Score(70)).await;
    let mut texts = BTreeMap::new();
    let mask = Mask::default().pattern(r"(message \d+/\d+ )[0-9a-f]{8}\b", "${1}nonce");
    let mut seen = 0;
    let mut keep = |name: &str, world: &World| {
        let calls = world.judge.calls();
        assert!(calls.len() > seen, "{name}: the judge was sent nothing");
        let bodies = calls[seen..].iter().map(|call| readable(call.body.clone()));
        let text = bodies.collect::<Vec<_>>().join("\n=== another question\n");
        texts.insert(format!("{name}.txt"), mask.apply(&text));
        seen = calls.len();
    };
    for name in ["unexpected-egress-hostile", "disk-pressure-timed-out"] {
        let mut session = first(&format!("examples/sessions/{name}.json"));
        session.as_object_mut().unwrap().remove("session_id");
        let (_, job) = world.api.enqueue(session).await;
        world.api.ended(job).await;
        keep(&format!("session-{name}"), &world);
    }
    let mut query = first("examples/queries/kql-suite.jsonl");
    query["generated_kql"] = json!("SigninLogs | summarize count() by UserPrincipalName");
    let metrics = json!({"id": "m", "generated_sql": "SELECT name FROM users WHERE age > 30 ORDER BY name", "expected_sql": "SELECT name FROM users WHERE age >= 30"});
    let cases = [
        ("query", "query", query),
        ("sql-metrics", "sql_metrics", metrics),
    ];
    let cases = cases.map(|(name, kind, payload)| (name.to_owned(), kind, payload));
    let mut questions: BTreeMap<String, Value> = BTreeMap::new();
    for payload in answered_questions() {
        let form = payload["expected_answer_type"].as_str().unwrap();
        questions.entry(form.to_owned()).or_insert(payload);
    }
    let questions = questions.into_iter();
    let questions = questions.map(|(form, payload)| (format!("qas-{form}"), "qas", payload));
    for (name, kind, payload) in cases.into_iter().chain(questions) {
        let (job, before) = (
            json!({"kind": kind, "payload": payload}),
            world.judge.count(),
        );
        let accepted = world.api.post_json("/api/v1/jobs", job).await.expect(202);
        world.api.ended(id_of(&accepted["job_id"])).await;
        // Some questions need no judge.
        if kind != "qas" || world.judge.count() > before {
            keep(&name, &world);
        }
    }
    world.end().await;
    golden::check_folder("prompts", &texts);
}
