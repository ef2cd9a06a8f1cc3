//! Simulator, called like any judge.

use std::sync::Arc;
use std::time::Duration;

use gavel::judge::gate::{Gate, GateOptions};
use gavel::judge::provider::simulated::{MODEL, SimulatorOptions, bind, serve};
use gavel::judge::{AskContext, ErrorClass, Judges, Nonce, Question};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::stage::*;

struct Simulator {
    base_url: String,
    shutdown: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

impl Simulator {
    fn start(options: SimulatorOptions) -> Self {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(serve(listener, options, shutdown.clone()));
        Self {
            base_url,
            shutdown,
            task,
        }
    }

    fn faulty(rates: &str) -> Self {
        Self::start(SimulatorOptions {
            faults: rates.parse().unwrap(),
            ..SimulatorOptions::default()
        })
    }

    fn judges(&self, more: Value) -> (Judges, Arc<Memory>) {
        let gate = Arc::new(Gate::new(GateOptions {
            default_concurrency: 0,
            ..GateOptions::default()
        }));
        let memory = Arc::new(Memory::default());
        let mut entry = json!({ "auth": "none", "models": ["*"] });
        entry
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        (judges(&self.base_url, &entry, &gate, &memory), memory)
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn fenced(evidence: &str, nonce: &Nonce) -> Question {
    let mut question = question(evidence);
    question.prompt = format!(
        "Judge what stands between the fences.\n<<<EVIDENCE conversation {0}\n{evidence}\nEVIDENCE conversation {0}>>>\nReply.",
        nonce.0
    )
    .into();
    question
}

fn client() -> reqwest::Client {
    // The judge installs it with its first client; a test without a judge does so here.
    let _already_there = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn uncached() -> AskContext {
    AskContext {
        skip_cache: true,
        ..context()
    }
}

#[tokio::test]
async fn same_question_gets_the_same_reply_under_every_nonce() {
    let simulator = Simulator::start(SimulatorOptions::default());
    let (judges, _) = simulator.judges(json!({}));
    let judge = judges.get("test").unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut totals = std::collections::BTreeSet::new();
    for session in 0..20 {
        let evidence = format!("session {session}");
        let one = fenced(&evidence, &Nonce::from_bits(random.u128(..)));
        let two = fenced(&evidence, &Nonce::from_bits(random.u128(..)));
        assert_ne!(one.prompt.to_string(), two.prompt.to_string());
        let (one, _, usage) = reply_of(judge.ask(&one, uncached()).await);
        let (two, ..) = reply_of(judge.ask(&two, uncached()).await);
        assert_eq!(one.value, two.value);
        assert!(one.simulated);
        assert_eq!(one.model, MODEL);
        assert_eq!(usage.cost_usd, None);
        assert!(usage.tokens_in > 0 && usage.tokens_out > 0);
        let total = one.value["total"].as_u64().unwrap();
        assert!((40..=85).contains(&total));
        totals.insert(total);
    }
    assert!(totals.len() > 5, "{totals:?}");
    simulator.stop().await;
}

#[tokio::test]
async fn any_model_is_accepted_and_the_reply_is_marked_simulated() {
    let simulator = Simulator::start(SimulatorOptions::default());
    let (judges, memory) = simulator.judges(json!({}));
    let judge = judges.get("test:some-model:8b").unwrap();
    let (reply, ..) = reply_of(judge.ask(&question("e"), context()).await);
    assert!(reply.simulated);
    assert!(!reply.cached);
    let (again, ..) = reply_of(judge.ask(&question("e"), context()).await);
    assert!(again.cached && again.simulated);
    assert_eq!(memory.calls.lock().unwrap()[0].model, MODEL);

    let client = client();
    let url = format!("{}/models", simulator.base_url);
    let response = client.get(url).send().await.unwrap();
    assert_eq!(response.headers()["x-simulated"], "true");
    let models: Value = response.json().await.unwrap();
    assert_eq!(models["data"][0]["id"], MODEL);
    let url = format!("{}/chat/completions", simulator.base_url);
    let response = client.post(url).body("{").send().await.unwrap();
    assert!(response.status().is_client_error());
    assert_eq!(response.headers()["x-simulated"], "true");
    simulator.stop().await;
}

#[tokio::test]
async fn entry_marked_simulated_marks_all_its_replies() {
    let staging = Staging {
        entry: json!({ "simulated": true }),
        ..Staging::default()
    };
    let stage = Stage::with(staging, vec![good()]).await;
    assert!(reply_of(stage.ask().await).0.simulated);

    let mut marked = completion(r#"{"total": 1}"#, "stop");
    marked["simulated"] = json!(true);
    let stage = Stage::new(vec![fails(200, marked)]).await;
    assert!(reply_of(stage.ask().await).0.simulated);
}

#[tokio::test]
async fn each_simulated_error_is_handled_like_a_real_one() {
    let table = [
        ("500=1", ErrorClass::Transient, 4),
        ("malformed=1", ErrorClass::Unparsable, 2),
        ("truncated=1", ErrorClass::Truncated, 2),
        ("timeout=1", ErrorClass::Transient, 4),
    ];
    for (rates, class, calls) in table {
        let simulator = Simulator::faulty(rates);
        let (judges, memory) = simulator.judges(json!({ "timeout_s": 0.2 }));
        let judge = judges.get("test").unwrap();
        let (error, ..) = error_of(judge.ask(&question("e"), context()).await);
        assert_eq!(error.class, class, "{rates}");
        assert_eq!(memory.calls.lock().unwrap().len(), calls, "{rates}");
        simulator.stop().await;
    }
}

#[tokio::test]
async fn throttled_simulator_names_a_short_delay() {
    let simulator = Simulator::faulty("429=1");
    let client = client();
    let response = client
        .post(format!("{}/chat/completions", simulator.base_url))
        .json(&json!({ "messages": [{ "role": "user", "content": "x" }] }))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    simulator.stop().await;
}

#[tokio::test]
async fn thousand_calls_hang_at_once_and_a_stop_ends_them() {
    let simulator = Simulator::start(SimulatorOptions {
        latency: Duration::from_millis(300),
        ..SimulatorOptions::default()
    });
    let (judges, memory) = simulator.judges(json!({}));
    let judge = judges.get("test").unwrap();
    let questions: Vec<_> = (0..1_000).map(|at| question(&at.to_string())).collect();
    let asked = questions.iter().map(|one| judge.ask(one, context()));
    for asked in futures::future::join_all(asked).await {
        reply_of(asked);
    }
    assert_eq!(memory.calls.lock().unwrap().len(), 1_000);
    simulator.stop().await;

    let hanging = Simulator::faulty("timeout=1");
    let (judges, _) = hanging.judges(json!({}));
    let judge = judges.get("test").unwrap();
    let call = tokio::spawn(async move { judge.ask(&question("e"), context()).await });
    hanging.stop().await;
    let (error, ..) = error_of(call.await.unwrap());
    assert_eq!(error.class, ErrorClass::Transient);
}
